package anomaly_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/sequencer/anomaly/brute"
	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology/trace"
)

// op is a record as a detector takes it.
func op(r *trace.Record, line int) anomaly.Op {
	o := anomaly.Op{
		Line: line, Name: string(r.Txn), Agent: r.Agent, ReadTime: r.ReadTime, WriteTime: r.WriteTime,
		Aborted: !r.TookEffect(), HasPreds: r.Preds != nil,
	}
	for _, c := range r.ReadSet {
		at, timed := r.ReadTimes[c]
		o.Reads = append(o.Reads, anomaly.Read{Cell: c, Value: string(r.ReadValues[c]), Replica: r.Replica[c],
			Version: string(r.Version[c]), Time: at, Timed: timed})
	}
	for _, c := range r.WriteSet {
		o.Writes = append(o.Writes, anomaly.Write{Cell: c, Value: string(r.WriteValues[c])})
	}
	for _, id := range r.Preds {
		o.Preds = append(o.Preds, string(id))
	}
	o.Order.IssuedKnown, o.Order.HappenedKnown = r.IO != nil, r.CO != nil
	o.Order.Issued, o.Order.Happened = effects(r.IO), effects(r.CO)
	pinned, isPinned := r.ToolSignaturesAtRead[r.PlannedTool.Tool]
	now, there := r.ToolSignaturesAtWrite[r.PlannedTool.Tool]
	o.Plan = anomaly.Plan{
		Known: r.PlannedTool.Known, Tool: r.PlannedTool.Tool, Used: seen(r.ToolsUsed, r.PlannedTool.Tool),
		AtRead:       seen(registry(r.ToolsVisibleAtRead, r.ToolSignaturesAtRead), r.PlannedTool.Tool),
		AtWrite:      seen(registry(r.ToolsVisibleAtWrite, r.ToolSignaturesAtWrite), r.PlannedTool.Tool),
		ChangedSince: isPinned && r.ToolSignaturesAtWrite != nil && (!there || now != pinned),
	}
	return o
}

func effects(of []trace.Effect) (all []anomaly.Write) {
	for _, e := range of {
		all = append(all, anomaly.Write{Cell: e.Cell, Value: string(e.Value)})
	}
	return all
}

func registry(list []string, signatures map[string]string) []string {
	if list != nil || signatures == nil {
		return list
	}
	names := []string{}
	for name := range signatures {
		names = append(names, name)
	}
	return names
}

func seen(list []string, tool string) anomaly.Seen {
	switch {
	case list == nil:
		return anomaly.Unknown
	case slices.Contains(list, tool):
		return anomaly.Yes
	}
	return anomaly.No
}

// lines are what one side says of a history, by subject.
type lines map[string][]string

func (l lines) add(subject, format string, args ...any) {
	l[subject] = append(l[subject], fmt.Sprintf(format, args...))
}

func (l lines) of(subject string) string {
	slices.Sort(l[subject])
	return strings.Join(slices.Compact(l[subject]), "; ")
}

func texts(h []trace.Record) string {
	var out strings.Builder
	w := trace.NewWriter(&out)
	for _, r := range h {
		_ = w.Write(r)
	}
	_ = w.Flush()
	return out.String()
}

func detected(t *testing.T, h []trace.Record) *anomaly.Report {
	t.Helper()
	history := anomaly.NewHistory(0)
	for i := range h {
		if err := history.Add(op(&h[i], i+1)); err != nil {
			t.Fatalf("%v\n%s", err, texts(h))
		}
	}
	return history.Check()
}

// counted is a group of witnesses of which a detector names one, and counts all.
type counted map[string][]brute.Finding

func (c counted) add(key string, f brute.Finding) { c[key] = append(c[key], f) }

