package cli

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/replays"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestReplay does what docs/replay.md does, and holds that hence replay prints what stands there.
func TestReplay(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dev := startDev(t)
	do := func(args ...string) string {
		t.Helper()
		code, out, errs := hence(t, args...)
		if code != ExitOK {
			t.Fatalf("hence %v: exit code %d, %s", args, code, errs)
		}
		return out
	}
	do("rules", "set", "--observe")
	do("shard", "put", "stock/mugs", "5")
	ctx, c := t.Context(), client.New(dev.URL, dev.Token)
	readAndWrite := func(read, write string, between func()) {
		t.Helper()
		tx, err := c.Begin(ctx, client.BeginOptions{})
		if err == nil {
			_, err = tx.Read(ctx, read)
		}
		if between(); err == nil {
			err = tx.Write(ctx, write, []byte("1"), client.WriteOptions{})
		}
		if err == nil {
			_, err = tx.Seal(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	readAndWrite("shard:/stock/mugs", "shard:/sold/mugs", func() { do("shard", "put", "stock/mugs", "4") })
	readAndWrite("shard:/sold/mugs", "shard:/report", func() {})
	plot := filepath.Join(t.TempDir(), "replay.svg")
	got := do("replay", "--mode", "enforce", "--svg", plot)
	doc, err := os.ReadFile("../../../../docs/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(doc), "```text\n")
	want, _, _ = strings.Cut(want, "```")
	// Ticks and watermarks are records too, and come with time.
	records := regexp.MustCompile(`\d+ records`)
	if got, want = records.ReplaceAllString(got, "N records"), records.ReplaceAllString(want, "N records"); got != want {
		t.Errorf("docs/replay.md has\n%s\nit prints\n%s", want, got)
	}
	if svg, err := os.ReadFile(plot); err != nil || strings.Count(string(svg), "<polyline") != 5 {
		t.Errorf("the plot: %v, %s", err, svg)
	}
	if out := do("replay"); !strings.Contains(out, "decided again under its own rules") ||
		!strings.Contains(out, "Nothing differs.") {
		t.Errorf("under its own rules: %s", out)
	}
	bundle := filepath.Join(t.TempDir(), "default.tar")
	do("export", "--bundle", bundle)
	if code, _, errs := hence(t, "export", "--bundle", bundle); code != ExitFailed ||
		!strings.Contains(errs, "default.tar is there already and is left as it is") {
		t.Errorf("a bundle over another: exit code %d, %s", code, errs)
	}
	if from := do("replay", "--from", bundle, "--mode", "enforce"); records.ReplaceAllString(from, "N records") != want {
		t.Errorf("from a bundle: %s", from)
	}
	var v replays.View
	if err := json.Unmarshal([]byte(do("replay", "--mode", "enforce", "-o", "json")), &v); err != nil ||
		len(v.Differences) != 1 || v.Checked != int(v.Decisions) || v.Direct != 1 || len(v.Unknown) != 1 {
		t.Errorf("as JSON: %v, %+v", err, v)
	}
	// A run of the demo, under its own rules and under others.
	var demo struct {
		Workspace string `json:"workspace"`
	}
	report := do("demo", "--agents", "3", "--tasks", "3", "--mode", "observe", "-o", "json", "--brokers",
		strings.Join(dev.Brokers, ","), "--nats", dev.NATS)
	if err := json.Unmarshal([]byte(report), &demo); err != nil || demo.Workspace == "" {
		t.Fatalf("the demo: %v, %s", err, report)
	}
	if out := do("replay", "--workspace", demo.Workspace); !strings.Contains(out, "Nothing differs.") {
		t.Errorf("the demo under its own rules: %s", out)
	}
	do("replay", "--workspace", demo.Workspace, "--mode", "enforce", "--order", "ordered")
	do("replay", "--policy", "../../../../docs/examples/notes.yaml", "--order", "locked", "--level", "L2")
	if code, _, errs := hence(t, "replay", "--workspace", "other"); code != ExitFailed ||
		!strings.Contains(errs, "the log has no decision of a workspace other: is it the right name") {
		t.Errorf("of a workspace that there is not: exit code %d, %s", code, errs)
	}
}

// TestReplayFrom holds which bundles are refused, and which flags beside one.
func TestReplayFrom(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	whole := bundled(t, newTwoDecisions(t, key))
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	damaged := inFile(t, "damaged.tar", bytes.Replace(text, []byte(`"offset":1,`), []byte(`"offset":7,`), 1))
	for _, c := range []struct {
		args []string
		code int
		errs string
	}{
		{[]string{"--from", whole}, ExitFailed, "replay shop: not in the log any more: the bundle has no hence.intents"},
		{[]string{"--from", whole, "--workspace", "shop"}, ExitFailed, "the bundle has no hence.intents"},
		{[]string{"--from", damaged}, ExitFailed, "damaged.tar is damaged in hence.decisions/000001.jsonl: hence audit " +
			"--from "},
		{[]string{"--from", inFile(t, "key.pem", []byte("no tar"))}, ExitFailed, "no bundle"},
		{[]string{"--from", "nowhere.tar"}, ExitFailed, "nowhere.tar"},
		{[]string{"--from", whole, "--workspace", "default"}, ExitUsage, "is of workspace shop, not default"},
		{[]string{"--from", whole, "--brokers", "127.0.0.1:1"}, ExitUsage, "leave --brokers out"},
		{[]string{"--from", whole, "--kafka-tls"}, ExitUsage, "leave --kafka-tls out"},
	} {
		code, _, errs := hence(t, append([]string{"replay"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.errs) {
			t.Errorf("hence replay %v: exit code %d, %s", c.args, code, errs)
		}
	}
}

// TestReplayChange holds what each flag changes, and that nothing else is taken.
func TestReplayChange(t *testing.T) {
	for _, c := range []struct {
		cmd     replayCmd
		observe *bool
		levels  *sequencer.Levels
		mode    *sequencer.Mode
		words   string
	}{
		{},
		{cmd: replayCmd{Mode: "observe"}, observe: new(true), words: "mode observe"},
		{cmd: replayCmd{Mode: "enforce"}, observe: new(false), words: "mode enforce"},
		{cmd: replayCmd{Level: "L0"}, levels: new(sequencer.L0), words: "level L0"},
		{cmd: replayCmd{Level: "L1"}, levels: new(sequencer.A1), words: "level L1"},
		{cmd: replayCmd{Level: "L2"}, levels: new(sequencer.A1 | sequencer.A3), words: "level L2"},
		{cmd: replayCmd{Level: "L3"}, levels: new(sequencer.A1 | sequencer.A3 | sequencer.A6), words: "level L3"},
		{cmd: replayCmd{Level: "L4"}, levels: new(sequencer.L3 | sequencer.A2), words: "level L4"},
		{cmd: replayCmd{Order: "optimistic"}, mode: new(sequencer.Optimistic), words: "order optimistic"},
		{cmd: replayCmd{Order: "ordered"}, mode: new(sequencer.Ordered), words: "order ordered"},
		{cmd: replayCmd{Order: "locked"}, mode: new(sequencer.Locked), words: "order locked"},
	} {
		got, words, err := c.cmd.change()
		if err != nil || !reflect.DeepEqual(got, replay.Change{Observe: c.observe, Levels: c.levels, Mode: c.mode}) ||
			strings.Join(words, ", ") != c.words {
			t.Errorf("%+v: %+v, %q, %v", c.cmd, got, words, err)
		}
	}
	policy := inFile(t, "policy.yaml", []byte(`version: 1
server: shop
tools:
  - {tool: pay, class: irreversible, args: [], scopes: ["pay:/a"], approve: required}
  - {tool: look, class: read, args: [], scopes: ["pay:/a"]}
`))
	got, words, err := (&replayCmd{Policy: policy}).change()
	if err != nil || len(words) != 1 || words[0] != "policy "+policy {
		t.Fatal(words, err)
	}
	for tool, want := range map[string]replay.Treatment{"pay": {Class: sequencer.ClassIrreversible, Approve: true},
		"look": {Class: sequencer.ClassRead}} {
		if as, declared := got.Class(tool); as != want || !declared {
			t.Errorf("%s: %+v, %v", tool, as, declared)
		}
	}
	if _, declared := got.Class("other"); declared {
		t.Error("a tool that the policy does not declare has a class")
	}
	for _, args := range [][]string{{"--level", "L5"}, {"--order", "serial"}, {"--mode", "off"}, {"--limit", "-1"}} {
		if code, _, _ := hence(t, append([]string{"replay"}, args...)...); code != ExitUsage {
			t.Errorf("hence replay %v: exit code %d", args, code)
		}
	}
	damaged := inFile(t, "damaged.yaml", []byte("version: 99\n"))
	code, _, errs := hence(t, "replay", "--policy", damaged)
	if code == ExitOK || !strings.Contains(errs, "damaged.yaml") {
		t.Errorf("a policy that is none: exit code %d, %s", code, errs)
	}
}
