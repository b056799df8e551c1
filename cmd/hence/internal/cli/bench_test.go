package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/sequencer/testsize"
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
		f, ok := r.Find(k)
		// Within one process a fold may have the record before the producer has heard that it is acknowledged.
		positive := f.Median > 0 || k.Name == "append to fold, p50 µs"
		if !ok || !positive || f.Runs < 1 {
			t.Errorf("%s is %v of %d runs", k, f.Median, f.Runs)
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

// TestBenchAdding lets clients add to one shard for a moment.
func TestBenchAdding(t *testing.T) {
	t.Setenv(asProgram, "1")
	code, out, errs := hence(t, "bench", "throughput", "--seconds", "0.2", "--runs", "1", "--clients", "4", "--shards",
		"1", "--agents", "2", "-o", "json")
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitOK {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	for name, none := range map[string]bool{report.Rate: false, report.Refusals: true} {
		f, ok := r.Find(report.Key{Subject: report.Throughput, Case: report.Load(4, 1),
			System: report.Additive(report.InMemory), Name: name})
		if !ok || f.Median > 0 == none {
			t.Errorf("%s is %+v", name, f)
		}
	}
}

// TestBenchGrowth makes a point or two of each curve.
func TestBenchGrowth(t *testing.T) {
	t.Setenv(asProgram, "1")
	code, out, errs := hence(t, "bench", "growth", "--seconds", "0.1", "--runs", "1", "--rate", "200", "--past", "300",
		"--shards", "100", "--agents", "1", "--workspaces", "2", "-o", "json")
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitOK {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	for curve, sizes := range map[string][]float64{report.ByPast: {300}, report.ByShards: {100},
		report.ByUsed: {100}, report.ByAgents: {1}, report.ByWorkspaces: {1, 2}} {
		for _, size := range sizes {
			for _, name := range []string{report.CPUCommit, report.RecordsCommit, report.BytesCommit, report.AtRest} {
				f, ok := r.Find(report.Key{Subject: report.Growth, Case: curve + ", " + report.Number(size),
					System: report.All, Name: name})
				if !ok || f.Curve != curve || f.At != size || f.Median <= 0 && name != report.AtRest {
					t.Errorf("%s at %v: %s is %+v", curve, size, name, f)
				}
			}
		}
	}
}

// TestBenchSoak loads for some seconds: each series is there, as long as the samples, and drawn. With
// HENCE_SOAK_MINUTES (make soak) it loads for so long, and what is judged has to stay as it is.
func TestBenchSoak(t *testing.T) {
	t.Setenv(asProgram, "1")
	if minutes := os.Getenv("HENCE_SOAK_MINUTES"); minutes != "" {
		soakFor(t, minutes)
		return
	}
	svg := filepath.Join(t.TempDir(), "soak.svg")
	code, out, errs := hence(t, "bench", "soak", "--minutes", "0.05", "--every", "0.3", "--runs", "1", "--seconds", "0.3",
		"--clients", "4", "--agents", "2", "--rate-of-ceiling", "0.3", "-o", "json", "--svg", svg)
	var s report.Soak
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != ExitOK && code != ExitCheck {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	if !s.Whole || s.Turns == 0 || s.Rate <= 0 || s.Rate >= s.Ceiling || s.From != 1 || s.P99 < s.P50 || s.P50 <= 0 {
		t.Errorf("%+v", s)
	}
	of := map[string]int{}
	for _, series := range s.Series {
		of[series.Of]++
		if len(series.Values) != len(s.At) || len(s.At) < 2 {
			t.Errorf("%s: %s has %d values of %d samples", series.Of, series.Name, len(series.Values), len(s.At))
		}
		if series.Judged && slices.Max(series.Values) <= 0 {
			t.Errorf("%s: %s has no value above 0", series.Of, series.Name)
		}
	}
	if of["load"] != 3 || of["sidecars"] != 5 || of["processors"] != 4 {
		t.Errorf("series: %v", of)
	}
	if written, err := os.ReadFile(svg); err != nil || !strings.Contains(string(written), "resident MB") {
		t.Errorf("%v: %.100s", err, written)
	}
	if code, _, errs := hence(t, "bench", "soak", "--minutes", "5", "--from", "6"); code != ExitUsage {
		t.Errorf("slopes of what comes after the end: exit code %d, %s", code, errs)
	}
}

func soakFor(t *testing.T, minutes string) {
	t.Helper()
	began := time.Now()
	code, out, errs := hence(t, "bench", "soak", "--minutes", minutes, "-o", "json")
	var s report.Soak
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	var table strings.Builder
	if err := s.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
	if code != ExitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
	holding, judged := 0, 0
	for _, series := range s.Series {
		if !series.Judged {
			continue
		}
		if judged++; series.Slope < report.SteepAbove {
			holding++
		}
	}
	if judged == 0 {
		t.Error("nothing was judged")
	}
	testsize.Figure(t, began, "values of sidecars and processors under load (memory, goroutines, files, disk, times of "+
		"turns) that grow by less than 1 % in ten minutes", holding, judged, "make soak")
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

// TestBenchTables runs some rows of the papers' claims, of each sort, and holds them against docs/proof.md; at full
// size all that need Hence itself.
func TestBenchTables(t *testing.T) {
	t.Setenv(asProgram, "1") // of nodes that are processes
	text, err := os.ReadFile("../../../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if shape, is := tables.ShapeOf(line); is {
			id, _, _ := strings.Cut(shape, " | ")
			shapes[id] = shape
		}
	}
	args := []string{"bench", "tables", "-o", "json"}
	rows := []string{"C31", "D46", "D51", "D52", "S02", "S44", "A13", "D11"}
	if !testsize.Small() { // one of each way of measuring; docs/proof.md has them all
		rows = append(rows, "C12", "D48", "D65", "S05", "S08", "S11", "S12", "S15", "S24", "S27", "S30", "S39", "S40",
			"S53", "A08", "A15", "A21", "A32", "A36", "A38", "A43", "A44")
	}
	for _, id := range rows {
		args = append(args, "--row", id)
	}
	code, out, errs := hence(t, args...)
	var r tables.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitOK && (testsize.Small() || code != ExitCheck) {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	// How these come out is a matter of the machine: of its speed, or whether a baseline without control goes wrong.
	timed := []string{"S20", "S32", "S34", "S36", "S45", "S46", "S49", "A09", "A11", "A12", "A18"}
	for i := range r.Rows {
		o := &r.Rows[i]
		if o.Shape() != shapes[o.ID] && !slices.Contains(timed, o.ID) {
			t.Errorf("%s is\n%s\nand docs/proof.md has\n%s", o.ID, o.Shape(), shapes[o.ID])
		}
	}
	svg, doc := filepath.Join(t.TempDir(), "plots.svg"), filepath.Join(t.TempDir(), "proof.md")
	code, out, errs = hence(t, "bench", "tables", "--pure", "--row", "c36", "--row", "S02", "--svg", svg, "--doc", doc)
	if code != ExitOK || !strings.Contains(out, "1 reproduced, 1 not run") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for path, text := range map[string]string{svg: "C36: ", doc: "| C36 | "} {
		if written, err := os.ReadFile(path); err != nil || !strings.Contains(string(written), text) {
			t.Errorf("%s: %v, %.100s", path, err, written)
		}
	}
	if _, out, errs := hence(t, "bench", "tables", "--row", "C36"); !strings.Contains(out, "\n  verdict   reproduced\n") {
		t.Errorf("a row alone is not shown whole: %s%s", out, errs)
	}
	if code, _, errs := hence(t, "bench", "tables", "--row", "X1"); code != ExitUsage {
		t.Errorf("a row that is none: exit code %d: %s", code, errs)
	}
}

// TestBenchNodes runs a row whose nodes are processes that are killed, and one whose node is cut off from the log.
func TestBenchNodes(t *testing.T) {
	t.Setenv(asProgram, "1")
	code, out, errs := hence(t, "bench", "tables", "--row", "S39", "--row", "C12")
	if code != ExitOK || !strings.Contains(out, "2 rows: 1 reproduced, 1 beaten") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
