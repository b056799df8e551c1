package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
)

// MaxRewrites bounds one run of Fuzz.
const MaxRewrites = 1_000_000

// target is one placeholder of a scope, with what its type says of spellings.
type target struct {
	d    *decl
	t    located
	p    template.Placeholder
	ways []string
	kind string
}

// fuzzer rewrites names and compares the scopes.
type fuzzer struct {
	p        *Policy
	rng      *rand.Rand
	told     map[string]bool
	found    []Finding
	rewrites int
}

// Fuzz gives each resource that a call names other names, in the ways that its type allows, and reports the scopes
// that stop overlapping, and keys that then differ. Values that try to change a scope's shape are tried too. It makes
// n rewrites (at most MaxRewrites) and returns how many; the same seed finds the same.
func (p *Policy) Fuzz(seed uint64, n int) (rewrites int, found []Finding) {
	f := &fuzzer{p: p, rng: rand.New(rand.NewPCG(seed, 0x68656e6365)), told: map[string]bool{}}
	f.filters()
	targets := f.targets()
	if len(targets) == 0 {
		return 0, f.found
	}
	for f.rewrites < min(n, MaxRewrites) {
		for _, t := range targets {
			f.alias(t)
			f.shape(t)
			f.written(t)
			f.rewrites++
		}
	}
	sortFindings(f.found)
	return f.rewrites, f.found
}

func (f *fuzzer) targets() []target {
	var out []target
	for _, d := range f.p.tools {
		for _, t := range append(append([]located{}, d.scopes...), d.may...) {
			kind, _, _ := strings.Cut(strings.ToLower(t.String()), ":")
			for _, p := range t.Placeholders() {
				out = append(out, target{d: d, t: t, p: p, kind: kind, ways: f.p.types[kind].spellings})
			}
		}
	}
	return out
}

func (f *fuzzer) report(t target, rule, what, fix string) {
	id := fmt.Sprint(t.d.pattern, t.t.place, t.p, rule)
	if f.told[id] {
		return
	}
	f.told[id] = true
	finding := findingAt(t.t.place, rule, what, fix)
	finding.Tool = t.d.pattern
	f.found = append(f.found, finding)
}

// scope expands the target's template with one value in the target's place.
func (f *fuzzer) scope(t target, value string) (sequencer.Scope, error) {
	return f.p.expandScope(t.t.Template, t.values(value))
}

func (t target) values(value string) template.Values {
	names := t.d.sampleNames()
	put(names, t.p.Path, value)
	if len(t.p.Path) == 1 {
		names[t.p.Path[0]] = value // whatever else templates take from it
	}
	return template.Values{Names: names}
}

// alias compares a name with another spelling of it, and with its declared aliases.
func (f *fuzzer) alias(t target) {
	one, other, how := "", "", ""
	groups := f.p.types[t.kind].aliases
	switch k := f.rng.IntN(len(t.ways) + len(groups) + 2); {
	case k < len(t.ways):
		how = t.ways[k]
		one = base(f.rng, how)
		other = rewrite(f.rng, how, one)
	case k < len(t.ways)+len(groups):
		how = "alias"
		group := groups[k-len(t.ways)]
		one, other = group[f.rng.IntN(len(group))], group[f.rng.IntN(len(group))]
	case len(t.ways) > 0: // all spellings, one after the other
		how = strings.Join(t.ways, " and ")
		one = base(f.rng, t.ways[f.rng.IntN(len(t.ways))])
		other = one
		for _, way := range t.ways {
			if fits(way, one) {
				other = rewrite(f.rng, way, other)
			}
		}
	default:
		return
	}
	a, err := f.scope(t, one)
	b, errOther := f.scope(t, other)
	if err != nil || errOther != nil {
		return // a name that is refused moves nothing
	}
	fix := fmt.Sprintf("write {%s|%s}", t.p.Path, filterFor(t.ways))
	if how == "alias" {
		fix = "list the aliases as the scope has them after its filter, or end the scope above the name"
	}
	if !a.Overlaps(b) {
		f.report(t, "alias", fmt.Sprintf("%q and %q name one %s (%s), and their scopes %s and %s do not overlap",
			one, other, t.kind, how, a, b), fix)
		return
	}
	f.key(t, one, other, how)
}

// fits reports whether a spelling has a meaning for a name that another one made.
func fits(way, name string) bool {
	switch way {
	case spellMail:
		return strings.Contains(name, "@")
	case spellURL:
		return strings.Contains(name, "://")
	case spellPath:
		return strings.Contains(name, "/") && !strings.Contains(name, "://")
	case spellHost:
		return strings.Contains(name, ":") && !strings.Contains(name, "/")
	}
	return true
}

