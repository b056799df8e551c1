package sequencer

import (
	"strings"
	"testing"
)

// TestLimitsAtTheirEdge holds that each limit on bytes takes what is exactly as large as it allows, and refuses one byte
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
