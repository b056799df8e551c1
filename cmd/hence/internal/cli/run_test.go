package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/cluster"
	"github.com/hence-dev/hence/cmd/hence/internal/demo"
	"github.com/hence-dev/hence/sidecar/client"
)

// runDemo runs "hence demo -o json" and returns its report.
func runDemo(t *testing.T, args ...string) (int, demo.Report) {
	t.Helper()
	code, out, errs := hence(t, append([]string{"demo", "-o", "json"}, args...)...)
	var r demo.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit code %d, %v, output %q, %s", code, err, out, errs)
	}
	return code, r
}

// TestDemoHoldsInEachOrder runs small demos in each order mode: everything is committed and the check holds.
func TestDemoHoldsInEachOrder(t *testing.T) {
	for _, order := range demo.Orders() {
		t.Run(order, func(t *testing.T) {
			code, r := runDemo(t, "--agents", "4", "--tasks", "4", "--think", "2ms", "--order", order, "--seed", "7")
			if code != ExitOK || r.Transactions != 16 || r.Committed != 16 || r.GaveUp != 0 || r.LostUpdates != 0 ||
				r.AcknowledgedMissing != 0 || !r.ReplayEqual || len(r.Hash) != 64 || r.Seed != 7 || r.Order != order {
				t.Errorf("exit code %d, %+v", code, r)
			}
			if p := r.Planned; p.Turns == 0 || p.Made == 0 || p.Never == 0 || p.Against != 0 {
				t.Errorf("planned turns: %+v", p)
			}
			if r.SealToDecisionMs.P50 <= 0 || r.SealToDecisionMs.P99 < r.SealToDecisionMs.P50 || r.AppendMs.P50 <= 0 {
				t.Errorf("times are missing: %+v, append %+v", r.SealToDecisionMs, r.AppendMs)
			}
			if len(r.Refused) == 0 || r.Retries == 0 {
				t.Errorf("two agents want the same order and none was refused: %+v", r)
			}
		})
	}
}

// TestDemoObservesLostUpdates holds that nothing is refused in observe, that updates are lost, and that this is said.
func TestDemoObservesLostUpdates(t *testing.T) {
	records := filepath.Join(t.TempDir(), "records")
	code, r := runDemo(t, "--agents", "4", "--tasks", "4", "--think", "2ms", "--mode", "observe", "--records", records)
	if code != ExitOK || r.Committed != 16 || r.LostUpdates == 0 || len(r.Lost) == 0 || r.AcknowledgedMissing != 0 ||
		r.Would["stale_read"] == 0 {
		t.Errorf("exit code %d, %+v", code, r)
	}
	data, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	committed := 0
	for line := range strings.Lines(string(data)) {
		var a demo.Attempt
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if a.Task >= 0 && a.End == demo.EndCommitted {
			committed++
		}
	}
	if committed != r.Committed {
		t.Errorf("the records show %d commits, the report %d", committed, r.Committed)
	}
}

// The lines that are to be pasted are taken by every shell: zsh takes a comment behind a command for words of it.
func TestDevExports(t *testing.T) {
	var out bytes.Buffer
	c := &devCmd{output: output{Output: "text"}}
	err := c.announce(&out, Dev{URL: "http://127.0.0.1:1", Token: "x", Agent: "ann", Workspace: "shop", NATS: "nats://n"})
	if err != nil {
		t.Fatal(err)
	}
	exports := 0
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "export ") {
			exports++
			if len(strings.Fields(line)) != 2 {
				t.Errorf("more than one word behind export: %s", line)
			}
		}
	}
	if exports != 4 || !strings.Contains(out.String(), "agent ann, workspace shop") {
		t.Errorf("%d lines to paste:\n%s", exports, out.String())
	}
}

// startDev runs "hence dev" beside the test and returns where it serves. Commands that name nothing else find it.
func startDev(t *testing.T, args ...string) Dev {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	return startDevHere(t, args...)
}

// startDevHere is startDev in the state folder that the test has.
func startDevHere(t *testing.T, args ...string) Dev {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, w := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		ended <- Main(ctx, append([]string{"dev", "--random-ports", "-o", "json"}, args...),
			Streams{In: strings.NewReader(""), Out: w, Err: &errs})
		_ = w.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != ExitOK {
			t.Errorf("hence dev ends with exit code %d: %s", code, errs.String())
		}
	})
	var d Dev
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &d)
	}
	if err != nil {
		t.Fatalf("hence dev says %q: %v", line, err)
	}
	return d
}

