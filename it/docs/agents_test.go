package docs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/fenced"
	"github.com/hence-dev/hence/it/harness"
)

// Answers of a sidecar, each a status and a body.
const (
	saysOpen      = `201 {"tx":"a.1.1","state":"open"}`
	saysSealed    = `202 {"tx":"a.1.1","state":"sealed"}`
	saysCommitted = `200 {"tx":"a.1.1","state":"committed","seq":7}`
	saysStale     = `409 {"code":"stale_read","status":409,"retryable":true,"decision":{"tx":"a.1.1",` +
		`"state":"aborted","code":"stale_read","retryable":true,"backoff_ms":2}}`
	saysNotReady = `503 {"code":"not_ready","status":503,"retryable":true,"safe_to_retry_with_same_key":true}`
	saysWaiting  = `409 {"code":"touch_waiting","status":409,"retryable":true,"safe_to_retry_with_same_key":false}`
	saysNoToken  = `401 {"code":"unauthorized","status":401,"retryable":false,"safe_to_retry_with_same_key":false}`
	saysLost     = `410 {"code":"session_lost","status":410,"retryable":true,"safe_to_retry_with_same_key":false}`
	saysVetoed   = `409 {"code":"vetoed","status":409,"decision":{"tx":"a.1.1","state":"aborted","code":"vetoed"}}`
	saysUnknown  = `404 {"code":"unknown_tx","status":404,"retryable":false,"safe_to_retry_with_same_key":true}`
)

// agentBound is how long one agent may take; they pause for seconds at most.
const agentBound = 30 * time.Second

// scripted answers an agent as a sidecar that has bad days.
type scripted struct {
	answers map[string][]string // by what is asked, one after the other; the last one again and again
	end     string              // the agent is told to end when it asks this

	mu    sync.Mutex
	trail []string
	agent *os.Process
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case asked == "tx":
		asked = "begin"
	case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 3:
		asked = "status"
	}
	said := map[string]string{
		"begin": saysOpen, "retry": saysOpen, "reads": `200 {"exists":true,"content":"5"}`, "writes": `200 {}`,
		"effects": `200 {"state":"held"}`, "seal": saysCommitted, "abort": `200 {"state":"aborted"}`,
	}[asked]
	s.mu.Lock()
	s.trail = append(s.trail, asked)
	if list := s.answers[asked]; len(list) > 0 {
		said, s.answers[asked] = list[0], list[min(1, len(list)-1):]
	}
	if asked == s.end {
		_ = s.agent.Signal(syscall.SIGTERM)
	}
	s.mu.Unlock()
	code, body, _ := strings.Cut(said, " ")
	status, _ := strconv.Atoi(code)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// run runs an agent against the script. It returns what was asked, what the agent printed, and its exit code.
func (s *scripted) run(t *testing.T, command []string) (trail, out string, code int) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), agentBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "HENCE_URL="+server.URL, "HENCE_TOKEN=a-token", "HENCE_TOKEN_FILE="+token, "COUNT=1",
		"HENCE_AGENT=a", "HENCE_WORKSPACE=default", "THINK_SECONDS=0", "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=127.0.0.1")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &printed, &printed, time.Second
	s.mu.Lock()
	err := cmd.Start()
	s.agent = cmd.Process
	s.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.trail, " "), printed.String(), cmd.ProcessState.ExitCode()
}

// badDay is what an agent is answered, and what it must make of it.
type badDay struct {
	name    string
	answers map[string][]string
	end     string
	trail   string
	out     string // is printed
	failed  bool   // it ends with an error
}

func (d *badDay) run(t *testing.T, command ...string) {
	t.Helper()
	s := &scripted{answers: d.answers, end: d.end}
	trail, out, code := s.run(t, command)
	if trail != d.trail || !strings.Contains(out, d.out) || (code != 0) != d.failed {
		t.Errorf("%s: exit code %d\nit asked %s\n  wanted %s\n%s", d.name, code, trail, d.trail, out)
	}
}

// firstDays are those of counter.sh, which people read first.
func firstDays() []badDay {
	return []badDay{
		{name: "still sealed", answers: map[string][]string{"seal": {saysSealed, saysSealed, saysCommitted}},
			trail: "begin reads writes seal seal seal"},
		{name: "overtaken", answers: map[string][]string{"seal": {saysStale, saysCommitted}},
			trail: "begin reads writes seal retry reads writes seal"},
		{name: "overtaken before the seal", answers: map[string][]string{"writes": {saysStale, `200 {}`}},
			trail: "begin reads writes retry reads writes seal"},
		{name: "a read that is refused", answers: map[string][]string{"reads": {saysWaiting}},
			trail: "begin reads", out: "touch_waiting", failed: true},
		{name: "retryable, and not aborted", answers: map[string][]string{"seal": {saysWaiting}},
			trail: "begin reads writes seal", out: "touch_waiting", failed: true},
		{name: "lost", answers: map[string][]string{"seal": {saysLost}},
			trail: "begin reads writes seal", out: "session_lost", failed: true},
		{name: "no token", answers: map[string][]string{"begin": {saysNoToken}},
			trail: "begin", out: "unauthorized", failed: true},
	}
}

