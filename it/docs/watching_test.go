package docs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/fenced"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
)

// sight is one decision as a viewer shows it. It is declared here as in a user's script: the fold's types would read
// what no user can.
type sight struct {
	Seq             uint64
	Kind, Tx, Agent string
}

func (s sight) String() string { return fmt.Sprintf("%d %s %s %s", s.Seq, s.Kind, s.Tx, s.Agent) }

// watchBoundAll is how long the viewers may take to show what was decided.
const watchBoundAll = time.Minute

// TestWatching runs the commands of README.md's section "Watch" as they are printed, while transactions are committed
// and refused, and holds that each shows the same decisions: those of "hence tail" up to the seq of the sidecar's
// chain.
func TestWatching(t *testing.T) {
	blocks := watchBlocks(t)
	shell := readersShell(t, harness.Root(t))
	t.Cleanup(func() {
		if err := shell.Close(); err != nil {
			t.Error(err)
		}
	})
	dev := startBlock(t, shell, blocks["dev"])
	c := workedOn(t, shell)
	work(t, c, 0)
	watched := map[string]*fenced.Running{}
	for name, b := range blocks {
		if b.Has(markWatch) && name != "resume" {
			watched[name] = startBlock(t, shell, b)
		}
	}
	startBlock(t, shell, blocks["prometheus"])
	work(t, c, 1)
	last := head(t, shell)
	want := tail(t, shell, last)
	if int(last) != len(want) || len(want) < 12 {
		t.Fatalf("tail shows %d decisions up to seq %d", len(want), last)
	}
	for name, r := range watched {
		sameDecisions(t, name, r, want)
	}
	resumed(t, shell, blocks["curl"], blocks["resume"], want, c)
	scraped(t, shell, blocks["promtool"])
	t.Logf("%d decisions, seen alike by %d viewers and Prometheus; hence dev said %.40q", last, len(watched), dev.Out())
}

// watchBlocks are the blocks of the section by the program that they run, and the first that starts hence dev.
func watchBlocks(t *testing.T) map[string]fenced.Block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := fenced.Blocks("README.md", string(text))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]fenced.Block{}
	for _, b := range all {
		b.Text = strings.ReplaceAll(b.Text, "go run ./cmd/hence", "hence")
		name := ""
		switch {
		case b.Has(markServe) && strings.HasPrefix(b.Text, "hence dev"):
			name = "dev"
		case b.Section != "Watch":
			continue
		case strings.Contains(b.Text, "Last-Event-ID"):
			name = "resume"
		default:
			for _, program := range []string{"kcat", "nats", "curl", "prometheus", "promtool"} {
				if strings.Contains(b.Text, program+" ") {
					name = program // the last one wins: promtool's block names prometheus as well
				}
			}
		}
		if _, there := found[name]; !there {
			found[name] = b
		}
	}
	for _, name := range []string{"dev", "kcat", "nats", "curl", "resume", "prometheus", "promtool"} {
		if _, there := found[name]; !there {
			t.Fatalf("README.md does not show %s under \"Watch\" any more: fix it or this test", name)
		}
		if how := harness.HowToGet(name); how != "" {
			harness.NeedProgram(t, name, how)
		}
	}
	return found
}

