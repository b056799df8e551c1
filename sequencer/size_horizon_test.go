package sequencer_test

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// small is a commit as a sidecar sends it: a begin, and a seal that has read one shard and writes another.
func (h *hostile) small(i int) sequencer.TxID {
	id := sequencer.TxID(fmt.Sprintf("planner-7.%d.%d", 12_345, i))
	name := func(i int) sequencer.Scope { return sequencer.Scope(fmt.Sprintf("shard:/orders/%06d", i%1_000)) }
	intent := func(kind sequencer.IntentKind) *sequencer.Intent {
		return &sequencer.Intent{Kind: kind, Tx: id, N: 1, Agent: "planner-7", Incarnation: 1, Base: h.fold.Seq()}
	}
	begin := intent(sequencer.IntentBegin)
	begin.Begin = &sequencer.Begin{}
	h.step(begin)
	seal, view := intent(sequencer.IntentSeal), h.fold.Seq()
	write := sequencer.ShardWrite{Scope: name(i), Content: make([]byte, 240)}
	write.Former = &sequencer.Former{View: view}
	seal.Seal = &sequencer.Seal{Reads: []sequencer.Read{{Scope: name(i + 1), View: view}},
		Shards: []sequencer.ShardWrite{write}}
	h.step(seal)
	h.step(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: "planner-7", Incarnation: 1,
		Watermark: &sequencer.Watermark{Seq: h.fold.Seq()}})
	return id
}

// TestHorizonHoldsADay: of small commits the default rules remember those of a day in a quiet workspace, some 1,000.
// What is said to be left is never more than there is.
func TestHorizonHoldsADay(t *testing.T) {
	h := newHostile(t)
	h.join("planner-7")
	const first = 500
	var id sequencer.TxID
	var left sequencer.UndoLeft
	after := 0
	for i := 0; ; i++ {
		got := h.small(i)
		if i == first {
			id = got
		}
		now, possible := h.fold.UndoLeft(id)
		if i > first && !possible {
			break
		}
		if after = i - first; i >= first {
			left = now
		}
		if i == first && (left.Commits == 0 || left.Bytes == 0 || left.Ticks != 7*345_600+1) {
			t.Fatalf("of the newest commit is left: %+v", left)
		}
	}
	t.Logf("%d small commits follow before one cannot be retracted; then was left: %+v; a state of about %d bytes", after,
		left, h.peak)
	if after < 1_000 {
		t.Errorf("the horizon is %d small commits; those of a day are 1,000", after)
	}
	if left.Bytes > 2_000 && left.Commits > 1 {
		t.Errorf("one commit before its end it is said to have %+v left", left)
	}
}
