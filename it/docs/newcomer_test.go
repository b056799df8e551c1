package docs

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/fenced"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestNewcomerDev starts "hence dev" as a newcomer does, prints the time until /readyz says yes, and settles one
// transaction with what it printed.
func TestNewcomerDev(t *testing.T) {
	path := harness.Binary(t)
	start := time.Now()
	p, line := harness.SpawnServing(t, 30*time.Second, path, "dev", "--random-ports", "--output", "json")
	var dev struct {
		URL, Token, Workspace string
		Durable               bool
		ReadyMs               float64 `json:"ready_ms"`
	}
	if err := json.Unmarshal(line, &dev); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	harness.Eventually(t, 10*time.Second, func() error { return harness.Readyz(t.Context(), dev.URL) })
	ready := time.Since(start)
	t.Logf("/readyz answered %v after the start of the process (aim: 1 s); it says %.0f ms itself", ready, dev.ReadyMs)
	if ready > 10*time.Second {
		t.Errorf("ready after %v", ready)
	}
	if dev.Durable {
		t.Error("it says that it is durable, without a data folder")
	}
	oneTransaction(t, client.New(dev.URL, dev.Token, client.WithWorkspace(dev.Workspace)))
	if err := p.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if _, code, err := p.Wait(20 * time.Second); err != nil || code != 0 && code != 130 {
		t.Errorf("after Ctrl-C it ended with %d: %v\n%s", code, err, p.Words())
	}
}

// oneTransaction reads, writes, seals and reads back.
func oneTransaction(t *testing.T, c *client.Client) {
	t.Helper()
	tx, err := c.Begin(t.Context(), client.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if shard, err := tx.Read(t.Context(), "shard:/orders/1"); err != nil || shard.Exists {
		t.Fatalf("an unwritten shard is %+v: %v", shard, err)
	}
	if err := tx.Write(t.Context(), "shard:/orders/1", []byte("paid"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	d, err := tx.Seal(t.Context())
	if err != nil || d.State != "committed" || d.Seq == 0 {
		t.Fatalf("the decision is %+v: %v", d, err)
	}
	if shard, err := c.Get(t.Context(), "shard:/orders/1"); err != nil || string(shard.Content) != "paid" {
		t.Fatalf("the shard is %+v: %v", shard, err)
	}
}

// TestNewcomerDemo runs the first command of README.md as it is printed there.
func TestNewcomerDemo(t *testing.T) {
	root := harness.Root(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const demo, tests = "go run ./cmd/hence demo", "go test ./..."
	for _, command := range []string{demo, tests} {
		if !strings.Contains(string(readme), "\n"+command+" ") {
			t.Errorf("README.md does not have the command %q any more: fix it or this test", command)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.BuildBound)
	defer cancel()
	words := strings.Fields(demo)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = root
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", demo, err, errs.String())
	}
	if !strings.Contains(string(out), "The check holds.") {
		t.Errorf("%s prints no verdict:\n%s", demo, out)
	}
	t.Logf("%s:\n%s", demo, out)
}

// terminals are the two that a newcomer has open: in one runs hence dev, in the other all else is pasted.
type terminals struct {
	t           *testing.T
	serves      *fenced.Shell
	works       *fenced.Shell
	dev         *fenced.Running
	served, ran int
}

// paste does what a block says, in the terminal that it is for. Nothing is taken from one to the other.
func (n *terminals) paste(b fenced.Block) string {
	n.t.Helper()
	b.Text = strings.ReplaceAll(b.Text, "go run ./cmd/hence", "hence")
	if !b.Has(markServe) {
		n.ran++
		out, err := n.works.Run(b, blockBound)
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Logf("%s:\n%s%s", b.Where(), b.Text, out)
		return out
	}
	n.stop()
	running, err := n.serves.Start(b)
	if err != nil {
		n.t.Fatal(err)
	}
	n.dev, n.served = running, n.served+1
	waitWhile(serveBound, func() bool { return !strings.Contains(running.Out(), "Stop with Ctrl-C") && running.Alive() })
	return running.Out()
}

// stop presses Ctrl-C where hence dev runs.
func (n *terminals) stop() {
	n.t.Helper()
	if n.dev != nil {
		if err := n.serves.End(n.dev); err != nil {
			n.t.Error(err)
		}
	}
	n.dev = nil
}

// TestNewcomerTwice pastes what README.md says about an agent and its tools into two terminals, top to bottom, and
// then once more into the same ones.
func TestNewcomerTwice(t *testing.T) {
	root := harness.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	above, _, _ := strings.Cut(string(text), "\n## Watch\n")
	blocks, err := fenced.Blocks("README.md", above)
	if err != nil {
		t.Fatal(err)
	}
	dir, env := readersDesk(t, root)
	n := &terminals{t: t}
	for _, shell := range []**fenced.Shell{&n.serves, &n.works} {
		if *shell, err = fenced.NewShell(dir, env); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := (*shell).Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	var said strings.Builder
	for range 2 {
		for _, b := range blocks {
			if !b.Has(markSuite) && !b.Has(markWatch) { // a third terminal's: TestDocs has it
				said.WriteString(n.paste(b))
			}
		}
	}
	n.stop()
	for want, times := range map[string]int{
		"hence dev is ready": 4, `"state":"committed"`: 4, `"state":"held"`: 2, "board.post": 4, "HAS LEFT FOR GOOD": 2,
		"paid": 2, "agent-1.1.1": 4,
	} {
		if got := strings.Count(said.String(), want); got < times {
			t.Errorf("%q is printed %d times, want %d at least:\n%s", want, got, times, said.String())
		}
	}
	if n.served != 4 || n.ran != 14 {
		t.Errorf("%d blocks served and %d ran", n.served, n.ran)
	}
}
