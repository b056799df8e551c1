package sequencer

import (
	"reflect"
	"testing"
)

// member makes a decided transaction that wrote some scopes, as a cone has them.
func member(id TxID, decision Seq, scopes ...Scope) *tx {
	m := &tx{}
	m.ID, m.Decision, m.Order, m.Phase, m.Past = id, decision, uint64(decision), PhaseRetracting, &Past{}
	for _, s := range scopes {
		m.Past.Writes = append(m.Past.Writes, PastWrite{Scope: s})
	}
	return m
}

// sealedReader is an undecided transaction with reads.
func sealedReader(reads ...Read) *tx {
	t := &tx{}
	t.ID, t.Order, t.Epoch, t.Phase, t.Seal = "r.1.1", 99, 99, PhaseSealed, &Seal{Reads: reads}
	return t
}

// TestHeldSince holds which outcome is said to have given a hold: the newest grant of the scope, of those that are
// known; a waiting touch, where what it claims was not declared at the begin; else the first of the transaction. What
// is looked at is counted.
func TestHeldSince(t *testing.T) {
	write := func(s Scope) Hold { return Hold{Scope: s, Kind: Granted, Access: WriteAccess} }
	grants := []Hold{write("doc:/a"), write("doc:/b"), write("doc:/a"), write("doc:/c")}
	waiting := &WaitingState{Seq: 8}
	may := []Want{{Scope: "doc:/m"}, {Scope: "doc:/n"}}
	for _, c := range []struct {
		since   []Seq
		waiting *WaitingState
		scope   Scope
		kind    HoldKind
		want    Seq
	}{
		{[]Seq{4, 5, 6, 7}, nil, "doc:/a", Granted, 6},
		{[]Seq{6, 5, 4, 7}, nil, "doc:/a", Granted, 6},
		{[]Seq{4, 5, 6, 7}, nil, "doc:/b", Granted, 5},
		{[]Seq{4, 5, 6, 7}, nil, "doc:/c", Granted, 7},
		{[]Seq{4, 5, 6, 7}, waiting, "doc:/x", Granted, 0},
		{[]Seq{4, 5}, nil, "doc:/a", Granted, 4}, // the others are of an older logic
		{nil, nil, "doc:/a", Granted, 0},
		{nil, nil, "doc:/a", Claimed, 3},
		{nil, nil, "doc:/m", Claimed, 3},
		{nil, waiting, "doc:/a", Claimed, 8},
		{nil, waiting, "doc:/m", Claimed, 3},
		{nil, waiting, "doc:/n", Claimed, 3},
	} {
		f := New("w")
		one := &tx{}
		one.Grants, one.Since, one.First, one.Waiting, one.May = grants, c.since, 3, c.waiting, may
		if got := f.heldSince(one, c.scope, c.kind); got != c.want || f.looked != len(grants) {
			t.Errorf("%s of %s since %v: %d, %d looked at, want %d", c.kind, c.scope, c.since, got,
				f.looked, c.want)
		}
	}
}

// TestNoteGrants holds that the newest grants are noted with their outcome, and those of an older logic with none; the
// older logics note nothing.
func TestNoteGrants(t *testing.T) {
	for _, c := range []struct {
		logic  uint32
		since  []Seq
		grants int
		n      int
		want   []Seq
	}{
		{Logic, nil, 2, 2, []Seq{9, 9}},
		{Logic, nil, 3, 1, []Seq{0, 0, 9}},
		{Logic, []Seq{4}, 3, 2, []Seq{4, 9, 9}},
		{Logic, []Seq{4}, 3, 1, []Seq{4, 0, 9}},
		{Logic, []Seq{4}, 1, 0, []Seq{4}},
		{2, nil, 2, 2, nil},
	} {
		f := New("w")
		f.rules.Logic = c.logic
		one := &tx{}
		one.Grants, one.Since = make([]Hold, c.grants), c.since
		if f.noteGrants(one, c.n, 9); !reflect.DeepEqual(one.Since, c.want) {
			t.Errorf("%d of %d grants onto %v under logic %d: %v, want %v", c.n, c.grants, c.since,
				c.logic, one.Since,
				c.want)
		}
	}
}

