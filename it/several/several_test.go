// Package several runs many agents in one sidecar: the demo's own check over them, kills of the process with damage to
// single journals, and what they cost.
package several

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestDemo runs many agents over one sidecar in each order mode; the demo's own check and the suite's hold.
func TestDemo(t *testing.T) {
	agents := harness.Number(t, "HENCE_IT_SEVERAL_AGENTS", 16)
	servers := harness.StartOwn(t)
	for _, order := range harness.Orders() {
		begun := time.Now()
		harness.Audited(t, servers, "--agents", strconv.Itoa(agents), "--tasks", "5", "--order", order)
		t.Logf("%d agents, %s: %v", agents, order, time.Since(begun).Round(time.Millisecond))
	}
}

// process is the sidecar of all agents, as the demo announces it.
type process struct {
	mu     sync.Mutex
	pid    int
	starts int
}

func (p *process) line(text string) {
	var one struct {
		Role   string `json:"role"`
		PID    int    `json:"pid"`
		Starts int    `json:"starts"`
	}
	if json.Unmarshal([]byte(text), &one) != nil || one.Role != "sidecar" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.starts = one.PID, one.Starts
}

func (p *process) now() (pid, starts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid, p.starts
}

// Bounds of a kill.
const (
	firstKill = 500 * time.Millisecond // after the sidecar serves, at most
	tasksEach = 40
	poll      = 5 * time.Millisecond
)

// TestKilledAndDamaged kills the sidecar of all agents in the middle of a demo, again and again, and damages the
// journal of one agent before each second kill: no update is lost, no call is made twice, and the demo ends.
func TestKilledAndDamaged(t *testing.T) {
	kills := harness.Number(t, "HENCE_IT_SEVERAL", 2)
	servers := harness.StartOwn(t)
	landed, damaged := 0, 0
	for round := 1; landed < kills && round <= kills+5; round++ {
		k, d := killRound(t, servers, round, min(5, kills-landed))
		landed, damaged = landed+k, damaged+d
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, before %d of them one agent's journal was damaged", landed, damaged)
	if landed < kills {
		t.Errorf("%d kills came in time, want %d", landed, kills)
	}
}

// killRound runs one demo and kills its sidecar up to most times.
func killRound(t *testing.T, servers *harness.Servers, round, most int) (landed, damaged int) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	rng := rand.New(rand.NewPCG(uint64(round), 14))
	var sidecar process
	records := filepath.Join(dir, "records")
	demo := harness.StartDemo(t, harness.Binary(t), servers, sidecar.line, "--processes", "--together", "--agents", "6",
		"--tasks", strconv.Itoa(tasksEach), "--think", "60ms", "--seed", strconv.Itoa(round), "--records", records)
	stop, killer := make(chan struct{}), sync.WaitGroup{}
	killer.Go(func() {
		for killed := 0; landed < most; {
			if !pause(stop, poll) {
				return
			}
			pid, starts := sidecar.now()
			if pid == 0 || starts <= killed {
				continue // it has not come back yet
			}
			if !pause(stop, firstKill+time.Duration(rng.Int64N(int64(firstKill)))) {
				return
			}
			if landed%2 == 1 && damage(dir, rng) {
				damaged++
			}
			if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
				landed++
			}
			killed = starts
		}
	})
	report, code := demo.Report(t, harness.DemoBound)
	close(stop)
	killer.Wait()
	t.Logf("round %d, %d kills, %d damaged: %s", round, landed, damaged, report)
	if err := report.Holds(); err != nil || code != 0 {
		t.Errorf("round %d: exit code %d: %v\n%s", round, code, err, demo.Words())
	}
	attempts := harness.AttemptsOf(t, harness.ReadAttempts(t, records))
	harness.Holds(t, attempts, harness.DecisionsOf(t, servers, report.Workspace, attempts))
	return landed, damaged
}

func pause(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

// damage flips a byte in the middle of one agent's journal.
func damage(dir string, rng *rand.Rand) bool {
	found, err := filepath.Glob(filepath.Join(dir, "hence-demo-*", "all", "journals", "*", "*", "agent-*", "journal"))
	if err != nil || len(found) == 0 {
		return false
	}
	f, err := os.OpenFile(found[rng.IntN(len(found))], os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < 64 {
		return false
	}
	var b [1]byte
	at := info.Size() / 2
	if _, err = f.ReadAt(b[:], at); err == nil {
		b[0] ^= 0xff
		_, err = f.WriteAt(b[:], at)
	}
	return err == nil
}
