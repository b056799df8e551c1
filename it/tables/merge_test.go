package tables

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// The shards that all agents write deltas of.
const (
	appended = "shard:/merge/lines"
	added    = "shard:/merge/sum"
	joined   = "shard:/merge/set"
)

// delta is one committed transaction of the test.
type delta struct {
	tx   string
	seq  uint64
	line string
	gone bool
}

// TestMerge lets many agents write deltas of three shards at once. None is refused, and what the shards hold is what
// the transactions that stand have written, each once, in the order of their seqs: at the agents' own sidecars, at one
// that begins with a snapshot, after new processors have begun, in a reading of the log, and when every tenth is taken
// back.
func TestMerge(t *testing.T) {
	agents := harness.Number(t, "HENCE_IT_MERGE_AGENTS", harness.Sample(32))
	lines := harness.Number(t, "HENCE_IT_MERGE_LINES", 5)
	d := harness.Deploy(t, harness.Start(t))
	all := d.Sidecars(t, agents)
	begun := time.Now()
	done := merging(t, all, lines)
	t.Logf("%d agents: %d deltas of each shard in %v, none refused", agents, len(done),
		time.Since(begun).Round(time.Millisecond))
	some := all[:4]
	show := func(when string) {
		t.Helper()
		last := done[len(done)-1].seq
		for _, s := range some {
			last = max(last, lookAt(t, s, appended).View)
		}
		for _, s := range some {
			shows(t, when, s, done, last)
		}
		replays(t, d, when, done)
	}
	show("at the agents'")

	some = append(some, beginsLate(t, d, "late"))
	show("with one that began late")
	d.StopProcessors()
	d.StartProcessors(t)
	some = append(some, beginsLate(t, d, "later"))
	show("after new processors began")

	var gone sync.WaitGroup
	for i := 0; i < len(done); i += 10 {
		done[i].gone = true
		s, tx := some[i/10%len(some)], done[i].tx
		gone.Go(func() { takenBack(t, s, tx) })
	}
	gone.Wait()
	some = append(some, beginsLate(t, d, "last"))
	show("with every tenth taken back")
}

