package sidecar

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// follow keeps the view up to date until ctx ends. An error is ErrChain or streams.ErrGone.
func (v *view) follow(ctx context.Context, log Source, say *slog.Logger,
	delivered func(streams.Way)) error {
	err := retry(ctx, func() error {
		snapshot, err := log.Snapshot(ctx, v.workspace)
		if err != nil {
			return err
		}
		v.start(snapshot)
		return nil
	}, complain(say, "the view has no snapshot yet: asked again"))
	if err != nil {
		return nil
	}
	for _, w := range v.watchers {
		w.begun()
	}
	v.waits.wake(waitSeq)
	pause := pauseLeast
	for {
		before := v.at()
		err := log.Follow(ctx, v.workspace, before, func(o *sequencer.Outcome, way streams.Way) error {
			fresh, err := v.apply(o)
			if err == nil && fresh {
				delivered(way)
				for _, w := range v.watchers {
					v.waits.wake(w.observe(o)...)
				}
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrChain), errors.Is(err, streams.ErrGone):
			say.Error("the view has stopped for good", "cause", err)
			v.waits.close()
			return err
		case v.at() > before:
			pause = pauseLeast
		}
		say.Warn("following the decisions ended: begun again", "cause", err, "pause", pause)
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, pauseMost)
	}
}
