package sim

import (
	"context"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// port is one process's way to the log: what it sends and receives is late, lost, doubled, or not known to have come.
type port struct {
	*memlog.Door
	b *bubble
	p *proc

	mu     sync.Mutex
	strays []*sequencer.Intent // unknown to their sender; they arrive before the next one that is acknowledged, or never
	events chan sending
}

type sending struct {
	list []*topology.Event
	done func(sequencer.Place, error)
}

func (b *bubble) newPort(p *proc) *port {
	return &port{Door: b.log.Door(), b: b, p: p, events: make(chan sending, 1<<14)}
}

// away: the process is dead, or cut off from the brokers.
func (d *port) away() bool { return d.p.dead.Load() || d.p.cut.Load() }

// Append is part of the log's interface to a sidecar.
func (d *port) Append(ctx context.Context, ws string, in *sequencer.Intent) (int64, error) {
	if in.Seal != nil && !d.p.dead.Load() {
		d.b.carries(in)
	}
	if !d.p.slow(ctx) {
		return 0, ctx.Err()
	}
	how := How(0)
	if !d.away() {
		how = d.p.op(doorAppend)
	}
	if how == Fails || d.away() || d.p.chance(hitAppendLost, func(f *faults) float64 { return f.lose }) {
		d.b.sleep(ctx, d.p.some(time.Second))
		return 0, memlog.ErrLost
	}
	if how == ComesLate || d.p.chance(hitAppendLate, func(f *faults) float64 { return f.late }) {
		d.mu.Lock()
		d.strays = append(d.strays, in)
		d.mu.Unlock()
		late := d.p.some(3 * time.Second)
		d.b.strays.Go(func() { d.arrive(in, late) })
		d.b.sleep(ctx, d.p.some(500*time.Millisecond))
		return 0, memlog.ErrLost
	}
	if err := d.flush(); err != nil {
		return 0, err
	}
	at, err := d.Door.Append(ctx, ws, in)
	if err != nil {
		return 0, err
	}
	if d.p.chance(hitAppendTwice, func(f *faults) float64 { return f.twice }) {
		after := d.p.some(8 * time.Second)
		d.b.strays.Go(func() {
			time.Sleep(after)
			_, _ = d.b.log.Add(in)
		})
	}
	if d.p.done(how, nil) != nil || !d.p.slow(ctx) || d.away() ||
		d.p.chance(hitAppendUnknown, func(f *faults) float64 { return f.unknown }) {
		return 0, memlog.ErrLost
	}
	return at, nil
}

// flush lets what is on its way arrive, or never: an intent that is acknowledged after it closes the line.
func (d *port) flush() error {
	d.mu.Lock()
	list := d.strays
	d.strays = nil
	d.mu.Unlock()
	for _, in := range list {
		if d.p.n(2) == 0 {
			continue
		}
		if _, err := d.b.log.Add(in); err != nil {
			return err
		}
	}
	return nil
}

// arrive is the late arrival of an intent, also when its sender is dead by then.
func (d *port) arrive(in *sequencer.Intent, after time.Duration) {
	time.Sleep(after)
	d.mu.Lock()
	found := false
	for i, s := range d.strays {
		if s == in {
			d.strays, found = append(d.strays[:i:i], d.strays[i+1:]...), true
			break
		}
	}
	d.mu.Unlock()
	if found {
		_, _ = d.b.log.Add(in)
	}
}

// PublishAsync is part of the log's interface to a sidecar.
func (d *port) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	select {
	case d.events <- sending{events, done}:
	default:
		go done(sequencer.Place{}, memlog.ErrLost)
	}
}

