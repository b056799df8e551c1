package view

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// Follow keeps the view up to date until ctx ends. An error is ErrChain or streams.ErrGone.
func (v *View) Follow(ctx context.Context, log Source, say *slog.Logger,
	delivered func(streams.Way)) error {
	err := Retry(ctx, func() error {
		snapshot, err := log.Snapshot(ctx, v.Workspace)
		if err != nil {
			return err
		}
		v.Start(snapshot)
		return nil
	}, Complain(say, "the view has no snapshot yet: asked again"))
	if err != nil {
		return nil
	}
	for _, w := range v.watchers {
		w.begun()
	}
	v.Waits.Wake(WaitSeq)
	pause := PauseLeast
	for {
		before := v.At()
		err := log.Follow(ctx, v.Workspace, before, func(o *sequencer.Outcome, way streams.Way) error {
			fresh, err := v.Apply(o)
			if err == nil && fresh {
				delivered(way)
				for _, w := range v.watchers {
					v.Waits.Wake(w.observe(o)...)
				}
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrChain), errors.Is(err, streams.ErrGone):
			say.Error("the view has stopped for good", "cause", err)
			v.Waits.Close()
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
