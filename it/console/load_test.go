package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// flood is a workspace that decides a thousand times a second: the console's source without any server. Its decisions
// are made up, but contiguous and consistent: transactions read what earlier ones wrote, some wait, some are refused.
type flood struct {
	total int // decisions, then it is quiet

	mu       sync.Mutex
	outcomes []*sequencer.Outcome
	events   []*topology.Event
	grown    chan struct{} // closed and replaced when there is more
}

const (
	floodWorkspace = "flood"
	floodAgents    = 24
	floodRate      = 1000 // decisions a second
	floodEvery     = 20 * time.Millisecond
)

func newFlood(total int) *flood { return &flood{total: total, grown: make(chan struct{})} }

// run makes decisions until there are enough of them or ctx ends.
func (f *flood) run(ctx context.Context) {
	tick := time.NewTicker(floodEvery)
	defer tick.Stop()
	start := time.Now()
	for n := 1; n <= f.total; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.mu.Lock()
			for due := min(f.total, int(now.Sub(start).Seconds()*floodRate)); n <= due; n++ {
				f.add(n, now)
			}
			close(f.grown)
			f.grown = make(chan struct{})
			f.mu.Unlock()
		}
	}
}

func floodTx(n int) sequencer.TxID {
	return sequencer.TxID(fmt.Sprintf("worker-%02d.%d.%d", n%floodAgents, n%floodAgents+1, n))
}

func floodAgent(n int) string { return fmt.Sprintf("worker-%02d", n%floodAgents) }

func floodScope(n int) sequencer.Scope { return sequencer.Scope(fmt.Sprintf("shard:/orders/%d", n%97)) }

// add makes the n-th decision, and the events before it; f.mu is held.
func (f *flood) add(n int, now time.Time) {
	tx, agent := floodTx(n), floodAgent(n)
	o := &sequencer.Outcome{Workspace: floodWorkspace, Seq: sequencer.Seq(n), Offset: int64(n), RulesVersion: 1,
		Time: sequencer.Tick(n / 250), Kind: sequencer.OutcomeCommitted, Tx: tx, Agent: agent,
		Intent: string(tx) + ":seal:1",
		Final:  true, Incarnation: sequencer.Seq(n%floodAgents + 1), Epoch: sequencer.Epoch(n)}
	switch {
	case n <= floodAgents:
		o.Kind, o.Tx, o.Final, o.Intent, o.Agent = sequencer.OutcomeJoined, "", false, "join:x", floodAgent(n-1)
		f.outcomes = append(f.outcomes, o)
		return
	case n%9 == 0:
		o.Kind, o.Retryable, o.Scope = sequencer.OutcomeAborted, true, floodScope(n)
		codes := []sequencer.Code{sequencer.CodeStaleRead, sequencer.CodeStaleRead, sequencer.CodeConflict,
			sequencer.CodeVersionMismatch, sequencer.CodeDeadline, sequencer.CodeVetoed, sequencer.CodeCascade}
		o.Code, o.Moved = codes[n/9%len(codes)], sequencer.Writer{Seq: sequencer.Seq(n - 3), Tx: floodTx(n - 3)}
	case n%31 == 0:
		o.Kind, o.Final = sequencer.OutcomeWaiting, false
		o.BlockedBy = []sequencer.Blocker{{Tx: floodTx(n - 1), Scope: floodScope(n), Why: "claimed"}}
	default:
		o.Writes = []sequencer.Write{{Scope: floodScope(n), Writer: sequencer.Writer{Seq: o.Seq, Tx: tx}}}
	}
	f.outcomes = append(f.outcomes, o)
	at := now.UnixMilli()
	event := func(kind topology.EventKind, index int, ago int64, scope sequencer.Scope) *topology.Event {
		return &topology.Event{Kind: kind, Workspace: floodWorkspace, Tx: tx, Agent: agent, Incarnation: o.Incarnation,
			Index: uint64(4*n + index), AtMs: at - ago, Scope: scope}
	}
	read := event(topology.EventRead, 0, 40, floodScope(n+1))
	read.View, read.Version, read.Writer = o.Seq-1, o.Seq-1, floodTx(n-1)
	seal := event(topology.EventSeal, 2, int64(2+n%7), "")
	seal.Seal = &sequencer.Seal{}
	f.events = append(f.events, read, event(topology.EventWrite, 1, 20, floodScope(n)), seal)
}

// next waits for entries behind the first i of a list.
func next[T any](ctx context.Context, f *flood, list func() []T, i int) ([]T, error) {
	for {
		f.mu.Lock()
		more, grown := list(), f.grown
		f.mu.Unlock()
		if len(more) > i {
			return more[i:], nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-grown:
		}
	}
}

func (f *flood) Follow(ctx context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	for at := int(after); ; {
		more, err := next(ctx, f, func() []*sequencer.Outcome { return f.outcomes }, at)
		if err != nil {
			return err
		}
		for _, o := range more {
			if err := apply(o, streams.WayNATS); err != nil {
				return err
			}
		}
		at += len(more)
	}
}

