package it

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
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

	"github.com/hence-dev/hence/it/harness"
)

// Bounds of the compose tests; the machine may be busy.
const (
	upBound      = 4 * time.Minute
	commandBound = 2 * time.Minute
	commitBound  = 90 * time.Second
)

// askedForContainers skips a test that takes minutes where nobody asked for it.
func askedForContainers(t *testing.T) {
	t.Helper()
	if !harness.Containers() && os.Getenv("HENCE_REQUIRE_CONTAINERS") != "1" {
		t.Skip("images and containers take minutes: set " + harness.EnvContainers + "=1 where a container engine runs")
	}
}

// needCompose fails a test on containers that somebody asked for where docker compose cannot be used.
func needCompose(t *testing.T) {
	t.Helper()
	askedForContainers(t)
	for _, args := range [][]string{{"info"}, {"compose", "version"}} {
		if out, err := docker(time.Minute, nil, args...); err != nil {
			t.Fatalf("docker %s: %v: %s: start a container engine, and install docker compose v2", args, err, out)
		}
	}
}

// docker runs the command line and returns what it printed on both outputs.
func docker(bound time.Duration, env []string, args ...string) (string, error) {
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
type images struct{ hence, examples string }

// composeImages builds both with compose/Dockerfile, once for all tests. HENCE_IMAGE and HENCE_EXAMPLES_IMAGE name
// others instead.
var composeImages = sync.OnceValues(func() (images, error) {
	named := images{os.Getenv("HENCE_IMAGE"), os.Getenv("HENCE_EXAMPLES_IMAGE")}
	if named.hence != "" && named.examples != "" {
		return named, nil
	}
	for _, target := range []string{"hence", "examples"} {
		out, err := docker(30*time.Minute, nil, "build", "-q", "-f", "../compose/Dockerfile", "--target", target,
			"--build-arg", "VERSION=0.0.0-test", "--build-arg", "REVISION=0123abc", "-t", "hence-it-"+target+":test", "..")
		if err != nil {
			return images{}, fmt.Errorf("build the image %s: %w\n%s", target, err, out)
		}
	}
	return images{"hence-it-hence:test", "hence-it-examples:test"}, nil
})

// builtImages says how long the build took: nobody should take it for the time of a start.
func builtImages(t *testing.T) images {
	t.Helper()
	start := time.Now()
	built, err := composeImages()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("images %+v, built in %v", built, time.Since(start).Round(time.Second))
	return built
}

// stack is one running compose file, under a project name and on ports of its own.
type stack struct {
	file, project string
	env           []string
	ports         map[string]int // by the variable that sets them
}

// newStack prepares a project; everything of it goes with the test.
func newStack(t *testing.T, file string) *stack {
	t.Helper()
	built := builtImages(t)
	path := filepath.Join("..", "compose", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile("../compose/compose.yaml") // cluster.yaml takes services from it
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{file: path, project: fmt.Sprintf("hence-it-%d-%s", os.Getpid(), strings.TrimSuffix(file, ".yaml")),
		ports: map[string]int{}}
	s.env = []string{"HENCE_IMAGE=" + built.hence, "HENCE_EXAMPLES_IMAGE=" + built.examples, "THINK_SECONDS=0.5"}
	for _, found := range regexp.MustCompile(`HENCE_[A-Z0-9_]+_PORT`).FindAllString(string(text)+string(plain), -1) {
		s.ports[found] = 0
	}
	free, err := harness.FreePorts(len(s.ports))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(s.ports)) {
		s.ports[name] = free[i]
		s.env = append(s.env, fmt.Sprintf("%s=%d", name, free[i]))
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.try("logs", "--tail", "12", "--no-color")
			t.Log(out)
		}
		if out, err := s.try("down", "--volumes", "--timeout", "2"); err != nil {
			t.Errorf("take the project down: %v\n%s", err, out)
		}
	})
	return s
}

func (s *stack) try(args ...string) (string, error) {
	return docker(upBound, s.env, append([]string{"compose", "-p", s.project, "-f", s.file}, args...)...)
}

func (s *stack) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.try(args...)
	if err != nil {
		t.Fatalf("docker compose %v: %v\n%s", args, err, out)
	}
	return out
}

// box is a container as the engine describes it.
type box struct {
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

func (b *box) service() string { return b.Config.Labels["com.docker.compose.service"] }

// ready says what is missing until it is up and, if it can say so, healthy.
func (b *box) ready() error {
	if b.State.Status != "running" {
		return fmt.Errorf("%s is %s", b.service(), b.State.Status)
	}
	if b.State.Health != nil && b.State.Health.Status != "healthy" {
		return fmt.Errorf("%s is %s", b.service(), b.State.Health.Status)
	}
	return nil
}

// boxes are the project's containers by service, running or not.
func (s *stack) boxes() (map[string]*box, error) {
	ids, err := docker(commandBound, nil, "ps", "-aq", "--filter", "label=com.docker.compose.project="+s.project)
	if err != nil {
		return nil, fmt.Errorf("list the containers: %w: %s", err, ids)
	}
	if strings.TrimSpace(ids) == "" {
		return nil, errors.New("there are no containers")
	}
	out, err := docker(commandBound, nil, append([]string{"inspect"}, strings.Fields(ids)...)...)
	if err != nil {
		return nil, fmt.Errorf("inspect the containers: %w: %s", err, out)
	}
	var all []*box
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("read what the engine says: %w", err)
	}
	by := map[string]*box{}
	for _, b := range all {
		by[b.service()] = b
	}
	return by, nil
}

func (s *stack) all(t *testing.T) map[string]*box {
	t.Helper()
	by, err := s.boxes()
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// allReady waits until every container is.
func (s *stack) allReady(t *testing.T) {
	t.Helper()
	eachSecond(t, upBound, func() error {
		by, err := s.boxes()
		for _, b := range by {
			err = errors.Join(err, b.ready())
		}
		return err
	})
}

// logs are what a service printed since a moment.
func (s *stack) logs(service string, since time.Time) (string, error) {
	by, err := s.boxes()
	if err != nil {
		return "", err
	}
	if by[service] == nil {
		return "", fmt.Errorf("there is no container of %s", service)
	}
	return docker(commandBound, nil, "logs", "--since", strconv.FormatFloat(float64(since.UnixMilli())/1000, 'f', 3, 64),
		by[service].ID)
}

// says waits until a service has printed something since a moment.
func (s *stack) says(t *testing.T, bound time.Duration, service string, since time.Time, what string) {
	t.Helper()
	eachSecond(t, bound, func() error {
		text, err := s.logs(service, since)
		if err == nil && !strings.Contains(text, what) {
			err = fmt.Errorf("%s did not print %q since %v; its last words:\n%s", service, what,
				since.Format(time.TimeOnly), lastLines(text, 8))
		}
		return err
	})
}

// commits waits until every agent has committed since a moment.
func (s *stack) commits(t *testing.T, since time.Time) {
	t.Helper()
	for i := range 3 {
		s.says(t, commitBound, fmt.Sprint("agent-", i+1), since, "; committed as ")
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// eachSecond is harness.Eventually for conditions that cost a process each.
func eachSecond(t *testing.T, bound time.Duration, cond func() error) {
	t.Helper()
	next := time.Time{}
	last := errors.New("never asked")
	harness.Eventually(t, bound, func() error {
		if time.Now().After(next) {
			last = cond()
			next = time.Now().Add(time.Second / 2)
		}
		return last
	})
}

// statusOf asks for a page and returns the status.
func statusOf(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
