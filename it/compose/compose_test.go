package compose

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// stack is a running compose file with what is held of it.
type stack struct{ *harness.Stack }

// TestCompose starts the compose file as a newcomer does, and then treats it badly. The parts share one cluster and
// leave it whole.
func TestCompose(t *testing.T) {
	harness.NeedCompose(t)
	s := &stack{harness.NewStack(t, "compose.yaml")}
	if !t.Run("newcomer", s.newcomer) {
		return // nothing else can hold
	}
	t.Run("secured", s.secured)
	t.Run("alone", s.alone)
	t.Run("watch", s.watch)
	t.Run("mcp", s.mcp)
	t.Run("orders", s.orders)
	t.Run("volumes", s.volumes)
}

// newcomer measures the time to the first committed transaction, and until "up --wait" ends well.
func (s *stack) newcomer(t *testing.T) {
	start := time.Now()
	up := make(chan error, 1)
	go func() {
		out, err := s.Try("up", "-d", "--wait", "--no-build")
		if err != nil {
			err = fmt.Errorf("up --wait: %w\n%s", err, harness.LastLines(out, 15))
		}
		up <- err
	}()
	s.firstCommit(t, start, up)
	t.Logf("the first committed transaction came %v after \"up\"; image builds apart",
		time.Since(start).Round(time.Second))
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	t.Logf("\"up --wait\" ended with 0 after %v", time.Since(start).Round(time.Second))
	s.Commits(t, start)
	for name, b := range s.All(t) {
		if err := b.Ready(); err != nil || b.RestartCount > 0 {
			t.Errorf("%s: %v, restarted %d times", name, err, b.RestartCount)
		}
	}
}

// firstCommit waits until some agent says that it committed, or until "up" has failed, which its reader reports.
func (s *stack) firstCommit(t *testing.T, start time.Time, up chan error) {
	t.Helper()
	harness.EachSecond(t, harness.UpBound, func() error {
		select {
		case err := <-up:
			up <- err
			if err != nil {
				return nil
			}
		default:
		}
		for i := range 3 {
			text, err := s.Logs(fmt.Sprint("agent-", i+1), start)
			if err == nil && strings.Contains(text, "; committed as ") {
				return nil
			}
		}
		return fmt.Errorf("no agent has committed")
	})
}

// secured looks at what each container may do, and at who is let in.
func (s *stack) secured(t *testing.T) {
	for name, b := range s.All(t) {
		h := b.HostConfig
		if !slices.Contains(h.CapDrop, "ALL") || !slices.Contains(h.SecurityOpt, "no-new-privileges:true") || h.Privileged {
			t.Errorf("%s has more rights than it needs: %+v", name, h)
		}
		if h.Memory == 0 || h.LogConfig.Config["max-size"] == "" || h.RestartPolicy.Name != "unless-stopped" {
			t.Errorf("%s has no bound on memory or logs, or does not come back: %+v", name, h)
		}
		for port, bound := range h.PortBindings {
			for _, at := range bound {
				if at.HostIP != "127.0.0.1" {
					t.Errorf("%s publishes %s at %q", name, port, at.HostIP)
				}
			}
		}
		kafka, nats := strings.HasPrefix(name, "kafka"), strings.HasPrefix(name, "nats")
		if !h.ReadonlyRootfs && !kafka {
			t.Errorf("%s can write its root", name)
		}
		if uid := runsAs(t, b); uid == "0" && !nats || uid != "65532" && !kafka && !nats {
			t.Errorf("%s runs as user %s", name, uid)
		}
		secret := readText(t, "../../compose/secrets/ledger")
		if strings.Contains(strings.Join(b.Config.Env, "\n"), strings.TrimSpace(secret)) {
			t.Errorf("%s has a secret in its environment", name)
		}
	}
	out, err := harness.Docker(harness.CommandBound, nil, "exec", s.All(t)["agent-1"].ID, "python3", "-c",
		"open('/agent/x', 'w')")
	if err == nil || !strings.Contains(out, "Read-only file system") {
		t.Errorf("an agent can write beside its tmpfs: %v: %s", err, out)
	}
	token := strings.TrimSpace(s.Must(t, "exec", "-T", "agent-1", "cat", "/run/hence/token"))
	for variable, path := range map[string]string{"HENCE_SIDECAR_1_PORT": "/v1/workspaces/default/frontier",
		"HENCE_SIDECAR_2_PORT": "/v1/workspaces/default/frontier"} {
		url := fmt.Sprintf("http://127.0.0.1:%d%s", s.Ports[variable], path)
		if got := statusOf(t, url, ""); got != 401 {
			t.Errorf("%s without a token: %d", variable, got)
		}
		want := map[bool]int{true: 200, false: 401}[variable == "HENCE_SIDECAR_1_PORT"]
		if got := statusOf(t, url, token); got != want {
			t.Errorf("%s with the token of pod-1: %d, want %d", variable, got, want)
		}
	}
	console := fmt.Sprintf("http://127.0.0.1:%d", s.Ports["HENCE_CONSOLE_PORT"])
	if got := statusOf(t, console+"/", ""); got != 200 {
		t.Errorf("the console's page: %d", got)
	}
}

