package anomaly

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parse reads operations, one a line:
//
//	[NAME:] AGENT READ-WRITE [CELL=VALUE[@REPLICA[/VERSION]] …] [> CELL=VALUE …] [| KEY=VALUE …]
//
// A cell without = has no recorded value. Keys behind | are plan, read, write, used, sig (A2), io and co (A6, as a
// list of CELL:VALUE), preds, aborted. Without io and co the effects are the writes, in order; no= leaves a field out.
func parse(t *testing.T, text string) *History {
	t.Helper()
	h := NewHistory(0)
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		o := Op{Line: n + 1, Plan: Plan{Known: true}, HasPreds: false}
		line, keys, _ := strings.Cut(line, "|")
		left, right, _ := strings.Cut(line, ">")
		words := strings.Fields(left)
		if name, is := strings.CutSuffix(words[0], ":"); is {
			o.Name, words = name, words[1:]
		}
		o.Agent = words[0]
		from, to, _ := strings.Cut(words[1], "-")
		o.ReadTime, o.WriteTime = number(t, from), number(t, to)
		for _, word := range words[2:] {
			word, place, _ := strings.Cut(word, "@")
			cell, value, _ := strings.Cut(word, "=")
			replica, version, _ := strings.Cut(place, "/")
			o.Reads = append(o.Reads, Read{Cell: cell, Value: value, Replica: replica, Version: version})
		}
		for _, word := range strings.Fields(right) {
			cell, value, _ := strings.Cut(word, "=")
			o.Writes = append(o.Writes, Write{cell, value})
		}
		o.Order = Order{IssuedKnown: true, HappenedKnown: true, Issued: o.Writes, Happened: o.Writes}
		for _, word := range strings.Fields(keys) {
			key, value, _ := strings.Cut(word, "=")
			set(t, &o, key, value)
		}
		if err := h.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func set(t *testing.T, o *Op, key, value string) {
	t.Helper()
	seen := map[string]Seen{"yes": Yes, "no": No, "": Unknown}[value]
	switch key {
	case "plan":
		o.Plan.Tool = value
	case "read":
		o.Plan.AtRead = seen
	case "write":
		o.Plan.AtWrite = seen
	case "used":
		o.Plan.Used = seen
	case "sig":
		o.Plan.ChangedSince = true
	case "preds":
		o.HasPreds, o.Preds = true, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
	case "aborted":
		o.Aborted = true
	case "io":
		o.Order.Issued = effects(value)
	case "co":
		o.Order.Happened = effects(value)
	case "no":
		if value == "plan" {
			o.Plan = Plan{}
		} else {
			o.Order = Order{}
		}
	default:
		t.Fatalf("no key %s", key)
	}
}

func effects(text string) (all []Write) {
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		cell, value, _ := strings.Cut(one, ":")
		all = append(all, Write{cell, value})
	}
	return all
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// found prints findings as KIND[?] CELL[/CELL2] LINES[ xCOUNT][ CLASS], one a line.
func found(h *History, r *Report) (all []string) {
	for i := range r.Findings {
		f := &r.Findings[i]
		var b strings.Builder
		b.WriteString(f.Kind.String())
		if !f.Certain {
			b.WriteByte('?')
		}
		b.WriteString(" " + f.Cell)
		if f.Cell2 != "" {
			b.WriteString("/" + f.Cell2)
		}
		for _, record := range f.Records {
			fmt.Fprintf(&b, " %d", h.Who(record).Line)
		}
		if f.Count > 1 {
			fmt.Fprintf(&b, " x%d", f.Count)
		}
		if f.Kind == Cycle {
			b.WriteString(" " + f.Class())
		}
		all = append(all, b.String())
	}
	return all
}

// example is a history with what must be found in it, by hand from the definitions, and the least and the greatest
// level. Beside each history that fires stand those that differ in one conjunct and must not.
type example struct{ name, ops, want, level string }

func overtakenExamples() []example {
	return []example{
		// A1: agents differ, the cell is read by one and written by the other, read < write < commit, values differ.
		{"A1, the paper's witness", "a2 0-2 c=null\na1 0-1 > c=v1", "A1 c 1 2", "L0 L0"},
		{"A1: one agent", "a1 0-2 c=null\na1 0-1 > c=v1", "", "L4 L4"},
		{"A1: another cell", "a2 0-2 c=null\na1 0-1 > d=v1", "", "L4 L4"},
		{"A1: written at the read", "a2 1-2 c=null\na1 0-1 > c=v1", "", "L4 L4"},
		{"A1: written before the read", "a2 3-4 c=null\na1 0-1 > c=v1", "", "L4 L4"},
		{"A1: written at the commit", "a2 0-2 c=null\na1 0-2 > c=v1", "", "L4 L4"},
		{"A1: written after the commit", "a2 0-2 c=null\na1 0-3 > c=v1", "", "L4 L4"},
		{"A1: the same value", "a2 0-2 c=null\na1 0-1 > c=null", "", "L4 L4"},
		{"A1: an aborted writer", "a2 0-2 c=null\na1 0-1 > c=v1 | aborted=", "", "L4 L4"},
		{"A1: an aborted reader", "a2 0-2 c=null | aborted=\na1 0-1 > c=v1", "", "L4 L4"},
		{"A1: value read not recorded", "a2 0-2 c\na1 0-1 > c=v1", "", "L0 L4"},
		{"A1: value written not recorded", "a2 0-2 c=null\na1 0-1 > c", "", "L0 L4"},
		{"A1: overwritten again", "r 0-9 c=null\na 1-3 > c=1\nb 3-4 > c=null\na 4-5 > c=2",
			"A1 c 1 2 x2\nnull-overwrite c 3 2", "L0 L0"},
		{"A1 and serializable", "r 0-3 c=null\nw 0-2 > c=1", "A1 c 1 2", "L0 L0"},
		// A2: planned, in the registry at the read, not in that at the commit.
		{"A2, the paper's witness", "a 0-1 | plan=t1 read=yes write=no", "A2 t1 1", "L3 L3"},
		{"A2: no plan", "a 0-1 | read=yes write=no", "", "L4 L4"},
		{"A2: never there", "a 0-1 | plan=t1 read=no write=no", "", "L4 L4"},
		{"A2: still there", "a 0-1 | plan=t1 read=yes write=yes", "", "L4 L4"},
		{"A2: still there, not used", "a 0-1 | plan=t1 read=yes write=yes used=no", "", "L4 L4"},
		{"A2: gone though used", "a 0-1 | plan=t1 read=yes write=no used=yes", "A2 t1 1", "L3 L3"},
		{"A2: another signature", "a 0-1 | plan=t1 read=yes write=yes sig=", "A2 t1 1", "L3 L3"},
		{"A2 by use", "a 0-1 | plan=t1 read=yes used=no", "A2? t1 1", "L3 L4"},
		{"A2 by use: used", "a 0-1 | plan=t1 read=yes used=yes", "", "L4 L4"},
		{"A2 by use: not seen at the read", "a 0-1 | plan=t1 read=no used=no", "", "L4 L4"},
		{"A2: an aborted one", "a 0-1 | plan=t1 read=yes write=no aborted=", "", "L4 L4"},
		{"A2: undecidable at the commit", "a 0-1 | plan=t1 read=yes", "", "L3 L4"},
		{"A2: undecidable at the read", "a 0-1 | plan=t1 write=no", "", "L3 L4"},
		{"A2: plan not recorded", "a 0-1 | no=plan", "", "L3 L4"},
	}
}

func causeExamples() []example {
	return []example{
		// A3: stands, a predecessor, and that one aborted.
		{"A3, the paper's witness", "p: a 0-1 > c=v1 | aborted=\nj: b 1-2 c=v1 | preds=p", "A3 c 2 1", "L1 L1"},
		{"A3: aborted too", "p: a 0-1 > c=v1 | aborted=\nj: b 1-2 c=v1 | preds=p aborted=", "", "L4 L4"},
		{"A3: no predecessor", "p: a 0-1 > c=v1 | aborted=\nj: b 1-2 c=v1 | preds=", "", "L4 L4"},
		{"A3: it stands", "p: a 0-1 > c=v1\nj: b 1-2 c=v1 | preds=p", "", "L4 L4"},
		{"A3: the predecessor of another one", "p: a 0-1 > c=1 | aborted=\nq: a 1-2 c=1 | preds=p aborted=\n" +
			"j: b 2-3 | preds=", "", "L4 L4"},
		{"A3: it is forgotten", "j: b 1-2 c=v1 | preds=p", "", "L4 L4"},
		{"A3: through another", "p: a 0-1 > c=1 | aborted=\nq: a 1-2 c=1 | preds=p\nj: b 2-3 | preds=q",
			"A3 c 2 1\nA3  3 1", "L1 L1"},
		{"A3: named before it comes", "j: b 1-2 c=v1 | preds=p\np: a 0-1 > c=v1 | aborted=", "A3 c 1 2", "L1 L1"},
		{"A3: closure, the direct one first", "p: a 0-1 > c=1 | aborted=\nq: a 1-2 > d=2 | aborted=\n" +
			"j: b 2-3 d=2 | preds=p,q", "A3 d 3 2 x2", "L1 L1"},
		// The residue: no other standing write of the value to the cell at or before the read.
		{"residue: a benign seeded read", "j 0-1 c=7", "A3? c 1", "L1 L4"},
		{"residue: written by a standing one", "k 0-1 > c=7\nj 1-2 c=7", "", "L4 L4"},
		{"residue: written by an aborted one", "k 0-1 > c=7 | aborted=\nj 1-2 c=7", "A3? c 2", "L1 L4"},
		{"residue: another cell", "k 0-1 > d=7\nj 1-2 c=7", "A3? c 2", "L1 L4"},
		{"residue: written later", "k 0-2 > c=7\nj 1-2 c=7", "A3? c 2", "L1 L4"},
		{"residue: written later, another before", "k 0-1 > c=8\nk 0-3 > c=7\nj 1-2 c=7", "A3? c 3", "L1 L4"},
		{"residue: another value", "k 0-1 > c=8\nj 1-2 c=7", "A3? c 2", "L1 L4"},
		{"residue: its own write", "j 1-1 c=7 > c=7", "A3? c 1", "L1 L4"},
		{"residue: an older version", "k 0-1 > c=7\nk 1-2 > c=8\nj 2-3 c=7", "", "L4 L4"},
		{"residue: null", "j 0-1 c=null", "", "L4 L4"},
		{"residue: a value not recorded", "k 0-1 > c\nk 0-2 > c=9\nj 2-3 c=7", "", "L1 L4"},
	}
}

func effectExamples() []example {
	return []example{
		// A4: one cell, different replicas, different values; A4v: also one version.
		{"A4 by lag", "a 0-1 c=null@s/0\nb 1-2 c=10@p/1 | preds=", "A4 c/s and p 1 2", "L4 L4"},
		{"A4: one replica", "a 0-1 c=null@p/0\nb 1-2 c=10@p/1 | preds=", "", "L4 L4"},
		{"A4: one value", "a 0-1 c=null@s/0\nb 1-2 c=null@p/1", "", "L4 L4"},
		{"A4: another cell", "a 0-1 c=null@s/0\nb 1-2 d=10@p/1 | preds=", "", "L4 L4"},
		{"A4v", "a 0-1 c=5@s/1 | preds=\nb 1-2 c=7@p/1 | preds=", "A4 c/s and p 1 2\nA4v c/s and p 1 2", "L4 L4"},
		{"A4: through two that each differ in one", "x 0-1 c=5@p | preds=\na 0-1 c=7@p | preds=\nb 0-1 c=5@q | preds=",
			"A4 c/p and q 2 3", "L4 L4"},
		{"A4: an aborted read", "a 0-1 c=null@s\nb 1-2 c=10@p | preds= aborted=", "", "L4 L4"},
		// A6: at least two, another order, the same effects.
		{"A6, the paper's witness", "a 0-1 > c=1 d=1 | co=d:1,c:1", "A6 c/d 1", "L2 L2"},
		{"A6: in order", "a 0-1 > c=1 d=1", "", "L4 L4"},
		{"A6: one effect", "a 0-1 > c=1 | co=d:1", "effects c 1", "L4 L4"},
		{"A6: an effect is missing", "a 0-1 > c=1 d=1 | co=d:1", "effects c 1", "L4 L4"},
		{"A6: an effect is extra", "a 0-1 > c=1 d=1 | co=d:1,c:1,d:1", "effects d 1", "L4 L4"},
		{"A6: other values", "a 0-1 > c=1 d=1 | co=d:2,c:1", "effects d 1", "L4 L4"},
		{"A6: a multiset", "a 0-1 > c=1 d=1 | io=c:1,c:1,d:1 co=c:1,d:1,d:1", "effects c 1", "L4 L4"},
		{"A6: not recorded", "a 0-1 > c=1 d=1 | no=order", "", "L2 L4"},
		{"A6: nothing to record", "a 0-1 | no=order", "", "L4 L4"},
		{"A6: aborted", "a 0-1 > c=1 d=1 | co=d:1,c:1 aborted=", "", "L4 L4"},
	}
}

func dependencyExamples() []example {
	return []example{
		// Lost update: any agents, any values.
		{"lost update", "e 0-1 d=null > d=1\nr 0-2 d=null > d=2",
			"A1 d 2 1\nlost-update d 2 1\ncycle d 1 2 x2 G-single", "L0 L0"},
		{"lost update: one agent, one value", "e 0-1 d=null > d=1\ne 0-2 d=null > d=1",
			"lost-update d 2 1\ncycle d 1 2 x2 G-single", "L4 L4"},
		{"lost update: it had read it", "e 0-1 d=null > d=1\nr 1-2 d=1 > d=2", "", "L4 L4"},
		{"lost update: it had not read the cell", "e 0-1 d=null > d=1\nr 0-2 > d=2", "", "L4 L4"},
		{"lost update: by one that read nothing", "e 0-2 d=null > d=1\nr 0-1 > d=1", "A1 d 1 2\nlost-update d 1 2\n" +
			"cycle d 1 2 x2 G-single", "L0 L0"},
		{"lost update: its own write was before the read", "e 5-1 d=2 > d=2\nr 0-6 > d=3", "A3? d 1", "L1 L4"},
		{"lost update: it did not write", "e 0-1 d=null > d=1\nr 0-2 d=null", "A1 d 2 1", "L0 L0"},
		// Write skew: each overwrote what the other read, and no cell both.
		{"write skew", "a 0-1 x=null y=null > x=1\nb 0-2 x=null y=null > y=1",
			"A1 x 2 1\nwrite-skew y/x 1 2\ncycle y 1 2 x2 G2", "L0 L0"},
		{"write skew: one of both read later", "a 0-1 x=null y=null > x=1\nb 1-2 x=1 y=null > y=1", "", "L4 L4"},
		{"write skew: a cell both", "a 0-1 x=null y=null > x=1 z=1\nb 0-2 x=null y=null > y=1 z=2",
			"A1 x 2 1\ncycle z 1 2 x2 G-single", "L0 L0"},
		// Cycles.
		{"cycle of three", "a 0-1 x=null > y=1\nb 0-2 y=null > z=1\nc 0-3 z=null > x=1",
			"A1 y 2 1\nA1 z 3 2\ncycle x 1 3 2 x3 G2", "L0 L0"},
		{"G1c", "a 5-1 y=2 > x=1\nb 5-2 x=1 > y=2", "cycle x 1 2 x2 G1c\nscar  1 2", "L4 L4"},
		{"a read of another value than the latest has no dependency", "a 0-1 > x=1\nb 1-4 x=7 > y=1\n" +
			"c 0-2 y=null > x=2", "A1 x 2 3\nA3? x 2", "L0 L0"},
		// Beside the catalogue.
		{"null overwrite", "s 0-1 > t=2\nn 0-2 > t=null", "null-overwrite t 2 1", "L4 L4"},
		{"null overwrite: it had read it", "s 0-1 > t=2\nn 1-2 t=2 > t=null", "", "L4 L4"},
		{"null overwrite: it was null", "s 0-1 > t=null\nn 0-2 > t=null", "", "L4 L4"},
		{"null overwrite: not null", "s 0-1 > t=2\nn 0-2 > t=3", "", "L4 L4"},
		{"null overwrite: an older one was read", "s 0-1 > t=2\ns 0-2 > t=3\nn 1-3 t=2 > t=null", "A1 t 3 2\n" +
			"lost-update t 3 2\ncycle t 2 3 x2 G-single\nnull-overwrite t 3 2", "L0 L0"},
		{"scar", "p: a 0-5 > c=1\nj: b 1-2 | preds=p", "scar  2 1", "L4 L4"},
		{"scar: named twice", "p: a 0-5 > c=1\nj: b 1-2 | preds=p,p", "scar  2 1", "L4 L4"},
		{"scar: through another", "p: a 0-5 > c=1\nq: a 1-6 | preds=p\nj: b 1-5 | preds=q", "scar  3 2", "L4 L4"},
		{"scar: through one that was aborted", "p: a 0-5 > c=1\nq: a 1-0 | preds=p aborted=\nj: b 1-2 | preds=q",
			"A3  3 2\nscar  3 1", "L1 L1"},
		{"scar: in order", "p: a 0-1 > c=1\nj: b 1-2 | preds=p", "", "L4 L4"},
		{"scar: at once", "p: a 0-2 > c=1\nj: b 1-2 | preds=p", "", "L4 L4"},
		// Controls of the published scenarios.
		{"a pipeline", "a 0-1 p=null > p=1\nb 1-2 p=1 > p=2\nc 2-3 p=2 > p=3", "", "L4 L4"},
		{"fan-out", "c 0-1 > t=1\nw1 1-2 t=1 > r1=1\nw2 1-3 t=1 > r2=1\nm 3-4 r1=1 r2=1 > o=1", "", "L4 L4"},
	}
}

func TestExamples(t *testing.T) {
	all := slices.Concat(overtakenExamples(), causeExamples(), effectExamples(), dependencyExamples())
	for _, e := range all {
		for _, least := range []int{48, 0} { // versions looked at one by one, and counted
			h := parse(t, e.ops)
			r := h.checkWith(least)
			low, high := r.Points()
			level := fmt.Sprintf("L%d L%d", low.Level(), high.Level())
			if got := strings.Join(found(h, r), "\n"); got != e.want || level != e.level {
				t.Errorf("%s:\n%s\nis found as\n%s\nlevel %s, want\n%s\nlevel %s", e.name, e.ops, got, level, e.want,
					e.level)
			}
			for i := range r.Findings {
				if text := h.Sentence(&r.Findings[i]); len(text) < 40 {
					t.Errorf("%s: the sentence is %q", e.name, text)
				}
			}
			if r.Serializable() == strings.Contains(e.want, "cycle") {
				t.Errorf("%s: serializable is %t", e.name, r.Serializable())
			}
		}
	}
}

// TestPoints: the level of each of the sixteen points is the longest part of the chain that it holds.
func TestPoints(t *testing.T) {
	levels := map[string]int{}
	for bits := range 16 {
		p := Point{bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0}
		levels[p.String()] = p.Level()
	}
	want := map[string]int{"{}": 0, "{A2}": 0, "{A3}": 0, "{A6}": 0, "{A2,A3}": 0, "{A2,A6}": 0, "{A3,A6}": 0,
		"{A2,A3,A6}": 0, "{A1}": 1, "{A1,A2}": 1, "{A1,A6}": 1, "{A1,A2,A6}": 1, "{A1,A3}": 2, "{A1,A2,A3}": 2,
		"{A1,A3,A6}": 3, "{A1,A2,A3,A6}": 4}
	if fmt.Sprint(levels) != fmt.Sprint(want) {
		t.Errorf("the levels are\n%v, want\n%v", levels, want)
	}
}

// TestAddRefusesNames: a name is one operation's.
func TestAddRefusesNames(t *testing.T) {
	h := NewHistory(0)
	if err := h.Add(Op{Name: "j", Agent: "a", HasPreds: true, Preds: []string{"p"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Add(Op{Name: "p", Agent: "a"}); err != nil {
		t.Errorf("a name that was a predecessor's before: %v", err)
	}
	err := h.Add(Op{Name: "j", Agent: "a"})
	if err == nil || !strings.Contains(err.Error(), "two operations are called j") {
		t.Errorf("a name given twice: %v", err)
	}
}

// TestIntervals: the published intervals, by the exact method.
func TestIntervals(t *testing.T) {
	var got []string
	for _, role := range Roles() {
		m, known := MaterialityOf(role)
		got = append(got, fmt.Sprintf("%s %t %d/%d %.3f [%.3f %.3f]", role, known, m.Changed, m.Asked, m.P, m.Low, m.High))
	}
	want := []string{"assessor true 43/43 1.000 [0.918 1.000]", "consumer true 18/33 0.545 [0.364 0.719]",
		"producer true 0/100 0.000 [0.000 0.036]", "categorical true 150/200 0.750 [0.684 0.808]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, known := MaterialityOf("triager"); known {
		t.Error("three firings are no estimate")
	}
	if _, high := ClopperPearson(0, 120); fmt.Sprintf("%.3f", high) != "0.030" {
		t.Errorf("0 of 120 is at most %.3f", high)
	}
}

// TestHowAPhantom holds that a tool that is gone is said to be gone also where its signature was pinned, one that is
// there to be another, and one that was not used to be a guess.
func TestHowAPhantom(t *testing.T) {
	for keys, want := range map[string]string{
		"read=yes write=no sig=":  "no longer at 1",
		"read=yes write=yes sig=": "another signature",
		"write=no sig=":           "another signature",
		"read=yes used=no":        "changed its mind",
	} {
		h := parse(t, "a 0-1 | plan=t1 "+keys)
		r := h.Check()
		if len(r.Findings) != 1 || !strings.Contains(h.Sentence(&r.Findings[0]), want) {
			t.Errorf("%s: %v, want %q", keys, found(h, r), want)
		}
	}
}
