package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// busLab is a sidecar with the interface of S-Bus and a processor, both processes that die.
type busLab struct {
	*harness.Deployment
	tb      testing.TB
	member  *harness.Member
	sidecar *harness.Process
	url     string
	args    []string
}

func (l *busLab) startSidecar() {
	l.tb.Helper()
	l.sidecar, _ = harness.SpawnServing(l.tb, crashServing, harness.Binary(l.tb), l.args...)
}

// startBusLab starts a processor and a sidecar, and further sidecars in the same workspace.
func startBusLab(tb testing.TB, agents ...string) (labs []*busLab) {
	tb.Helper()
	ports, err := harness.FreePorts(len(agents))
	if err != nil {
		tb.Fatal(err)
	}
	d := harness.Over(tb, harness.StartOwn(tb))
	member := d.StartMember(tb, harness.Binary(tb), "a", d.Workspace)
	for i, agent := range agents {
		at := fmt.Sprint("127.0.0.1:", ports[i])
		l := &busLab{Deployment: d, tb: tb, member: member, url: "http://" + at}
		l.args = []string{"sidecar", "--agent", agent, "--workspace", l.Workspace, "--listen", "127.0.0.1:0", "--sbus", at,
			"--brokers", strings.Join(l.Brokers, ","), "--nats", l.NATS, "--token", crashToken, "--output", "json",
			"--data-dir", filepath.Join(tb.TempDir(), "journal-"+agent)}
		l.startSidecar()
		labs = append(labs, l)
	}
	return labs
}

// kill kills the sidecar, and the processor with it if both is set, and starts them again.
func (l *busLab) kill(both bool) {
	l.tb.Helper()
	_ = l.sidecar.Kill()
	_, _, _ = l.sidecar.Wait(crashServing)
	if both {
		_ = l.member.Kill()
		_, _, _ = l.member.Wait(crashServing)
		l.member.Restart(l.tb)
	}
	l.startSidecar()
}

// ask repeats a request until it has an answer other than 503.
func (l *busLab) ask(method, path, body string) (status int, answer string) {
	l.tb.Helper()
	harness.Eventually(l.tb, crashBound, func() error {
		status, answer = l.once(method, path, body)
		if status == 0 || status == http.StatusServiceUnavailable {
			return fmt.Errorf("%s %s: %d %s", method, path, status, answer)
		}
		return nil
	})
	return status, answer
}