// TestMetAt holds where a reader is said to have met another transaction: at the smallest scope of its first read that
// meets it, whether that was granted for writing, counts as written by it in a view that shows it, or is taken back.
func TestMetAt(t *testing.T) {
	type place struct {
		scope  Scope
		kind   string // of what d has there: grant, shared, undone or write
		seq    Seq    // of a write
		others bool   // another one has the same, and is found before
	}
	read := func(scopes ...Scope) (out []Read) {
		for _, s := range scopes {
			out = append(out, Read{Scope: s, View: 5})
		}
		return out
	}
	all := read("doc:/*")
	for name, c := range map[string]struct {
		reads  []Read
		places []place
		want   Scope
	}{
		"a grant":                  {all, []place{{scope: "doc:/a", kind: "grant"}}, "doc:/a"},
		"a grant beside another's": {all, []place{{scope: "doc:/b", kind: "grant", others: true}}, "doc:/b"},
		"a shared grant":           {all, []place{{scope: "doc:/a", kind: "shared"}}, ""},
		"taken back":               {all, []place{{scope: "doc:/a", kind: "undone"}}, "doc:/a"},
		"taken back beside others": {all, []place{{scope: "doc:/b", kind: "undone", others: true}}, "doc:/b"},
		"a write that is shown":    {all, []place{{scope: "doc:/a", kind: "write", seq: 5}}, "doc:/a"},
		"a write beside others": {all, []place{{scope: "doc:/b", kind: "write", seq: 5,
			others: true}}, "doc:/b"},
		"a write that is not shown": {all, []place{{scope: "doc:/a", kind: "write", seq: 6}}, ""},
		"the smaller of two kinds": {all, []place{{"doc:/b", "grant", 0, false}, {"doc:/a",
			"undone", 0, false}}, "doc:/a"},
		"the smaller by its text": {all, []place{{"doc:/a/b", "grant", 0, false}, {"doc:/a-",
			"grant", 0, false}}, "doc:/a-"},
		"the smaller comes first": {all, []place{{"doc:/a", "grant", 0, false}, {"doc:/b",
			"write", 5, false}}, "doc:/a"},
		"of the first read": {read("doc:/b", "doc:/a"), []place{{"doc:/b", "grant", 0,
			false}, {"doc:/a", "grant", 0, false}}, "doc:/b"},
		"of the second read": {read("mail:/x", "doc:/a"), []place{{scope: "doc:/a",
			kind: "grant"}}, "doc:/a"},
		"where the read says it": {[]Read{{Scope: "mail:/x"}, {Scope: "doc:/*",
			Writer: "d.1.1"}}, nil, "doc:/*"},
		"said, and met": {[]Read{{Scope: "doc:/*", Writer: "d.1.1"}},
			[]place{{scope: "doc:/a", kind: "grant"}}, "doc:/a"},
		"nowhere":                   {read("mail:/x"), []place{{scope: "doc:/a", kind: "grant"}}, ""},
		"another one is said to be": {[]Read{{Scope: "doc:/*", Writer: "o.1.1"}}, nil, ""},
		"said before it is met": {[]Read{{Scope: "mail:/x", Writer: "d.1.1"},
			{Scope: "doc:/a"}}, []place{{scope: "doc:/a", kind: "grant"}}, "mail:/x"},
	} {
		f := New("w")
		d, other, r := member("d.1.1", 5), member("o.1.1", 4), sealedReader(c.reads...)
		for _, p := range c.places {
			has := func(u *tx, s Scope) {
				switch p.kind {
				case "undone":
					f.undoneAt.add(s, u.Order, u)
				case "write":
					f.window.put(s, p.seq, Writer{Seq: p.seq, Tx: u.ID}, "")
				default:
					access := WriteAccess
					if p.kind == "shared" {
						access = ReadAccess
					}
					f.hold(u, Hold{Scope: s, Kind: Granted, Access: access})
				}
			}
			if p.others {
				has(other, "doc:/a")
			}
			has(d, p.scope)
		}
		if f.looked = 0; f.metAt(r, d) != c.want || f.looked != len(c.reads) {
			t.Errorf("%s: at %q, %d looked at, want %q", name, f.metAt(r, d), f.looked, c.want)
		}
	}
}