// TestDevTailExplain starts everything, writes a shard, and watches it from outside.
func TestDevTailExplain(t *testing.T) {
	dev := startDev(t)
	t.Logf("ready after %.0f ms", dev.ReadyMs)
	if dev.Durable || dev.Token == "" || dev.ReadyMs <= 0 {
		t.Errorf("hence dev says %+v", dev)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	d, err := c.Put(ctx, "shard:/greeting", []byte("hello"), client.WriteOptions{MediaType: "text/plain"})
	if err != nil || d.State != "committed" {
		t.Fatalf("%+v, %v", d, err)
	}
	if code, _, errs := hence(t, "healthcheck", "--url", dev.URL); code != ExitOK {
		t.Errorf("healthcheck: exit code %d, %s", code, errs)
	}
	cluster := []string{"--brokers", strings.Join(dev.Brokers, ","), "--nats", dev.NATS}
	code, out, errs := hence(t, append([]string{"tail", "-o", "json", "--limit", "2"}, cluster...)...)
	if !strings.Contains(out, `"kind":"joined"`) || !strings.Contains(out, "shard:/greeting") {
		t.Errorf("tail: exit code %d, %s%s", code, out, errs)
	}
	code, out, errs = hence(t, "explain", d.Tx, "--url", dev.URL, "--token", dev.Token)
	if code != ExitOK || !strings.Contains(out, "committed") {
		t.Errorf("explain: exit code %d, %s%s", code, out, errs)
	}
	code, out, errs = hence(t, "explain", "no-such-tx", "--url", dev.URL, "--token", dev.Token)
	if code != ExitFailed || out != "" || !strings.Contains(errs, "unknown_tx") {
		t.Errorf("explain of nothing: exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs := hence(t, append([]string{"topics", "verify"}, cluster...)...); code != ExitOK {
		t.Errorf("topics verify: exit code %d, %s%s", code, out, errs)
	}
}

// TestDevKeepsItsData starts twice on one folder: the second one shows what the first one was given.
func TestDevKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) {
		dev := startDev(t, "--data-dir", dir)
		c := client.New(dev.URL, dev.Token)
		defer c.Close()
		d, err := c.Put(t.Context(), "shard:/kept", []byte("still here"), client.WriteOptions{})
		if err != nil || d.State != "committed" || !dev.Durable {
			t.Fatalf("%+v, %v", d, err)
		}
	})
	dev := startDev(t, "--data-dir", dir)
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	shard, err := c.Get(t.Context(), "shard:/kept")
	if err != nil || string(shard.Content) != "still here" {
		t.Fatalf("%+v, %v", shard, err)
	}
}

// TestDemoSurvivesKills kills processors and a sidecar in the middle of a run: the check holds nonetheless.
func TestDemoSurvivesKills(t *testing.T) {
	t.Setenv(asProgram, "1")
	announced, errs := io.Pipe()
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(t.Context(), []string{"demo", "-o", "json", "--processes", "--agents", "3", "--tasks", "60",
			"--think", "20ms"}, Streams{In: strings.NewReader(""), Out: &out, Err: errs})
		_ = errs.Close()
	}()
	kills := 0
	lines := bufio.NewScanner(announced)
	for lines.Scan() {
		var a cluster.Announcement
		if json.Unmarshal(lines.Bytes(), &a) != nil || a.Role == "sidecar" && a.Agent != "agent-1" || a.Starts > 3 {
			continue
		}
		kills++
		time.AfterFunc(300*time.Millisecond, func() { // by then it works
			if err := syscall.Kill(a.PID, syscall.SIGKILL); err != nil {
				t.Errorf("kill %s %s: %v", a.Role, a.Agent, err)
			}
		})
	}
	code := <-ended
	var r demo.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, out.String())
	}
	t.Logf("%d kills, %d interrupted, refused %v", kills, r.Interrupted, r.Refused)
	if code != ExitOK || r.Committed != r.Transactions || !r.Holds() || kills != 6 {
		t.Errorf("exit code %d after %d kills: %+v", code, kills, r)
	}
}