// The first agents that people copy take no refusal for an answer, and begin nothing while a seal is undecided.
func TestFirstAgents(t *testing.T) {
	t.Parallel() // it waits for programs of its own
	root := harness.Root(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Logf("left out: counter.sh: %s: %v", harness.NeedsProgram, err)
	} else {
		notReady := badDay{name: "not ready", answers: map[string][]string{"reads": {saysNotReady,
			`200 {"exists":true,"content":"5"}`}}, trail: "begin reads reads writes seal", out: "5 became 6"}
		for _, d := range append(firstDays(), notReady) {
			d.run(t, "sh", filepath.Join(root, "docs", "examples", "counter.sh"))
		}
	}
	python := pythonPath(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "agent.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := fenced.Blocks("agent.md", string(text))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, b := range blocks {
		if name, program, found := strings.Cut(b.Text, " <<'END'\n"); found {
			name, program = filepath.Join(folder, strings.TrimPrefix(name, "cat > ")), strings.TrimSuffix(program, "END\n")
			if err := os.WriteFile(name, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if own, err := os.ReadFile(filepath.Join(folder, "agent.py")); err != nil || bytes.Count(own, []byte("\n")) > 20 {
		t.Errorf("the quick start's agent is longer than what it does: %v\n%s", err, own)
	}
	for _, d := range quickDays() {
		d.run(t, python, filepath.Join(folder, "agent.py"))
	}
	copied, err := os.ReadFile(filepath.Join(root, "compose", "agents", "python", "hence.py"))
	if err != nil {
		t.Fatal(err)
	}
	if printed, err := os.ReadFile(filepath.Join(folder, "hence.py")); err != nil || !bytes.Equal(printed, copied) {
		t.Errorf("docs/agent.md does not print compose/agents/python/hence.py whole: %v", err)
	}
}

// quickDays are those of the quick start's agent.
func quickDays() []badDay {
	const acts = "begin reads writes effects"
	return []badDay{
		{name: "still sealed", answers: map[string][]string{"seal": {saysSealed}, "status": {saysSealed, saysCommitted}},
			trail: acts + " seal status status", out: "a sold a mug at seq 7: 4 left"},
		{name: "overtaken", answers: map[string][]string{"seal": {saysStale, saysCommitted}},
			trail: acts + " seal retry reads writes effects seal", out: "at seq 7"},
		{name: "overtaken before the seal", answers: map[string][]string{"effects": {saysStale, `200 {"state":"held"}`}},
			trail: acts + " retry reads writes effects seal", out: "at seq 7"},
		{name: "not ready", answers: map[string][]string{"reads": {saysNotReady, `200 {"exists":false}`}},
			trail: "begin reads reads writes effects seal", out: "9 left"},
		{name: "refused for good", answers: map[string][]string{"seal": {saysVetoed}}, trail: acts + " seal",
			out: "hence.Refused: a.1.1: vetoed", failed: true},
		{name: "no token", answers: map[string][]string{"begin": {saysNoToken}}, trail: "begin", out: "unauthorized",
			failed: true},
	}
}

// The Python agent of the compose example asks how a sealed transaction ended until it is known, and leaves none open.
func TestPythonAgent(t *testing.T) {
	t.Parallel() // it waits for programs of its own
	python := pythonPath(t)
	folder, mark := filepath.Join(harness.Root(t), "compose", "agents", "python"), filepath.Join(t.TempDir(), "mark")
	round := "import sys; sys.path.insert(0, sys.argv[1]); import agent; agent.MARK = sys.argv[2]; "
	const acts = "begin reads writes writes effects effects effects"
	for _, d := range []badDay{
		{name: "still sealed", answers: map[string][]string{"seal": {saysSealed}, "status": {saysSealed, saysCommitted}},
			trail: acts + " seal status status", out: "committed as 7"},
		{name: "an error after the seal", answers: map[string][]string{"seal": {saysNoToken}, "status": {saysCommitted}},
			trail: acts + " seal status", out: "committed as 7"},
		{name: "lost and committed", answers: map[string][]string{"seal": {saysLost}, "status": {saysLost},
			"closure": {saysNoToken, saysUnknown, `200 {"rows":[{"status":"settled","seq":7}]}`}},
			trail: acts + " seal status closure closure closure", out: "committed as 7"},
		{name: "lost and aborted", answers: map[string][]string{"seal": {saysLost}, "status": {saysLost},
			"closure": {`200 {"rows":[{"status":"aborted","seq":7,"code":"lease_expired"}]}`}},
			trail: acts + " seal status closure", out: "given back: a.1.1: lease_expired; try 1"},
		{name: "the seal is not taken", answers: map[string][]string{"seal": {saysWaiting}, "status": {saysOpen}},
			trail: acts + " seal status abort", out: "touch_waiting", failed: true},
		{name: "a call that waits", answers: map[string][]string{"effects": {saysWaiting}},
			trail: "begin reads writes writes effects abort", out: "touch_waiting", failed: true},
		{name: "a call that failed", answers: map[string][]string{"effects": {`200 {"state":"failed"}`}},
			trail: "begin reads writes writes effects abort", out: "tool_failed", failed: true},
	} {
		d.run(t, python, "-c", round+"agent.round_of(1, 'r')", folder, mark)
	}
	told := badDay{name: "told to end", end: "reads", trail: "begin reads abort"}
	told.run(t, python, "-c", round+"agent.THINK = 30; agent.main()", folder, mark)
}

func pythonPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the agents are programs in Python: install python3")
	}
	return path
}
