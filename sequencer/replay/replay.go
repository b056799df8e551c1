// Package replay decides a recorded log again under other rules, and says what comes out otherwise and why.
//
// The fold decides the log twice. As recorded, every decision must have the chain hash that was published, else the
// log is not whole or another logic decided it. Changed, the same records are given to a second fold: with the seqs
// that they name carried over, each where its sidecar would have sent it. What an agent would have done next, what a
// tool would have answered and what another read would have shown is in no log: where the second run needs it, it is
// supposed, and counted; where a transaction rests on it, that is said.
package replay

import (
	"errors"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

var (
	// ErrNotWhole is returned by Run when records of the log are missing: the workspace has to be read from its first.
	ErrNotWhole = errors.New("the log is not whole")
	// ErrOtherLogic is returned by Run when this version does not decide the log as it was decided.
	ErrOtherLogic = errors.New("the log was decided by another logic")
)

// Record is one record of a workspace's log.
type Record struct {
	Offset int64             // in its partition
	Intent *sequencer.Intent // nil: it cannot be read
}

// Decided is a decision as it was published.
type Decided struct {
	Seq    sequencer.Seq
	Offset int64 // of the record that it answers
	Chain  sequencer.Hash
}

// Log is all that a workspace's log has.
type Log struct {
	Workspace string
	Records   []Record  // in the order of the log, from the first
	Decided   []Decided // by Seq; none: nothing to hold the first run against
}

// Change is what is decided otherwise; what is nil stays as recorded.
type Change struct {
	Observe *bool             // the workspace observes, or enforces; where it enforces, no transaction observes either
	Levels  *sequencer.Levels // of the rules; a transaction that names its own keeps them
	Mode    *sequencer.Mode   // of every transaction
	Class   func(tool string) (Treatment, bool)
}

// Treatment is what a policy makes of the calls of a tool.
type Treatment struct {
	Class   sequencer.Class
	Approve bool // needs an approval first
}

func (c *Change) rules(r sequencer.Rules) sequencer.Rules {
	if c.Observe != nil {
		r.Observe = *c.Observe
	}
	if c.Levels != nil {
		r.Levels = *c.Levels
	}
	return r
}

// run is both runs of a log.
type run struct {
	log    *Log
	change Change
	then   then
	now    now

	stories map[sequencer.TxID]*story
	order   []*story // by first appearance
	result  *Result
	agents  map[string][]*story // made by byAgent
}

// then is the first run: the log as it was decided.
type then struct {
	ends  []sequencer.Seq            // of the last outcome after each record
	joins map[string][]sequencer.Seq // incarnations, by the id of their join; one that is forgotten may join again
}

// Run decides a log twice.
func Run(log *Log, change Change) (*Result, error) {
	r := &run{log: log, change: change, stories: map[sequencer.TxID]*story{}, result: &Result{Workspace: log.Workspace,
		Records: len(log.Records), Supposed: map[string]int{}}}
	if len(log.Records) == 0 {
		return nil, fmt.Errorf("%w: workspace %s has no records", ErrNotWhole, log.Workspace)
	}
	if err := r.asRecorded(); err != nil {
		return nil, err
	}
	if err := r.changed(); err != nil {
		return nil, err
	}
	r.compare()
	return r.result, nil
}

// asRecorded is the first run. It notes what became of each transaction, and checks every decision that was published.
func (r *run) asRecorded() error {
	fold := sequencer.New(r.log.Workspace)
	r.then.joins = map[string][]sequencer.Seq{}
	left := r.log.Decided
	for _, rec := range r.log.Records {
		step, err := fold.Step(rec.Offset, rec.Intent)
		if err != nil {
			return fmt.Errorf("%w: at offset %d: %w", ErrOtherLogic, rec.Offset, err)
		}
		r.meet(rec.Intent)
		for i := range step.Outcomes {
			o := &step.Outcomes[i]
			for len(left) > 0 && left[0].Seq < o.Seq {
				left = left[1:]
			}
			if len(left) > 0 && left[0].Seq == o.Seq {
				if err := left[0].check(o); err != nil {
					return err
				}
			}
			if o.Kind == sequencer.OutcomeJoined {
				r.then.joins[o.Intent] = append(r.then.joins[o.Intent], o.Seq)
			}
			if s := r.stories[o.Tx]; s != nil {
				s.then.note(o)
			}
		}
		r.then.ends = append(r.then.ends, fold.Seq())
	}
	if n := len(r.log.Decided); n > 0 && r.log.Decided[n-1].Seq > fold.Seq() {
		last := r.log.Decided[n-1]
		return fmt.Errorf("%w: decision %d, of the record at offset %d, was published, and these records lead to %d only",
			ErrNotWhole, last.Seq, last.Offset, fold.Seq())
	}
	r.result.Seqs, r.result.Chain = fold.Seq(), fold.State().Chain
	return nil
}

// check holds an outcome of the first run against what was published.
func (d *Decided) check(o *sequencer.Outcome) error {
	switch {
	case d.Chain == o.Chain:
		return nil
	case d.Offset != o.Offset:
		return fmt.Errorf("%w: decision %d answers the record at offset %d; these records lead to it at offset %d",
			ErrNotWhole, d.Seq, d.Offset, o.Offset)
	}
	return fmt.Errorf("%w: decision %d, of the record at offset %d, has chain hash %x; this version computes %x",
		ErrOtherLogic, d.Seq, d.Offset, d.Chain[:8], o.Chain[:8])
}

// meet makes the story of a transaction that a record names first.
func (r *run) meet(in *sequencer.Intent) {
	if in == nil || in.Tx == "" {
		return
	}
	s := r.stories[in.Tx]
	if s == nil {
		s = &story{id: in.Tx, agent: in.Agent, order: len(r.order), base: in.Base, incarnation: in.Incarnation, first: in}
		r.stories[in.Tx] = s
		r.order = append(r.order, s)
	}
	if in.Kind == sequencer.IntentSeal && in.Seal != nil && s.seal == nil {
		s.seal = in.Seal
	}
}