// key: two spellings of one thing must not be two keys, or the sink does it twice.
func (f *fuzzer) key(t target, one, other, how string) {
	if t.d.key == nil {
		return
	}
	for _, p := range t.d.key.Placeholders() {
		if p.Path.String() != t.p.Path.String() {
			continue
		}
		a, err := expandKey(t.d.key.Template, t.values(one))
		b, errOther := expandKey(t.d.key.Template, t.values(other))
		if err == nil && errOther == nil && a != b {
			t.t = *t.d.key
			f.report(t, "alias-key", fmt.Sprintf("%q and %q name one %s (%s), and their keys %q and %q differ: the sink "+
				"would act twice", one, other, t.kind, how, a, b),
				fmt.Sprintf("write {%s|%s} in the key too", p.Path, filterFor(t.ways)))
		}
	}
}

// shape tries values that would widen, narrow or move a scope if they were not escaped.
func (f *fuzzer) shape(t target) {
	plain := "v" + word(f.rng)
	if len(t.ways) > 0 {
		plain = base(f.rng, t.ways[0])
	}
	want, err := f.scope(t, plain)
	if err != nil {
		return
	}
	tries := hostile()
	value := tries[f.rng.IntN(len(tries))]
	got, err := f.scope(t, value)
	if err != nil {
		return
	}
	manyNames := t.p.Filter == template.PathFilter || t.p.Filter == template.URLFilter
	if got.Type() != want.Type() || strings.Count(string(got), "*") != strings.Count(string(want), "*") ||
		!manyNames && len(got.Segments()) != len(want.Segments()) {
		f.report(t, "shape", fmt.Sprintf("the value %q makes the scope %s of another shape than %s", value, got, want),
			"report this: values are escaped and must never do that")
	}
}

// written tries other ways to write the scope itself: they must come to the same canonical text.
func (f *fuzzer) written(t target) {
	s, err := f.scope(t, word(f.rng))
	if err != nil {
		return
	}
	kind, path, _ := strings.Cut(string(s), ":")
	segments := strings.Split(path, "/")
	i := 1 + f.rng.IntN(len(segments)-1)
	switch f.rng.IntN(6) {
	case 0:
		kind = swapCase(f.rng, kind)
	case 1:
		segments[i] = "./" + segments[i]
	case 2:
		segments[i] = "gone/../" + segments[i]
	case 3:
		segments[i] += "/"
	case 4:
		segments[i] = "/" + segments[i]
	case 5:
		if text := segments[i]; text != "" && text[0] != '%' && text[0] != '*' {
			segments[i] = fmt.Sprintf("%%%02x", text[0]) + text[1:]
		}
	}
	text := kind + ":" + strings.Join(segments, "/")
	if got, err := sequencer.ParseScope(text); err != nil || got != s {
		f.report(t, "canonical", fmt.Sprintf("the scope %s written as %q becomes %q (%v)", s, text, got, err),
			"report this: it is one scope")
	}
}

// filters finds two tools that spell one name by different filters, so that their scopes do not meet.
func (f *fuzzer) filters() {
	first := map[string]target{}
	for _, t := range f.targets() {
		id := fmt.Sprint(t.kind, " ", t.before(), " ", t.p.Path)
		other, ok := first[id]
		if !ok {
			first[id] = t
			continue
		}
		if other.d == t.d || other.p.Filter == t.p.Filter {
			continue
		}
		value := base(f.rng, spellCase) + "\u00c9"
		if len(t.ways) > 0 {
			value = base(f.rng, t.ways[0])
		}
		x, err := f.scope(t, value)
		y, errOther := f.scope(other, value)
		if err == nil && errOther == nil && !x.Overlaps(y) {
			f.report(t, "filters-differ", fmt.Sprintf("%q is %s here and %s in %q (line %d), which do not overlap", value,
				x, y, other.d.pattern, other.t.Line), fmt.Sprintf("write %s in both", wider(t.p, other.p)))
		}
	}
}

// before is the text of the template up to its first placeholder: equal texts are one place of one resource.
func (t target) before() string {
	var out strings.Builder
	for _, part := range t.t.Parts() {
		if part.Placeholder != nil {
			return out.String()
		}
		out.WriteString(part.Literal)
	}
	return out.String()
}

func wider(a, b template.Placeholder) template.Placeholder {
	if a.Filter == "" {
		return b
	}
	return a
}
