package sequencer

import (
	"strings"
	"testing"
)

// TestLimitsAtTheirEdge holds that each limit on bytes takes what is just as large as it allows, and refuses one byte
// more: sidecars count with the same rules, and what they let through must not be refused here.
func TestLimitsAtTheirEdge(t *testing.T) {
	content := []byte("a content of some bytes")
	size := uint32(len(content))
	write := ShardWrite{Scope: "shard:/s", Type: "text/plain", Content: content}
	former := write
	former.Content, former.Former = nil, &Former{Version: 1, View: 1, Content: content}
	large := ShardWrite{Scope: "shard:/s", Ref: &Ref{Size: int64(size)}}
	seal := func(writes ...ShardWrite) *Seal { return &Seal{Shards: writes} }
	wants := []Want{{Scope: "doc:/a", Access: WriteAccess}, {Scope: "doc:/b"}}
	begin := &Intent{Kind: IntentBegin, Tx: "a.1.1", Begin: &Begin{Session: "talk"}}
	oversize := func(s *Seal) func(*Fold) finding { return func(f *Fold) finding { return f.oversize(s) } }
	for name, c := range map[string]struct {
		at   uint32 // what fits
		set  func(r *Rules, n uint32)
		open bool // n is what is left for open transactions
		ask  func(f *Fold) finding
		says string
	}{
		"a content": {at: size, set: func(r *Rules, n uint32) { r.MaxInline = n }, ask: oversize(seal(write)),
			says: "write it by reference"},
		"a former content": {at: size, set: func(r *Rules, n uint32) { r.MaxInline = n }, ask: oversize(seal(former)),
			says: "say it by reference"},
		"contents together": {at: 2 * size, set: func(r *Rules, n uint32) { r.MaxInlineTotal = n },
			ask: oversize(seal(write, former)), says: "write some by reference"},
		"a content by reference": {at: size, set: func(r *Rules, n uint32) { r.MaxContent = n }, ask: oversize(seal(large)),
			says: "the rules allow"},
		"a footprint": {at: uint32(seal(write).bytes()), set: func(r *Rules, n uint32) { r.MaxBytes = n },
			ask: oversize(seal(write)), says: "without contents"},
		"scopes of a footprint": {at: 2, set: func(r *Rules, n uint32) { r.MaxScopes = n },
			ask: oversize(seal(write, former)), says: "scopes"},
		"a seal beside open ones": {at: uint32(seal(write).bytes() + seal(write).inline()), open: true,
			ask: oversize(seal(write)), says: "open transactions"},
		"a touch beside open ones": {at: uint32(wantBytes(wants)), open: true, says: "open transactions",
			ask: func(f *Fold) finding { _, why := f.stillWanted(&tx{}, wants); return why }},
		"a begin beside open ones": {at: uint32(begin.bytes() + len("talk")), open: true, says: "open transactions",
			ask: func(f *Fold) finding { return f.admits(begin) }},
	} {
		for more, refused := range map[uint32]bool{0: false, 1: true} {
			f := New("w")
			f.rules.Logic = Logic
			if c.open {
				f.open = f.openBudget() - int(c.at) + int(more)
			} else {
				c.set(&f.rules, c.at-more)
			}
			why := c.ask(f)
			if why.found() != refused || refused && (why.code != CodeLimit || !strings.Contains(why.detail, c.says)) {
				t.Errorf("%s, %d bytes beyond: %q %q", name, more, why.code, why.detail)
			}
		}
	}
}

// TestOpenTransactionsAtTheirEdge: the last transaction that the rules allow opens, and no further one.
func TestOpenTransactionsAtTheirEdge(t *testing.T) {
	f := New("w")
	in := &Intent{Kind: IntentBegin, Tx: "a.1.1", Begin: &Begin{}}
	for open, refused := range map[uint32]bool{f.rules.MaxOpen - 1: false, f.rules.MaxOpen: true} {
		if f.undecided = int(open); f.admits(in).found() != refused {
			t.Errorf("with %d of %d open: %v", open, f.rules.MaxOpen, f.admits(in))
		}
	}
}