// TestReadUnder holds which member of a cone a reader is said to have read from: the most recent one that its views
// show, or that it rests on; none of what a tombstone had taken away before it read.
func TestReadUnder(t *testing.T) {
	for name, c := range map[string]struct {
		reads []Read
		rests []TxID
		tomb  Seq
		want  TxID
	}{
		"the view shows both": {reads: []Read{{Scope: "shard:/*", View: 9}}, want: "b.1.1"},
		"in whatever order": {reads: []Read{{Scope: "shard:/b", View: 9},
			{Scope: "shard:/a", View: 9}}, want: "b.1.1"},
		"the view just shows the first": {reads: []Read{{Scope: "shard:/*", View: 5}}, want: "a.1.1"},
		"the view shows none":           {reads: []Read{{Scope: "shard:/*", View: 4}}},
		"it rests on one":               {rests: []TxID{"x.1.1", "a.1.1"}, want: "a.1.1"},
		"it rests on both":              {rests: []TxID{"b.1.1", "a.1.1"}, want: "b.1.1"},
		"it rests on one and read one": {reads: []Read{{Scope: "shard:/c", View: 9}},
			rests: []TxID{"a.1.1"}, want: "b.1.1"},
		"taken away before": {reads: []Read{{Scope: "shard:/a", View: 9}}, tomb: 6},
		"taken away later":  {reads: []Read{{Scope: "shard:/a", View: 9}}, tomb: 10, want: "a.1.1"},
	} {
		f := New("w")
		if c.tomb != 0 {
			f.tombs = append(f.tombs, Tombstone{Scope: "shard:/*", Seq: c.tomb, Tx: "t.1.1"})
		}
		one := &cone{why: map[*tx]coneWhy{}, byID: map[TxID]*tx{}}
		one.add(member("a.1.1", 5, "shard:/a", "shard:/d"), coneWhy{})
		one.add(member("b.1.1", 7, "shard:/b", "shard:/c"), coneWhy{})
		one.add(member("c.1.1", 6, "shard:/d"), coneWhy{})
		r := sealedReader(c.reads...)
		r.RestsOn = c.rests
		why := f.readUnder(r, one)
		if why.found() != (c.want != "") || why.moved.Tx != c.want || why.found() && (why.code != CodeCascade ||
			why.level != A3 || why.from != one.byID[c.want] || why.moved.Seq != why.from.Decision) {
			t.Errorf("%s: %+v, want %s", name, why, c.want)
		}
	}
}

// TestUndoneUnderATombstone: what a tombstone took away before a read is nothing that the read rests on.
func TestUndoneUnderATombstone(t *testing.T) {
	for tomb, want := range map[Seq]bool{5: true, 6: false, 9: false, 10: true} {
		f := New("w")
		f.tombs = append(f.tombs, Tombstone{Scope: "shard:/*", Seq: tomb, Tx: "t.1.1"})
		f.enterUndone(member("a.1.1", 5, "shard:/a"))
		if got := f.undoneUnder(&Seal{Reads: []Read{{Scope: "shard:/a", View: 9}}}); (got != nil) != want {
			t.Errorf("with a tombstone at %d: %v", tomb, got)
		}
	}
}

// TestDerivedAtItsEdge: a seal whose writers just fit beside the open transactions is taken, and one byte more is not;
// what the transaction itself had kept does not count twice.
func TestDerivedAtItsEdge(t *testing.T) {
	for more, refused := range map[int]bool{0: false, 1: true} {
		f := New("w")
		one := sealedReader(Read{Scope: "doc:/a"})
		one.RestsOn, one.size = []TxID{"a.1.1"}, 100
		f.open = f.openBudget() - f.bytesOf(one) + one.size + more
		if why := f.derivedTooMuch(one); why.found() != refused || refused && why.code != CodeLimit {
			t.Errorf("%d bytes beyond: %+v", more, why)
		}
	}
}
