package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// DemoBound is how long one run of the demo may take.
const DemoBound = 5 * time.Minute

// Orders are the order modes that every run is repeated in.
func Orders() []string { return []string{"optimistic", "ordered", "locked"} }

// Audited runs an enforcing demo and checks it twice: what it says of itself, and what its records and the log say.
func Audited(t *testing.T, servers *Servers, args ...string) Report {
	t.Helper()
	records := filepath.Join(t.TempDir(), "records")
	report, code := Demo(t, Binary(t), servers, DemoBound, append(args, "--records", records)...)
	t.Log(report)
	if err := report.Holds(); err != nil || code != 0 {
		t.Errorf("exit code %d: %v", code, err)
	}
	if report.Committed != report.Transactions || report.GaveUp != 0 {
		t.Errorf("%d of %d tasks are committed, %d were given up", report.Committed, report.Transactions, report.GaveUp)
	}
	attempts := AttemptsOf(t, ReadAttempts(t, records))
	Holds(t, attempts, DecisionsOf(t, servers, report.Workspace, attempts))
	return report
}

// Report is what "hence demo -o json" prints, as far as the suite looks at it.
type Report struct {
	Data         string         `json:"data"`
	Workspace    string         `json:"workspace"`
	Seed         uint64         `json:"seed"`
	Agents       int            `json:"agents"`
	Order        string         `json:"order"`
	Mode         string         `json:"mode"`
	Transactions int            `json:"transactions"`
	Committed    int            `json:"committed"`
	Refused      map[string]int `json:"refused"`
	Retries      int            `json:"retries"`
	Interrupted  int            `json:"interrupted"`
	GaveUp       int            `json:"gave_up"`
	DurationMs   float64        `json:"duration_ms"`
	SealToMs     struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"seal_to_decision_ms"`
	AppendMs struct {
		P50 float64 `json:"p50"`
	} `json:"append_ms"`
	LostUpdates         int             `json:"lost_updates"`
	AcknowledgedMissing int             `json:"acknowledged_missing"`
	ReplayEqual         bool            `json:"replay_equal"`
	Hash                string          `json:"hash"`
	Lost                json.RawMessage `json:"lost"`
	Missing             json.RawMessage `json:"missing"`
	Differs             []string        `json:"differs"`
	Effects             int             `json:"effects"` // what the sinks did
	Leaks               int             `json:"leaks"`
	Duplicates          int             `json:"duplicates"`
	EffectsMissing      int             `json:"effects_missing"`
	NotUndone           int             `json:"not_undone"`
	Residue             map[string]int  `json:"residue"` // what could not be made clean, by class
	Faults              map[string]int  `json:"faults"`  // injected at the sinks, by kind
	Findings            json.RawMessage `json:"findings"`
	Planned             struct {
		Turns   int `json:"turns"`
		Made    int `json:"made"`
		Never   int `json:"never_came"`
		Passed  int `json:"passed"`
		Against int `json:"against_plan"`
	} `json:"planned"`
}

// String is the report's figures on one line.
func (r Report) String() string {
	return fmt.Sprintf("%s seed %d, %d agents, %s %s: %d transactions, %d committed, %d retries, %d gave up, lost %d, "+
		"missing %d, replay %v, %.0f ms, seal to decision p50 %.2f p99 %.2f ms, append p50 %.2f ms, refused %v; "+
		"%d effects, leaks %d, duplicates %d, missing %d, not undone %d, residue %v, planned turns %+v",
		r.Data, r.Seed, r.Agents, r.Order, r.Mode, r.Transactions, r.Committed, r.Retries, r.GaveUp, r.LostUpdates,
		r.AcknowledgedMissing, r.ReplayEqual, r.DurationMs, r.SealToMs.P50, r.SealToMs.P99, r.AppendMs.P50, r.Refused,
		r.Effects, r.Leaks, r.Duplicates, r.EffectsMissing, r.NotUndone, r.Residue, r.Planned)
}

// Holds says what of the demo's own check does not hold in an enforcing run.
func (r Report) Holds() error {
	if r.LostUpdates != 0 || r.AcknowledgedMissing != 0 || !r.ReplayEqual {
		return fmt.Errorf("the check does not hold: %s; lost %s, missing %s, differs %v", r, r.Lost, r.Missing, r.Differs)
	}
	if r.Effects == 0 || r.Leaks+r.Duplicates+r.EffectsMissing+r.NotUndone+r.Planned.Against != 0 {
		return fmt.Errorf("the check of the effects does not hold: %s; findings %s", r, r.Findings)
	}
	return nil
}

// Attempt is one line of the demo's records.
type Attempt struct {
	Agent string `json:"agent"`
	Task  int    `json:"task"`
	N     int    `json:"n"`
	Tx    string `json:"tx"`
	Reads []struct {
		Scope   string `json:"scope"`
		Exists  bool   `json:"exists"`
		Version uint64 `json:"version"`
		View    uint64 `json:"view"`
		SHA256  string `json:"sha256"`
	} `json:"reads"`
	Writes []struct {
		Scope  string `json:"scope"`
		SHA256 string `json:"sha256"`
	} `json:"writes"`
	Sealed bool   `json:"sealed"`
	End    string `json:"end"`
	Code   string `json:"code"`
	Seq    uint64 `json:"seq"`
}

// Demo runs "hence demo -o json" to its end and returns the report and the exit code. On servers that are not nil it
// uses those, else embedded ones of its own.
func Demo(tb testing.TB, binary string, servers *Servers, bound time.Duration, args ...string) (Report, int) {
	tb.Helper()
	return StartDemo(tb, binary, servers, nil, args...).Report(tb, bound)
}

// RunningDemo is a demo under way.
type RunningDemo struct{ *Process }

// StartDemo starts "hence demo -o json"; each is given the lines of its standard error.
func StartDemo(tb testing.TB, binary string, servers *Servers, each func(string), args ...string) *RunningDemo {
	tb.Helper()
	args = append([]string{"demo", "--output", "json"}, args...)
	if servers != nil {
		args = append(args, "--brokers", strings.Join(servers.Brokers, ","), "--nats", servers.NATS)
	}
	return &RunningDemo{Spawn(tb, binary, each, args...)}
}

// Report waits for the demo's end.
func (d *RunningDemo) Report(tb testing.TB, bound time.Duration) (Report, int) {
	tb.Helper()
	out, code, err := d.Wait(bound)
	if err != nil {
		tb.Fatalf("demo: %v", err)
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		tb.Fatalf("demo ended with %d and printed no report: %v\n%s\n%s", code, err, out, d.Words())
	}
	return r, code
}

// ReadAttempts reads the demo's records.
func ReadAttempts(tb testing.TB, path string) []Attempt {
	tb.Helper()
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var all []Attempt
	for dec := json.NewDecoder(file); dec.More(); {
		var a Attempt
		if err := dec.Decode(&a); err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		all = append(all, a)
	}
	return all
}
