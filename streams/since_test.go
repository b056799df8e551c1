package streams_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// TestSeqBefore: a time leads to the last decision before it, of the workspace that is asked about.
func TestSeqBefore(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	ctx, cancel := context.WithTimeout(t.Context(), teststreams.Patience)
	defer cancel()
	decide := func(workspace, agent string) {
		t.Helper()
		join := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: agent, Join: &sequencer.Join{ID: "j"}}
		if _, err := c.Append(ctx, workspace, join); err != nil {
			t.Fatal(err)
		}
	}
	seq := func(workspace string, at time.Time, want sequencer.Seq) {
		t.Helper()
		if got, err := c.SeqBefore(ctx, workspace, at); err != nil || got != want {
			t.Errorf("before %v %s had decided %d, %v; want %d", at, workspace, got, err, want)
		}
	}
	begin := time.Now().Add(-time.Hour)
	decide("mine", "a")
	decide("mine", "b")
	enough := errors.New("enough")
	err := c.Follow(ctx, "mine", 0, func(o *sequencer.Outcome, _ streams.Way) error {
		if o.Seq == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	for got := sequencer.Seq(0); got < 2; { // until Kafka has both decisions
		if got, err = c.SeqBefore(ctx, "mine", later); err != nil {
			t.Fatal(err)
		}
	}
	seq("mine", begin, 0)
	seq("nobodys", later, 0)
	if _, err := c.SeqBefore(ctx, "no|such", begin); err == nil {
		t.Error("a workspace that cannot be has decisions")
	}
}
