package sequencer

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOpMerge holds what each op makes of a content and a delta, at the edges of what goes with it: who writes is told
// before the seal by the same function what would be left out.
func TestOpMerge(t *testing.T) {
	full := strings.Repeat("x", MaxMerged-3)
	most, least := strconv.Itoa(math.MaxInt64), strconv.Itoa(math.MinInt64)
	for i, c := range []struct {
		op               Op
		base, delta, out string
		ok               bool
	}{
		{OpSet, "a", "b", "a", false},
		{OpAppend, "", "", "", true},
		{OpAppend, "a", "b", "ab", true},
		{OpAppend, full, "yyy", full + "yyy", true},
		{OpAppend, full, "yyyy", full, false},
		{OpAdd, "", "5", "5", true},
		{OpAdd, "5", "0", "5", true},
		{OpAdd, "-5", "5", "0", true},
		{OpAdd, "5", "-7", "-2", true},
		{OpAdd, "x", "1", "x", false},
		{OpAdd, "1", "x", "1", false},
		{OpAdd, "1", "", "1", false},
		{OpAdd, most, "1", most, false},
		{OpAdd, most, "0", most, true},
		{OpAdd, most, "-1", strconv.Itoa(math.MaxInt64 - 1), true},
		{OpAdd, least, "-1", least, false},
		{OpAdd, least, "0", least, true},
		{OpAdd, least, most, "-1", true},
		{OpAdd, strconv.Itoa(math.MaxInt64 - 1), "1", most, true},
		{OpUnion, "", "", "", true},
		{OpUnion, "", "\n\n", "", true},
		{OpUnion, "b", "a", "a\nb\n", true},
		{OpUnion, "b\na\nb\n", "a", "a\nb\n", true},
		{OpUnion, full, "y", full + "\ny\n", true},
		{OpUnion, full + "\n", "yy", full + "\n", false},
		{OpUnion, full, full, full + "\n", true},
		{OpUnion, full, "", full + "\n", true},
		{OpUnion, full + "xxx", "", full + "xxx", false},
		{OpUnion, full + "xx", "", full + "xx\n", true},
	} {
		out, ok := c.op.Merge([]byte(c.base), []byte(c.delta))
		if string(out) != c.out || ok != c.ok {
			t.Errorf("%d: %s of %.40q and %q: %d bytes, %v, want %d, %v", i, c.op, c.base, c.delta, len(out), ok,
				len(c.out), c.ok)
		}
		if want := merged(c.op, c.base, c.delta); want != c.out {
			t.Errorf("%d: the model has %d bytes, want %d", i, len(want), len(c.out))
		}
		if c.op == OpAdd && Overflows([]byte(c.base), []byte(c.delta)) == c.ok {
			t.Errorf("%d: %q overflows by %q: %v", i, c.base, c.delta, c.ok)
		}
	}
}

// TestLargeReferences holds that a content longer than MaxMerged has no deltas, and one just as long has: of the first
// nothing is fetched, and it stays what the shard holds.
func TestLargeReferences(t *testing.T) {
	short := []byte("b")
	for _, c := range []struct {
		base, delta *Ref
		want        string // empty: what is under the delta
	}{
		{&Ref{Offset: 1, Size: MaxMerged}, nil, "1\nb"},
		{&Ref{Offset: 1, Size: MaxMerged + 1}, nil, ""},
		{&Ref{Offset: 1, Size: MaxMerged}, &Ref{Offset: 2, Size: MaxMerged}, "1\n2\n"},
		{&Ref{Offset: 1, Size: MaxMerged}, &Ref{Offset: 2, Size: MaxMerged + 1}, ""},
	} {
		var x Writes
		fetched := 0
		x.Apply(1, &ShardWrite{Ref: c.base})
		w := ShardWrite{Op: OpAppend, Type: "text/plain", Ref: c.delta}
		if c.delta == nil {
			w.Content = short
		}
		x.Apply(2, &w)
		v, err := x.Value(func(r *Ref) ([]byte, error) { fetched++; return anyAt(r) })
		under := v.Ref != nil && *v.Ref == *c.base && v.Content == nil
		if err != nil || v.Type != "text/plain" || v.Absent || under != (c.want == "") || string(v.Content) != c.want {
			t.Errorf("%+v on %+v: %+v, %v", c.delta, c.base, v, err)
		}
		if (fetched == 0) != (c.want == "") {
			t.Errorf("%+v on %+v: %d were fetched", c.delta, c.base, fetched)
		}
	}
}