func (f *flood) FollowAt(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error {
	return f.Follow(ctx, workspace, after, func(o *sequencer.Outcome, way streams.Way) error {
		return apply(o, way, time.Time{})
	})
}

func (f *flood) FollowEvents(ctx context.Context, _ string, _ time.Duration, each func(*topology.Event) error) error {
	for at := 0; ; {
		more, err := next(ctx, f, func() []*topology.Event { return f.events }, at)
		if err != nil {
			return err
		}
		for _, ev := range more {
			if err := each(ev); err != nil {
				return err
			}
		}
		at += len(more)
	}
}

func (f *flood) head() sequencer.Seq {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sequencer.Seq(len(f.outcomes))
}

// Live has as many transactions as fit: 1,000, which change all the time.
func (f *flood) Live(context.Context, string) (topology.Live, error) {
	head := f.head()
	l := topology.Live{Workspace: floodWorkspace, Seq: head, Tick: sequencer.Tick(head / 250), Truncated: f.total > 0}
	if f.total == 0 {
		return l, nil
	}
	states := []topology.LiveState{topology.LiveOpen, topology.LiveWaiting, topology.LiveSealed, topology.LiveSettling}
	for i := range 1000 {
		n := int(head)/50*50 + i + 1_000_000
		t := topology.LiveTx{Tx: floodTx(n), Agent: floodAgent(n), State: states[i%4], Mode: "ordered",
			Epoch: sequencer.Epoch(n), BeganTick: 1, DeadlineTick: l.Tick + 400, Gated: uint32(i % 3)}
		if states[i%4] == topology.LiveWaiting {
			t.Waits = []topology.LiveWait{{Tx: floodTx(n - 1), Scope: floodScope(n), Why: "granted"}}
		}
		l.Transactions = append(l.Transactions, t)
	}
	for i := range floodAgents {
		l.Sidecars = append(l.Sidecars, topology.LiveSidecar{Agent: floodAgent(i),
			Incarnation: sequencer.Seq(i + 1), LeaseLeft: sequencer.Tick(8 + i%32), Watermark: head - sequencer.Seq(i),
			Lag: sequencer.Seq(i)})
	}
	return l, nil
}

// Closure is a fan of a few layers: what a busy workspace looks like.
func (f *flood) Closure(_ context.Context, _ string, tx sequencer.TxID, limit int) (*topology.Closure, error) {
	var n int
	if _, err := fmt.Sscanf(string(tx[7:]), "%d.%d.%d", new(int), new(int), &n); err != nil {
		return nil, streams.ErrUnknownTx
	}
	c := &topology.Closure{Tx: tx, Limit: limit, Truncated: true}
	for i := range min(limit, 24) {
		row := topology.ClosureRow{Tx: floodTx(n - i), Agent: floodAgent(n - i), Status: "committed",
			Seq: sequencer.Seq(n - i), Writes: []sequencer.Scope{floodScope(n - i)}}
		for _, back := range []int{i + 1, 2*i + 1, 2*i + 2} {
			row.Edges = append(row.Edges, topology.ClosureEdge{Scope: floodScope(n - back), Writer: floodTx(n - back),
				Version: sequencer.Seq(n - back), View: sequencer.Seq(n - back)})
		}
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

func (f *flood) Scopes(_ context.Context, _ string, prefix sequencer.Scope, limit int) (topology.Scopes, error) {
	head := f.head()
	s := topology.Scopes{Workspace: floodWorkspace}
	for i := range min(limit, 97, f.total) {
		s.Rows = append(s.Rows, topology.ScopeInfo{Scope: floodScope(i), Seq: head, Version: head - sequencer.Seq(i),
			Shard:  true,
			Writer: floodTx(int(head) - i)})
	}
	return s, nil
}

// Level is part of Source: anomaly detection is off here.
func (*flood) Level(context.Context, string) (*topology.AnomalyLevel, error) {
	return nil, streams.ErrAnomaliesOff
}

// Anomalies is part of Source.
func (*flood) Anomalies(context.Context, string, int) ([]topology.Anomaly, error) {
	return nil, streams.ErrAnomaliesOff
}

func (f *flood) Residue(context.Context, string, int) (list []topology.Residue, err error) {
	for i := range min(40, f.total) {
		list = append(list, topology.Residue{Workspace: floodWorkspace, Tx: floodTx(100 + i), Agent: "worker-01",
			Tool:  "mail.send",
			Class: sequencer.ClassIrreversible, Result: sequencer.ResultUnresolved, State: topology.ResidueOpen, Tries: 3,
			Detail: "it is not known whether it happened", AtMs: time.Now().UnixMilli()})
	}
	return list, nil
}

func (f *flood) Effects(context.Context, string, sequencer.TxID) ([]*topology.Event, error) {
	return nil, nil
}

func (f *flood) Snapshot(context.Context, string) (*topology.Snapshot, error) {
	return &topology.Snapshot{Workspace: floodWorkspace, Through: f.head()}, nil
}

func (f *flood) Cone(context.Context, string, sequencer.TxID) (*topology.Cone, error) {
	return nil, errors.New("not in this source")
}

func (f *flood) Rules(context.Context, string) (sequencer.Rules, sequencer.Seq, error) {
	return sequencer.Rules{Version: 1, LeaseTicks: 40}, f.head(), nil
}

func (f *flood) Ready(context.Context) map[string]error { return map[string]error{"kafka": nil} }

// latest is a transaction that was decided a moment ago.
func (f *flood) latest() sequencer.TxID {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.outcomes[len(f.outcomes)-60:], func(o *sequencer.Outcome) bool { return o.Final })
	return f.outcomes[len(f.outcomes)-60+i].Tx
}
