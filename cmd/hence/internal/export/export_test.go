package export_test

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/check"
	"github.com/hence-dev/hence/cmd/hence/internal/demo"
	"github.com/hence-dev/hence/cmd/hence/internal/export"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/recorded"
)

// demoRun runs the demo over servers of the test and returns its log.
func demoRun(t *testing.T, change func(*demo.Config)) *recorded.Log {
	t.Helper()
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	cfg := demo.Config{Agents: 4, Tasks: 3, Think: time.Millisecond, Seed: 1, Order: "optimistic",
		Brokers: servers.Brokers, NATS: servers.NATS, Partitions: 2}
	change(&cfg)
	report, err := demo.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	log, err := recorded.Open(t.Context(), streams.Config{Brokers: servers.Brokers, NATS: servers.NATS,
		Dial: servers.Dial, Partitions: cfg.Partitions}, report.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// checked exports a log and checks it.
func checked(t *testing.T, log *recorded.Log) (*check.Result, []byte) {
	t.Helper()
	var text bytes.Buffer
	result, err := export.Write(context.Background(), log, &text, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := check.Read(t.Context(), "export", bytes.NewReader(text.Bytes()), check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Operations != result.Operations {
		t.Errorf("%d operations are checked of %d", got.Operations, result.Operations)
	}
	return got, text.Bytes()
}

// size is a count of the environment, or a small one.
func size(name string, small int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return small
	}
	return n
}

// TestEnforced: a run that was enforced, exported, has no anomaly and level L4.
func TestEnforced(t *testing.T) {
	log := demoRun(t, func(c *demo.Config) {
		c.Agents, c.Tasks = size("HENCE_IT_EXPORT_AGENTS", c.Agents), size("HENCE_IT_EXPORT_TASKS", c.Tasks)
	})
	got, text := checked(t, log)
	if got.Certain != 0 || got.Possible != 0 || got.Level.Least != 4 || !got.Serializable {
		for i, f := range got.Findings {
			if i < 10 {
				t.Error(f.Sentence)
			}
		}
		t.Errorf("%d certain and %d possible findings, level %d to %d, serializable: %v, undecided %+v", got.Certain,
			got.Possible, got.Level.Least, got.Level.Most, got.Serializable, got.Undecided)
	}
	t.Logf("%d operations, %d aborted, undecided %+v", got.Operations, got.Aborted, got.Undecided)
	if path := os.Getenv("HENCE_IT_EXPORT_FILE"); path != "" {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