// startBlock starts a block; a serving one is waited for, and its export lines are pasted.
func startBlock(t *testing.T, shell *fenced.Shell, b fenced.Block) *fenced.Running {
	t.Helper()
	r, err := shell.Start(b)
	if err != nil {
		t.Fatal(err)
	}
	if b.Has(markServe) {
		waitWhile(serveBound, func() bool { return !strings.Contains(r.Out()+r.Words(), "ready") && r.Alive() })
		if err := shell.Paste(r); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func command(t *testing.T, shell *fenced.Shell, text string) string {
	t.Helper()
	out, err := shell.Run(fenced.Block{File: "watching_test.go", Text: text + "\n"}, blockBound)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// workedOn is a client of the sidecar that the shell knows.
func workedOn(t *testing.T, shell *fenced.Shell) *client.Client {
	t.Helper()
	c := client.New(command(t, shell, "echo $HENCE_URL"), command(t, shell, "echo $HENCE_TOKEN"))
	t.Cleanup(c.Close)
	return c
}

// work commits three transactions, has one refused, and aborts one.
func work(t *testing.T, c *client.Client, round int) {
	t.Helper()
	ctx := t.Context()
	stale, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stale.Read(ctx, "shard:/orders/0"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		scope := fmt.Sprintf("shard:/orders/%d", i)
		if _, err := c.Put(ctx, scope, []byte(strconv.Itoa(round)), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := stale.Seal(ctx); err != nil || d.Code != "stale_read" {
		t.Fatalf("a stale read is %+v: %v", d, err)
	}
	ordered, err := c.Begin(ctx, client.BeginOptions{Mode: "ordered"})
	if err == nil {
		err = ordered.Abort(ctx, "the user left")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// head is the seq that the sidecar's chain has reached.
func head(t *testing.T, shell *fenced.Shell) uint64 {
	t.Helper()
	var chain struct{ Seq uint64 }
	text := command(t, shell, `curl -s -H "Authorization: Bearer $HENCE_TOKEN" $HENCE_URL/v1/workspaces/default/chain`)
	if err := json.Unmarshal([]byte(text), &chain); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return chain.Seq
}

// tail is what hence tail shows up to a seq.
func tail(t *testing.T, shell *fenced.Shell, last uint64) (all []sight) {
	t.Helper()
	out := command(t, shell, fmt.Sprintf("hence tail --all -o json --limit %d", last))
	for line := range strings.Lines(out) {
		var d sight
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, d)
	}
	return all
}

// sameDecisions waits until a viewer has shown as many decisions as there are, and compares them.
func sameDecisions(t *testing.T, name string, r *fenced.Running, want []sight) {
	t.Helper()
	shown := map[string]func(string) []sight{"kcat": shownByKcat, "nats": shownByNATS, "curl": shownByCurl}[name]
	waitWhile(watchBoundAll, func() bool { return len(shown(r.Out())) < len(want) && r.Alive() })
	if got := shown(r.Out()); !slices.Equal(got, want) {
		t.Errorf("%s shows\n%v\ninstead of\n%v\nit said: %s", name, got, want, r.Words())
	}
}

// shownByKcat reads lines of CloudEvents.
func shownByKcat(out string) (all []sight) {
	for line := range strings.Lines(out) {
		var event struct {
			Subject string
			Data    sight
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Data.Seq > 0 && event.Subject == event.Data.Tx {
			all = append(all, event.Data)
		}
	}
	return all
}

// shownByCurl reads server-sent events, whose id and event must be those of the data.
func shownByCurl(out string) (all []sight) {
	for _, block := range strings.Split(out, "\n\n") {
		fields := map[string]string{}
		lines := bufio.NewScanner(strings.NewReader(block))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if name, value, found := strings.Cut(lines.Text(), ": "); found {
				fields[name] = value
			}
		}
		one := shownByKcat(fields["data"])
		if len(one) == 1 && fields["id"] == strconv.FormatUint(one[0].Seq, 10) && fields["event"] == one[0].Kind {
			all = append(all, one[0])
		}
	}
	return all
}

// shownByNATS reads the headers that nats prints.
func shownByNATS(out string) (all []sight) {
	header := regexp.MustCompile(`(?m)^Hence-(\w+): (.*)$`)
	for _, message := range strings.Split(out, "[#")[1:] {
		var d sight
		for _, m := range header.FindAllStringSubmatch(message, -1) {
			switch m[1] {
			case "Seq":
				d.Seq, _ = strconv.ParseUint(m[2], 10, 64)
			case "Kind":
				d.Kind = m[2]
			case "Tx":
				d.Tx = m[2]
			case "Agent":
				d.Agent = m[2]
			}
		}
		if d.Seq > 0 {
			all = append(all, d)
		}
	}
	return all
}

// resumed cuts a stream off in the middle and begins again behind the last id that came, while work goes on.
func resumed(t *testing.T, shell *fenced.Shell, from, again fenced.Block, want []sight, c *client.Client) {
	t.Helper()
	first := startBlock(t, shell, from)
	waitWhile(watchBoundAll, func() bool { return len(shownByCurl(first.Out())) < len(want)/2 })
	if err := shell.End(first); err != nil {
		t.Fatal(err)
	}
	had := shownByCurl(first.Out())
	if len(had) == 0 {
		t.Fatalf("the stream shows nothing: %s", first.Words())
	}
	had = had[:len(had)/2] // as if the connection had broken there
	if !strings.Contains(again.Text, "LAST=2\n") {
		t.Fatalf("%s does not begin after LAST=2 any more: fix it or this test", again.Where())
	}
	again.Text = strings.Replace(again.Text, "LAST=2\n", fmt.Sprintf("LAST=%d\n", had[len(had)-1].Seq), 1)
	work(t, c, 2)
	second := startBlock(t, shell, again)
	work(t, c, 3)
	all := tail(t, shell, head(t, shell))
	waitWhile(watchBoundAll, func() bool { return len(had)+len(shownByCurl(second.Out())) < len(all) })
	if got := append(had, shownByCurl(second.Out())...); !slices.Equal(got, all) {
		t.Errorf("after a break at %d the stream shows\n%v\ninstead of\n%v", had[len(had)-1].Seq, got, all)
	}
}

// scraped holds that Prometheus shows the view's seq, and how the agent's transactions ended.
func scraped(t *testing.T, shell *fenced.Shell, ask fenced.Block) {
	t.Helper()
	last := head(t, shell)
	ends := map[string]int{}
	for _, d := range tail(t, shell, last) {
		if d.Kind == "committed" || d.Kind == "aborted" {
			ends[d.Kind]++
		}
	}
	value := regexp.MustCompile(`hence_sidecar_(view_seq|decisions_total)\{([^}]*)\} => (\d+)`)
	harness.Eventually(t, watchBoundAll, func() error {
		out, err := shell.Run(ask, blockBound)
		if err != nil {
			t.Fatal(err)
		}
		seq, got := "", map[string]int{}
		for _, m := range value.FindAllStringSubmatch(out, -1) {
			n, err := strconv.Atoi(m[3])
			switch {
			case err != nil:
				return err
			case m[1] == "view_seq":
				seq = m[3]
			case strings.Contains(m[2], `state="committed"`):
				got["committed"] += n
			case strings.Contains(m[2], `state="aborted"`):
				got["aborted"] += n
			}
		}
		if seq != fmt.Sprint(last) || got["committed"] != ends["committed"] || got["aborted"] != ends["aborted"] {
			return fmt.Errorf("Prometheus shows seq %s, %v; it is %d, %v", seq, got, last, ends)
		}
		return nil
	})
}
