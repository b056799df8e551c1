package agent

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// BenchmarkTransaction is one transaction over HTTP: begin, a read, a write, a seal, each answered, over a log in
// memory. What is left is the sidecar's own cost.
func BenchmarkTransaction(b *testing.B) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		b.Run(mode, func(b *testing.B) {
			benchmarkTurns(b, func(ctx context.Context, c *client.Client, i int) error {
				tx, err := c.Begin(ctx, client.BeginOptions{Mode: mode})
				if err == nil {
					_, err = tx.Read(ctx, "shard:/x")
				}
				if err == nil {
					err = tx.Write(ctx, "shard:/x", fmt.Append(nil, i), client.WriteOptions{})
				}
				if err == nil {
					_, err = tx.Seal(ctx)
				}
				return err
			})
		})
	}
}

// BenchmarkOneRequest is the same turn by one read of many scopes and one commit.
func BenchmarkOneRequest(b *testing.B) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		b.Run(mode, func(b *testing.B) {
			benchmarkTurns(b, func(ctx context.Context, c *client.Client, i int) error {
				got, _, err := c.ReadAll(ctx, "shard:/x")
				if err != nil {
					return err
				}
				_, err = c.Commit(ctx, client.Commit{Mode: mode, Reads: []client.SeenAt{got[0].At()},
					Writes: []client.Write{{Scope: "shard:/x", Content: fmt.Append(nil, i)}}})
				return err
			})
		})
	}
}

// benchmarkTurns makes turns over HTTP, over a log in memory: what is left is the sidecar's own cost.
func benchmarkTurns(b *testing.B, turn func(ctx context.Context, c *client.Client, i int) error) {
	b.Helper()
	log := newLog()
	s, err := assemble(setup{Agent: "a", DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)}, log.Door())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	c := client.New(s.URL(), s.Token())
	before := cpuOf(b)
	for i := 0; b.Loop(); i++ {
		if err := turn(ctx, c, i); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuOf(b)-before)/float64(b.N), "cpu-ns/op")
	c.Close()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// cpuOf is what this process has used so far, in nanoseconds.
func cpuOf(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
