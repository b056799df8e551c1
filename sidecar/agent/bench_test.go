package agent

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// BenchmarkTransaction is one transaction over HTTP: begin, a read, a write, a seal, each answered, over a log in
// memory. What is left is the sidecar's own cost.
func BenchmarkTransaction(b *testing.B) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		b.Run(mode, func(b *testing.B) {
			log := newLog()
			s, err := assemble(setup{Agent: "a", DataDir: b.TempDir(), Fast: true,
				Logger: slog.New(slog.DiscardHandler)}, log.Door())
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			<-s.Ready()
			c := client.New(s.URL(), s.Token())
			for i := 0; b.Loop(); i++ {
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
				if err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