// publish sends events in their order until ctx ends.
func (d *port) publish(ctx context.Context) {
	for {
		select {
		case s := <-d.events:
			if !d.p.slow(ctx) || d.away() {
				s.done(sequencer.Place{}, memlog.ErrLost)
				continue
			}
			how := d.p.op(doorEvents)
			switch {
			case how == Fails, d.away(), d.p.chance(hitEventsLost, func(f *faults) float64 { return f.events }):
				s.done(sequencer.Place{}, memlog.ErrLost)
			case how == ComesLate:
				s.done(sequencer.Place{}, memlog.ErrLost)
				d.Door.PublishAsync(s.list, func(sequencer.Place, error) {})
			case how != 0, d.p.chance(hitEventsUnknown, func(f *faults) float64 { return f.events / 2 }):
				d.Door.PublishAsync(s.list, func(sequencer.Place, error) {})
				_ = d.p.done(how, nil)
				s.done(sequencer.Place{}, memlog.ErrLost)
			default:
				d.Door.PublishAsync(s.list, s.done)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Follow is part of the log's interface to a sidecar.
func (d *port) Follow(ctx context.Context, ws string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	return d.FollowAt(ctx, ws, after, func(o *sequencer.Outcome, way streams.Way, _ time.Time) error {
		return apply(o, way)
	})
}

// FollowAt is part of the log's interface to a sidecar.
func (d *port) FollowAt(ctx context.Context, ws string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error {
	if !d.p.slow(ctx) {
		return ctx.Err()
	}
	return d.Door.FollowAt(ctx, ws, after, func(o *sequencer.Outcome, way streams.Way, at time.Time) error {
		d.b.mu.Lock()
		most := d.b.fault.lag
		d.b.mu.Unlock()
		if !d.b.published(ctx, o.Seq) {
			return ctx.Err()
		}
		lag := d.p.some(most)
		if d.p.n(3) > 0 { // most come one after another
			lag = 1 + lag/50
		}
		if !d.b.sleep(ctx, lag) {
			return ctx.Err()
		}
		for d.p.cut.Load() {
			if !d.b.sleep(ctx, 50*time.Millisecond) {
				return ctx.Err()
			}
		}
		if d.p.dead.Load() {
			return memlog.ErrLost
		}
		how := d.p.op(doorDeliver)
		switch {
		case how == Fails, how == ComesLate, d.p.dead.Load(),
			d.p.chance(hitFollowBroken, func(f *faults) float64 { return f.drop }):
			return memlog.ErrLost
		case d.p.chance(hitDeliverTwice, func(f *faults) float64 { return f.again }):
			if err := apply(o, way, at); err != nil {
				return err
			}
		}
		return d.p.done(how, apply(o, way, at))
	})
}

// reach is a question to the brokers.
func (d *port) reach(ctx context.Context) error {
	switch {
	case !d.p.slow(ctx):
		return ctx.Err()
	case d.away(), d.p.passes(doorAsk) != nil, d.p.chance(hitAskLost, func(f *faults) float64 { return f.drop * 3 }):
		return memlog.ErrLost
	}
	return nil
}

// Snapshot is part of the log's interface to a sidecar.
func (d *port) Snapshot(ctx context.Context, ws string) (*topology.Snapshot, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	d.b.mu.Lock()
	lag := len(d.b.r.truth.out) - int(d.b.shown)
	d.b.mu.Unlock()
	if d.p.chance(hitSnapshotOld, func(f *faults) float64 { return f.snapshotLag }) {
		lag += d.p.n(8)
	}
	d.Door.LagSnapshots(lag)
	return d.Door.Snapshot(ctx, ws)
}

// Content is part of the log's interface to a sidecar.
func (d *port) Content(ctx context.Context, ws string, ref sequencer.Ref) ([]byte, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	return d.Door.Content(ctx, ws, ref)
}

// Parts is part of the log's interface to a sidecar.
func (d *port) Parts(ctx context.Context, ws string, ref sequencer.Ref, take func([]byte) error) error {
	if err := d.reach(ctx); err != nil {
		return err
	}
	return d.Door.Parts(ctx, ws, ref, take)
}

// Effects is part of the log's interface to a sidecar.
func (d *port) Effects(ctx context.Context, ws string, tx sequencer.TxID) ([]*topology.Event, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	return d.Door.Effects(ctx, ws, tx)
}

// PublishResidue is part of the log's interface to a sidecar.
func (d *port) PublishResidue(ctx context.Context, one *topology.Residue) error {
	if err := d.reach(ctx); err != nil {
		return err
	}
	return d.Door.PublishResidue(ctx, one)
}

// Residue is part of the log's interface to a sidecar.
func (d *port) Residue(ctx context.Context, ws string, limit int) ([]topology.Residue, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	return d.Door.Residue(ctx, ws, limit)
}

// Unsettled is part of the log's interface to a sidecar.
func (d *port) Unsettled(ctx context.Context, ws, agent string, limit int) ([]topology.Unsettled, sequencer.Seq,
	error) {
	if err := d.reach(ctx); err != nil {
		return nil, 0, err
	}
	return d.Door.Unsettled(ctx, ws, agent, limit)
}

// Live is part of the log's interface to a sidecar.
func (d *port) Live(ctx context.Context, ws string) (topology.Live, error) {
	if err := d.reach(ctx); err != nil {
		return topology.Live{}, err
	}
	return d.Door.Live(ctx, ws)
}

// Rules is part of the log's interface to a sidecar.
func (d *port) Rules(ctx context.Context, ws string) (sequencer.Rules, sequencer.Seq, error) {
	if err := d.reach(ctx); err != nil {
		return sequencer.Rules{}, 0, err
	}
	return d.Door.Rules(ctx, ws)
}

// ID is part of the log's interface to a sidecar.
func (d *port) ID(ctx context.Context) (string, error) {
	if err := d.reach(ctx); err != nil {
		return "", err
	}
	return d.Door.ID(ctx)
}
