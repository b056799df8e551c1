package streams_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// Who follows decisions that are gone learns which, and whether a new start leads past them.
func TestGoneSaysWhatToDo(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.NATS = "" })
	w.Decide("shop", 10, 11)
	c := w.Dial(w.Cfg)
	for _, x := range []struct {
		row  sequencer.Seq
		says string
	}{{2, "snapshots end at 2"}, {9, "start again: a snapshot at 9 leads past it"}} {
		row, err := topology.EncodeFrontierRow(&topology.FrontierRow{Workspace: "shop", Seq: x.row})
		if err != nil {
			t.Fatal(err)
		}
		w.Put(w.Kafka(), topology.TableOf(topology.GroupFrontier), topology.ScopeKey("shop", ""), row)
		err = c.Follow(w.Context(), "shop", 3, func(*sequencer.Outcome, streams.Way) error { return nil })
		if !errors.Is(err, streams.ErrGone) || !strings.Contains(err.Error(), "decision 4 is wanted") ||
			!strings.Contains(err.Error(), x.says) {
			t.Errorf("with a snapshot at %d: %v", x.row, err)
		}
	}
}
