package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bounds of the compose tests; the machine may be busy.
const (
	UpBound      = 4 * time.Minute
	CommandBound = 2 * time.Minute
	CommitBound  = 90 * time.Second
)

// AskedForContainers skips a test that takes minutes where it is not asked for.
func AskedForContainers(t *testing.T) {
	t.Helper()
	if !Containers() && os.Getenv("HENCE_REQUIRE_CONTAINERS") != "1" {
		t.Skip("images and containers take minutes: set " + EnvContainers + "=1 where a container engine runs")
	}
}

// NeedCompose fails a test on containers that are asked for where docker compose cannot be used.
func NeedCompose(t *testing.T) {
	t.Helper()
	AskedForContainers(t)
	for _, args := range [][]string{{"info"}, {"compose", "version"}} {
		if out, err := Docker(time.Minute, nil, args...); err != nil {
			t.Fatalf("docker %s: %v: %s: start a container engine, and install docker compose v2", args, err, out)
		}
	}
}

// Docker runs the command line and returns what it printed on both outputs.
func Docker(bound time.Duration, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "HENCE_") })
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// images are Hence's and that of its examples.
type images struct{ Hence, examples string }

// composeImages builds both with compose/Dockerfile, once for all tests. HENCE_IMAGE and HENCE_EXAMPLES_IMAGE name
// others instead.
var composeImages = sync.OnceValues(func() (images, error) {
	named := images{os.Getenv("HENCE_IMAGE"), os.Getenv("HENCE_EXAMPLES_IMAGE")}
	if named.Hence != "" && named.examples != "" {
		return named, nil
	}
	for _, target := range []string{"hence", "examples"} {
		out, err := Docker(30*time.Minute, nil, "build", "-q", "-f", "../../compose/Dockerfile", "--target", target,
			"--build-arg", "VERSION=0.0.0-test", "--build-arg", "REVISION=0123abc", "-t", "hence-it-"+target+":test", "../..")
		if err != nil {
			return images{}, fmt.Errorf("build the image %s: %w\n%s", target, err, out)
		}
	}
	return images{"hence-it-hence:test", "hence-it-examples:test"}, nil
})

// BuiltImages says how long the build took: it is not the time of a start.
func BuiltImages(t *testing.T) images {
	t.Helper()
	start := time.Now()
	built, err := composeImages()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("images %+v, built in %v", built, time.Since(start).Round(time.Second))
	return built
}

// Stack is one running compose file, under a project name and on ports of its own.
type Stack struct {
	file, Project string
	Env           []string
	Ports         map[string]int // by the variable that sets them
}

// NewStack prepares a project; everything of it goes with the test.
func NewStack(t *testing.T, file string) *Stack {
	t.Helper()
	built := BuiltImages(t)
	path := filepath.Join("..", "..", "compose", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile("../../compose/compose.yaml") // cluster.yaml takes services from it
	if err != nil {
		t.Fatal(err)
	}
	s := &Stack{file: path, Project: fmt.Sprintf("hence-it-%d-%s", os.Getpid(), strings.TrimSuffix(file, ".yaml")),
		Ports: map[string]int{}}
	s.Env = []string{"HENCE_IMAGE=" + built.Hence, "HENCE_EXAMPLES_IMAGE=" + built.examples, "THINK_SECONDS=0.5"}
	for _, found := range regexp.MustCompile(`HENCE_[A-Z0-9_]+_PORT`).FindAllString(string(text)+string(plain), -1) {
		s.Ports[found] = 0
	}
	free, err := FreePorts(len(s.Ports))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(s.Ports)) {
		s.Ports[name] = free[i]
		s.Env = append(s.Env, fmt.Sprintf("%s=%d", name, free[i]))
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.Try("logs", "--tail", "12", "--no-color")
			t.Log(out)
		}
		if out, err := s.Try("--profile", "*", "down", "--volumes", "--timeout", "2"); err != nil {
			t.Errorf("take the project down: %v\n%s", err, out)
		}
	})
	return s
}

// Try runs docker compose on the project and returns what it printed on both outputs.
func (s *Stack) Try(args ...string) (string, error) {
	return Docker(UpBound, s.Env, append([]string{"compose", "-p", s.Project, "-f", s.file}, args...)...)
}

// Must is Try, and fails the test with an error.
func (s *Stack) Must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Try(args...)
	if err != nil {
		t.Fatalf("docker compose %v: %v\n%s", args, err, out)
	}
	return out
}

