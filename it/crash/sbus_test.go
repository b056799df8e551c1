package crash

import (
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

// ask sends a request again while nobody answers it.
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
	points := 6
	if os.Getenv("HENCE_SBUS_FULL") == "1" {
		points = 200
	}
	ports, err := harness.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	l := &busLab{Deployment: harness.Over(t, harness.StartOwn(t)), tb: t}
	l.member = l.StartMember(t, harness.Binary(t), "a", l.Workspace)
	at := fmt.Sprint("127.0.0.1:", ports[0])
	l.url = "http://" + at
	l.args = []string{"sidecar", "--agent", "bus", "--workspace", l.Workspace, "--listen", "127.0.0.1:0", "--sbus", at,
		"--brokers", strings.Join(l.Brokers, ","), "--nats", l.NATS, "--token", crashToken, "--output", "json",
		"--data-dir", filepath.Join(t.TempDir(), "journal")}
	l.startSidecar()
	for i := range points {
		l.failover(i)
	}
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
