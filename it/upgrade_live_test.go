package it

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// previousCommit is the last one before the processors had replicas that compare themselves: what "the previous build"
// is, unless HENCE_IT_UPGRADE_FROM names another commit or a binary.
const previousCommit = "ca3dafcf397add14f26d6975d783066e4769f7c2"

// previousBinary builds the previous build's binary from the repository's history.
func previousBinary(t *testing.T) string {
	t.Helper()
	from := os.Getenv("HENCE_IT_UPGRADE_FROM")
	if info, err := os.Stat(from); err == nil && info.Mode().IsRegular() {
		return from
	}
	if from == "" {
		from = previousCommit
	}
	dir, root := t.TempDir(), repositoryRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), harness.BuildBound)
	defer cancel()
	archive := filepath.Join(dir, "source.tar")
	out, err := exec.CommandContext(ctx, "git", "-C", root, "archive", "--output", archive, from).CombinedOutput()
	if err != nil {
		t.Skipf("the previous build's source is missing: fetch the whole history (git fetch --unshallow), or name a commit "+
			"or a binary in HENCE_IT_UPGRADE_FROM: git archive %s: %v: %s", from, err, out)
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		t.Fatalf("unpack the previous build's source: %v: %s", err, out)
	}
	binary, err := harness.BuildStatic(source, dir)
	if err != nil {
		t.Fatal(err)
	}
	return binary
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
	was, is := previousBinary(t), henceBinary(t)
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
	token := rand.Text()
	var sidecars []*harness.Sidecar
	for i, port := range ports {
		agent, dir := fmt.Sprint("agent-", i+1), t.TempDir()
		l.shop.Root = filepath.Join(dir, "files")
		policy := filepath.Join(dir, "policy.yaml")
		err := os.Mkdir(l.shop.Root, 0o755)
		if err == nil {
			err = os.WriteFile(policy, []byte(l.shop.Policy(t)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &upgraded{args: []string{"sidecar", "--agent", agent, "--workspace", l.Workspace, "--listen",
			fmt.Sprint("127.0.0.1:", port), "--brokers", strings.Join(l.Brokers, ","), "--nats", l.NATS, "--data-dir",
			filepath.Join(dir, "journal"), "--policy", policy, "--token", token, "--output", "json"}})
		sidecars = append(sidecars, &harness.Sidecar{Agent: agent, URL: fmt.Sprint("http://127.0.0.1:", port), Token: token})
	}
	l.agents = agentsOf(t, l.Deployment, append(sidecars, sidecars...))
	for _, a := range l.agents {
		l.residents = append(l.residents, a.cl)
	}
	return all
}
