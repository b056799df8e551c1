package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// TestBench measures for a moment, on embedded servers and with child processes: every figure that its subjects
// promise is there, and is one.
func TestBench(t *testing.T) {
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	svg, doc := filepath.Join(dir, "plot.svg"), filepath.Join(dir, "performance.md")
	code, out, errs := hence(t, "bench", "latency", "throughput", "read", "size", "--seconds", "0.2", "--runs", "1",
		"--clients", "4", "--shards", "8", "--agents", "2", "-o", "json", "--svg", svg, "--doc", doc)
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitOK {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	for _, k := range []report.Key{
		{Subject: report.Latency, Case: "4 in flight", System: report.Floor, Name: report.P50},
		{Subject: report.Latency, Case: "4 in flight", System: report.InMemory, Name: report.OfFloor99},
		{Subject: report.Parts, Case: "4 in flight", System: report.InMemory, Name: "append to fold, p50 µs"},
		{Subject: report.Parts, Case: "4 in flight", System: report.InMemory, Name: "whole, p50 µs"},
		{Subject: report.Throughput, Case: "4 × 8", System: report.InMemory, Name: report.Rate},
		{Subject: report.Throughput, Case: "4 × 8", System: report.Loop, Name: report.Rate},
		{Subject: report.Throughput, Case: "4 × 8", System: report.Generator, Name: report.Rate},
		{Subject: report.CPU, Case: "4 × 8", System: report.All, Name: report.CPUCommit},
		{Subject: report.Records, Case: "4 × 8", System: "hence.intents", Name: report.RecordsCommit},
		{Subject: report.Records, Case: "4 × 8", System: report.All, Name: report.BytesCommit},
		{Subject: report.Read, Case: "journalled read", System: report.InMemory, Name: report.OfBare},
		{Subject: report.Size, Case: "idle", System: "sidecar", Name: report.MB},
	} {
		if f, ok := r.Find(k); !ok || f.Median <= 0 || f.Runs < 1 {
			t.Errorf("%s is %+v", k, f)
		}
	}
	for path, text := range map[string]string{svg: "</svg>", doc: "# Performance"} {
		if written, err := os.ReadFile(path); err != nil || !strings.Contains(string(written), text) {
			t.Errorf("%s: %v, %.100s", path, err, written)
		}
	}
	if n, ok := r.Find(report.Key{Subject: report.Records, Case: "4 × 8", System: "hence.intents",
		Name: report.RecordsCommit}); ok && (n.Median < 0.9 || n.Median > 3) { // a commit is an intent, a refused one, too
		t.Errorf("%v intents a commit", n.Median)
	}
}

// TestBenchCompare compares reports: a figure that is more than 10 % worse is said by the exit code.
func TestBenchCompare(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rate float64) string {
		r := report.Report{Version: report.Version}
		k := report.Key{Subject: report.Throughput, Case: "8 × 64", System: report.OneCar, Name: report.Rate}
		r.Add(k, []float64{rate}, 0, false)
		text, err := json.Marshal(r)
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, same, worse := write("a", 1000), write("b", 950), write("c", 850)
	for _, c := range []struct {
		after string
		code  int
		says  string
	}{{same, ExitOK, "0.95"}, {worse, ExitCheck, "worse"}, {filepath.Join(dir, "none"), ExitFailed, ""}} {
		code, out, errs := hence(t, "bench", "compare", before, c.after)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, %s%s", c.after, code, out, errs)
		}
	}
}
