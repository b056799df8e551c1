package tables

import (
	"context"
	"errors"
	"fmt"
)

// Fleets is a ground that starts parts of Hence as processes of their own.
type Fleets interface {
	// Fleet starts servers of their own, which stay until the fleet is closed.
	Fleet(ctx context.Context) (Fleet, error)
}

// Fleet is parts over the same servers and of one workspace. Each row closes its own.
type Fleet interface {
	// Processor starts one, in a group: a, or b, which does the same once more.
	Processor(ctx context.Context, group string) (Part, error)
	// Sidecar starts one with a folder, an agent and an S-Bus of its own, and with flags beside those.
	Sidecar(ctx context.Context, flags ...string) (Part, error)
	// Whole starts all in one process, servers too, which keeps what it has in a folder or in memory.
	Whole(ctx context.Context, folder bool) (Part, error)
	Close() error
}

// Part is one process, which is ready.
type Part interface {
	At() Node
	Kill() error                     // as kill -9 does; it is gone when this returns
	Start(ctx context.Context) error // again, where it was and with what it has on disk
}

// Node is where a part is.
type Node struct {
	PID int32
	URL string // of its health and metrics; of a sidecar, of its interface
	Bus string // of a sidecar: where clients of S-Bus are served
}

// onFleet measures on processes of Hence.
func onFleet[T any](ctx context.Context, e *Env, measure func(context.Context, Fleet) (T, error)) (out T, err error) {
	fleets, has := e.Ground.(Fleets)
	if !has {
		return out, errors.New("this ground starts no processes")
	}
	f, err := fleets.Fleet(ctx)
	if err != nil {
		return out, fmt.Errorf("start processes: %w", err)
	}
	out, err = measure(ctx, f)
	return out, errors.Join(err, f.Close())
}

// besideFleets is beside with nodes that are killed, of Hence and of stores.
func besideFleets[T any](ctx context.Context, e *Env, stores []*peers, measure func(context.Context, Fleet) (T, error),
) (ours T, theirs []T, err error) {
	if ours, err = onFleet(ctx, e, measure); err != nil {
		return ours, nil, fmt.Errorf("on Hence: %w", err)
	}
	for _, p := range stores {
		got, err := measure(ctx, p)
		if err = errors.Join(err, p.Close()); err != nil {
			return ours, nil, fmt.Errorf("on a store: %w", err)
		}
		theirs = append(theirs, got)
	}
	return ours, theirs, nil
}

// sidecars starts a processor and so many sidecars.
func sidecars(ctx context.Context, f Fleet, n int, flags ...string) (all []Part, err error) {
	if _, err = f.Processor(ctx, "a"); err != nil {
		return nil, err
	}
	for range n {
		one, err := f.Sidecar(ctx, flags...)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// busesOf are clients of the S-Bus of nodes.
func busesOf(parts ...Part) (all []*bus) {
	for _, p := range parts {
		all = append(all, newBus(p.At().Bus))
	}
	return all
}
