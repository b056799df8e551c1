package streams

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/topology"
)

// made creates a stream of decisions, as processors do.
func made(ctx context.Context, js jetstream.JetStream) error {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: topology.DecisionStream,
		Subjects: []string{topology.DecisionSubjects}, Storage: jetstream.MemoryStorage, AllowDirect: true})
	return err
}

// What Kafka lacks and JetStream has is not gone.
func TestHoleThatJetStreamFills(t *testing.T) {
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	f := newTailing(t, fromOldest, 5)
	cfg := Config{Brokers: servers.Brokers, NATS: servers.NATS, Partitions: 1, MemoryStream: true, Clock: f.clock}
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f.c, f.log = c, "log"
	tick, ctx := time.NewTicker(5*time.Millisecond), t.Context()
	defer tick.Stop()
	until := func(holds func() bool) {
		for n := 0; !holds(); n++ {
			if <-tick.C; n > 2000 {
				t.Fatal("not within 10 s")
			}
		}
	}
	until(func() bool { return c.nats.IsConnected() && made(ctx, c.js) == nil })
	intent := time.Now().Add(-time.Hour)
	for seq := range sequencer.Seq(8) {
		o := &sequencer.Outcome{Workspace: "shop", Seq: seq + 1, Kind: sequencer.OutcomeBegun}
		data, err := topology.EncodeOutcome(o)
		if err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg(topology.DecisionSubject("shop"))
		m.Data = data
		m.Header.Set(topology.HeaderLog, "log")
		m.Header.Set(topology.HeaderAtMs, strconv.FormatInt(time.Now().UnixMilli(), 10))
		m.Header.Set(topology.HeaderIntentMs, strconv.FormatInt(intent.UnixMilli(), 10))
		if err := c.nats.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	until(func() bool {
		s, err := c.js.Stream(ctx, topology.DecisionStream)
		return err == nil && s.CachedInfo().State.Msgs == 8
	})
	f.waits(4, 5, 7)
	f.clock.now = f.clock.now.Add(31 * time.Second)
	f.waits()
	if f.next != 9 {
		t.Errorf("at %d: the stream has 8", f.next)
	}
	for _, next := range []sequencer.Seq{7, 8, 9} { // the last one's intent says where Kafka is read
		f.next, f.atMs = next, 0
		if err := f.fromStream(ctx); err != nil || f.next != 9 || f.atMs != intent.UnixMilli() {
			t.Errorf("after %d: at %d, time %d, %v", next-1, f.next, f.atMs, err)
		}
	}
}