// merging lets each agent commit so many transactions at the same time; it returns them by seq.
func merging(t *testing.T, all []*harness.Sidecar, lines int) (done []delta) {
	t.Helper()
	var mu sync.Mutex
	var work sync.WaitGroup
	for i, s := range all {
		work.Go(func() {
			for n := range lines {
				line := fmt.Sprintf("%s %d\n", s.Agent, n)
				got, err := s.Client.Commit(t.Context(), client.Commit{Writes: []client.Write{
					{Scope: appended, Content: []byte(line), Op: "append"},
					{Scope: added, Content: []byte(strconv.Itoa(i*lines + n)), Op: "add"},
					{Scope: joined, Content: fmt.Appendf(nil, "%d\n", (i+n)%7), Op: "union"},
				}})
				if err != nil || got.Decision.State != api.StateCommitted {
					t.Errorf("%s, %d: %s %s %s, %v", s.Agent, n, got.Decision.State, got.Decision.Code, got.Decision.Detail, err)
					return
				}
				mu.Lock()
				done = append(done, delta{tx: got.Tx, seq: got.Decision.Seq, line: line})
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if t.Failed() {
		t.FailNow()
	}
	slices.SortFunc(done, func(a, b delta) int { return int(a.seq) - int(b.seq) })
	return done
}

// wanted is what the shards hold where the deltas stand that are not gone.
func wanted(done []delta) map[string]string {
	text, sum, set := "", 0, map[string]bool{}
	for i := range done {
		if done[i].gone {
			continue
		}
		text += done[i].line
		agent, n := 0, 0
		_, _ = fmt.Sscanf(done[i].line, "agent-%d %d", &agent, &n)
		sum += (agent-1)*linesOf(done) + n
		set[strconv.Itoa((agent-1+n)%7)] = true
	}
	var lines []string
	for line := range set {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return map[string]string{appended: text, added: strconv.Itoa(sum), joined: strings.Join(lines, "\n") + "\n"}
}

// linesOf is how many transactions each agent has made.
func linesOf(done []delta) int {
	n := 0
	for i := range done {
		if strings.HasPrefix(done[i].line, "agent-1 ") {
			n++
		}
	}
	return n
}

func lookAt(t *testing.T, s *harness.Sidecar, scope string) client.Shard {
	t.Helper()
	got, err := s.Client.Look(t.Context(), scope)
	if err != nil {
		t.Fatalf("%s looks at %s: %v", s.Agent, scope, err)
	}
	return got
}

// shows holds what a sidecar shows, once its view has come as far as another one's, to what stands.
func shows(t *testing.T, when string, s *harness.Sidecar, done []delta, reached uint64) {
	t.Helper()
	if _, err := s.Client.Chain(t.Context(), reached, 1); err != nil {
		t.Fatalf("%s: %s is not at %d: %v", when, s.Agent, reached, err)
	}
	for scope, want := range wanted(done) {
		if got := lookAt(t, s, scope); string(got.Content) != want {
			t.Errorf("%s: %s shows %s as %q, want %q", when, s.Agent, scope, got.Content, want)
		}
	}
}

// replays holds what the log's decisions come to, from the first on, to what stands.
func replays(t *testing.T, d *harness.Deployment, when string, done []delta) {
	t.Helper()
	var outcomes []*sequencer.Outcome
	harness.Eventually(t, tablesIn, func() error { // an agent may know its decision by NATS before the topic has it
		outcomes, _ = harness.Recorded(t, d.Servers, d.Workspace)
		if last := done[len(done)-1].seq; len(outcomes) == 0 || uint64(outcomes[len(outcomes)-1].Seq) < last {
			return fmt.Errorf("the log has %d decisions, and the last one is %d", len(outcomes), last)
		}
		return nil
	})
	shards := map[string]*sequencer.Writes{appended: {}, added: {}, joined: {}}
	for _, o := range outcomes {
		for i := range o.Shards {
			if x := shards[string(o.Shards[i].Scope)]; x != nil {
				x.Apply(o.Seq, &o.Shards[i])
			}
		}
	}
	for scope, want := range wanted(done) {
		if got, err := shards[scope].Value(nil); err != nil || string(got.Content) != want {
			t.Errorf("%s: the log's %s is %q, %v; want %q", when, scope, got.Content, err, want)
		}
	}
}

// beginsLate starts a sidecar whose view begins with a snapshot that has something.
func beginsLate(t *testing.T, d *harness.Deployment, name string) (begun *harness.Sidecar) {
	t.Helper()
	n := 0
	harness.Eventually(t, tablesIn, func() error { // rows rest for up to a second before they are written
		n++
		s := d.Sidecar(t, fmt.Sprint(name, "-", n))
		page, err := s.Client.Chain(t.Context(), 0, 1)
		if err == nil && page.First <= 1 {
			err = fmt.Errorf("the snapshot had nothing: the chain begins at %d", page.First)
		}
		if err != nil {
			s.Stop()
			return err
		}
		begun = s
		return nil
	})
	return begun
}

// takenBack retracts a transaction, with no other one in its cone.
func takenBack(t *testing.T, s *harness.Sidecar, tx string) {
	ctx, cancel := context.WithTimeout(t.Context(), harness.FinalIn)
	defer cancel()
	for {
		got, err := s.Client.Retract(ctx, tx, "", false)
		switch {
		case err != nil:
			t.Errorf("the retraction of %s: %v", tx, err)
			return
		case len(got.Cone) > 1:
			t.Errorf("with %s are taken back: %+v", tx, got.Cone)
			return
		case got.State == api.RetractDone:
			return
		}
		if err := pause.Sleep(ctx, 5*time.Millisecond); err != nil {
			t.Errorf("the retraction of %s is %s: %+v", tx, got.State, got.BlockedBy)
			return
		}
	}
}
