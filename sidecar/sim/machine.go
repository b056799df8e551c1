package sim

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// machine is what a processor needs of a replica.
type machine interface {
	Apply(offset int64, in *sequencer.Intent) (sequencer.Applied, error)
	Acknowledged(seq sequencer.Seq)
	Outbox() []sequencer.Outcome
	Offset() int64
	NextTick() (sequencer.TickMark, bool)
	Fold() *sequencer.Fold
	State() sequencer.ReplicaState
}

func newMachine(weaken sequencer.Weaken) machine {
	if weaken == 0 {
		return sequencer.NewReplica(workspace)
	}
	return &weakMachine{fold: sequencer.New(workspace, weaken), offset: -1}
}

func restoreMachine(st sequencer.ReplicaState, weaken sequencer.Weaken) (machine, error) {
	if weaken == 0 {
		return sequencer.RestoreReplica(st)
	}
	f, err := sequencer.Restore(st.State, weaken)
	return &weakMachine{fold: f, offset: st.Offset, outbox: st.Outbox}, err
}

// weakMachine is a replica of a fold with rules switched off; it does not repeat outcomes.
type weakMachine struct {
	fold   *sequencer.Fold
	offset int64
	outbox []sequencer.Outcome
}

// Apply is as that of a replica.
func (m *weakMachine) Apply(offset int64, in *sequencer.Intent) (sequencer.Applied, error) {
	if offset <= m.offset {
		return sequencer.Applied{Replayed: true}, nil
	}
	step, err := m.fold.Step(offset, in)
	if err != nil {
		return sequencer.Applied{}, err
	}
	m.offset = offset
	m.outbox = append(m.outbox, step.Outcomes...)
	return sequencer.Applied{Outcomes: step.Outcomes, Ignored: step.Ignored}, nil
}

// Acknowledged is as that of a replica.
func (m *weakMachine) Acknowledged(seq sequencer.Seq) {
	at, found := slices.BinarySearchFunc(m.outbox, seq, func(o sequencer.Outcome, s sequencer.Seq) int {
		return cmp.Compare(o.Seq, s)
	})
	if found {
		at++
	}
	m.outbox = slices.Clone(m.outbox[at:])
}

// Outbox, Offset, NextTick, Fold and State are as those of a replica.
func (m *weakMachine) Outbox() []sequencer.Outcome { return m.outbox }

// Offset is of the last applied record.
func (m *weakMachine) Offset() int64 { return m.offset }

// NextTick is the tick to append next.
func (m *weakMachine) NextTick() (sequencer.TickMark, bool) { return m.fold.NextTick() }

// Fold is the fold inside.
func (m *weakMachine) Fold() *sequencer.Fold { return m.fold }

// State is what is written.
func (m *weakMachine) State() sequencer.ReplicaState {
	return sequencer.ReplicaState{State: m.fold.State(), Offset: m.offset, Outbox: slices.Clone(m.outbox)}
}
