package outages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// What "the previous build" is, unless HENCE_IT_UPGRADE_FROM names another commit or a binary: the last one before the
// processors had replicas that compare themselves, and the last one before logic 3.
const (
	beforeReplicas = "ca3dafcf397add14f26d6975d783066e4769f7c2"
	beforeLogic3   = "eb0f1a1d1b13f256e288fb7de168276806905267"
)

// previousBuilds compiles each former build once for all tests of a run.
var previousBuilds = map[string]func() (string, error){
	beforeReplicas: sync.OnceValues(func() (string, error) { return buildPrevious(beforeReplicas) }),
	beforeLogic3:   sync.OnceValues(func() (string, error) { return buildPrevious(beforeLogic3) }),
}

// errNoHistory is returned by buildPrevious when the repository does not have the commit.
var errNoHistory = errors.New("the previous build's source is missing: fetch the whole history (git fetch " +
	"--unshallow), or name a commit or a binary in HENCE_IT_UPGRADE_FROM")

// previousBinary is the binary of a former commit.
func previousBinary(t *testing.T, commit string) string {
	t.Helper()
	if testsize.Small() && os.Getenv("HENCE_IT_UPGRADE_FROM") == "" {
		t.Skipf("builds the binary of %s, which takes minutes: set %s=1", commit, testsize.Env)
	}
	binary, err := previousBuilds[commit]()
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// buildPrevious builds a former commit's binary from the repository's history, in the run's folder.
func buildPrevious(commit string) (string, error) {
	from := os.Getenv("HENCE_IT_UPGRADE_FROM")
	if info, err := os.Stat(from); err == nil && info.Mode().IsRegular() {
		return from, nil
	}
	if from == "" {
		from = commit
	}
	dir, err := os.MkdirTemp(os.Getenv(harness.EnvDir), "previous-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.BuildBound)
	defer cancel()
	archive, source := filepath.Join(dir, "source.tar"), filepath.Join(dir, "source")
	git := exec.CommandContext(ctx, "git", "archive", "--output", archive, from)
	git.Dir = "../.." // the repository's root: git archive has the tree below where it stands
	if out, err := git.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: git archive %s: %w: %s", errNoHistory, from, err, out)
	}
	if err := os.Mkdir(source, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the previous build's source: %w: %s", err, out)
	}
	return harness.BuildStatic(source, dir)
}

// upgraded is one sidecar that is a process, of either build, with its folder and address.
type upgraded struct {
	*harness.Process
	args []string
}

func (u *upgraded) start(t *testing.T, binary string) {
	t.Helper()
	u.Process, _ = harness.SpawnServing(t, comeBack, binary, u.args...)
}

// TestUpgradeLive puts this build in the place of the previous one under load, processors first and sidecars first;
// some are killed, some told to end. Every check of a history holds for the whole of it.
func TestUpgradeLive(t *testing.T) {
	was, is := previousBinary(t, beforeReplicas), harness.Binary(t)
	for name, order := range map[string][]string{
		"processors first": {"processors", "a sidecar", "all sidecars"},
		"sidecars first":   {"a sidecar", "all sidecars", "processors"},
	} {
		t.Run(name, func(t *testing.T) { upgradeLive(t, was, is, order) })
	}
}

func upgradeLive(t *testing.T, was, is string, order []string) {
	t.Helper()
	d := harness.Over(t, harness.StartEmpty(t))
	lab := &boxLab{Deployment: d, shop: harness.OpenShop(t), load: newBoxLoad()}
	out, code, err := harness.Spawn(t, was, nil, "topics", "create", "--brokers", strings.Join(d.Brokers, ","), "--nats",
		d.NATS).Wait(comeBack)
	if err != nil || code != 0 {
		t.Fatalf("the previous build creates the topics: %d, %v: %s", code, err, out)
	}
	processors := d.StartMember(t, was, "", "upgraded")
	sidecars := lab.processes(t, 2)
	for _, s := range sidecars {
		s.start(t, was)
	}
	steps := map[string]func() error{
		"nothing": func() error { return nil },
		"processors": func() error {
			err := processors.Kill()
			d.StartMember(t, is, "a", "upgraded")
			return err
		},
		"a sidecar": func() error {
			err := sidecars[0].Kill()
			sidecars[0].start(t, is)
			return err
		},
		"all sidecars": func() error {
			err := sidecars[1].Interrupt()
			_, _, waitErr := sidecars[1].Wait(comeBack)
			sidecars[1].start(t, is)
			return errors.Join(err, waitErr)
		},
	}
	end := lab.load.run(t.Context(), lab.agents)
	began := time.Now()
	for _, step := range append([]string{"nothing"}, order...) {
		if err = steps[step](); err == nil {
			err = lab.load.reach(40, boxAgain)
		}
		if err != nil {
			end()
			t.Fatalf("new: %s: %v", step, err)
		}
		figures, _ := lab.load.figures()
		t.Logf("after %v, new: %s: %s", time.Since(began).Round(time.Millisecond), step, figures)
	}
	end()
	lab.load.lastOnes(t, lab.agents)
	lab.judge(t)
}

// processes prepares sidecars that are processes, with an agent's programs at each.
func (l *boxLab) processes(t *testing.T, n int) (all []*upgraded) {
	t.Helper()
	ports, err := harness.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	var sidecars []*harness.Sidecar
	for i, port := range ports {
		u, s := l.process(t, fmt.Sprint("agent-", i+1), port)
		all, sidecars = append(all, u), append(sidecars, s)
	}
	l.agents = agentsOf(t, l.Deployment, append(sidecars, sidecars...))
	for _, a := range l.agents {
		l.residents = append(l.residents, a.cl)
	}
	return all
}

// process prepares one sidecar that is a process; it is still to be started.
func (l *boxLab) process(t *testing.T, agent string, port int) (*upgraded, *harness.Sidecar) {
	t.Helper()
	token, dir := rand.Text(), t.TempDir()
	l.shop.Root = filepath.Join(dir, "files")
	policy, url := filepath.Join(dir, "policy.yaml"), fmt.Sprint("127.0.0.1:", port)
	err := os.Mkdir(l.shop.Root, 0o755)
	if err == nil {
		// the release before this one refuses a key of the policy that it does not know
		text := strings.ReplaceAll(l.shop.Policy(t), ", forbids: true", "")
		err = os.WriteFile(policy, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	u := &upgraded{args: []string{"sidecar", "--agent", agent, "--workspace", l.Workspace, "--listen", url, "--brokers",
		strings.Join(l.Brokers, ","), "--nats", l.NATS, "--data-dir", filepath.Join(dir, "journal"), "--policy", policy,
		"--token", token, "--output", "json"}}
	return u, &harness.Sidecar{Agent: agent, URL: "http://" + url, Token: token}
}