// TestWritesFetchOnce holds that nothing is fetched twice: what was worked out is gone on from, also after what is
// under it was folded; and that what was taken out, or cut off by hand, is worked out again.
func TestWritesFetchOnce(t *testing.T) {
	var x Writes
	fetched := 0
	value := func(want string, fetches int) {
		t.Helper()
		fetched = 0
		v, err := x.Value(func(r *Ref) ([]byte, error) { fetched++; return keptAt(r) })
		if err != nil || string(v.Content) != want || fetched != fetches {
			t.Errorf("%q with %d fetched (%v), want %q with %d", v.Content, fetched, err, want, fetches)
		}
	}
	ref := func(seq Seq, offset int64) { x.Apply(seq, &ShardWrite{Op: OpAppend, Ref: &Ref{Offset: offset}}) }
	x.Apply(1, &ShardWrite{Ref: &Ref{Offset: 1}})
	ref(2, 2)
	value("1\n2\n", 2)
	value("1\n2\n", 0)
	ref(3, 4)
	value("1\n2\n4\n", 1)
	ref(4, 5)
	if err := x.Forget(2, keptAt); err != nil {
		t.Fatal(err)
	}
	value("1\n2\n4\n5\n", 1)
	ref(5, 6)
	if err := x.Forget(3, keptAt); err != nil || len(x.List) != 3 || !x.List[0].Folded {
		t.Fatalf("%+v, %v", x.List, err)
	}
	value("1\n2\n4\n5\n6\n", 1)
	ref(6, 7)
	ref(7, 8)
	if err := x.Forget(6, keptAt); err != nil { // more than was worked out
		t.Fatal(err)
	}
	value("1\n2\n4\n5\n6\n7\n8\n", 1)
	ref(8, 9)
	value("1\n2\n4\n5\n6\n7\n8\n9\n", 1)
	x.Apply(9, &ShardWrite{Op: OpAppend, Removes: 8})
	value("1\n2\n4\n5\n6\n7\n8\n", 1)
	ref(10, 3)
	if _, err := x.Value(keptAt); !errors.Is(err, errGone) {
		t.Errorf("%v, want %v", err, errGone)
	}
	x.List = x.List[:len(x.List)-1]
	ref(11, 1)
	value("1\n2\n4\n5\n6\n7\n8\n1\n", 1)
	x.List = x.List[:len(x.List)-1]
	ref(12, 2)
	value("1\n2\n4\n5\n6\n7\n8\n2\n", 2)
	x.List = x.List[:1]
	value("1\n2\n4\n5\n6\n7\n", 0)
}

// TestWritesGrow holds that a content which grows by small deltas is not copied for each of them, and that a value
// which was shown has no room behind it that a caller could write into.
func TestWritesGrow(t *testing.T) {
	var x Writes
	x.Apply(1, &ShardWrite{Content: bytes.Repeat([]byte("x"), 1000)})
	moved, at := 0, (*byte)(nil)
	for seq := Seq(2); seq < 1000; seq++ {
		x.Apply(seq, &ShardWrite{Op: OpAppend, Content: []byte("y")})
		v, err := x.Value(nil)
		if err != nil || len(v.Content) != 999+int(seq) || cap(v.Content) != len(v.Content) {
			t.Fatalf("%d of %d bytes, %v", len(v.Content), cap(v.Content), err)
		}
		if &v.Content[0] != at {
			moved, at = moved+1, &v.Content[0]
		}
	}
	if moved > 2 {
		t.Errorf("it was copied %d times", moved)
	}
}

// TestWholes holds where the whole content is kept: with each delta that has WholeEvery-1 others before it since the
// last whole or content, and so no value goes through more of them than that; never where the content is not here.
func TestWholes(t *testing.T) {
	wholes := func(x *Writes) (at []Seq) {
		for _, s := range x.List {
			if s.Whole != nil {
				at = append(at, s.Seq)
			}
		}
		return at
	}
	for name, c := range map[string]struct {
		first, then ShardWrite
		removes     Seq
		want        []Seq
	}{
		"a content first": {ShardWrite{}, ShardWrite{Op: OpAdd, Content: []byte("1")}, 0, []Seq{65, 129, 193}},
		"deltas alone": {ShardWrite{Op: OpAdd, Content: []byte("1")}, ShardWrite{Op: OpAdd, Content: []byte("1")}, 0,
			[]Seq{64, 128, 192}},
		"one is taken out": {ShardWrite{}, ShardWrite{Op: OpAdd, Content: []byte("1")}, 130, []Seq{65, 129, 195}},
		"a reference":      {ShardWrite{Ref: &Ref{Offset: 3}}, ShardWrite{Op: OpAppend, Content: []byte("1")}, 0, nil},
	} {
		var x Writes
		x.Apply(1, &c.first)
		for seq := Seq(2); seq < 200; seq++ {
			w := &c.then
			if seq == c.removes+1 && c.removes > 0 {
				w = &ShardWrite{Op: OpAdd, Removes: c.removes}
			}
			x.Apply(seq, w)
		}
		if got := wholes(&x); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: with %v, want %v", name, got, c.want)
		}
	}
}

