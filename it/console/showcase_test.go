package console

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// showcase is a workspace in which everything is as long, as many and as bad as may be: ids, scopes, agents,
// refusals, a retraction, a residue. A slow stream of decisions goes on in it. observing: nothing is refused in it,
// and everything says what would have been.
type showcase struct {
	*flood
	observing bool
}

const (
	showAgents = 30
	showEvery  = 40 * time.Millisecond
)

func newShowcase(observing bool) *showcase {
	return &showcase{flood: newFlood(1), observing: observing}
}

func showAgent(n int) string {
	if n %= showAgents; n%5 != 0 {
		return fmt.Sprintf("buyer-%d", n)
	}
	return fmt.Sprintf("purchasing-agent-of-the-northern-warehouses-and-suppliers-%02d", n)
}

func showTx(n int) sequencer.TxID {
	return sequencer.TxID(fmt.Sprintf("%s.%d.%d", showAgent(n), 1_000_000+n%showAgents, n))
}

func showScope(n int) sequencer.Scope {
	if n%3 == 0 {
		return sequencer.Scope(fmt.Sprintf("shard:/orders/2026/11/customers/northern-warehouses/000000000%d/line-items/%s",
			n%7, strings.Repeat("quantity-", 5)))
	}
	return sequencer.Scope(fmt.Sprintf("shard:/stock/%d", n%5))
}

// The transactions that are looked at.
const (
	showWaiting   = 500_000
	showRetracted = 40 // ends as a member of a retraction
	showRefused   = 45
	showHeld      = 500_002
)

// run makes decisions until ctx ends, the first ones at once.
func (f *showcase) run(ctx context.Context) {
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		f.mu.Lock()
		for ; n < 150; n++ {
			f.add(n)
		}
		f.add(n)
		close(f.grown)
		f.grown = make(chan struct{})
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *showcase) outcome(n int, kind sequencer.OutcomeKind) *sequencer.Outcome {
	seq := sequencer.Seq(len(f.outcomes) + 1)
	return &sequencer.Outcome{Workspace: floodWorkspace, Seq: seq, Offset: int64(seq), RulesVersion: 1, Kind: kind,
		Time: sequencer.Tick(seq), Tx: showTx(n), Agent: showAgent(n), Intent: string(showTx(n)) + ":seal:1",
		Incarnation: sequencer.Seq(n%showAgents + 1), Epoch: sequencer.Epoch(n)}
}

// add makes the n-th transaction with its events; f.mu is held.
func (f *showcase) add(n int) {
	if n <= showAgents {
		o := f.outcome(n, sequencer.OutcomeJoined)
		o.Tx, o.Intent = "", "join:x"
		f.outcomes = append(f.outcomes, o)
		return
	}
	now := time.Now().UnixMilli()
	began := now - int64(400+n%9*700)
	f.event(topology.EventRead, n, 0, began+50).Version = 7
	f.event(topology.EventRead, n+1, 1, began+150).Writer = showTx(n - 4)
	f.event(topology.EventWrite, n, 2, now-200)
	if n%6 == 0 {
		f.call(n, 3, now-150, gate.Step(0))
	}
	f.event(topology.EventSeal, n, 5, now-int64(30+n%4*40)).Seal = &sequencer.Seal{}
	o := f.outcome(n, sequencer.OutcomeCommitted)
	o.Final = n%6 != 0
	switch {
	case n%4 == 1:
		codes := []sequencer.Code{sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeConflict,
			"incomplete_footprint"}
		o.Kind, o.Final, o.Retryable, o.Code, o.Scope = sequencer.OutcomeAborted, true, true, codes[n/4%4], showScope(n)
		if n == showRefused {
			o.Code = sequencer.CodeStaleRead
		}
		o.Moved = sequencer.Writer{Seq: o.Seq - 1, Tx: showTx(n - 1)}
		if f.observing {
			o.Kind, o.Would, o.Code = sequencer.OutcomeCommitted, o.Code, ""
		}
	case n%10 == 3:
		o.Kind, o.Final = sequencer.OutcomeWaiting, false
		o.BlockedBy = []sequencer.Blocker{{Tx: showTx(n - 1), Scope: showScope(n), Why: "claimed"}}
	default:
		o.Writes = []sequencer.Write{{Scope: showScope(n)}, {Scope: showScope(n + 1)}}
	}
	f.outcomes = append(f.outcomes, o)
	if last := n - 12; n%6 == 0 && last > showAgents && last%4 != 1 { // what it held has left
		o := f.outcome(last, sequencer.OutcomeSettled)
		o.Final = true
		f.outcomes = append(f.outcomes, o)
	}
	if n%25 == 0 { // a kind of a later version, about no transaction
		o := f.outcome(n, sequencer.OutcomeKind(99))
		o.Tx, o.Intent = "", ""
		f.outcomes = append(f.outcomes, o)
	}
	if n == showRetracted+2 {
		for _, kind := range []sequencer.OutcomeKind{sequencer.OutcomeRetracting, sequencer.OutcomeTurn,
			sequencer.OutcomeSettled} {
			o := f.outcome(showRetracted, kind)
			o.Retraction, o.Final = showTx(showRetracted), kind == sequencer.OutcomeSettled
			f.outcomes = append(f.outcomes, o)
		}
	}
	if n == showAgents+1 {
		f.call(showHeld, 3, now-900, gate.Step(0))
		f.call(showHeld+1, 4, now-60_000, gate.Step(0))
		f.event(topology.EventRead, showWaiting, 1, now-90_000)
	}
}

