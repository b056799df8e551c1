package sequencer_test

import (
	"errors"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// What a replica publishes again, and what it keeps for that: the outcome of a record that comes twice, until the
// topic of decisions has it.
func TestReplicaRepeats(t *testing.T) {
	r := sequencer.NewReplica("ws")
	join := func(agent string) *sequencer.Intent {
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent,
			Join: &sequencer.Join{ID: agent, Logic: sequencer.Logic}}
	}
	at := int64(-1)
	apply := func(in *sequencer.Intent) []sequencer.Outcome {
		t.Helper()
		at++
		a, err := r.Apply(at, in)
		if err != nil {
			t.Fatal(err)
		}
		return a.Outcomes
	}
	first, second := apply(join("a")), apply(join("b"))
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("two joins have %+v and %+v", first, second)
	}
	if again := apply(join("a")); len(again) != 1 || again[0].Seq != first[0].Seq || again[0].Offset != first[0].Offset {
		t.Errorf("a join that comes twice is answered with %+v", again)
	}
	r.Acknowledged(first[0].Seq)
	if out := r.Outbox(); len(out) != 1 || out[0].Seq != second[0].Seq {
		t.Errorf("with the first one acknowledged there are %+v", out)
	}
	if again := apply(join("a")); len(again) != 0 {
		t.Errorf("one that the topic has is published again: %+v", again)
	}
	if again := apply(join("b")); len(again) != 1 || again[0].Seq != second[0].Seq {
		t.Errorf("one that it has not is answered with %+v", again)
	}
	r.Acknowledged(second[0].Seq)
	if out := r.Outbox(); len(out) != 0 {
		t.Errorf("with both acknowledged there are %+v", out)
	}
}

// Only the record that founds a workspace can stop a fold by its join: any other one that asks for a logic of the
// future is a session of a sidecar that is newer, or no record at all.
func TestOnlyTheFirstJoinAsks(t *testing.T) {
	join := func(id string, logic uint32) *sequencer.Intent {
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "a", Join: &sequencer.Join{ID: id, Logic: logic}}
	}
	const future = sequencer.Logic + 1
	f := sequencer.New("ws")
	if step, err := f.Step(0, join("", future)); err != nil || !step.Ignored {
		t.Errorf("one that cannot be read: %+v, %v", step, err)
	}
	if _, err := f.Step(1, join("j", future)); !errors.Is(err, sequencer.ErrUnknownLogic) {
		t.Errorf("the first: %v", err)
	}
	for i, in := range []*sequencer.Intent{join("j", sequencer.Logic), join("k", future), join("l", 0)} {
		if _, err := f.Step(int64(2+i), in); err != nil {
			t.Errorf("join %d: %v", i, err)
		}
	}
}

// Only the founding join says which logic a workspace has: a later one, of a sidecar that is newer, changes nothing.
func TestOnlyTheFirstJoinSets(t *testing.T) {
	f := sequencer.New("ws")
	for i, logic := range []uint32{sequencer.Logic - 1, sequencer.Logic} {
		name := string(rune('a' + i))
		if _, err := f.Step(int64(i), &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: name,
			Join: &sequencer.Join{ID: name, Logic: logic}}); err != nil {
			t.Fatal(err)
		}
		if got := f.State().Rules.Logic; got != sequencer.Logic-1 {
			t.Errorf("after join %d the logic is %d", i, got)
		}
	}
}
