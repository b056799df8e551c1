package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/topology"
)

// BenchmarkLoop compares three paths of a session over today's locks with a prototype of the same paths over a loop,
// in one run: a read of an open transaction, a decision until the seal that waits for it has its answer, and a call of
// a reading tool. Journal, view and session are the real ones; the log is left out. Beside them other seals are in
// flight: each waits, by key under the locks, under the loop by a condition that is asked at each turn (any) or that
// watches its transaction (watched).
func BenchmarkLoop(b *testing.B) {
	for _, waiting := range []int{0, 1, 64, 1000} {
		for _, watched := range []bool{false, true} {
			kind := map[bool]string{false: "any", true: "watched"}[watched]
			if waiting == 0 && watched {
				continue
			}
			at := fmt.Sprintf("waiting=%d/%s", waiting, kind)
			b.Run("read/"+at, func(b *testing.B) { bothPaths(b, waiting, watched, (*bothWays).aRead) })
			b.Run("decision/"+at, func(b *testing.B) { bothPaths(b, waiting, watched, (*bothWays).aDecision) })
			b.Run("call/"+at, func(b *testing.B) { bothPaths(b, waiting, watched, (*bothWays).aCall) })
		}
	}
	b.Run("read/callers=16", func(b *testing.B) { bothPaths(b, 0, false, (*bothWays).manyReads) })
}

// bothWays is a session that is driven under its own locks or under a loop, never both at once.
type bothWays struct {
	*session
	loop    *loop.Loop
	ctx     context.Context
	txs     []*overLoop // open
	watched bool
	group   sync.WaitGroup
	n       int
}

// overLoop is a transaction as the prototype has it.
type overLoop struct {
	*tx
	busy    bool // a call works on it
	changed loop.Watched
}

const (
	benchBatch   = 100
	benchCallers = 16
)

// bothPaths measures batches of the one and of the other in turn, so that a machine that is busy disturbs both alike.
func bothPaths(b *testing.B, waiting int, watched bool, path func(*bothWays, bool, int) time.Duration) {
	w := newBothWays(b, waiting, watched)
	path(w, false, benchBatch)
	path(w, true, benchBatch)
	w.tidy(b)
	var locks, loops []time.Duration
	for b.Loop() { // a turn is a batch of both
		locks = append(locks, path(w, false, benchBatch))
		w.tidy(b)
		loops = append(loops, path(w, true, benchBatch))
		w.tidy(b)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(locks).Nanoseconds())/benchBatch, "locks-ns")
	b.ReportMetric(float64(median(loops).Nanoseconds())/benchBatch, "loop-ns")
	b.ReportMetric(float64(median(loops))/float64(median(locks)), "ratio")
}

