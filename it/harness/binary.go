package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/child"
)

// BuildBound is how long the build of the binary may take on a small machine.
const BuildBound = 10 * time.Minute

// Build compiles the hence binary, with build tags if any are given, into a folder and returns its path.
func Build(dir string, tags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), BuildBound)
	defer cancel()
	path := filepath.Join(dir, strings.Join(append([]string{"hence"}, tags...), "-"))
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", path,
		"github.com/hence-dev/hence/cmd/hence")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the hence binary: %w\n%s", err, out)
	}
	return path, nil
}

// plainEnv is the environment without settings of the binary, which are not this test's.
func plainEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HENCE_") {
			env = append(env, e)
		}
	}
	return env
}

// Process is one started command of the binary.
type Process struct {
	*child.Process
	stdout bytes.Buffer

	mu     sync.Mutex
	recent []string
	panics []string
}

// maxRecent bounds the lines of a process that are kept for messages.
const maxRecent = 60

// Spawn starts the binary. Lines of its standard error go to each, from one goroutine; it may be nil. The process is
// killed with the test.
func Spawn(tb testing.TB, binary string, each func(line string), args ...string) *Process {
	tb.Helper()
	return SpawnCommand(tb, each, exec.Command(binary, args...))
}

// SpawnCommand is Spawn for a command whose Env is set besides the rest.
func SpawnCommand(tb testing.TB, each func(line string), cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{}
	p.start(tb, &p.stdout, each, cmd)
	return p
}

// SpawnServing is Spawn for a command that prints one line on its standard output once it serves, and waits for it.
func SpawnServing(tb testing.TB, bound time.Duration, binary string, args ...string) (*Process, []byte) {
	tb.Helper()
	p, line, err := Launch(tb, bound, exec.Command(binary, args...))
	if err != nil {
		tb.Fatal(err)
	}
	return p, line
}

// ErrEnded is returned by Launch when the process ended before it served.
var ErrEnded = errors.New("it ended before it served")

// Launch is SpawnServing for a command that may end before it serves; what its Env names is set besides the rest.
func Launch(tb testing.TB, bound time.Duration, cmd *exec.Cmd) (*Process, []byte, error) {
	tb.Helper()
	p, out := &Process{}, &firstLine{seen: make(chan []byte, 1)}
	p.start(tb, out, nil, cmd)
	select {
	case line := <-out.seen:
		return p, line, nil
	case <-p.Ended():
		return p, nil, fmt.Errorf("%v: %w: %w\n%s", cmd.Args, ErrEnded, p.failure(), p.Words())
	case <-time.After(bound):
		return p, nil, fmt.Errorf("%v does not serve after %v\n%s", cmd.Args, bound, p.Words())
	}
}

// firstLine passes the first line that is written on, and drops the rest.
type firstLine struct {
	seen chan []byte
	text []byte
	done bool
}

func (f *firstLine) Write(b []byte) (int, error) {
	if !f.done {
		f.text = append(f.text, b...)
		if line, _, whole := bytes.Cut(f.text, []byte("\n")); whole {
			f.done = true
			f.seen <- line
		}
	}
	return len(b), nil
}

func (p *Process) start(tb testing.TB, stdout io.Writer, each func(string), cmd *exec.Cmd) {
	tb.Helper()
	// A "hence dev" of another test is not to be found, and the user's own is left alone.
	own := append(plainEnv(), "XDG_STATE_HOME="+tb.TempDir())
	cmd.Env, cmd.WaitDelay = append(own, cmd.Env...), 10*time.Second
	cmd.Stdout = stdout
	stderr, err := cmd.StderrPipe()
	if err == nil {
		p.Process, err = child.Start(cmd, func() { p.readLines(stderr, each) })
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Kill() }) // it may have ended
}

// Interrupt asks the process to end, as Ctrl-C does.
func (p *Process) Interrupt() error { return p.Signal(os.Interrupt) }

// Terminate asks the process to end, also one that was started to ignore Ctrl-C.
func (p *Process) Terminate() error { return p.Signal(syscall.SIGTERM) }

// Kill ends the process without a farewell and waits for that.
func (p *Process) Kill() error {
	err := p.Signal(os.Kill)
	<-p.Ended()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (p *Process) readLines(from io.Reader, each func(string)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.recent = append(p.recent, lines.Text())
		p.recent = p.recent[max(0, len(p.recent)-maxRecent):]
		if tellsPanic(lines.Text()) {
			p.panics = append(p.panics, lines.Text())
		}
		p.mu.Unlock()
		if each != nil {
			each(lines.Text())
		}
	}
}

func tellsPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.Contains(line, "panic serving")
}

// Panics are the lines of its standard error that tell of one.
func (p *Process) Panics() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.panics)
}

// Words are the last lines of its standard error.
func (p *Process) Words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.recent, "\n")
}

// failure is what waiting for a process that has ended returned.
func (p *Process) failure() error {
	_, err := p.Result()
	return err
}

// Wait waits for the end and returns the standard output and the exit code.
func (p *Process) Wait(bound time.Duration) (stdout []byte, code int, err error) {
	select {
	case <-p.Ended():
	case <-time.After(bound):
		return nil, 0, fmt.Errorf("it still runs after %v; its last words:\n%s", bound, p.Words())
	}
	var exit *exec.ExitError
	if err := p.failure(); err != nil && !errors.As(err, &exit) {
		return nil, 0, err
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return p.stdout.Bytes(), code, nil
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
}

// String is the report's figures on one line.
func (r Report) String() string {
	return fmt.Sprintf("%s seed %d, %d agents, %s %s: %d transactions, %d committed, %d retries, %d gave up, lost %d, "+
		"missing %d, replay %v, %.0f ms, seal to decision p50 %.2f p99 %.2f ms, append p50 %.2f ms, refused %v; "+
		"%d effects, leaks %d, duplicates %d, missing %d, not undone %d, residue %v",
		r.Data, r.Seed, r.Agents, r.Order, r.Mode, r.Transactions, r.Committed, r.Retries, r.GaveUp, r.LostUpdates,
		r.AcknowledgedMissing, r.ReplayEqual, r.DurationMs, r.SealToMs.P50, r.SealToMs.P99, r.AppendMs.P50, r.Refused,
		r.Effects, r.Leaks, r.Duplicates, r.EffectsMissing, r.NotUndone, r.Residue)
}

// Holds says what of the demo's own check does not hold in an enforcing run.
func (r Report) Holds() error {
	if r.LostUpdates != 0 || r.AcknowledgedMissing != 0 || !r.ReplayEqual {
		return fmt.Errorf("the check does not hold: %s; lost %s, missing %s, differs %v", r, r.Lost, r.Missing, r.Differs)
	}
	if r.Effects == 0 || r.Leaks+r.Duplicates+r.EffectsMissing+r.NotUndone != 0 {
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
