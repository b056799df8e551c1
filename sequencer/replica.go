package sequencer

import (
	"cmp"
	"slices"
)

// Replica is a fold together with the position in the log that it has reached and the outcomes that are not known to
// be durable yet. It answers replayed records with the outcomes that they had.
type Replica struct {
	fold   *Fold
	offset int64 // Invariant: fold has applied exactly the log's records up to here; one at or below it is a replay
	// Invariant: by Seq and contiguous up to the fold's seq. An outcome leaves it only when Kafka has it (holes 10).
	outbox []Outcome
}

// ReplicaState is a replica as plain data.
// Invariant: all three are of one moment: a state with a later offset would lose records, one with an earlier outbox
// decisions.
type ReplicaState struct {
	State  State
	Offset int64     // of the last applied record; -1: none
	Outbox []Outcome // by Seq
}

// Applied is what a record led to.
type Applied struct {
	Outcomes []Outcome // to be published: new ones, or those that the record had when it was applied first
	Replayed bool      // the record was applied before
	Ignored  bool      // the record changed nothing because it cannot be read
}

// NewReplica returns a replica of a workspace whose log is empty.
func NewReplica(workspace string) *Replica {
	return &Replica{fold: New(workspace), offset: -1}
}

// RestoreReplica makes the replica that a state was taken from.
func RestoreReplica(st ReplicaState) (*Replica, error) {
	f, err := Restore(st.State)
	if err != nil {
		// A logic that is not implemented here: the caller stops the workspace rather than guess.
		return nil, err
	}
	return &Replica{fold: f, offset: st.Offset, outbox: slices.Clone(st.Outbox)}, nil
}

// Apply applies the record at an offset; nil stands for a record that cannot be read. Records must come in the order
// of the log; one that was applied before repeats its outcomes, as far as they are not acknowledged.
func (r *Replica) Apply(offset int64, in *Intent) (Applied, error) {
	if offset <= r.offset {
		// After a restart records come again from the last committed offset: applied twice, they would be counted as new
		// intents.
		return Applied{Outcomes: r.at(offset), Replayed: true}, nil
	}
	step, err := r.fold.Step(offset, in)
	if err != nil {
		// The offset stays, so that a version that knows the logic goes on with this very record.
		return Applied{}, err
	}
	r.offset = offset
	out := step.Outcomes
	for _, seq := range step.Repeats {
		// One that Kafka has already needs no second copy: who asked has it in its view, or will.
		if i, found := r.find(seq); found {
			out = append(out, r.outbox[i])
		}
	}
	r.outbox = append(r.outbox, step.Outcomes...)
	return Applied{Outcomes: out, Ignored: step.Ignored}, nil
}

func (r *Replica) at(offset int64) []Outcome {
	var out []Outcome
	for _, o := range r.outbox {
		if o.Offset == offset {
			out = append(out, o)
		}
	}
	return out
}

func (r *Replica) find(seq Seq) (int, bool) {
	return slices.BinarySearchFunc(r.outbox, seq, func(o Outcome, seq Seq) int { return cmp.Compare(o.Seq, seq) })
}

// Acknowledged says that the outcomes up to a seq are durable in the decisions topic: they leave the outbox.
func (r *Replica) Acknowledged(seq Seq) {
	// Acknowledgements come in order, so all up to this seq are durable.
	n, found := r.find(seq)
	if found {
		n++
	}
	r.outbox = slices.Clone(r.outbox[n:])
}

// Outbox returns the outcomes that are not acknowledged, by Seq.
func (r *Replica) Outbox() []Outcome { return r.outbox }

// Offset returns the offset of the last applied record, or -1.
func (r *Replica) Offset() int64 { return r.offset }

// Fold returns the replica's fold, to be read.
func (r *Replica) Fold() *Fold { return r.fold }

// NextTick returns the tick to append next; false when nothing is pending.
func (r *Replica) NextTick() (TickMark, bool) { return r.fold.NextTick() }

// State exports the replica as plain data.
func (r *Replica) State() ReplicaState {
	return ReplicaState{State: r.fold.State(), Offset: r.offset, Outbox: slices.Clone(r.outbox)}
}
