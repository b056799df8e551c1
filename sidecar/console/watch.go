package console

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

const (
	againMin  = 250 * time.Millisecond // between two tries of something that failed
	againMax  = 10 * time.Second
	lookBack  = 4096 // decisions that are read when the console starts
	maxAgents = 1024
	idleEvery = 10 // polls are so many times rarer while no page looks
	maxDoubts = 16 // transactions that the closure table is asked about in one turn
)

// watch is what the console knows of its workspace. One goroutine brings decisions, one events, one what is live; the
// handlers read.
type watch struct {
	config Config
	log    *slog.Logger

	mu        sync.Mutex
	recent    *recent
	series    series
	windows   map[int]*windowView // by their seconds, up to windowsAt
	windowsAt int64               // unix seconds
	seq       sequencer.Seq
	tick      sequencer.Tick
	floor     sequencer.Seq
	head      sequencer.Seq // what was decided when the console started: no clock of ours saw it
	txs       map[sequencer.TxID]*list.Element
	order     *list.List // of *work, by their last change
	agents    map[string]*agent
	trouble   map[string]string // by what is kept up to date: why it is not
	live      topology.Live
	liveAt    time.Time
	rules     sequencer.Rules
	rulesAt   time.Time
	watchers  int
	woken     chan struct{} // a page began to look
}

// agent is what was seen of an agent's sidecar.
type agent struct {
	name        string
	incarnation sequencer.Seq
	leaseEnded  sequencer.Seq // zero: it was not seen to end
	lastMs      int64
	lastSeq     sequencer.Seq
	commits     int
	aborts      int
	refused     int
}

func newWatch(c Config) *watch {
	return &watch{config: c, log: c.Logger, recent: newRecent(c.Limits.Decisions), order: list.New(),
		txs: map[sequencer.TxID]*list.Element{}, agents: map[string]*agent{}, woken: make(chan struct{}, 1),
		trouble: map[string]string{"decisions": "not connected yet", "live": "not asked yet"}}
}

func (w *watch) nowMs() int64 { return w.config.Clock.Now().UnixMilli() }

// keep runs a task again and again until ctx ends, with growing pauses.
func (w *watch) keep(ctx context.Context, what string, task func(context.Context) error) {
	for pauses := (pause.Doubling{Least: againMin, Most: againMax}); ; {
		began := w.config.Clock.Now()
		err := task(ctx)
		if ctx.Err() != nil {
			return
		}
		if w.config.Clock.Now().Sub(began) > againMax {
			pauses.Reset()
		}
		w.setTrouble(what, err)
		w.log.Warn("the console cannot follow the workspace: it tries again", "what", what, "cause", err)
		select {
		case <-ctx.Done():
			return
		case <-w.config.Clock.After(pauses.Next()):
		}
	}
}

func (w *watch) setTrouble(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.trouble, what)
		return
	}
	w.trouble[what] = err.Error()
}

// followDecisions begins a while before what is decided now, or behind the last decision that it has.
func (w *watch) followDecisions(ctx context.Context) error {
	w.mu.Lock()
	after, known := w.seq, w.seq > 0
	w.mu.Unlock()
	if !known {
		head, err := w.decidedNow(ctx)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.head = head
		w.mu.Unlock()
		after = head - min(head, lookBack)
	}
	w.setTrouble("decisions", nil)
	err := w.config.Source.Follow(ctx, w.config.Workspace, after, w.decided)
	if errors.Is(err, streams.ErrGone) {
		w.mu.Lock()
		w.seq = w.head // begin with what is there
		if !known {
			w.seq = max(w.head, 1)
		}
		w.mu.Unlock()
	}
	return err
}

// decidedNow is the workspace's newest seq.
func (w *watch) decidedNow(ctx context.Context) (sequencer.Seq, error) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Limits.AskWait)
	defer cancel()
	live, err := w.config.Source.Live(ctx, w.config.Workspace)
	if err == nil {
		return live.Seq, nil
	}
	snapshot, also := w.config.Source.Snapshot(ctx, w.config.Workspace)
	if also != nil {
		return 0, errors.Join(err, also)
	}
	return snapshot.Through, nil
}

// decided takes the next decision.
func (w *watch) decided(o *sequencer.Outcome, _ streams.Way) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Seq <= w.seq {
		return nil
	}
	now := w.config.Clock.Now()
	atMs := now.UnixMilli()
	if o.Seq <= w.head {
		atMs = 0
	}
	w.seq, w.tick, w.floor = o.Seq, o.Time, o.Floor
	w.recent.add(kept{rowOf(o, atMs), slim(o)})
	w.decidedOfAgent(o, atMs)
	if o.Tx != "" && !feed.Quiet(o) {
		t := w.tx(o.Tx)
		undecided := t.decidedMs == 0
		t.learn(o, atMs)
		if undecided && atMs > 0 && t.decidedMs > 0 && t.sealedMs > 0 {
			w.series.latency(float64(max(0, atMs-t.sealedMs)))
		}
	}
	if atMs > 0 && !feed.Quiet(o) {
		w.series.at(now)
		w.series.decided(o)
	}
	return nil
}