func newBothWays(b *testing.B, waiting int, watched bool) *bothWays {
	ctx, cancel := context.WithCancel(context.Background())
	log := newLog()
	tools := &benchTools{testTools{maxTime: time.Second}}
	s, err := New(Config{Agent: "a", DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler), Tools: tools,
		Limits: Limits{Open: 4096, Decided: 64}}, log.Door())
	if err != nil {
		b.Fatal(err)
	}
	d := newDelivery(s.events, s.config.Limits, s.log)
	s.session.delivery, s.session.clock, s.session.lease.now = d, s.clock, s.clock.Steady
	s.session.engine = s.newEngine(tools)
	if err := s.openJournal(ctx); err != nil {
		b.Fatal(err)
	}
	s.view.start(&topology.Snapshot{Workspace: "default", Seq: 1})
	s.session.live, s.session.incarnation = true, 1
	if err := d.session(joinedRecord{Agent: "a", Workspace: "default", Incarnation: 1}); err != nil {
		b.Fatal(err)
	}
	w := &bothWays{session: s.session, ctx: ctx, watched: watched, loop: loop.New(loop.Options{})}
	for range benchCallers {
		w.txs = append(w.txs, &overLoop{tx: w.begin(b, phaseOpen)})
	}
	w.decide(&sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: "b.1.1",
		Writes: []sequencer.Write{{Scope: "shard:/x"}},
		Shards: []sequencer.ShardWrite{{Scope: "shard:/x", Type: "text/plain", Content: []byte("hello")}}})
	w.wait(b, waiting)
	b.Cleanup(func() {
		cancel()
		s.view.waits.close()
		w.loop.Stop()
		w.group.Wait()
		if err := d.close(); err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

// begin opens a transaction as admit does, without a request's limits.
func (w *bothWays) begin(b testing.TB, as phase) *tx {
	t, err := w.admit(sequencer.Begin{Mode: sequencer.Optimistic}, nil, func() error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	t.phase = as
	return t
}

// wait lets seals be in flight under the locks and under the loop.
func (w *bothWays) wait(b *testing.B, count int) {
	var asked sync.WaitGroup
	for range count {
		t := w.begin(b, phaseSealed)
		asked.Add(1)
		w.group.Go(func() { _, _ = w.settledAnswer(w.ctx, t) })
		w.group.Go(func() {
			var once sync.Once
			w.loop.Run(func() {
				_ = w.answerOver(w.ctx, &overLoop{tx: t}, func() { once.Do(asked.Done) })
			})
		})
	}
	asked.Wait()
	for w.keysWaiting() < count {
		sleep(w.ctx, time.Millisecond)
	}
}

func (w *bothWays) keysWaiting() int {
	w.view.waits.mu.Lock()
	defer w.view.waits.mu.Unlock()
	return len(w.view.waits.byKey)
}

// tidy lets the events be published and the journal be rewritten, as happens beside the requests.
func (w *bothWays) tidy(b *testing.B) {
	for out := w.delivery.pop(); out != nil; out = w.delivery.pop() {
		w.delivery.published(out, sequencer.Place{}, nil)
	}
	if err := w.delivery.mark(); err != nil {
		b.Fatal(err)
	}
}

func (w *bothWays) aRead(over bool, count int) time.Duration {
	began, t := time.Now(), w.txs[0]
	for range count {
		w.must(w.readEither(over, t))
	}
	return time.Since(began)
}

func (w *bothWays) readEither(over bool, t *overLoop) (*reading, error) {
	if over {
		return w.readOver(w.ctx, t, "shard:/x")
	}
	return w.read(w.ctx, t.tx, "shard:/x", 0)
}

func (w *bothWays) must(_ any, err error) {
	if err != nil {
		panic(err)
	}
}

// manyReads reads in several transactions at once.
func (w *bothWays) manyReads(over bool, count int) time.Duration {
	began := time.Now()
	var group sync.WaitGroup
	for _, t := range w.txs {
		group.Go(func() {
			for range count {
				w.must(w.readEither(over, t))
			}
		})
	}
	group.Wait()
	return time.Since(began) / benchCallers
}

func (w *bothWays) aCall(over bool, count int) time.Duration {
	began, t := time.Now(), w.txs[0]
	c := toolCall{tool: "look", args: json.RawMessage(`{"At":"x"}`)}
	for range count {
		if over {
			w.must(w.callOver(w.ctx, t, c))
			continue
		}
		w.must(w.effect(w.ctx, t.tx, c, nil))
	}
	return time.Since(began)
}

// aDecision measures from the record's arrival until the seal's request goes on; what surrounds it is not measured.
func (w *bothWays) aDecision(over bool, count int) (took time.Duration) {
	for range count {
		t := &overLoop{tx: w.begin(nil, phaseSealed)}
		var asked atomic.Bool
		answered := make(chan error, 1)
		before := w.keysWaiting()
		go func() {
			if over {
				w.loop.Run(func() { answered <- w.answerOver(w.ctx, t, func() { asked.Store(true) }) })
				return
			}
			_, err := w.settledAnswer(w.ctx, t.tx)
			answered <- err
		}()
		for !asked.Load() && w.keysWaiting() == before {
			sleep(w.ctx, 10*time.Microsecond)
		}
		if over { // it has given way
			w.loop.Run(func() {})
		}
		o := w.next(&sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Final: true, Tx: t.id, Agent: "a", Incarnation: 1,
			Writes: []sequencer.Write{{Scope: "shard:/y"}},
			Shards: []sequencer.ShardWrite{{Scope: "shard:/y", Type: "text/plain", Content: []byte("hello")}}})
		began := time.Now()
		if over {
			w.must(w.view.apply(o))
			w.loop.Run(func() {
				w.observe(o)
				w.loop.Moved(&t.changed)
			})
		} else {
			w.must(w.view.apply(o))
			w.view.waits.wake(w.observe(o)...)
		}
		w.must(nil, <-answered)
		took += time.Since(began)
	}
	return took
}

// decide brings a decision into view and session.
func (w *bothWays) decide(o *sequencer.Outcome) {
	w.must(w.view.apply(w.next(o)))
	w.observe(o)
}

// next makes an outcome the next decision of the view.
func (w *bothWays) next(o *sequencer.Outcome) *sequencer.Outcome {
	w.n++
	o.Workspace, o.Seq, o.Offset, o.Intent = "default", w.view.seq+1, int64(w.n), fmt.Sprintf("seal/%d", w.n)
	o.Chain = o.ChainAfter(w.view.chain)
	return o
}
