package order

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/culprit"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// exported is a workspace's log of decisions as a reader outside of Hence has it.
func exported(t *testing.T, servers *harness.Servers, workspace string) *culprit.Log {
	t.Helper()
	var values [][]byte
	for _, r := range harness.ReadTopic(t, servers.Brokers, topology.TopicDecisions, workspace) {
		values = append(values, r.Value)
	}
	l, err := culprit.Read(values)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRefusalsNameWhatMoved runs the demo in each order mode and holds every refusal to the exported log alone.
func TestRefusalsNameWhatMoved(t *testing.T) {
	servers := harness.Start(t)
	agents, tasks := harness.Number(t, "HENCE_IT_REFUSALS", 12), harness.Number(t, "HENCE_IT_REFUSAL_TASKS", 3)
	for _, order := range harness.Orders() {
		t.Run(order, func(t *testing.T) {
			report, code := harness.Demo(t, harness.Binary(t), servers, harness.DemoBound, "--order", order, "--agents",
				strconv.Itoa(agents), "--tasks", strconv.Itoa(tasks))
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			l, count, told, bare := exported(t, servers, report.Workspace), map[string]int{}, 0, 0
			for i := range l.All {
				d := &l.All[i]
				if !culprit.Named(d) {
					continue
				}
				count[d.Code]++
				if d.By == "sidecar" {
					told++
				}
				if err := l.Check(d); err != nil {
					bare++
					t.Error(err)
				}
			}
			t.Logf("%d agents: refusals %v, %d told by sidecars, %d without what moved", agents, count, told, bare)
			if len(count) == 0 {
				t.Error("nothing was refused: this run says nothing")
			}
		})
	}
}

// refused is one refusal as the agent that met it was told.
type refused struct {
	tx   *client.Tx
	open bool // only the request was refused
	said fact
}

// TestRefusalsEverywhere drives one refusal of each code and holds what the agent was told, what a stream of decisions
// shows, what another sidecar explains and what Kafka has against each other, and against the log.
func TestRefusalsEverywhere(t *testing.T) {
	d := harness.Deploy(t, harness.Start(t))
	s := d.Sidecars(t, 3)
	all := drive(t, s[0].Client, s[1].Client)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, shown := streamed(t, ctx, s[2], d.Workspace), map[uint64]*culprit.Decision{}
	var l *culprit.Log
	for _, code := range []string{"stale_read", "version_mismatch", "cascade", "conflict", "wounded", "lost_branch",
		"own_transaction", "phantom_tool", "too_old"} {
		r := all[code]
		if r == nil {
			t.Errorf("%s was not driven", code)
			continue
		}
		harness.Eventually(t, harness.RecordedIn, func() error {
			if l = exported(t, d.Servers, d.Workspace); find(l.All, r.tx.ID(), code) == nil {
				return fmt.Errorf("no decision says that %s is refused: %s", r.tx.ID(), code)
			}
			return nil
		})
		told := find(l.All, r.tx.ID(), code)
		if err := l.Check(told); err != nil {
			t.Error(err)
		}
		if r.said.floor > 0 && r.said.floor <= told.Floor { // as the view had it; the log's has moved on since
			r.said.floor = told.Floor
		}
		same(t, "the agent's answer", r.said, ofDecision(told))
		for shown[told.Seq] == nil { // decisions need not come in the order in which the refusals were asked for
			select {
			case seen, more := <-stream:
				if !more {
					t.Fatalf("the stream ended before it showed %d", told.Seq)
				}
				shown[seen.Seq] = &seen
			case <-time.After(time.Minute):
				t.Fatalf("the stream does not show %d", told.Seq)
			}
		}
		same(t, "the stream", ofDecision(shown[told.Seq]), ofDecision(told))
		if r.open {
			continue // explained is how a transaction stands
		}
		other, err := s[2].Client.Explain(t.Context(), r.tx.ID())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "another sidecar's explanation", ofAnswer(&other.Decision), ofDecision(told))
		t.Logf("%s", other.Paragraph)
	}
}

// fact is what every face says of a refusal.
type fact struct {
	code, scope, tool, movedBy, by string
	seq, floor                     uint64
}

func ofAnswer(d *api.Decision) fact {
	return fact{d.Code, d.Scope, d.Tool, d.MovedBy, d.By, d.MovedSeq, d.Floor}
}

func ofDecision(d *culprit.Decision) fact {
	f := fact{d.Code, d.Scope, d.Tool, d.Moved.Tx + d.Moved.Agent, d.By, d.Moved.Seq, 0}
	if d.Code == "too_old" {
		f.floor = d.Floor
	}
	return f
}

func same(t *testing.T, face string, got, want fact) {
	t.Helper()
	if got != want {
		t.Errorf("%s says %+v, the log %+v", face, got, want)
	}
}

func find(all []culprit.Decision, tx, code string) *culprit.Decision {
	for i := range all {
		if all[i].Tx == tx && all[i].Code == code {
			return &all[i]
		}
	}
	return nil
}

// streamed hands on what the server-sent events of a sidecar show, from the first decision on.
func streamed(t *testing.T, ctx context.Context, s *harness.Sidecar, workspace string) <-chan culprit.Decision {
	t.Helper()
	url := s.URL + "/v1/workspaces/" + workspace + "/decisions?after=0"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan culprit.Decision, 1024)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				if l, err := culprit.Read([][]byte{[]byte(data)}); err == nil && len(l.All) == 1 {
					out <- l.All[0]
				}
			}
		}
	}()
	return out
}

