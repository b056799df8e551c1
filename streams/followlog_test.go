package streams

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// TestDecisionsOfThisLogOnly holds that a follower takes no decision of another log or workspace for one of its own:
// both come on NATS with the same subjects and seqs.
func TestDecisionsOfThisLogOnly(t *testing.T) {
	f := &follower{log: "this", workspace: "shop"}
	for _, c := range []struct {
		log, workspace string
		whole, fine    bool
	}{{"this", "shop", true, true}, {"other", "shop", true, false}, {"", "shop", true, false},
		{"this", "office", true, false}, {"this", "shop", false, false}} {
		o := &sequencer.Outcome{Workspace: c.workspace, Seq: 1, Kind: sequencer.OutcomeBegun}
		data, err := topology.EncodeOutcome(o)
		if err != nil {
			t.Fatal(err)
		}
		if !c.whole {
			data = data[:len(data)/2]
		}
		h := nats.Header{}
		h.Set(topology.HeaderLog, c.log)
		if o := f.decision(h, data); (o != nil) != c.fine {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}