func (w *watch) decidedOfAgent(o *sequencer.Outcome, atMs int64) {
	if o.Agent == "" {
		return
	}
	a := w.agents[o.Agent]
	if a == nil {
		if len(w.agents) >= maxAgents {
			return
		}
		a = &agent{name: o.Agent}
		w.agents[o.Agent] = a
	}
	if o.Tx != "" || o.Kind == sequencer.OutcomeJoined { // that its lease is confirmed is no news of it
		a.lastMs, a.lastSeq = max(a.lastMs, atMs), o.Seq
	}
	switch o.Kind {
	case sequencer.OutcomeJoined:
		a.incarnation, a.leaseEnded = o.Seq, 0
		w.sessionOver(o.Agent, o.Seq)
	case sequencer.OutcomeLeaseEnded:
		a.leaseEnded = o.Seq
		w.sessionOver(o.Agent, o.Seq)
	case sequencer.OutcomeCommitted:
		a.commits++
	case sequencer.OutcomeAborted:
		a.aborts++
	case sequencer.OutcomeRefused:
		if !feed.Quiet(o) {
			a.refused++
		}
	}
}

// sessionOver: what the log has not heard of by now it will not hear of any more.
func (w *watch) sessionOver(agent string, before sequencer.Seq) {
	for e := w.order.Front(); e != nil; e = e.Next() {
		t := e.Value.(*work)
		if t.agent == agent && !t.inFold && !t.final && t.incarnation < before {
			t.state, t.final = stateGone, true
		}
	}
}

// tx is what is known of a transaction, most recently changed from now on. w.mu is held.
func (w *watch) tx(id sequencer.TxID) *work {
	if e := w.txs[id]; e != nil {
		w.order.MoveToBack(e)
		return e.Value.(*work)
	}
	if w.order.Len() >= w.config.Limits.Transactions {
		w.forget()
	}
	t := &work{tx: id, state: stateOpen}
	w.txs[id] = w.order.PushBack(t)
	return t
}

// forget drops the transaction that changed longest ago, of the first few rather one that is final.
func (w *watch) forget() {
	victim := w.order.Front()
	for e, n := victim, 0; e != nil && n < 64; e, n = e.Next(), n+1 {
		if e.Value.(*work).final {
			victim = e
			break
		}
	}
	delete(w.txs, victim.Value.(*work).tx)
	w.order.Remove(victim)
}

func (w *watch) followEvents(ctx context.Context) error {
	w.setTrouble("events", nil)
	began := w.nowMs()
	return w.config.Source.FollowEvents(ctx, w.config.Workspace, w.config.Limits.Back, func(ev *topology.Event) error {
		if ev.Tx == "" || ev.Kind == topology.EventContent {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		fresh := w.txs[ev.Tx] == nil
		if fresh && w.over(ev) {
			return nil
		}
		t := w.tx(ev.Tx)
		t.doubtful = t.doubtful || fresh && ev.AtMs < began
		late := ev.Kind == topology.EventSeal && t.decidedMs > 0 && t.sealedMs == 0
		if t.hear(ev) && late {
			w.series.at(w.config.Clock.Now())
			w.series.latency(float64(max(0, t.decidedMs-t.sealedMs)))
		}
		return nil
	})
}

// over reports whether an event of a transaction that is not remembered is not worth remembering it: it is about a
// settlement, or of a session that has ended, as far as it is known.
func (w *watch) over(ev *topology.Event) bool {
	a := w.agents[ev.Agent]
	if a == nil {
		return ev.Kind == topology.EventAnswer
	}
	return ev.Kind == topology.EventAnswer || a.leaseEnded > ev.Incarnation ||
		a.incarnation > ev.Incarnation && ev.Incarnation > 0
}

// pollLive asks the fold what goes on: each second while a page looks.
func (w *watch) pollLive(ctx context.Context) {
	for {
		w.ask(ctx)
		w.settleDoubts(ctx)
		w.mu.Lock()
		every := w.config.Limits.LiveEvery
		if w.watchers == 0 {
			every *= idleEvery
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-w.config.Clock.After(every):
		}
	}
}

func (w *watch) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Limits.AskWait)
	defer cancel()
	live, err := w.config.Source.Live(ctx, w.config.Workspace)
	w.setTrouble("live", err)
	if err != nil {
		return
	}
	rules, _, err := w.config.Source.Rules(ctx, w.config.Workspace)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.rules, w.rulesAt = rules, w.config.Clock.Now()
	}
	w.live, w.liveAt = live, w.config.Clock.Now()
	w.reconcile()
}

// looking counts a page; the returned function ends it.
func (w *watch) looking() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers++
	select {
	case w.woken <- struct{}{}:
	default:
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers--
	}
}

// start is where a stream of single decisions begins: behind the named one, else with what comes next.
func (w *watch) start(_ context.Context, workspace string, after sequencer.Seq, named bool) (sequencer.Seq, error) {
	if workspace != w.config.Workspace {
		return 0, notFound("this console shows workspace %s, not %.60q", w.config.Workspace, workspace)
	}
	if named {
		return after, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq, nil
}

// troubles are what is wrong, in a fixed order.
func (w *watch) troubles() []string {
	out := []string{}
	for _, what := range []string{"decisions", "events", "live"} {
		if why := w.trouble[what]; why != "" {
			out = append(out, fmt.Sprintf("%s: %s", what, strings.TrimSpace(cut(why))))
		}
	}
	return out
}
