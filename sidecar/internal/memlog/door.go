package memlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Door is one process's way to the log. Its faults concern that process only.
type Door struct {
	log *Log

	mu         sync.Mutex
	changed    chan struct{}
	held       bool // no decision is delivered
	through    sequencer.Seq
	lag        int  // of snapshots
	fail       int  // so many appends fail before they reach the log
	unknown    int  // so many appends reach the log and fail
	silent     bool // events fail
	drop       chan struct{}
	content    chan struct{} // contents are given once it is closed
	asked      chan struct{} // one for each content that was asked for
	notReady   error
	noID       error
	failedPuts int
}

// Door opens a way to the log without faults.
func (l *Log) Door() *Door {
	return &Door{log: l, changed: make(chan struct{}), drop: make(chan struct{}), asked: make(chan struct{}, 64)}
}

func (d *Door) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Hold delivers no decision after the newest one until Release.
func (d *Door) Hold() {
	at := d.log.Seq()
	d.change(func() { d.held, d.through = true, at })
}

// Release delivers again.
func (d *Door) Release() { d.change(func() { d.held = false }) }

// Drop ends every Follow with ErrLost.
func (d *Door) Drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.drop)
	d.drop = make(chan struct{})
}

// FailAppends lets the next n appends fail before they reach the log.
func (d *Door) FailAppends(n int) { d.change(func() { d.fail = n }) }

// LoseAnswers lets the next n appends reach the log and fail nevertheless.
func (d *Door) LoseAnswers(n int) { d.change(func() { d.unknown = n }) }

// Silence lets events fail, or not.
func (d *Door) Silence(on bool) { d.change(func() { d.silent = on }) }

// FailedEvents is how many events were refused.
func (d *Door) FailedEvents() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failedPuts
}

// LagSnapshots lets snapshots claim less than their shards show.
func (d *Door) LagSnapshots(n int) { d.change(func() { d.lag = n }) }

// HoldContents gives no content until the returned function is called; Asked tells of each that was asked for.
func (d *Door) HoldContents() (release func()) {
	gate := make(chan struct{})
	d.change(func() { d.content = gate })
	return func() { close(gate); d.change(func() { d.content = nil }) }
}

// Asked gives one value for each content that was asked for.
func (d *Door) Asked() <-chan struct{} { return d.asked }

// SetReady is what Ready says of the one dependency.
func (d *Door) SetReady(err error) { d.change(func() { d.notReady = err }) }

// Append is part of the log's interface to a sidecar.
func (d *Door) Append(ctx context.Context, _ string, in *sequencer.Intent) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d.mu.Lock()
	if d.fail > 0 {
		d.fail--
		d.mu.Unlock()
		return 0, ErrLost
	}
	lost := d.unknown > 0
	if lost {
		d.unknown--
	}
	d.mu.Unlock()
	at, err := d.log.Add(in)
	if err == nil && lost {
		return 0, ErrLost
	}
	return at, err
}

// PublishAsync is part of the log's interface to a sidecar.
func (d *Door) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	if d.silenced() {
		done(sequencer.Place{}, ErrLost)
		return
	}
	done(d.log.publish(events))
}

// silenced counts a refused event when events fail.
func (d *Door) silenced() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.silent {
		d.failedPuts++
	}
	return d.silent
}

// ID is part of the log's interface to a sidecar.
func (d *Door) ID(context.Context) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.id, d.noID
}

// SetID lets ID fail, or not.
func (d *Door) SetID(err error) { d.change(func() { d.noID = err }) }

// SeqBefore is the last decision that was made before a time.
func (d *Door) SeqBefore(_ context.Context, _ string, t time.Time) (seq sequencer.Seq, err error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	for i, at := range d.log.times {
		if at.Before(t) {
			seq = sequencer.Seq(i + 1)
		}
	}
	return seq, nil
}

// Snapshot is part of the log's interface to a sidecar.
func (d *Door) Snapshot(context.Context, string) (*topology.Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.snapshot(d.lag), nil
}

