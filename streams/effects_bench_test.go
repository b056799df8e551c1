package streams_test

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// BenchmarkEffects reads a transaction of 16 calls behind 100,000 events of others, all of the partition at once and
// from where the closure table says.
func BenchmarkEffects(b *testing.B) {
	const others, calls = 100_000, 16
	w := teststreams.New(b)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	publish := func(tx sequencer.TxID, n int, done func(sequencer.Place, error)) {
		c.PublishAsync([]*topology.Event{{Kind: topology.EventEffect, Workspace: "shop", Tx: tx, Agent: "ann",
			Incarnation: a.Incarnation, Index: uint64(n + 1), Effect: &topology.EffectText{Index: uint32(n),
				Class: sequencer.ClassReversible, Tool: "put", Args: make([]byte, 200)}}}, done)
	}
	acked := make(chan error, others+calls)
	note := func(_ sequencer.Place, err error) { acked <- err }
	for n := range others {
		publish(sequencer.TxID(fmt.Sprint("other-", n%1000)), n, note)
	}
	tx, in := a.Intent("orders/1", "x")
	for n := range calls {
		publish(tx, n, note)
	}
	for range others + calls {
		if err := <-acked; err != nil {
			b.Fatal(err)
		}
	}
	read := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			events, err := c.Effects(w.Context(), "shop", tx)
			if err != nil || len(events) != calls {
				b.Fatalf("%d events, %v", len(events), err)
			}
		}
	}
	b.Run("whole", read)
	a.Append(in)
	w.Decided(v, tx)
	w.Until("the row", func() bool {
		got, err := c.Closure(w.Context(), "shop", tx, 1)
		return err == nil && got.Rows[0].Seq > 0 && got.Rows[0].Events.First == others
	})
	b.Run("hint", read)
}
