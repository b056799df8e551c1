package ground

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sidecar/client"
)

func TestMain(m *testing.M) {
	// One goroutine of sarama's metrics for the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func start(t *testing.T, o Options) *Ground {
	t.Helper()
	o.Name, o.Logger = "bench-test", slog.New(slog.DiscardHandler)
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// What is written between two marks is counted by topic: one intent for one write, and nothing before or after.
func TestWritten(t *testing.T) {
	g := start(t, Options{Data: true})
	doors, err := g.Doors(t.Context(), "w", false, "ann", "bob")
	if err != nil || len(doors) != 2 || doors[0].Token == doors[1].Token {
		t.Fatalf("%v, %+v", err, doors)
	}
	c := client.New(doors[0].URL, doors[0].Token, client.WithWorkspace("w"))
	defer c.Close()
	const writes = 20
	var marks []Mark
	for range 2 {
		mark, err := g.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if marks = append(marks, mark); len(marks) == 2 {
			break
		}
		for range writes {
			if _, err := c.Put(t.Context(), "shard:/x", []byte("content"), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := g.Written(t.Context(), marks[0], marks[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		if w.Topic == "hence.intents" { // renewals of leases may come between
			if w.Records < writes || w.Records > writes+5 || w.Bytes < writes*int64(len("content")) {
				t.Errorf("%+v of %d writes", w, writes)
			}
			return
		}
	}
	t.Errorf("there are no intents in %+v", all)
}

// A ground that cannot be started leaves nothing behind, and says why.
func TestStartFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, Options{Brokers: []string{"127.0.0.1:1"}, NATS: "nats://127.0.0.1:1", Name: "bench-test",
		Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "create the topics") {
		t.Errorf("got %v", err)
	}
}

// In one process everything is one group, which is not told apart from those who ask.
func TestProcesses(t *testing.T) {
	g := start(t, Options{})
	all, unseen := g.Processes()
	if len(all) != 1 || all[0].Load || len(all[0].PIDs) != 1 || unseen != nil || len(g.Children(RoleSidecar)) != 0 {
		t.Errorf("%+v, %v", all, unseen)
	}
}
