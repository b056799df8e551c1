// Package topologyfile reads the file of "hence topology check": places that hold data, what their observers may hold
// of it, and who reads whom. It is strict: a key that is not known, or a value of the wrong kind, is a finding with
// its line and what to do.
package topologyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/strictfile"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/gate/yamlfile"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/lightcone"
)

// The bounds of a file.
const (
	maxPlaces = 200
	maxReads  = 1000
	maxName   = 80
)

// Finding is one thing that is wrong.
type Finding = strictfile.Finding

// File is a file that can be checked.
type File struct {
	lightcone.Topology
	Lines []int // of the places, by index
}

// Read reads a file's text. It can be checked when there is no finding.
func Read(name string, text []byte) (File, []Finding) {
	r := &reader{Reader: strictfile.Reader{File: name}}
	root := r.Parse(text, `write "version: 1" and "places:" with a list`)
	if root == nil {
		return File{}, r.Found
	}
	r.document(root)
	return r.file, r.Sorted()
}

// reader turns values into a file.
type reader struct {
	strictfile.Reader
	file  File
	reads []read
}

// read is a link whose producer may stand further down.
type read struct {
	at *strictfile.Value
	lightcone.Link
}

func (r *reader) document(root *strictfile.Value) {
	var places *strictfile.Value
	r.Document(root, "places", `write "places:" and a list, each with a name`,
		strictfile.Field{Name: "labels", Take: r.labels},
		strictfile.Field{Name: "places", Take: func(v *strictfile.Value) { places = v }},
	)
	if places == nil {
		return
	}
	items := r.List(places, "places")
	if len(items) == 0 && places.Kind == yamlfile.List || len(items) > maxPlaces {
		r.Refuse(places.Place, fmt.Sprintf("there are %d places", len(items)), fmt.Sprintf("name 1 to %d", maxPlaces))
		return
	}
	for _, item := range items {
		r.place(item)
	}
	if len(r.reads) > maxReads {
		r.Refuse(places.Place, fmt.Sprintf("%d places are read", len(r.reads)), fmt.Sprintf("read at most %d", maxReads))
		return
	}
	r.link()
}

// labels are which lie within which.
func (r *reader) labels(v *strictfile.Value) {
	if v.Kind != yamlfile.Map {
		r.WrongKind(v, "labels", "a mapping", "object(row): [object(table)]")
		return
	}
	r.file.Labels = lightcone.Scheme{}
	for _, f := range v.Fields {
		for _, up := range r.List(f.Value, f.Name) {
			finer, ok := r.label(&strictfile.Value{Place: f.Place, Kind: yamlfile.Text, Text: f.Name})
			coarser, also := r.label(up)
			if ok && also {
				r.file.Labels[finer] = append(r.file.Labels[finer], coarser)
			}
		}
	}
}

var labelForm = regexp.MustCompile(`^(object|session)\([A-Za-z0-9_./-]{1,80}\)$`)

// label is an object or a session with the name of what it is: those of two systems are not the same.
func (r *reader) label(v *strictfile.Value) (lightcone.Label, bool) {
	if v.Kind == yamlfile.Text && labelForm.MatchString(v.Text) {
		return lightcone.Label(v.Text), true
	}
	r.Refuse(v.Place, fmt.Sprintf("%.40q is no label", v.Text),
		"write object(NAME) or session(NAME): the objects of two systems are not the same unless they have one name")
	return "", false
}

func (r *reader) place(v *strictfile.Value) {
	p, given := lightcone.Place{}, func(key string) bool { return v.Kind == yamlfile.Map && v.Get(key) != nil }
	if given("name") {
		p.Name = r.Text(v.Get("name"), "name")
	}
	c, known, named := lightcone.Config{Wait: lightcone.Finite}, false, given("is")
	if named {
		c, p.Source, known = r.kind(v.Get("is"), p.Name)
	}
	keep := lightcone.Retention{}
	nothing := func(*strictfile.Value) {}
	r.Fields(v, "a place", []strictfile.Field{
		{Name: "name", Take: nothing}, {Name: "is", Take: nothing},
		{Name: "closure", Take: func(v *strictfile.Value) { c.Closure = r.closure(v) }},
		{Name: "order", Take: func(v *strictfile.Value) { c.Order = r.order(v) }},
		{Name: "wait", Take: func(v *strictfile.Value) { c.Wait = oneOf(r, v, "wait", lightcone.Waits()) }},
		{Name: "unit", Take: func(v *strictfile.Value) { c.Unit = oneOf(r, v, "unit", lightcone.Units()) }},
		{Name: "select", Take: func(v *strictfile.Value) { c.Select = oneOf(r, v, "select", lightcone.Selects()) }},
		{Name: "arbitration", Take: func(v *strictfile.Value) { c.Arbitration = r.arbitration(v) }},
		{Name: "confluent", Take: func(v *strictfile.Value) { c.Confluent = r.Flag(v, "confluent") }},
		{Name: "serializer", Take: func(v *strictfile.Value) { c.Serializer = r.Flag(v, "serializer") }},
		{Name: "retention", Take: func(v *strictfile.Value) { keep.Kept = r.span(v, "retention", true); p.Keeps = &keep }},
		{Name: "open", Take: func(v *strictfile.Value) { keep.Open = r.span(v, "open", false) }},
		{Name: "reads", Take: func(v *strictfile.Value) { r.takeReads(v, p.Name) }},
	})
	if v.Kind != yamlfile.Map {
		return
	}
	p.Config = c
	r.complete(v, p, named, known)
	r.file.Places, r.file.Lines = append(r.file.Places, p), append(r.file.Lines, v.Line)
}