// subjects is what both sides are asked. Each line says the same thing of both; where a detector names one witness of
// several, the line has how many there are, and named holds it to be one of them.
func expected(h []trace.Record, a brute.Answer) lines {
	l := lines{}
	signature := map[string]bool{}
	for _, f := range a.Findings {
		if f.Class == brute.PhantomSignature {
			signature[f.Records] = true
		}
	}
	stale, own, scars := counted{}, counted{}, map[int]int{}
	for _, f := range a.Findings {
		records := strings.Split(f.Records, ",")
		if f.Sure == brute.Undecidable {
			certain := slices.ContainsFunc(a.Findings, func(other brute.Finding) bool {
				return other.Class == brute.Stale && other.Sure == brute.Certain && other.Cells == f.Cells &&
					strings.HasPrefix(other.Records, records[0]+",")
			})
			if f.Class == brute.Stale && certain {
				continue // one A1 for each reader and cell
			}
			switch kind, has := kinds[f.Class]; {
			case has:
				l.add("undecided "+kind.String(), "yes")
			case f.Class == brute.SplitView || f.Class == brute.SplitVersion:
				l.add("undecided split view", "yes")
			}
			continue
		}
		switch f.Class {
		case brute.Stale:
			stale.add(records[0]+" "+f.Cells, f)
		case brute.StaleOwn:
			own.add(records[0]+" "+f.Cells, f)
		case brute.Phantom, brute.PhantomSignature:
			sure := f.Sure
			if signature[f.Records] { // both are A2
				sure = brute.Certain
			}
			l.add("A2", "%s %s", f.Records, sure)
		case brute.Cascade, brute.CascadeFar:
			l.add("A3", "%s certain", records[0])
		case brute.Residue:
			l.add("A3", "%s %s possible", f.Records, f.Cells)
		case brute.SplitView:
			l.add("A4", "%s", f.Cells)
		case brute.SplitVersion:
			var i int
			_, _ = fmt.Sscan(records[0], &i)
			l.add("A4v", "%s %s", f.Cells, h[i-1].Version[f.Cells])
		case brute.Reordering:
			l.add("A6", "%s", f.Records)
		case brute.Effects:
			l.add("effects", "%s", f.Records)
		case brute.LostUpdate:
			l.add("lost update", "%s %s", f.Records, f.Cells)
		case brute.WriteSkew:
			l.add("write skew", "%s", f.Records)
		case brute.NullOverwrite:
			l.add("null overwrite", "%s %s", f.Records, f.Cells)
		case brute.Scar: // of those that preds names, if it names some, detectors say how many
			var j, p int
			_, _ = fmt.Sscan(strings.Replace(f.Records, ",", " ", 1), &j, &p)
			if h[p-1].Txn != "" && slices.Contains(h[j-1].Preds, h[p-1].Txn) {
				scars[j]++
			} else {
				scars[j] += 0
			}
		}
	}
	for j, n := range scars {
		l.add("scar", "%d of %d", j, max(n, 1))
	}
	for key, all := range stale {
		l.add("A1", "%s of %d first %s", key, len(all), first(h, all))
	}
	l.add("A1 of one agent", "%d", len(own))
	for _, c := range a.Components {
		l.add("cycle", "%d operations, shortest %d", len(strings.Split(c.Records, ",")), c.Length)
	}
	low, high := a.LowPoint(), a.Point()
	l.add("points", "%v %v, levels %d %d", low, high, low.Level(), high.Level())
	return l
}

// kinds are what a detector calls the classes that can be undecidable.
var kinds = map[brute.Class]anomaly.Kind{
	brute.Stale: anomaly.A1, brute.Phantom: anomaly.A2, brute.Residue: anomaly.A3,
	brute.Reordering: anomaly.A6,
}

// first is the writer of the witnesses that wrote first.
func first(h []trace.Record, all []brute.Finding) string {
	at, time := "", uint64(0)
	for _, f := range all {
		_, writer, _ := strings.Cut(f.Records, ",")
		var j int
		_, _ = fmt.Sscan(writer, &j)
		if at == "" || h[j-1].WriteTime < time {
			at, time = writer, h[j-1].WriteTime
		}
	}
	return at
}

// found is what the detectors say, in the same lines.
func found(h []trace.Record, r *anomaly.Report, a brute.Answer) lines {
	l := lines{}
	for _, f := range r.Findings {
		at := make([]int, len(f.Records))
		for i, record := range f.Records {
			at[i] = int(record) + 1
		}
		sure := brute.Possible
		if f.Certain {
			sure = brute.Certain
		}
		switch f.Kind {
		case anomaly.A1:
			l.add("A1", "%d %s of %d first %d", at[0], f.Cell, f.Count, at[1])
		case anomaly.A2:
			l.add("A2", "%d %s", at[0], sure)
		case anomaly.A3:
			if f.Certain {
				l.add("A3", "%d certain", at[0])
				class := brute.CascadeFar
				if slices.ContainsFunc(a.Findings, func(b brute.Finding) bool {
					return b.Class == brute.Cascade && strings.HasPrefix(b.Records, fmt.Sprint(at[0], ","))
				}) {
					class = brute.Cascade // the direct witness first
				}
				named(l, a, "A3", brute.At(at...), "", class)
			} else {
				l.add("A3", "%d %s possible", at[0], f.Cell)
			}
		case anomaly.A4:
			l.add("A4", "%s", f.Cell)
			slices.Sort(at)
			named(l, a, "A4", brute.At(at...), f.Cell, brute.SplitView)
		case anomaly.A4v:
			l.add("A4v", "%s %s", f.Cell, h[at[0]-1].Version[f.Cell])
			slices.Sort(at)
			named(l, a, "A4v", brute.At(at...), f.Cell, brute.SplitVersion)
		case anomaly.A6:
			l.add("A6", "%d", at[0])
		case anomaly.Effects:
			l.add("effects", "%d", at[0])
		case anomaly.LostUpdate:
			l.add("lost update", "%s %s", brute.At(at...), f.Cell)
		case anomaly.WriteSkew:
			cells := f.Cell + "," + f.Cell2
			if at[0] > at[1] {
				at[0], at[1], cells = at[1], at[0], f.Cell2+","+f.Cell
			}
			l.add("write skew", "%s", brute.At(at...))
			named(l, a, "write skew", brute.At(at...), cells, brute.WriteSkew)
		case anomaly.NullOverwrite:
			l.add("null overwrite", "%s %s", brute.At(at...), f.Cell)
		case anomaly.Scar:
			l.add("scar", "%d of %d", at[0], f.Count)
			named(l, a, "scar", brute.At(at...), "", brute.Scar)
		case anomaly.Cycle:
			l.add("cycle", "%d operations, shortest %d", f.Count, len(at))
			if !isCycle(h, a, &f, at) {
				l.add("cycle", "%v by %v is none, or not of class %s", at, f.Edges, f.Class())
			}
		}
	}
	for _, u := range r.Undecided {
		switch u.Kind {
		case anomaly.A4, anomaly.A4v:
			l.add("undecided split view", "yes")
		case anomaly.A1, anomaly.A2, anomaly.A3, anomaly.A6:
			if u.Open {
				l.add("undecided "+u.Kind.String(), "yes")
			}
		}
	}
	l.add("A1 of one agent", "%d", r.OwnOverlaps)
	least, most := r.Points()
	l.add("points", "%v %v, levels %d %d", set(least), set(most), least.Level(), most.Level())
	return l
}

