package sidecar_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// running is the client of a sidecar over a log in memory that runs until the benchmark ends.
func running(b *testing.B) *client.Client {
	b.Helper()
	s, err := sidecar.New(sidecar.Config{Agent: "a", DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)},
		memlog.New("default").Door())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	c := client.New(s.URL(), s.Token())
	b.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return c
}

// BenchmarkLocalRead is a read of an open transaction over HTTP: the journal has it before it is answered.
func BenchmarkLocalRead(b *testing.B) {
	c, ctx := running(b), context.Background()
	if _, err := c.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tx.Read(ctx, "shard:/x"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecision is a transaction of one write over HTTP, from the request to its decision.
func BenchmarkDecision(b *testing.B) {
	c, ctx := running(b), context.Background()
	for i := 0; b.Loop(); i++ {
		if _, err := c.Put(ctx, "shard:/x", fmt.Append(nil, i), client.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