func (l *busLab) once(method, path, body string) (int, string) {
	req, err := http.NewRequestWithContext(l.tb.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: crashServing}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func busCommit(key, name string) string {
	return fmt.Sprintf(`{"key":%q,"expected_version":0,"delta":"d","agent_id":%q}`, key, name)
}

// What names of S-Bus have read outlives a kill of the sidecar, and of the processor with it, at any moment of other
// commits: a name whose shards did not move commits without reading again, another is refused for the one that did.
func TestBusFailover(t *testing.T) {
	from, to := 0, 6
	if os.Getenv("HENCE_SBUS_FULL") == "1" {
		to = 200
	}
	if part := os.Getenv("HENCE_SBUS_POINTS"); part != "" {
		if n, err := fmt.Sscanf(part, "%d-%d", &from, &to); n != 2 {
			t.Fatalf("HENCE_SBUS_POINTS is %q, want such as 0-50: %v", part, err)
		}
	}
	labs := startBusLab(t, "bus", "other")
	for i := from; i < to; i++ {
		labs[0].failover(i)
	}
	for i := range (to - from + 4) / 10 {
		resetAndKill(labs[i%2], labs[1-i%2], i)
	}
	t.Logf("points %d to %d", from, to)
}

func (l *busLab) failover(i int) {
	l.tb.Helper()
	key := func(what string) string { return fmt.Sprint(what, "-", i) }
	for _, what := range []string{"still", "moved", "a", "b", "busy"} {
		if code, answer := l.ask("POST", "/shard", fmt.Sprintf(`{"key":%q,"content":"0"}`, key(what))); code != 201 {
			l.tb.Fatalf("point %d: %s is not made: %d %s", i, what, code, answer)
		}
	}
	l.ask("GET", "/shard/"+key("still")+"?agent_id="+key("calm"), "")
	l.ask("GET", "/shard/"+key("moved")+"?agent_id="+key("late"), "")
	if code, answer := l.ask("POST", "/commit", busCommit(key("moved"), key("mover"))); code != 200 {
		l.tb.Fatalf("point %d: %d %s", i, code, answer)
	}
	// Commits of others are under way when it dies, a little later each time.
	var busy sync.WaitGroup
	under := make(chan struct{})
	busy.Go(func() {
		close(under)
		for n := range 200 {
			body := fmt.Sprintf(`{"key":%q,"expected_version":%d,"delta":"d","agent_id":"busy"}`, key("busy"), n)
			if code, _ := l.once("POST", "/commit", body); code == 0 {
				return // it is dead
			}
		}
	})
	<-under
	select {
	case <-time.After(time.Duration(i%50) * time.Millisecond):
	case <-l.tb.Context().Done():
	}
	l.kill(i%2 == 1)
	busy.Wait()
	if code, answer := l.ask("POST", "/commit", busCommit(key("a"), key("calm"))); code != 200 {
		l.tb.Errorf("point %d: what did not move is refused: %d %s", i, code, answer)
	}
	code, answer := l.ask("POST", "/commit", busCommit(key("b"), key("late")))
	if code != 409 || !strings.Contains(answer, "CrossShardStale") || !strings.Contains(answer, "'"+key("moved")+"'") {
		l.tb.Errorf("point %d: what has moved: %d %s", i, code, answer)
	}
}

// resetAndKill: a reset that was answered outlives a kill of every process at any moment of others' commits. No
// sidecar shows what it took away, and all of them count the writes since.
func resetAndKill(a, b *busLab, i int) {
	a.tb.Helper()
	create := func(l *busLab, key string) {
		l.tb.Helper()
		if code, answer := l.ask("POST", "/shard", fmt.Sprintf(`{"key":%q,"content":"0"}`, key)); code != 201 {
			l.tb.Fatalf("point %d: %s is not made: %d %s", i, key, code, answer)
		}
	}
	at := func(l *busLab, key string) int {
		code, answer := l.ask("GET", "/shard/"+key, "")
		var is struct{ Version int }
		if code != 200 || json.Unmarshal([]byte(answer), &is) != nil {
			return -1
		}
		return is.Version
	}
	create(a, "old")
	create(a, "again")
	a.ask("POST", "/commit", `{"key":"again","expected_version":0,"delta":"d","agent_id":"w"}`)
	a.ask("GET", "/shard/old?agent_id=reader", "")
	// Commits of others are under way all the time.
	var busy sync.WaitGroup
	under := make(chan struct{})
	busy.Go(func() {
		for n := range 100 {
			b.once("POST", "/shard", fmt.Sprintf(`{"key":"busy-%d","content":"0"}`, n%5))
			if code, _ := b.once("POST", "/commit", busCommit(fmt.Sprint("busy-", n%5), "busy")); code == 0 {
				return // it is dead
			}
			if n == 2 {
				close(under)
			}
		}
	})
	<-under
	code, answer := a.ask("POST", "/admin/reset", "")
	if code != 200 {
		a.tb.Fatalf("point %d: %d %s", i, code, answer)
	}
	if at(a, "old") != -1 || at(a, "again") != -1 {
		a.tb.Errorf("point %d: what was reset is shown where it was asked for", i)
	}
	a.kill(i%2 == 0)
	b.kill(false)
	busy.Wait()
	create(b, "again")
	harness.Eventually(a.tb, crashBound, func() error {
		if at(a, "again") != 0 {
			return fmt.Errorf("the other sidecar is at %d", at(a, "again"))
		}
		return nil
	})
	for _, l := range []*busLab{a, b} {
		if now := at(l, "old"); now != -1 {
			l.tb.Errorf("point %d: what was reset is back at version %d", i, now)
		}
	}
	if code, answer := a.ask("POST", "/commit", busCommit("again", "reader")); code != 410 {
		a.tb.Errorf("point %d: a name whose log has ended: %d %s", i, code, answer)
	}
	a.ask("POST", "/session", `{"agent_id":"reader"}`)
	if code, answer := a.ask("POST", "/commit", busCommit("again", "reader")); code != 200 {
		a.tb.Errorf("point %d: behind the reset: %d %s", i, code, answer)
	}
	// For the next point.
	if code, answer := b.ask("POST", "/admin/reset", ""); code != 200 {
		b.tb.Errorf("point %d: %d %s", i, code, answer)
	}
	harness.Eventually(a.tb, crashBound, func() error {
		if at(a, "again") != -1 {
			return fmt.Errorf("the other sidecar is at %d", at(a, "again"))
		}
		return nil
	})
}