// Service is a container as the engine describes it.
type Service struct {
	ID, Name     string
	RestartCount int
	State        struct {
		Status, StartedAt string
		Health            *struct{ Status string }
	}
	Config struct {
		User   string
		Env    []string
		Labels map[string]string
	}
	HostConfig struct {
		ReadonlyRootfs                    bool
		CapDrop, SecurityOpt              []string
		Memory                            int64
		RestartPolicy                     struct{ Name string }
		LogConfig                         struct{ Config map[string]string }
		NetworkMode                       string
		PortBindings                      map[string][]struct{ HostIP string }
		Privileged, PublishAllPorts       bool
		PidMode, IpcMode, UsernsMode, UTS string
	}
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
	}
}

// Service is the name that the compose file gives it.
func (b *Service) Service() string { return b.Config.Labels["com.docker.compose.service"] }

// Ready says what is missing until it is up and, if it can say so, healthy.
func (b *Service) Ready() error {
	if b.State.Status != "running" {
		return fmt.Errorf("%s is %s", b.Service(), b.State.Status)
	}
	if b.State.Health != nil && b.State.Health.Status != "healthy" {
		return fmt.Errorf("%s is %s", b.Service(), b.State.Health.Status)
	}
	return nil
}

// boxes are the project's containers by service, running or not.
func (s *Stack) boxes() (map[string]*Service, error) {
	ids, err := Docker(CommandBound, nil, "ps", "-aq", "--filter", "label=com.docker.compose.project="+s.Project)
	if err != nil {
		return nil, fmt.Errorf("list the containers: %w: %s", err, ids)
	}
	if strings.TrimSpace(ids) == "" {
		return nil, errors.New("there are no containers")
	}
	out, err := Docker(CommandBound, nil, append([]string{"inspect"}, strings.Fields(ids)...)...)
	if err != nil {
		return nil, fmt.Errorf("inspect the containers: %w: %s", err, out)
	}
	var all []*Service
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("read what the engine says: %w", err)
	}
	by := map[string]*Service{}
	for _, b := range all {
		by[b.Service()] = b
	}
	return by, nil
}

// All are the project's containers by service, running or not.
func (s *Stack) All(t *testing.T) map[string]*Service {
	t.Helper()
	by, err := s.boxes()
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// AllReady waits until every container is.
func (s *Stack) AllReady(t *testing.T) {
	t.Helper()
	EachSecond(t, UpBound, func() error {
		by, err := s.boxes()
		for _, b := range by {
			err = errors.Join(err, b.Ready())
		}
		return err
	})
}

// Logs are what a service printed since a moment.
func (s *Stack) Logs(service string, since time.Time) (string, error) {
	by, err := s.boxes()
	if err != nil {
		return "", err
	}
	if by[service] == nil {
		return "", fmt.Errorf("there is no container of %s", service)
	}
	return Docker(CommandBound, nil, "logs", "--since", strconv.FormatFloat(float64(since.UnixMilli())/1000, 'f', 3, 64),
		by[service].ID)
}

// Says waits until a service has printed something since a moment.
func (s *Stack) Says(t *testing.T, bound time.Duration, service string, since time.Time, what string) {
	t.Helper()
	EachSecond(t, bound, func() error {
		text, err := s.Logs(service, since)
		if err == nil && !strings.Contains(text, what) {
			err = fmt.Errorf("%s did not print %q since %v; its last words:\n%s", service, what,
				since.Format(time.TimeOnly), LastLines(text, 8))
		}
		return err
	})
}

// Commits waits until every agent has committed since a moment.
func (s *Stack) Commits(t *testing.T, since time.Time) {
	t.Helper()
	for i := range 3 {
		s.Says(t, CommitBound, fmt.Sprint("agent-", i+1), since, "; committed as ")
	}
}

// LastLines are the last n lines of a text.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// EachSecond is Eventually for conditions that cost a process each.
func EachSecond(t *testing.T, bound time.Duration, cond func() error) {
	t.Helper()
	next := time.Time{}
	last := errors.New("never asked")
	Eventually(t, bound, func() error {
		if time.Now().After(next) {
			last = cond()
			next = time.Now().Add(time.Second / 2)
		}
		return last
	})
}

// Address is a container's in the project's network.
func (b *Service) Address(t *testing.T) string {
	t.Helper()
	for _, n := range b.NetworkSettings.Networks {
		if n.IPAddress != "" {
			return n.IPAddress
		}
	}
	t.Fatalf("%s has no address: %+v", b.Service(), b.NetworkSettings)
	return ""
}
