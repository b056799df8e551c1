package bench

import (
	"context"
	"fmt"
	"os"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
)

// size measures the binary, and processes that do nothing.
func (b *bench) size(ctx context.Context) error {
	return b.rounds(ctx, "size", nil, func(ctx context.Context, r *round) error {
		binary, err := os.Stat(b.Program)
		if err != nil {
			return fmt.Errorf("look at the binary: %w", err)
		}
		r.put(report.Size, "on disk", "binary", report.MB, float64(binary.Size())/mega)
		return b.on(ctx, One, nil, func(ctx context.Context, g *ground.Ground) error { return b.idle(ctx, g, r) })
	})
}

// idle looks at the memory of processes that have nothing to do. That of the processors depends on what the log has.
func (b *bench) idle(ctx context.Context, g *ground.Ground, r *round) error {
	if _, _, err := b.doorsOn(ctx, g, false, 1); err != nil {
		return err
	}
	if err := b.rest(ctx); err != nil {
		return err
	}
	groups, _ := g.Processes() // servers that are not seen are not asked for here
	for _, group := range groups {
		name := map[string]string{"sidecars": "sidecar", "processors": "processors"}[group.Name]
		if name == "" {
			continue
		}
		resident, err := usage.Memory(group.PIDs[0])
		if err != nil {
			return err
		}
		r.put(report.Size, "idle", name, report.MB, float64(resident)/mega)
	}
	return nil
}
