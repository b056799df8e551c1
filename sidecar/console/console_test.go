package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a workspace in memory.
type source struct {
	mu       sync.Mutex
	outcomes []*sequencer.Outcome
	events   []*topology.Event
	live     topology.Live
	liveErr  error
	closure  *topology.Closure
	residue  []topology.Residue
	effects  []*topology.Event
	more     chan struct{}

	anomalies []topology.Anomaly // nil: nothing looks for them
}

func newSource() *source { return &source{more: make(chan struct{})} }

// add makes what is given known to everybody who follows.
func (s *source) add(outcomes []*sequencer.Outcome, events ...*topology.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range outcomes {
		o.Workspace, o.Seq = "default", sequencer.Seq(len(s.outcomes)+1)
		s.outcomes = append(s.outcomes, o)
	}
	s.events = append(s.events, events...)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *source) wait(ctx context.Context, ready func() bool) error {
	for {
		s.mu.Lock()
		ok, more := ready(), s.more
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

func (s *source) Follow(ctx context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	for at := int(after); ; at++ {
		var o *sequencer.Outcome
		err := s.wait(ctx, func() bool {
			if len(s.outcomes) > at {
				o = s.outcomes[at]
			}
			return o != nil
		})
		if err != nil {
			return err
		}
		if err := apply(o, streams.WayNATS); err != nil {
			return err
		}
	}
}

func (s *source) FollowAt(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error {
	return s.Follow(ctx, workspace, after, func(o *sequencer.Outcome, way streams.Way) error {
		return apply(o, way, time.Time{})
	})
}

func (s *source) FollowEvents(ctx context.Context, _ string, _ time.Duration, each func(*topology.Event) error) error {
	for at := 0; ; at++ {
		var ev *topology.Event
		err := s.wait(ctx, func() bool {
			if len(s.events) > at {
				ev = s.events[at]
			}
			return ev != nil
		})
		if err != nil {
			return err
		}
		if err := each(ev); err != nil {
			return err
		}
	}
}

func (s *source) Live(context.Context, string) (topology.Live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live, s.liveErr
}

func (s *source) Closure(context.Context, string, sequencer.TxID, int) (*topology.Closure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closure == nil {
		return nil, streams.ErrUnknownTx
	}
	return s.closure, nil
}

func (s *source) setClosure(c *topology.Closure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closure = c
}

func (s *source) Effects(context.Context, string, sequencer.TxID) ([]*topology.Event, error) {
	return s.effects, nil
}

func (s *source) Level(_ context.Context, workspace string) (*topology.AnomalyLevel, error) {
	if s.anomalies == nil {
		return nil, streams.ErrAnomaliesOff
	}
	return &topology.AnomalyLevel{Workspace: workspace, Seq: 7, Most: 4}, nil
}

func (s *source) Anomalies(context.Context, string, int) ([]topology.Anomaly, error) {
	if s.anomalies == nil {
		return nil, streams.ErrAnomaliesOff
	}
	return s.anomalies, nil
}

func (s *source) Residue(context.Context, string, int) ([]topology.Residue, error) {
	return s.residue, nil
}

func (s *source) Scopes(context.Context, string, sequencer.Scope, int) (topology.Scopes, error) {
	return topology.Scopes{Rows: []topology.ScopeInfo{{Scope: "shard:/x", Version: 3}}}, nil
}

func (s *source) Snapshot(context.Context, string) (*topology.Snapshot, error) {
	return &topology.Snapshot{}, nil
}

func (s *source) Cone(context.Context, string, sequencer.TxID) (*topology.Cone, error) {
	return &topology.Cone{Code: sequencer.CodeTooOld, Detail: "past the horizon"}, nil
}

func (s *source) Rules(context.Context, string) (sequencer.Rules, sequencer.Seq, error) {
	return sequencer.Rules{LeaseTicks: 40}, 0, nil
}

func (s *source) Ready(context.Context) map[string]error {
	return map[string]error{"nats": errors.New("away")}
}

// world is a running console over a source.
type world struct {
	t      *testing.T
	source *source
	page   *Console
	server *httptest.Server
}

const token = "the-token-of-the-test"

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, source: newSource()}
	c := Config{Source: w.source, Token: token, Limits: Limits{Batch: time.Millisecond, LiveEvery: 5 * time.Millisecond}}
	for _, f := range change {
		f(&c)
	}
	page, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.page = page
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = page.Run(ctx) }()
	w.server = httptest.NewServer(page)
	t.Cleanup(func() {
		cancel()
		<-ended
		w.server.CloseClientConnections()
		w.server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

// ask makes a request with the token; edit changes it before.
func (w *world) ask(method, path, body string, edit func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if edit != nil {
		edit(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

// get decodes the answer of a route.
func get[T any](w *world, path string) (v T) {
	w.t.Helper()
	resp, body := w.ask("GET", path, "", nil)
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s: %s %s", path, resp.Status, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		w.t.Fatalf("GET %s: %v in %s", path, err, body)
	}
	return v
}

// until asks until the answer is as it should be.
func until[T any](w *world, path string, holds func(T) bool) T {
	w.t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(20 * time.Second)
	for {
		v := get[T](w, path)
		if holds(v) {
			return v
		}
		select {
		case <-look.C:
		case <-deadline:
			w.t.Fatalf("GET %s does not become what it should: %+v", path, v)
		}
	}
}

func committed(tx string) *sequencer.Outcome {
	return &sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: sequencer.TxID(tx), Agent: "a", Final: true,
		Writes: []sequencer.Write{{Scope: "shard:/x"}}, Incarnation: 1}
}

func event(kind topology.EventKind, tx string, index uint64, atMs int64) *topology.Event {
	return &topology.Event{Kind: kind, Workspace: "default", Tx: sequencer.TxID(tx), Agent: "a", Incarnation: 1,
		Index: index, AtMs: atMs, Scope: "shard:/x"}
}

// held is a call that waits for the commit.
func held(tx string, index uint64, atMs int64) *topology.Event {
	ev := event(topology.EventEffect, tx, index, atMs)
	ev.Effect = &topology.EffectText{Class: sequencer.ClassIrreversible, Tool: "mail.send",
		Scopes: []sequencer.Scope{"mail:/m"}, Args: []byte(`{"to":"mia"}`)}
	return ev
}

type jsonMap = map[string]any

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"no source":    {Token: token},
		"no token":     {Source: newSource()},
		"no workspace": {Source: newSource(), Token: token, Workspace: "a|b"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: a console is made", name)
		}
	}
}

// TestOpenTransactionIsLive: what only its sidecar knows is in the list, and leaves it with its decision.
func TestOpenTransactionIsLive(t *testing.T) {
	w := newWorld(t)
	now := time.Now().UnixMilli()
	w.source.add(nil, event(topology.EventRead, "a.1.1", 1, now-3000), held("a.1.1", 2, now-2000))
	v := until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 1 })
	row := v.Transactions[0]
	if row.State != stateOpen || !row.Unsent || row.BeganMs != now-3000 || row.Held != 1 || row.Reads != 1 {
		t.Errorf("the open transaction is %+v", row)
	}
	gate := get[gateView](w, "/api/gate")
	if len(gate.Held) != 1 || gate.Held[0].Effects[0].State != effectHeld || gate.Held[0].Effects[0].Args != "" {
		t.Errorf("the gate holds %+v", gate.Held)
	}
	w.source.add([]*sequencer.Outcome{committed("a.1.1")})
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 0 })
	gate = get[gateView](w, "/api/gate")
	if len(gate.Held) != 0 || len(gate.Passed) != 1 || gate.Passed[0].Effects[0].State != effectReleased {
		t.Errorf("after the commit the gate is %+v", gate)
	}
}