// runsAs is the user id of a container's first process.
func runsAs(t *testing.T, b *harness.Service) string {
	t.Helper()
	out, err := harness.Docker(harness.CommandBound, nil, "top", b.ID, "-eo", "pid,uid")
	if err != nil {
		t.Fatalf("docker top %s: %v: %s", b.Name, err, out)
	}
	fields := strings.Fields(harness.LastLines(out, 1))
	return fields[len(fields)-1]
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alone restarts and re-creates a sidecar without its agent and an agent without its sidecar.
func (s *stack) alone(t *testing.T) {
	for _, service := range []string{"sidecar-1", "agent-3"} {
		kind, number, _ := strings.Cut(service, "-")
		other := map[string]string{"sidecar": "agent-", "agent": "sidecar-"}[kind] + number
		before := s.All(t)
		if out, err := harness.Docker(harness.CommandBound, nil, "restart", "-t", "5", before[service].ID); err != nil {
			t.Fatalf("restart %s: %v: %s", service, err, out)
		}
		s.Commits(t, time.Now())
		s.Must(t, "up", "-d", "--no-deps", "--no-build", "--force-recreate", service)
		s.Commits(t, time.Now())
		after := s.All(t)
		if before[service].ID == after[service].ID {
			t.Errorf("%s is the same container still", service)
		}
		if before[other].State.StartedAt != after[other].State.StartedAt {
			t.Errorf("%s was started again with %s", other, service)
		}
	}
	s.Must(t, "restart", "-t", "5", "pod-2") // and a pod takes both with it
	s.Commits(t, time.Now())
	s.AllReady(t)
}

// orders stops everything and starts it in random orders. A container that joins another's network cannot run before
// that one, so a pod comes before its two; nothing else is given.
func (s *stack) orders(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	n := harness.Number(t, "HENCE_IT_ORDERS", 2)
	for i := range n {
		by := s.All(t)
		stop := []string{"kill", "stop"}[i%2]
		s.Must(t, append([]string{stop}, map[string][]string{"stop": {"--timeout", "5"}}[stop]...)...)
		order := make([]string, 0, len(by))
		for name := range by {
			order = append(order, name)
		}
		slices.Sort(order)
		random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		slices.SortStableFunc(order, func(a, b string) int { return inPod(a) - inPod(b) })
		start := time.Now()
		for _, name := range order {
			if out, err := harness.Docker(harness.CommandBound, nil, "start", by[name].ID); err != nil {
				t.Fatalf("start %s: %v: %s", name, err, out)
			}
		}
		first := s.All(t)
		s.AllReady(t)
		ready := time.Since(start)
		s.Commits(t, time.Now())
		for name, b := range s.All(t) {
			if b.RestartCount > 0 || b.State.StartedAt != first[name].State.StartedAt {
				t.Errorf("seed %d, order %v: %s ended and came back", seed, order, name)
			}
		}
		t.Logf("seed %d, order %d of %d, after %s: all ready in %v: %v", seed, i+1, n, stop, ready.Round(time.Second), order)
	}
}

func inPod(name string) int {
	if strings.HasPrefix(name, "sidecar-") || strings.HasPrefix(name, "agent-") {
		return 1
	}
	return 0
}

// volumes takes each volume away, with the services that use it. The cluster goes on, and says in its log what it
// lost.
func (s *stack) volumes(t *testing.T) {
	const newToken = "the token file is missing: a new token is created"
	for _, loss := range []struct {
		volumes, services, by []string
		says                  string
	}{
		{[]string{"nats"}, []string{"nats"}, []string{"streams"}, "created the decision stream in NATS"},
		{[]string{"journal-1"}, []string{"sidecar-1"}, []string{"sidecar-1"}, "former session is not here"},
		{[]string{"token-3", "journal-3"}, []string{"sidecar-3", "agent-3"}, []string{"sidecar-3"}, newToken},
		{[]string{"token-1", "operator-1", "token-console"}, []string{"sidecar-1", "agent-1", "console"},
			[]string{"sidecar-1", "console"}, newToken},
		{[]string{"ledger"}, []string{"ledger"}, []string{"ledger"}, "a new or lost volume, the tool starts empty"},
		{[]string{"files"}, []string{"files"}, []string{"files"}, "a new or lost volume, the tool starts empty"},
		{[]string{"kafka"}, []string{"kafka"}, []string{"sidecar-2"},
			"the log is lost: all parts restart on an empty log"},
	} {
		start := time.Now()
		s.Must(t, append([]string{"rm", "--stop", "--force"}, loss.services...)...)
		for _, v := range loss.volumes {
			if out, err := harness.Docker(harness.CommandBound, nil, "volume", "rm", s.Project+"_"+v); err != nil {
				t.Fatalf("remove the volume %s: %v: %s", v, err, out)
			}
		}
		s.Must(t, append([]string{"up", "-d", "--no-deps", "--no-build"}, loss.services...)...)
		for _, service := range loss.by {
			s.Says(t, harness.CommitBound, service, start, loss.says)
		}
		s.Commits(t, time.Now())
		s.AllReady(t)
		t.Logf("without its volumes %v: %v all agents commit again after %v", loss.volumes, loss.services,
			time.Since(start).Round(time.Second))
	}
	for name, b := range s.All(t) {
		if b.RestartCount > 0 {
			t.Errorf("%s ended and came back, %d times", name, b.RestartCount)
		}
	}
}

// TestComposeCluster starts cluster.yaml and kills one of everything at once.
func TestComposeCluster(t *testing.T) {
	harness.NeedCompose(t)
	s := &stack{harness.NewStack(t, "cluster.yaml")}
	start := time.Now()
	s.Must(t, "up", "-d", "--wait", "--no-build")
	t.Logf("\"up --wait\" ended with 0 after %v", time.Since(start).Round(time.Second))
	s.Commits(t, start)
	victims := []string{"kafka-2", "nats-1", "streams-a1", "streams-b2"}
	for name, b := range s.All(t) {
		if b.RestartCount > 0 {
			t.Errorf("%s ended and came back, %d times", name, b.RestartCount)
		}
	}
	killed := time.Now()
	s.Must(t, append([]string{"kill"}, victims...)...)
	s.Commits(t, time.Now())
	t.Logf("without %v all agents have committed %v after the kill", victims, time.Since(killed).Round(time.Millisecond))
	s.Must(t, append([]string{"up", "-d", "--wait", "--no-build", "--no-deps"}, victims...)...)
	s.Commits(t, time.Now())
	s.AllReady(t)
}
