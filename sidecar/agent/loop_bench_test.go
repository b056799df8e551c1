package agent

import (
	"context"
	"log/slog"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/once"
)

// BenchmarkLocal is what the agent's own state costs: a read in an open transaction, called and over HTTP, and a
// decision, over a log in memory.
func BenchmarkLocal(b *testing.B) {
	s, err := assemble(setup{Agent: "a", DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Fast: true, Limits: Limits{PendingEvents: 1 << 30}}, newLog().Door())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	c := client.New(s.URL(), s.Token())
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.session.Read(ctx, tx.ID(), &api.Read{Scope: "shard:/x"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read over HTTP", func(b *testing.B) {
		for b.Loop() {
			if _, err := tx.Read(ctx, "shard:/x"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decision", func(b *testing.B) {
		for b.Loop() {
			text := "x"
			d, err := s.session.Begin(ctx, once.Call{}, &api.Begin{})
			if err == nil {
				_, err = s.session.Write(ctx, d.Tx, &api.Write{Scope: "shard:/y", Content: &text})
			}
			if err == nil {
				_, err = s.session.Seal(ctx, d.Tx, &api.Seal{})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	c.Close()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