// TestSessionEnds: a join of the agent ends what its former session left open.
func TestSessionEnds(t *testing.T) {
	w := newWorld(t)
	w.source.add(nil, event(topology.EventRead, "a.1.1", 1, 5))
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 1 })
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeRules}, {Kind: sequencer.OutcomeJoined, Agent: "a"}})
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 0 })
	r := get[Report](w, "/api/tx/a.1.1")
	if r.State != stateGone || !strings.Contains(r.Paragraph, "session ended") {
		t.Errorf("it is %s: %s", r.State, r.Paragraph)
	}
}

// TestFoldKnowsBetter: the fold's answer counts, but for what was decided after it.
func TestFoldKnowsBetter(t *testing.T) {
	w := newWorld(t)
	w.source.mu.Lock()
	w.source.live = topology.Live{Seq: 1, Tick: 10, Transactions: []topology.LiveTx{
		{Tx: "a.1.1", Agent: "a", State: topology.LiveSealed, BeganTick: 2, DeadlineTick: 50,
			Waits: []topology.LiveWait{{Tx: "b.1.1", Scope: "shard:/x", Why: "claimed"}}},
		{Tx: "a.1.2", Agent: "a", State: topology.LiveDecided, Committed: true},
	}, Sidecars: []topology.LiveSidecar{{Agent: "a", Incarnation: 1, LeaseLeft: 20, Lag: 4}}}
	w.source.mu.Unlock()
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeRules}})
	v := until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 2 && v.LeaseTicks == 40 })
	states := map[sequencer.TxID]liveRow{}
	for _, row := range v.Transactions {
		states[row.Tx] = row
	}
	if a := states["a.1.1"]; a.State != stateSealed || *a.AgeTicks != 8 || *a.LeftTicks != 40 || len(a.Waits) != 1 {
		t.Errorf("the sealed one is %+v", a)
	}
	if states["a.1.2"].State != stateOrphan {
		t.Errorf("the decided one that no sidecar settles is %+v", states["a.1.2"])
	}
	if a := v.Agents; len(a) != 1 || !a[0].Live || a[0].Lag != 4 || *a[0].LeaseLeft != 20 || a[0].Open != 2 {
		t.Errorf("the agents are %+v", v.Agents)
	}
	r := get[Report](w, "/api/tx/a.1.1")
	if !strings.Contains(r.Paragraph, "waits for b.1.1 (claimed) at shard:/x") {
		t.Errorf("the sentence is %q", r.Paragraph)
	}
	w.source.add([]*sequencer.Outcome{committed("a.1.1")})
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 1 })
}