// complete says what a place lacks.
func (r *reader) complete(v *strictfile.Value, p lightcone.Place, named, known bool) {
	missing := func(key, fix string) {
		if v.Get(key) == nil {
			r.Refuse(v.Place, fmt.Sprintf("a place has no %s", key), fix)
		}
	}
	missing("name", `write "name: ..."`)
	if len(p.Name) > maxName || strings.ContainsAny(p.Name, "\n\x00") {
		r.Refuse(v.Place, "the name is no name", fmt.Sprintf("write at most %d characters on one line", maxName))
	}
	if at := slices.IndexFunc(r.file.Places, func(q lightcone.Place) bool { return q.Name == p.Name }); at >= 0 {
		r.Refuse(v.Place, fmt.Sprintf("place %.40s is there twice, first in line %d", p.Name, r.file.Lines[at]),
			"give each place a name of its own")
	}
	if !named {
		missing("closure", `write "closure: ..." or what it is: "is: ..." (see hence topology names)`)
		missing("order", `write "order: ..." or what it is: "is: ..."`)
	}
	if !known && p.Config.Order != "" {
		// Without it nothing can be said of causes, and a guess would be wrong for timestamps.
		missing("arbitration", `write "arbitration: causal" where the order never puts an effect before its cause, `+
			`{uncertainty: 5ms, distance: 20ms} where clocks order, else none`)
	}
	if v.Get("open") != nil && p.Keeps == nil {
		r.Refuse(v.Get("open").Place, "open is how long work may be undecided, and there is no retention to compare",
			`write "retention: 7d" too`)
	}
}

