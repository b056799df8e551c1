package settle

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/machine"
)

// tornLog has decisions up to one, and then an error.
type tornLog struct {
	Log
	to sequencer.Seq
}

var errTorn = errors.New("torn")

func (l tornLog) Follow(_ context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	for seq := after + 1; seq <= l.to; seq++ {
		if err := apply(&sequencer.Outcome{Seq: seq}, streams.WayKafka); err != nil {
			return err
		}
	}
	return errTorn
}

// TestThrough: only what concerns the reader takes the loop, and how far the log was read counts all.
func TestThrough(t *testing.T) {
	for _, c := range []struct {
		has, last, to sequencer.Seq // last: the decision that ends the look
		looked        []sequencer.Seq
	}{
		{has: 99, last: 90, to: 90, looked: []sequencer.Seq{50, 60, 70, 80, 90}},
		{has: 79, last: 90, to: 79, looked: []sequencer.Seq{50, 60, 70}},
		{has: 45, last: 90, to: 45},
		{has: 42, last: 90, to: 42},
	} {
		var looked []sequencer.Seq
		r := Reader{Loop: loop.Timed{Loop: loop.New(loop.Options{}), Clock: machine.Clock{}}, Events: tornLog{to: c.has}}
		concern := func(o *sequencer.Outcome) bool { return o.Seq%10 == 0 }
		r.Loop.Run(func() {
			to, seen, err := r.Through(t.Context(), 42, concern, func(o *sequencer.Outcome) bool {
				looked = append(looked, o.Seq)
				return o.Seq >= c.last
			})
			if want := c.has >= c.last; to != c.to || seen != want || (err == nil) != want {
				t.Errorf("of %d decisions it has read up to %d, seen %v: %v", c.has, to, seen, err)
			}
		})
		if !slices.Equal(looked, c.looked) {
			t.Errorf("of %d decisions it has looked at %v, want %v", c.has, looked, c.looked)
		}
	}
}
