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
	"github.com/hence-dev/hence/sequencer"
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
	cfg := demo.Config{Agents: number(t, "HENCE_IT_EXPORT_AGENTS", 4), Tasks: number(t, "HENCE_IT_EXPORT_TASKS", 3),
		Faults: float64(number(t, "HENCE_IT_EXPORT_FAULTS", 0)) / 100, Think: time.Millisecond, Seed: 1,
		Order: "optimistic", Brokers: servers.Brokers, NATS: servers.NATS, Partitions: 2}
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

// number is a count of the environment, or a small one.
func number(t *testing.T, name string, small int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return small
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestEnforced: a run that was enforced, exported, has no anomaly and level L4.
func TestEnforced(t *testing.T) {
	log := demoRun(t, func(*demo.Config) {})
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

// TestObserved: a run that was only observed has the anomalies that enforcing would have refused: each operation that
// would have been refused is in a finding, and each finding is about one that would have been.
func TestObserved(t *testing.T) {
	log := demoRun(t, func(c *demo.Config) { c.Observe = true })
	got, _ := checked(t, log)
	would := map[string]sequencer.Code{}
	err := log.Decisions(t.Context(), 0, func(d recorded.Decision) error {
		if d.Kind == sequencer.OutcomeCommitted && d.Would != "" && d.Would != sequencer.CodeWaiting {
			would[string(d.Tx)] = d.Would
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found, kinds := map[string]bool{}, map[string]int{}
	for _, f := range got.Findings {
		reader := f.Records[0]
		kinds[f.Kind]++
		if f.Kind == "A1" {
			found[reader.Txn] = true
		}
		if f.Kind == "A1" && would[reader.Txn] == "" {
			t.Errorf("nothing would have been refused of %s: %s", reader.Txn, f.Sentence)
		}
	}
	codes := map[sequencer.Code]int{}
	for tx, code := range would {
		if codes[code]++; code == sequencer.CodeStaleRead && !found[tx] {
			t.Errorf("%s would have been refused as %s, and no A1 is about it", tx, code)
		}
	}
	if got.Certain == 0 || codes[sequencer.CodeStaleRead] == 0 {
		t.Errorf("the run was too tame: %d findings, would have been refused: %v", got.Certain, codes)
	}
	t.Logf("%d operations: %v; would have been refused: %v; undecided %+v", got.Operations, kinds, codes, got.Undecided)
}