// TestBoundAtItsEdges holds what Bound keeps: as many entries and bytes as it may, of more bytes the newer half, of
// more entries those that can be taken back, and the last few contents with all on them.
func TestBoundAtItsEdges(t *testing.T) {
	for name, c := range map[string]struct {
		kinds         string // of the entries, s for a content and d for a delta, each of one byte
		entries, size int
		want          string // f for what is folded
		first         Seq
	}{
		"nothing":                       {"", 0, 0, "", 0},
		"as many as may be":             {"sddd", 4, 9, "sddd", 1},
		"one more, of few that are old": {"sddd", 3, 9, "sddd", 1},
		"one more delta":                {"dddd", 3, 9, "fddd", 1},
		"as many bytes as may be":       {"sddd", 9, 3, "sddd", 1},
		"one byte more":                 {"sddd", 9, 2, "fd", 3},
		"one byte more of an odd half":  {"sdddd", 9, 3, "fd", 4},
		"no byte":                       {"sddd", 9, 0, "f", 4},
		"seven contents over one":       {"sdsdsdsdsdsdsds", 99, 99, "sdsdsdsdsdsdsds", 1},
		"eight contents over one":       {"sdsdsdsdsdsdsdsds", 99, 99, "sdsdsdsdsdsdsds", 3},
		"nine contents over one":        {"sdsdsdsdsdsdsdsdsds", 99, 99, "sdsdsdsdsdsdsds", 5},
	} {
		p := newPair()
		for i, kind := range c.kinds {
			w := &ShardWrite{Op: OpAppend, Content: []byte("x")}
			if kind == 's' {
				w.Op = OpSet
			}
			p.x.Apply(Seq(i+1), w)
			p.m.apply(Seq(i+1), w)
		}
		if _, err := p.x.Value(nil); err != nil {
			t.Fatal(err)
		}
		if len(c.kinds) > 0 {
			if err := p.x.Bound(c.entries, c.size, nil); err != nil {
				t.Fatal(err)
			}
			_ = p.m.bound(c.entries, c.size, nil)
		}
		got := ""
		for _, s := range p.x.List {
			switch {
			case s.Folded:
				got += "f"
			case s.Op == OpSet:
				got += "s"
			default:
				got += "d"
			}
		}
		if got != c.want || got != "" && p.x.List[0].Seq != c.first {
			t.Errorf("%s: %s is left of %s, from %d on; want %s from %d", name, got, c.kinds, p.x.List[0].Seq, c.want,
				c.first)
		}
		if err := p.differ(true, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMostRemovable holds that Bound keeps as many deltas one by one as can be taken back, and folds one that has so
// many behind it.
func TestMostRemovable(t *testing.T) {
	for more := range 3 {
		x := Writes{}
		for seq := Seq(1); seq <= MostRemovable+Seq(more); seq++ {
			x.Apply(seq, &ShardWrite{Op: OpAdd, Content: []byte("1")})
		}
		if err := x.Bound(100, 1<<20, nil); err != nil || len(x.List) != MostRemovable || !x.List[0].Folded {
			t.Errorf("%d entries of %d (%v)", len(x.List), MostRemovable+more, err)
		}
		if v, err := x.Value(nil); err != nil || string(v.Content) != fmt.Sprint(MostRemovable+more) {
			t.Errorf("%s, %v", v.Content, err)
		}
		if first := x.List[0]; first.Seq != Seq(1+more) || slices.ContainsFunc(x.List[1:], func(s Standing) bool {
			return s.Op != OpAdd
		}) {
			t.Errorf("with %d more: the first is as of %d", more, first.Seq)
		}
	}
}
