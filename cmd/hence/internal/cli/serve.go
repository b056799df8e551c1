package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/cluster"
)

// orphanBound is how long a process may take to end once its parent is gone.
const orphanBound = 10 * time.Second

// parent ties a process to the one that started it.
type parent struct {
	WithParent bool `hidden:"" help:"End when the standard input ends."`
}

// bind returns a context that also ends when the parent does.
func (p parent) bind(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if p.WithParent {
		// This goroutine ends with the process: a read of the standard input cannot be called off. Nothing would
		// kill a child that does not end when its parent is gone, so it does that itself.
		go func() {
			_, _ = io.Copy(io.Discard, in)
			cancel()
			time.Sleep(orphanBound)
			os.Exit(ExitFailed)
		}()
	}
	return ctx, cancel
}

// printReady prints one line: what serves where.
func printReady(w io.Writer, o output, role, agent, address string) error {
	ready := cluster.Ready{Role: role, Agent: agent, PID: os.Getpid(), Address: address}
	if !o.json() {
		_, err := fmt.Fprintf(w, "%s %s is ready at %s\n", role, agent, address)
		return err
	}
	return json.NewEncoder(w).Encode(ready)
}