// TestTroubleIsSaid: a fold that does not answer is named, and what was seen is shown all the same.
func TestTroubleIsSaid(t *testing.T) {
	w := newWorld(t)
	w.source.mu.Lock()
	w.source.liveErr = fmt.Errorf("%w: is anybody there?", streams.ErrNoAnswer)
	w.source.mu.Unlock()
	w.source.add(nil, event(topology.EventRead, "a.1.1", 1, 5))
	v := until(w, "/api/live", func(v liveView) bool {
		return len(v.Transactions) == 1 && len(v.Troubles) == 1 && strings.Contains(v.Troubles[0], "anybody")
	})
	if !strings.HasPrefix(v.Troubles[0], "live: ") {
		t.Errorf("the troubles are %q", v.Troubles)
	}
}

// TestPastIsDoubted: what began before the console is shown once the closure table has not seen its decision; what was
// decided long ago never is.
func TestPastIsDoubted(t *testing.T) {
	decided := &topology.Closure{Tx: "a.1.1", Rows: []topology.ClosureRow{{Tx: "a.1.1", Status: "committed", Seq: 1}}}
	w := newWorld(t)
	w.source.add(nil, event(topology.EventRead, "a.1.2", 1, 5))
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 1 && v.Transactions[0].Tx == "a.1.2" })
	w.source.setClosure(decided)
	seal := event(topology.EventSeal, "a.1.3", 3, 5)
	seal.Seal = &sequencer.Seal{}
	late := event(topology.EventAnswer, "a.1.4", 4, 5)
	late.Effect = &topology.EffectText{Step: 7}
	w.source.add(nil, event(topology.EventRead, "a.1.1", 2, 5), seal, late)
	w.source.add([]*sequencer.Outcome{{Kind: sequencer.OutcomeRules}})
	until(w, "/api/live", func(v liveView) bool { return v.Seq == 1 })
	w.page.watch.mu.Lock()
	_, answered := w.page.watch.txs["a.1.4"]
	w.page.watch.mu.Unlock()
	if answered {
		t.Error("an answer alone makes a transaction")
	}
	until(w, "/api/live", func(v liveView) bool {
		for _, row := range v.Transactions {
			if row.Tx == "a.1.1" || row.Tx == "a.1.3" {
				t.Fatalf("%s is shown as %s: it was decided before", row.Tx, row.State)
			}
		}
		return len(w.page.watch.doubts()) == 0
	})
}
