package view

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// snapshotFresh is how old a snapshot may be from which a view begins: reading decisions one by one from an old one on
// takes longer than asking for another, and they may be deleted meanwhile.
const snapshotFresh = 10 * time.Second

// Follow keeps the view up to date until ctx ends. It asks for a snapshot at once, and begins with it when open is
// closed: before, it is unknown what a decision is about. An error is ErrChain or streams.ErrGone.
func (v *View) Follow(ctx context.Context, log Source, open <-chan struct{}, say *slog.Logger,
	delivered func(streams.Way)) error {
	for fresh := false; !fresh; {
		var snapshot *topology.Snapshot
		if Retry(ctx, func() (err error) {
			snapshot, err = log.Snapshot(ctx, v.Workspace)
			return err
		}, Complain(say, "the view has no snapshot yet: asked again")) != nil {
			return nil
		}
		taken := time.Now()
		select {
		case <-open:
		case <-ctx.Done():
			return nil
		}
		if fresh = time.Since(taken) < snapshotFresh; fresh {
			v.begin(snapshot)
		}
	}
	pause := PauseLeast
	for {
		before := v.At()
		err := log.Follow(ctx, v.Workspace, before, func(o *sequencer.Outcome, way streams.Way) error {
			fresh, err := v.advance(o)
			if fresh {
				delivered(way)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrChain), errors.Is(err, streams.ErrGone):
			say.Error("the view has stopped for good", "cause", err)
			v.End()
			return err
		case v.At() > before:
			pause = PauseLeast
		}
		say.Warn("following the decisions ended: begun again", "cause", err, "pause", pause)
		if !Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, PauseMost)
	}
}

// TableWait is how long a derived table may take to answer.
const TableWait = 5 * time.Second

// Source delivers decisions and what they refer to.
type Source interface {
	Snapshot(ctx context.Context, workspace string) (*topology.Snapshot, error)
	// Follow gives every outcome after a seq to apply, in order and without gaps, until ctx ends or apply errs.
	Follow(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way) error) error
	// FollowAt is Follow with the time of the record that a decision answers; zero: not known.
	FollowAt(ctx context.Context, workspace string, after sequencer.Seq,
		apply func(*sequencer.Outcome, streams.Way, time.Time) error) error
	Content(ctx context.Context, workspace string, ref sequencer.Ref) ([]byte, error)
}

// Tables answers what concerns no agent. Derived tables may lag.
type Tables interface {
	Closure(ctx context.Context, workspace string, tx sequencer.TxID, limit int) (*topology.Closure, error)
	Frontier(ctx context.Context, workspace string, prefix sequencer.Scope, limit int) ([]topology.FrontierRow, error)
	// Level is what its last operations leave of the levels, where anomalies are looked for.
	Level(ctx context.Context, workspace string) (*topology.AnomalyLevel, error)
	// FollowAnomalies gives what is found from a place of its topic on, -1: from now on; see streams.Client.
	FollowAnomalies(ctx context.Context, workspace string, from int64,
		each func(at int64, a *topology.Anomaly, record []byte) error) error
	// Live is what goes on in a workspace: sidecars with a lease, transactions that are not final.
	Live(ctx context.Context, workspace string) (topology.Live, error)
	// Ready says per dependency what is wrong with it; nil values are good ones.
	Ready(ctx context.Context) map[string]error
}

// The shortest and the longest pause between two tries of something. PauseAsking is the longest of a question that all
// sidecars may ask at once.
const (
	PauseLeast  = 20 * time.Millisecond
	PauseMost   = 500 * time.Millisecond
	PauseAsking = 30 * time.Second
)

// Retry calls f until it succeeds or ctx ends, with growing pauses.
func Retry(ctx context.Context, f func() error, failed func(error)) error {
	return pause.Retry(ctx, pause.Doubling{Least: PauseLeast, Most: PauseMost}, f, failed)
}

// Sleep waits; it reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool { return pause.Sleep(ctx, d) == nil }

// Complain says what a retry waits for, once for each reason: brokers may be away for an hour.
func Complain(log *slog.Logger, what string) func(error) {
	said := ""
	return func(err error) {
		if text := err.Error(); text != said {
			said = text
			log.Warn(what, "cause", err)
		}
	}
}
