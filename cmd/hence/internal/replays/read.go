// Package replays reads a workspace's log for "hence replay", and prints what comes out otherwise.
package replays

import (
	"context"
	"errors"
	"fmt"

	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology/audit"
)

// Read reads what a workspace's log has, from the first record to the last. Nothing is written, and no reading place
// is moved.
func Read(ctx context.Context, cfg streams.Config, workspace string) (*replay.Log, error) {
	from, err := recorded.Open(ctx, cfg, workspace)
	if err != nil {
		return nil, err
	}
	return read(ctx, from)
}

// Bundled is Read of a bundle instead of brokers.
func Bundled(ctx context.Context, b *audit.Bundle) (*replay.Log, error) {
	return read(ctx, recorded.FromBundle(b))
}

func read(ctx context.Context, from *recorded.Log) (*replay.Log, error) {
	log := &replay.Log{Workspace: from.Workspace}
	// Where the first decisions are deleted the oldest one will do: its chain hash is over all before it.
	oldest, err := from.Oldest(ctx)
	if err == nil && oldest > 0 {
		err = from.Decisions(ctx, oldest-1, func(d recorded.Decision) error {
			log.Decided = append(log.Decided, replay.Decided{Seq: d.Seq, Offset: d.Offset, Chain: d.Chain})
			if len(log.Decided) > 1 {
				return nil
			}
			return from.Whole(d.Outcome)
		})
	}
	if errors.Is(err, recorded.ErrGone) {
		return nil, fmt.Errorf("%w: a log is decided again from its first record: %w", replay.ErrNotWhole, err)
	}
	if err != nil {
		return nil, err
	}
	err = from.Intents(ctx, func(in recorded.Intent) error {
		log.Records = append(log.Records, replay.Record{Offset: in.In.Offset, Intent: in.Intent})
		return nil
	})
	if err == nil && oldest == 0 && len(log.Records) == 0 {
		return nil, audit.Nothing(from.Workspace)
	}
	return log, err
}
