package tables

import (
	"context"
	"syscall"
)

// Sidecars is a ground that also starts sidecars as processes of their own.
type Sidecars interface {
	// Sidecars serves a new workspace with a process for each node, until the context ends; they serve no S-Bus.
	Sidecars(ctx context.Context, nodes, agents int, policy string) (Place, []Side, error)
}

// Side is a sidecar in a process of its own. Whenever it ends it is started again, at its address and with its
// journal.
type Side interface {
	// Signal sends a signal to the process that runs now.
	Signal(s syscall.Signal) error
	// Back waits until another process serves than the one that was signalled last.
	Back(ctx context.Context) error
}
