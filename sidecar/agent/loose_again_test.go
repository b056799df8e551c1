package agent

import (
	"net/http"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// A request under a key that is begun again after a restart carries what its conversation had read before, although
// the seal that carried it then is in no log. It goes with the next seal, once, also after one more restart.
func TestLooseReadsOfARequestBegunAgain(t *testing.T) {
	for name, request := range map[string]rawCall{
		"put":      put(inDefault+"/shards/y", "Idempotency-Key", "k"),
		"one call": with(post("/v1/effects", `{"tool":"mail","args":{"at":"x"}}`), "Idempotency-Key", "k"),
		"commit":   with(post(inDefault+"/commit", `{"writes":[{"scope":"shard:/y","value":1}]}`), "Idempotency-Key", "k"),
	} {
		t.Run(name, func(t *testing.T) {
			log, world := newLog(), newSink()
			ctx := background(t)
			door := log.Door()
			other := start(t, "b", log.Door())
			a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.WaitMost = 150 * time.Millisecond })
			must(a.client.Get(ctx, "shard:/x"))(t)
			door.FailAppends(1 << 30)
			if status, p, _ := a.send(t, request); status != http.StatusAccepted && status/100 != 5 {
				t.Fatalf("a seal that reaches no log: %d %+v", status, p)
			}
			file := a.die(t, door)
			must(other.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
			b := reborn(t, log, "a", file, quick(world)).aloneNow()
			if err := b.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
			_, _, _ = b.send(t, request)
			if got := committed(log); len(got) != 1 {
				t.Fatalf("%d commits: the request rests on a read that was overtaken", len(got)-1)
			}
			again := b.crash(t, log.Door(), nil)
			d := must(again.client.Put(ctx, "shard:/z", []byte("z"), client.WriteOptions{}))(t)
			if d.Code != "" {
				t.Errorf("the reads went with two seals: %+v", d)
			}
		})
	}
}

// What a put carries from a try that was refused to the next one is in the journal with that.
func TestLooseReadsOfAPutTriedAgain(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.Get(ctx, "shard:/x"))(t)
	s := a.session
	var former *tx
	s.loop.Run(func() {
		former = must(s.start(ctx, sequencer.Begin{Mode: sequencer.Optimistic}, nil))(t)
		former.loose = s.loose.Take("")
		s.giveUp(former, &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeConflict})
		_, _, err := s.again(ctx, former, former.allReads())
		if err != nil {
			t.Error(err)
		}
	})
	b := a.crash(t, log.Door(), nil)
	defer b.session.stand()()
	if next := b.session.txs["a.1.2"]; next == nil || len(next.reads) != 1 || next.reads[0].Scope != "shard:/x" {
		t.Errorf("the journal has %+v of the next try", next)
	}
}
