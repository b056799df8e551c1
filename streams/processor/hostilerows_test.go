package processor

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/hostile"
	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology"
)

// derivedRows are the rows that closure and frontier make of one workspace's decisions.
type derivedRows struct {
	closure  map[sequencer.TxID]*topology.ClosureRow
	frontier map[sequencer.Scope]*topology.FrontierRow
}

// take brings the rows on by one decision, and holds that each of them can be written and read.
func (d *derivedRows) take(o *sequencer.Outcome) error {
	if o.Tx != "" {
		row := d.closure[o.Tx]
		if row == nil {
			row = &topology.ClosureRow{Workspace: o.Workspace, Tx: o.Tx, Status: statusOpen,
				Events: &topology.EventSpan{First: noOffset}}
			d.closure[o.Tx] = row
		}
		joinOutcome(row, o)
		finishRow(row)
		b, err := topology.EncodeClosureRow(row)
		if err == nil {
			_, err = topology.DecodeClosureRow(b)
		}
		if err != nil {
			return fmt.Errorf("closure row of %.40q at %d: %w", o.Tx, o.Seq, err)
		}
	}
	for _, m := range topology.SplitByScope(o) {
		row := d.frontier[m.Scope]
		if row == nil {
			row = &topology.FrontierRow{Workspace: o.Workspace, Scope: m.Scope}
			d.frontier[m.Scope] = row
		}
		moveRow(row, &m, nil)
		b, err := topology.EncodeFrontierRow(row)
		if err == nil {
			_, err = topology.DecodeFrontierRow(b)
		}
		if err != nil {
			return fmt.Errorf("frontier row of %.40q at %d: %w", m.Scope, o.Seq, err)
		}
	}
	return nil
}

// rowsOf gives the rows what a fold decides about a record.
func (d *derivedRows) rowsOf(f *sequencer.Fold, offset int, in *sequencer.Intent) ([]sequencer.Outcome, error) {
	step, err := f.Step(int64(offset), in)
	if err != nil {
		return nil, nil // an unknown logic
	}
	for i := range step.Outcomes {
		if err := d.take(&step.Outcomes[i]); err != nil {
			return nil, err
		}
	}
	return step.Outcomes, nil
}

func newDerivedRows() *derivedRows {
	return &derivedRows{closure: map[sequencer.TxID]*topology.ClosureRow{},
		frontier: map[sequencer.Scope]*topology.FrontierRow{}}
}

// What closure and frontier make of the largest records can be written and read.
func TestRowsOfLargestRecords(t *testing.T) {
	for i, c := range hostile.Largest() {
		if testsize.Small() && i%8 != 0 {
			continue // a sample
		}
		before, last, err := c.Make(sequencer.Logic, false, hostile.Full)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		d, f := newDerivedRows(), sequencer.New("ws")
		for i, in := range append(before, last) {
			if _, err := d.rowsOf(f, i, in); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
	}
}

// What they make of mutated records can be, too.
func TestRowsOfHostileRecords(t *testing.T) {
	const seeds, records = 8, 300
	for seed := range uint64(seeds) {
		w, kinds := hostile.NewWorld(seed, sequencer.Logic), hostile.Kinds()
		d, f, at := newDerivedRows(), sequencer.New("ws"), 0
		send := func(in *sequencer.Intent) {
			b, err := topology.EncodeIntent(in)
			if err != nil || len(b) > hostile.RecordBytes {
				return
			}
			if in, err = topology.DecodeIntent(b); err != nil {
				return
			}
			out, err := d.rowsOf(f, at, in)
			if err != nil {
				t.Fatalf("seed %d, record %d, %s: %v", seed, at, in.Kind, err)
			}
			for i := range out {
				w.See(&out[i])
			}
			if next, has := f.NextTick(); has {
				w.Ticks(next)
			}
			at++
		}
		for _, in := range w.Founding() {
			send(in)
		}
		for i := range records {
			send(w.Any())
			send(w.Twist(w.Draw(kinds[i%len(kinds)])))
		}
	}
}