// TestShownAtItsEdges: a view shows what was written from its decision on, and up to the one before it was undone.
func TestShownAtItsEdges(t *testing.T) {
	for _, c := range []struct {
		undone, first, last Seq // of the views that show it
	}{{0, 5, 9}, {8, 5, 7}, {6, 5, 5}} {
		one := &tx{}
		one.Decision, one.Past = 5, &Past{Undone: c.undone}
		for view := range Seq(10) {
			if want := view >= c.first && view <= c.last; one.shownAt(view) != want {
				t.Errorf("undone at %d: the view at %d shows it: %v", c.undone, view, !want)
			}
		}
	}
}

// TestUndoneUnderTakesTheSmallest: of several members of cones that a read rests on, the one with the smallest name is
// said, in whatever order they are found, and none that the read does not show.
func TestUndoneUnderTakesTheSmallest(t *testing.T) {
	for _, names := range [][]TxID{{"a.1.1", "a.1.2", "a.1.3"}, {"a.1.3", "a.1.2", "a.1.1"}} {
		f := New("w")
		for i, id := range names {
			m := &tx{}
			m.ID, m.Decision, m.Past = id, 5, &Past{Writes: []PastWrite{{Scope: Scope("doc:/" + string(rune('a'+i)))}}}
			f.enterUndone(m)
		}
		if got := f.undoneUnder(&Seal{Reads: []Read{{Scope: "doc:/*", View: 5}}}); got == nil || got.ID != "a.1.1" {
			t.Errorf("of %v it is %v", names, got)
		}
		if got := f.undoneUnder(&Seal{Reads: []Read{{Scope: "doc:/*", View: 4}, {Scope: "mail:/x", View: 9}}}); got != nil {
			t.Errorf("a read from before rests on %s", got.ID)
		}
	}
}

// TestGivesUpOneThatWaits: for room, the first queued retraction of something at or below the horizon is refused; one
// that runs is not, nor one of something above it.
func TestGivesUpOneThatWaits(t *testing.T) {
	for _, c := range []struct {
		decision Seq
		cone     []TxID
		want     bool
	}{{6, nil, true}, {7, nil, true}, {8, nil, false}, {6, []TxID{"a.1.1"}, false}} {
		f := New("w")
		one := &tx{}
		one.ID, one.Decision, one.Past = "a.1.1", c.decision, &Past{}
		f.txs[one.ID], f.horizon, f.step.in = one, 7, &Intent{}
		one.remember(Answer{IntentRetract, 3, 2, 9})
		r := &retraction{}
		r.Tx, r.Cone = one.ID, c.cone
		f.retractions = append(f.retractions, r)
		if got := f.giveUpRetraction(); got != c.want || got != (len(f.retractions) == 0) {
			t.Errorf("decided at %d, cone %v, horizon 7: given up %v, %d are left", c.decision, c.cone, got,
				len(f.retractions))
		}
		if a := one.answered(IntentRetract); a.Incarnation != 3 || a.N != 2 || (a.Seq == f.seq) != c.want {
			t.Errorf("its request is answered by %+v", a)
		}
	}
}

// TestFormerOfWhatIsForgotten: without a claim that is believed, a shard counts as one that was not there only where
// that is known: nothing was forgotten, the seal expected none and was held to that, or a tombstone lies over it.
func TestFormerOfWhatIsForgotten(t *testing.T) {
	none, third := &Expect{Version: 0}, &Expect{Version: 3}
	for name, c := range map[string]struct {
		forgotten Seq
		expect    *Expect
		free      bool // an observed one commits whatever it expects
		tomb      Scope
		absent    bool
	}{
		"nothing is forgotten":               {absent: true},
		"something is":                       {forgotten: 5},
		"it expected none":                   {forgotten: 5, expect: none, absent: true},
		"it expected none and was not asked": {forgotten: 5, expect: none, free: true},
		"it expected one":                    {forgotten: 5, expect: third},
		"a tombstone lies over it":           {forgotten: 5, tomb: "shard:/a", absent: true},
		"one lies beside it":                 {forgotten: 5, tomb: "shard:/b"},
	} {
		f := New("w")
		f.shards.forgotten = c.forgotten
		if c.tomb != "" {
			f.tombs = append(f.tombs, Tombstone{Scope: c.tomb, Seq: 6, Tx: "t.1.1"})
		}
		one := &tx{}
		one.Free = c.free
		v := f.formerOf(one, &ShardWrite{Scope: "shard:/a/s", Expect: c.expect})
		if v.Absent != c.absent || v.Unknown == c.absent {
			t.Errorf("%s: absent %v, unknown %v", name, v.Absent, v.Unknown)
		}
	}
}