// drive makes one refusal of each code, in the order of their decisions.
func drive(t *testing.T, a, b *client.Client) map[string]*refused {
	t.Helper()
	ctx, all := t.Context(), map[string]*refused{}
	begin := func(c *client.Client, mode string) *client.Tx {
		return sure(c.Begin(ctx, client.BeginOptions{Mode: mode}))(t)
	}
	put := func(c *client.Client, scope string) client.Decision {
		return sure(c.Put(ctx, scope, []byte("1"), client.WriteOptions{}))(t)
	}
	note := func(tx *client.Tx, open bool, said fact) {
		t.Helper()
		if said.code == "" {
			t.Fatalf("%s was not refused", tx.ID())
		}
		all[said.code] = &refused{tx, open, said}
	}
	seal := func(tx *client.Tx) {
		t.Helper()
		note(tx, false, ofAnswer(new(sure(tx.Seal(ctx))(t))))
	}
	granted := func(tx *client.Tx, scope string) {
		t.Helper()
		if err := touchFor(t, tx, scope); err != nil {
			t.Fatal(err)
		}
	}
	// Reads and expected versions: the view of the one who seals shows the write, so its sidecar answers.
	stale, version := begin(b, ""), begin(b, "")
	sure(stale.Read(ctx, "shard:/x"))(t)
	if err := version.Write(ctx, "shard:/x", []byte("2"), client.WriteOptions{IfVersion: new(uint64)}); err != nil {
		t.Fatal(err)
	}
	showsUpTo(t, b, put(a, "shard:/x").Seq)
	seal(stale)
	seal(version)
	// A retraction takes back what a touch was granted over.
	written := put(a, "shard:/r")
	showsUpTo(t, b, written.Seq)
	under := begin(b, "")
	granted(under, "shard:/r")
	sure(a.Retract(ctx, written.Tx, "it was wrong", false))(t)
	seal(under)
	// The older asks for what the younger has.
	older, younger := begin(a, ""), begin(b, "")
	granted(older, "res:/first")
	granted(younger, "res:/c")
	note(older, false, refusedTouch(t, touchFor(t, older, "res:/c")))
	first, hurt, atOnce := begin(a, "ordered"), begin(b, ""), time.Duration(0)
	granted(hurt, "res:/w")
	wants := []client.Want{{Scope: "res:/w", Access: "write"}}
	if _, err := first.Touch(ctx, wants, client.TouchOptions{Wait: &atOnce}); err != nil {
		t.Log(err) // it waits until what was done under the other one's grant is settled
	}
	seal(hurt)
	// A branch that lost, the session's own other transaction, a tool that changed.
	g := sure(b.Speculate(ctx, 2, client.BeginOptions{}))(t)
	sure(g.Select(ctx, g.Branches()[0]))(t)
	seal(g.Branches()[1])
	mine, again := begin(b, ""), begin(b, "")
	granted(mine, "res:/own")
	note(again, true, refusedTouch(t, touchFor(t, again, "res:/own")))
	sure(b.PutTool(ctx, "desk", "stamp", "v1"))(t)
	planned := begin(b, "")
	sure(b.PutTool(ctx, "desk", "stamp", "v2"))(t)
	pins := []client.Pin{{Server: "desk", Name: "stamp", Signature: "v1"}}
	note(planned, false, ofAnswer(new(sure(planned.SealPinned(ctx, pins))(t))))
	tooOld(t, a, b, note)
	return all
}

// touchFor asks for one scope to write.
func touchFor(t *testing.T, tx *client.Tx, scope string) error {
	t.Helper()
	_, err := tx.Touch(t.Context(), []client.Want{{Scope: scope, Access: "write"}}, client.TouchOptions{})
	return err
}

// showsUpTo waits until a sidecar's view shows a seq.
func showsUpTo(t *testing.T, c *client.Client, seq uint64) {
	t.Helper()
	harness.Eventually(t, harness.RecordedIn, func() error {
		chain, err := c.Chain(t.Context(), seq, 1)
		if err == nil && chain.Seq < seq {
			err = fmt.Errorf("the view is at %d, not at %d", chain.Seq, seq)
		}
		return err
	})
}

// tooOld lets the floor pass a read of a transaction that the log knows.
func tooOld(t *testing.T, a, b *client.Client, note func(*client.Tx, bool, fact)) {
	t.Helper()
	ctx := t.Context()
	slow := sure(b.Begin(ctx, client.BeginOptions{Mode: "ordered"}))(t)
	sure(slow.Read(ctx, "shard:/old"))(t)
	few := uint32(8)
	version := sure(a.Rules(ctx))(t).Version
	sure(a.SetRules(ctx, version, client.RulesChange{CapSeqs: &few}))(t)
	var last client.Decision
	for range 2 * few {
		last = sure(a.Put(ctx, "shard:/other", []byte("1"), client.WriteOptions{}))(t)
	}
	showsUpTo(t, b, last.Seq)
	note(slow, false, ofAnswer(new(sure(slow.Seal(ctx))(t))))
}

// refusedTouch is what a refused touch's problem says.
func refusedTouch(t *testing.T, err error) fact {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) {
		t.Fatalf("a touch was not refused: %v", err)
	}
	return fact{p.Code, p.Scope, p.Tool, p.MovedBy, p.By, p.MovedSeq, p.Floor}
}

// sure fails the test on an error.
func sure[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