func (f *showcase) event(kind topology.EventKind, n, index int, atMs int64) *topology.Event {
	ev := &topology.Event{Kind: kind, Workspace: floodWorkspace, Tx: showTx(n), Agent: showAgent(n),
		Incarnation: sequencer.Seq(n%showAgents + 1), Index: uint64(index), AtMs: atMs, Scope: showScope(n), View: 1}
	f.events = append(f.events, ev)
	return ev
}

func (f *showcase) call(n, index int, atMs int64, step gate.Step) {
	f.event(topology.EventEffect, n, index, atMs).Effect = &topology.EffectText{Index: uint32(n % 2), Step: uint8(step),
		Class: sequencer.ClassIrreversible, Tool: "warehouse.reserve_and_notify_the_supplier",
		Key:    "order-2026-11-22-0000000000000000000000000000000000000" + fmt.Sprint(n),
		Scopes: []sequencer.Scope{showScope(n), showScope(n + 1)}, Detail: "waits for its transaction's commit"}
}

func (f *showcase) Live(context.Context, string) (topology.Live, error) {
	head := f.head()
	l := topology.Live{Workspace: floodWorkspace, Seq: head, Tick: sequencer.Tick(head)}
	if head == 0 {
		return l, nil
	}
	states := []topology.LiveState{topology.LiveWaiting, topology.LiveOpen, topology.LiveOpen, topology.LiveSealed,
		topology.LiveSettling}
	for i := range 60 {
		n := showWaiting + i
		t := topology.LiveTx{Tx: showTx(n), Agent: showAgent(n), State: states[i%5], Mode: "ordered",
			Epoch: sequencer.Epoch(n), BeganTick: 1, DeadlineTick: l.Tick + 4000, Gated: uint32(i % 3), Holds: uint32(i % 4)}
		if states[i%5] == topology.LiveWaiting {
			t.Waits = []topology.LiveWait{{Tx: showTx(n + 2), Scope: showScope(n), Why: "claimed"},
				{Tx: showTx(n + 3), Scope: showScope(n), Why: "granted"}}
		}
		l.Transactions = append(l.Transactions, t)
	}
	for i := range showAgents {
		l.Sidecars = append(l.Sidecars, topology.LiveSidecar{Agent: showAgent(i), Incarnation: sequencer.Seq(i + 1),
			LeaseLeft: sequencer.Tick(8 + i%32), Watermark: head, Lag: sequencer.Seq(i * 1234)})
	}
	return l, nil
}

// Closure is a chain of writers of one scope each.
func (f *showcase) Closure(_ context.Context, _ string, tx sequencer.TxID, limit int) (*topology.Closure, error) {
	dot := strings.LastIndexByte(string(tx), '.')
	var n int
	if _, err := fmt.Sscan(string(tx[dot+1:]), &n); err != nil || n >= showWaiting {
		return nil, streams.ErrUnknownTx
	}
	c := &topology.Closure{Tx: tx, Limit: limit}
	for i := range 6 {
		row := topology.ClosureRow{Tx: showTx(n - 4*i), Agent: showAgent(n - 4*i), Status: "committed",
			Seq: sequencer.Seq(100 + n - 4*i), Writes: []sequencer.Scope{showScope(n - 4*i)}}
		if i == 0 && n%4 == 1 && !f.observing {
			row.Status, row.Code = "aborted", "incomplete_footprint"
		}
		row.Edges = append(row.Edges, topology.ClosureEdge{Scope: showScope(n + 1), Writer: showTx(n - 4*(i+1)), Version: 5})
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

func (f *showcase) Scopes(context.Context, string, sequencer.Scope, int) (topology.Scopes, error) {
	s := topology.Scopes{Workspace: floodWorkspace}
	for i := range 40 {
		row := topology.ScopeInfo{Scope: showScope(i), Seq: f.head(), Version: sequencer.Seq(1000 * i), Shard: true,
			Writer: showTx(40 + i)}
		s.Rows = append(s.Rows, row)
	}
	return s, nil
}

// Level is part of Source: anomaly detection is off here.
func (*showcase) Level(context.Context, string) (*topology.AnomalyLevel, error) {
	return nil, streams.ErrAnomaliesOff
}

// Anomalies is part of Source.
func (*showcase) Anomalies(context.Context, string, int) ([]topology.Anomaly, error) {
	return nil, streams.ErrAnomaliesOff
}

func (f *showcase) Residue(context.Context, string, int) (list []topology.Residue, err error) {
	for i := range 6 {
		list = append(list, topology.Residue{Workspace: floodWorkspace, Tx: showTx(showRetracted), Index: uint32(i),
			Agent: showAgent(showRetracted), Tool: "warehouse.reserve_and_notify_the_supplier",
			Class: sequencer.ClassIrreversible, Result: sequencer.ResultUnresolved, State: topology.ResidueOpen,
			Key: strings.Repeat("key-of-the-sink-", 6), Scopes: []sequencer.Scope{showScope(i), showScope(i + 1)}, Tries: 3,
			Detail: "the sink did not answer; look there, then accept or retry", AtMs: time.Now().UnixMilli()})
	}
	return list, nil
}