func set(p anomaly.Point) (s brute.Set) {
	for anomalies, has := range map[brute.Set]bool{brute.A1: p.A1, brute.A2: p.A2, brute.A3: p.A3, brute.A6: p.A6} {
		if has {
			s |= anomalies
		}
	}
	return s
}

// named adds a line where a witness is none.
func named(l lines, a brute.Answer, subject, records, cells string, classes ...brute.Class) {
	if !slices.ContainsFunc(a.Findings, func(f brute.Finding) bool {
		return slices.Contains(classes, f.Class) && f.Records == records && (cells == "" || f.Cells == cells)
	}) {
		l.add(subject, "%s %s is no witness", records, cells)
	}
}

// isCycle: each edge is one, and the class is what a shortest cycle of these operations can have.
func isCycle(h []trace.Record, a brute.Answer, f *anomaly.Finding, at []int) bool {
	edges := brute.Edges(h)
	for i, e := range f.Edges {
		next := at[(i+1)%len(at)]
		if !slices.Contains(edges, brute.Edge{From: at[i] - 1, To: next - 1, Kind: e.Kind.String(), Cell: e.Cell}) {
			return false
		}
	}
	return slices.ContainsFunc(a.Components, func(c brute.Component) bool {
		members := strings.Split(c.Records, ",")
		for _, n := range at {
			if !slices.Contains(members, fmt.Sprint(n)) {
				return false
			}
		}
		return len(f.Edges) == len(at) && slices.Contains(strings.Split(c.Kinds, ","), f.Class())
	})
}

// exactness compares histories.
type exactness struct {
	t        *testing.T
	differ   map[string]int
	shortest map[string]string
}

func (e *exactness) compare(h []trace.Record) {
	a, r := brute.Judge(h), detected(e.t, h)
	want, got := expected(h, a), found(h, r, a)
	subjects := map[string]bool{}
	for _, l := range []lines{want, got} {
		for subject := range l {
			subjects[subject] = true
		}
	}
	for subject := range subjects {
		w, g := want.of(subject), got.of(subject)
		if w == g || subject == "undecided split view" && w == "" { // detectors count reads, of which no pair need be open
			continue
		}
		e.differ[subject]++
		text := fmt.Sprintf("detectors   %s\nbrute force %s\n%s%v%v", g, w, texts(h), a, r.Undecided)
		if e.differ[subject] == 1 {
			e.t.Logf("the first history that differs in %s:\n%s", subject, text)
		}
		if short := e.shortest[subject]; short == "" || len(text) < len(short) {
			e.shortest[subject] = text
		}
	}
}

// TestExact: the detectors find in every history what loops over all records find by the predicates of the paper.
// HENCE_EXACT_ALL=1 has the large bounds and 100,000 random ones.
func TestExact(t *testing.T) {
	e := exactness{t, map[string]int{}, map[string]string{}}
	whole, random, step, n := os.Getenv("HENCE_EXACT_ALL") == "1", 500, 1, 0
	switch {
	case testing.Short():
		step = 7
	case whole:
		random = 100_000
	case !testsize.Small():
		random = 10_000
	}
	for _, w := range brute.Worlds(whole) {
		for i := 0; i < w.Count; i += step {
			e.compare(w.At(i))
			n++
		}
		t.Logf("%7d histories: %s", w.Count, w.Bounds)
	}
	for seed := range random {
		e.compare(brute.Random(uint64(seed)))
	}
	t.Logf("%d histories up to the bounds and %d random ones", n, random)
	for subject, text := range e.shortest {
		t.Errorf("%s: %d histories differ, such as\n%s", subject, e.differ[subject], text)
	}
}
