package streams_test

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// TestStreamOfAnotherLog loses the broker's disk and keeps that of NATS: what the stream has of the former log, under
// the same workspace and the same seqs, reaches nobody, and what is decided anew is no second copy of it.
func TestStreamOfAnotherLog(t *testing.T) {
	w := newWorld(t)
	decide := func(t *testing.T, name string) {
		here := *w
		here.t = t
		stop := here.run(here.cfg)
		defer stop()
		c := here.dial(here.cfg)
		v := here.follow(c, "shop")
		a := here.join(c, v, "shop", name)
		for range 5 {
			a.write("orders/1", name)
		}
		here.decided(v, sequencer.TxID(name+"-5"))
		here.complete(v, "shop")
		for _, o := range v.all() {
			if o.Agent != name {
				t.Errorf("decision %d is of %s, in a log where only %s acts", o.Seq, o.Agent, name)
			}
		}
		late := here.follow(here.dial(here.cfg), "shop")
		here.until("a late joiner", func() bool { return late.len() >= v.len() })
		if late.by(streams.WayJetStream) == 0 {
			t.Errorf("nothing came from JetStream: %v", late.ways)
		}
	}
	t.Run("before", func(t *testing.T) { decide(t, "ann") })
	w.servers.StopKafka()
	if err := w.servers.StartKafka(); err != nil {
		t.Fatal(err)
	}
	if err := streams.EnsureTopics(w.context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	t.Run("after", func(t *testing.T) { decide(t, "bob") })
}
