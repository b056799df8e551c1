package processor

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

func TestSweepForgetsWhatIsFarBehind(t *testing.T) {
	// No server listens: tombstones wait until the client closes.
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	cfg := streams.Config{Logger: slog.New(slog.DiscardHandler)}
	c := newClosureProcessor(&base{cfg: cfg, out: producer{client: client}}, nil)
	store := newTableStore(streams.TableSpan{}, nil)
	p := c.newPart(0, store)
	put := func(workspace string, tx sequencer.TxID, seq sequencer.Seq, change ...func(*topology.ClosureRow)) {
		row := topology.ClosureRow{Workspace: workspace, Tx: tx, Status: statusOpen, Seq: seq, Final: true,
			Events: &topology.EventSpan{First: 1}}
		for _, f := range change {
			f(&row)
		}
		b, err := topology.EncodeClosureRow(&row)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Set(topology.EventKey(workspace, tx), b); err != nil {
			t.Fatal(err)
		}
	}
	put("w", "old", 9)
	put("w", "edge", 10)
	put("w", "head", 110)
	put("w", "open", 0)
	put("v", "old", 9) // another workspace, whose newest decision it is
	put("w", "unsettled", 9, func(r *topology.ClosureRow) { r.Final = false })
	put("w", "of the first release", 9, func(r *topology.ClosureRow) { r.Final, r.Events = false, nil })
	put("w", "changed", 9) // and is to be written again
	p.units["w|changed"] = &rowUnit[topology.ClosureRow]{}
	c.sweep(p, 100)
	for key, want := range map[string]bool{"w|old": false, "w|edge": true, "w|head": true, "w|open": true,
		"w|changed": true, "v|old": true, "w|unsettled": true, "w|of the first release": false} {
		if got, _ := store.Has(key); got != want {
			t.Errorf("%s is in the table: %v, want %v", key, got, want)
		}
	}
	if got := client.BufferedProduceRecords(); got != 2 {
		t.Errorf("%d tombstones, want 2", got)
	}
}