// kind is what a place is said to be: a system of a list, or a row of the catalogue. Known says whether it brings its
// arbitration.
func (r *reader) kind(v *strictfile.Value, place string) (c lightcone.Config, source string, known bool) {
	name := r.Text(v, "is")
	ours := topology.ConeSystems()
	if s, ok := lightcone.Named(ours, name); ok {
		return s.Config, s.Source, true
	}
	systems := lightcone.Systems()
	if s, ok := lightcone.Named(systems, name); ok {
		return s.Config.In(place), s.Source, true
	}
	var names []string
	for _, s := range append(ours, systems...) {
		names = append(names, s.Name)
	}
	for _, row := range lightcone.Catalogue() {
		if row.Name == name {
			row.Config.Arbitration = lightcone.Arbitration{} // a name says nothing of it
			return row.Config.In(place), fmt.Sprintf("row %d of the catalogue", row.Number), false
		}
		names = append(names, row.Name)
	}
	fix := "see hence topology names, or write closure and order"
	if near := spelling.Nearest(name, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	if name != "" {
		r.Refuse(v.Place, fmt.Sprintf("nothing here is called %.40q", name), fix)
	}
	return c, "", true
}

func (r *reader) closure(v *strictfile.Value) (set lightcone.Set) {
	switch text := r.Text(v, "closure"); text {
	case "", "none":
		return nil
	case "explicit":
		return lightcone.Set{lightcone.Everything}
	default:
		for word := range strings.SplitSeq(text, "+") {
			if l, ok := r.label(&strictfile.Value{Place: v.Place, Kind: yamlfile.Text, Text: word}); ok {
				set = append(set, l)
			}
		}
		slices.Sort(set)
		return slices.Compact(set)
	}
}

func (r *reader) order(v *strictfile.Value) lightcone.Label {
	switch text := r.Text(v, "order"); {
	case text == "", text == "trivial":
		return ""
	case text == "all":
		return lightcone.Everything
	case strings.HasPrefix(text, "session("):
		r.Refuse(v.Place, "an order of sessions is none that resolves forks", "write it as the closure")
		return ""
	}
	l, _ := r.label(v)
	return l
}

func (r *reader) arbitration(v *strictfile.Value) (a lightcone.Arbitration) {
	if v.Kind != yamlfile.Map {
		switch r.OneOf(v, "arbitration", "causal", "none", "{uncertainty: 5ms, distance: 20ms}") {
		case "causal":
			a.Rule = lightcone.Causal
		}
		return a
	}
	a.Rule = lightcone.Clock
	r.Fields(v, "arbitration", []strictfile.Field{
		{Name: "uncertainty", Take: func(v *strictfile.Value) { a.Uncertainty = r.span(v, "uncertainty", false) }},
		{Name: "distance", Take: func(v *strictfile.Value) { a.Distance = r.span(v, "distance", false) }},
	})
	for _, key := range []string{"uncertainty", "distance"} {
		if v.Get(key) == nil {
			r.Refuse(v.Place, "arbitration by clocks has no "+key,
				"write how far they may be off, and the shortest time in which a cause reaches another node")
		}
	}
	return a
}

// maxSpan is the longest time that a file may name.
const maxSpan = 100 * 365 * 24 * time.Hour

// span is a time, also in days: "7d".
func (r *reader) span(v *strictfile.Value, what string, endless bool) time.Duration {
	text := r.Scalar(v, what)
	if endless && text == "forever" {
		return lightcone.Forever
	}
	days, isDays := strings.CutSuffix(text, "d")
	if isDays {
		text = days + "h"
	}
	d, err := time.ParseDuration(text)
	if isDays && err == nil {
		d = min(d, maxSpan) * 24
	}
	if err != nil || d < 0 || d > maxSpan {
		or := ""
		if endless {
			or = ", or forever"
		}
		r.Refuse(v.Place, fmt.Sprintf("%s is %.40q", what, v.Text), "write a time such as 7d, 1h30m or 5ms"+or)
		return 0
	}
	return d
}

func (r *reader) takeReads(v *strictfile.Value, to string) {
	for _, item := range r.List(v, "reads") {
		one := read{at: item, Link: lightcone.Link{To: to}}
		if item.Kind != yamlfile.Map {
			one.From = r.Text(item, "a place that is read")
			r.reads = append(r.reads, one)
			continue
		}
		r.Fields(item, "a place that is read", []strictfile.Field{
			{Name: "from", Take: func(v *strictfile.Value) { one.From, one.at = r.Text(v, "from"), v }},
			{Name: "copy", Take: func(v *strictfile.Value) {
				one.Append = r.OneOf(v, "copy", "values", "references") == "references"
			}},
			{Name: "lag", Take: func(v *strictfile.Value) { one.Lag = r.span(v, "lag", false) }},
		})
		if item.Get("from") == nil {
			r.Refuse(item.Place, "it is not said which place is read", `write "from: ..."`)
			continue
		}
		r.reads = append(r.reads, one)
	}
}

// link finds the producers, which may stand anywhere in the file.
func (r *reader) link() {
	names := make([]string, len(r.file.Places))
	for i, p := range r.file.Places {
		names[i] = p.Name
	}
	seen := map[string]bool{}
	for _, one := range r.reads {
		pair := one.From + "\x00" + one.To
		switch {
		case one.From == "": // said already
		case !slices.Contains(names, one.From):
			fix := "name one of the file's places"
			if near := spelling.Nearest(one.From, names); near != "" {
				fix = fmt.Sprintf("did you mean %q?", near)
			}
			r.Refuse(one.at.Place, fmt.Sprintf("no place is called %.40q", one.From), fix)
		case one.From == one.To:
			r.Refuse(one.at.Place, fmt.Sprintf("%.40s reads itself", one.To), "leave it out")
		case seen[pair]:
			r.Refuse(one.at.Place, fmt.Sprintf("%.40s reads %.40s twice", one.To, one.From), "keep one of the two")
		default:
			r.file.Links = append(r.file.Links, one.Link)
		}
		seen[pair] = true
	}
}

// oneOf is a value by its name.
func oneOf[T fmt.Stringer](r *reader, v *strictfile.Value, what string, all []T) (found T) {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.String()
	}
	if at := slices.Index(names, r.OneOf(v, what, names...)); at >= 0 {
		found = all[at]
	}
	return found
}