// Follow is part of the log's interface to a sidecar.
func (d *Door) Follow(ctx context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	return d.FollowAt(ctx, "", after, func(o *sequencer.Outcome, way streams.Way, _ time.Time) error {
		return apply(o, way)
	})
}

// FollowAt is part of the log's interface to a sidecar.
func (d *Door) FollowAt(ctx context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error {
	d.mu.Lock()
	drop := d.drop
	d.mu.Unlock()
	for seq := after + 1; ; {
		d.mu.Lock()
		held, changed := d.held && seq > d.through, d.changed
		d.mu.Unlock()
		record, at, more := d.log.record(seq)
		if record != nil && !held {
			o, err := topology.DecodeOutcome(record)
			if err != nil {
				return err
			}
			if err := apply(o, way, at); err != nil {
				return err
			}
			seq++
			continue
		}
		select {
		case <-more:
		case <-changed:
		case <-drop:
			return ErrLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Content is part of the log's interface to a sidecar.
func (d *Door) Content(ctx context.Context, _ string, ref sequencer.Ref) ([]byte, error) {
	d.mu.Lock()
	gate := d.content
	d.mu.Unlock()
	select {
	case d.asked <- struct{}{}:
	default:
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return d.log.content(ref)
}

// Parts is part of the log's interface to a sidecar.
func (d *Door) Parts(ctx context.Context, ws string, ref sequencer.Ref, take func([]byte) error) error {
	if ref.Chunks == 0 {
		content, err := d.Content(ctx, ws, ref)
		if err != nil {
			return err
		}
		return take(content)
	}
	chain := streams.NewChain(ws, ref, take)
	for at := ref.Offset; at <= ref.Last; at++ {
		ev, there := d.log.event(at)
		if !there {
			continue
		}
		if whole, err := chain.Add(at, ev); whole || err != nil {
			return err
		}
	}
	return chain.End()
}

// Closure is part of the log's interface to a sidecar: the transaction alone.
func (d *Door) Closure(_ context.Context, _ string, tx sequencer.TxID, limit int) (*topology.Closure, error) {
	out := &topology.Closure{Tx: tx, Limit: limit}
	for _, o := range d.log.Outcomes() {
		if o.Tx != tx {
			continue
		}
		out.Rows = []topology.ClosureRow{{Tx: tx, Agent: o.Agent, Status: o.Kind.String(), Code: o.Code,
			Seq: o.Seq, RestsOn: o.RestsOn, Retraction: o.Retraction}}
		if o.Kind == sequencer.OutcomeSettled && o.Retraction != "" {
			out.Rows[0].Status = "retracted"
		}
	}
	if len(out.Rows) == 0 {
		return nil, fmt.Errorf("closure of %s: %w", tx, streams.ErrUnknownTx)
	}
	return out, nil
}

// Frontier is part of the log's interface to a sidecar: shards only.
func (d *Door) Frontier(_ context.Context, ws string, prefix sequencer.Scope,
	limit int) ([]topology.FrontierRow, error) {
	var out []topology.FrontierRow
	for _, row := range d.log.snapshot(0).Shards {
		if prefix.Covers(row.Scope) && len(out) < limit {
			out = append(out, topology.FrontierRow{Workspace: ws, Scope: row.Scope, Seq: row.Version,
				Version: row.Version, Writer: row.Writer})
		}
	}
	return out, nil
}

// Level is part of the log's interface to a sidecar: nothing looks for anomalies here.
func (d *Door) Level(context.Context, string) (*topology.AnomalyLevel, error) {
	return nil, streams.ErrAnomaliesOff
}

// FollowAnomalies is part of the log's interface to a sidecar.
func (d *Door) FollowAnomalies(context.Context, string, int64,
	func(int64, *topology.Anomaly, []byte) error) error {
	return streams.ErrAnomaliesOff
}

// Ready is part of the log's interface to a sidecar.
func (d *Door) Ready(context.Context) map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return map[string]error{"memlog": d.notReady}
}
