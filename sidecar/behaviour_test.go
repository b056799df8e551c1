package sidecar

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// An open transaction that a later decision has overtaken is told with its next call, and while it waits.
func TestOvertaken(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Read(ctx, "shard:/x"))(t)
	if d := must(tx.Status(ctx, 0))(t); d.Overtaken != nil || d.State != api.StateOpen {
		t.Fatalf("too early: %+v", d)
	}
	polled := make(chan client.Decision, 1)
	go func() {
		d, err := tx.Status(ctx, testWait)
		if err != nil {
			t.Error(err)
		}
		polled <- d
	}()
	put := must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if d := <-polled; d.Overtaken == nil || d.Overtaken.Seq != put.Seq || d.Overtaken.Writer != put.Tx || d.State != api.StateOpen {
		t.Fatalf("the long poll: %+v", d)
	}
	got := must(tx.Read(ctx, "shard:/y"))(t)
	if got.Overtaken == nil || got.Overtaken.Scope != "shard:/x" {
		t.Fatalf("the next read: %+v", got)
	}
	d := must(tx.Seal(ctx))(t)
	if d.Code != "stale_read" || len(d.ReRead) != 1 || d.ReRead[0] != "shard:/x" || d.BackoffMs == 0 {
		t.Fatalf("the seal: %+v", d)
	}
	why := must(b.client.Explain(ctx, tx.ID()))(t)
	if !strings.Contains(why.Paragraph, put.Tx) || !strings.Contains(why.Paragraph, "shard:/x") || len(why.Reads) != 2 {
		t.Fatalf("explained: %+v", why)
	}
	if other := must(b.client.Explain(ctx, put.Tx))(t); other.Decision.State != api.StateCommitted {
		t.Fatalf("another agent's: %+v", other)
	}
	if c := must(b.client.Closure(ctx, put.Tx, 0))(t); len(c.Rows) != 1 || c.Rows[0].Seq != put.Seq {
		t.Fatalf("closure: %+v", c)
	}
	if f := must(b.client.Frontier(ctx, "shard:/", 10))(t); len(f.Rows) != 1 || f.Rows[0].Version != put.Seq {
		t.Fatalf("frontier: %+v", f)
	}
}

// A pattern that was read is overtaken by what appears under it.
func TestPhantom(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/orders/1", []byte("1"), client.WriteOptions{}))(t)
	if err := b.view.reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"shard:/orders/**", "shard:/*/2", "shard:/**"} {
		tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Read(ctx, pattern))(t)
		must(a.client.Put(ctx, "shard:/orders/2", []byte(pattern), client.WriteOptions{}))(t)
		if d := must(tx.Seal(ctx))(t); d.Code != "stale_read" {
			t.Fatalf("%s: %+v", pattern, d)
		}
	}
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	if got := must(tx.Read(ctx, "shard:/orders/**"))(t); len(got.Items) != 2 || got.Content != nil {
		t.Fatalf("listed %+v", got)
	}
}

// Writes are read back by their own transaction, and by nobody else before it commits.
func TestReadsOwnWrites(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for _, content := range []string{"1", "2"} {
		if err := tx.Write(ctx, "shard:/x", []byte(content), client.WriteOptions{MediaType: "text/plain"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(tx.Read(ctx, "shard:/x"))(t); !got.Pending || string(got.Content) != "2" || got.MediaType != "text/plain" {
		t.Fatalf("its own write: %+v", got)
	}
	if got := must(a.client.Get(ctx, "shard:/x"))(t); got.Exists {
		t.Fatalf("not committed: %+v", got)
	}
}

// After k refusals the next attempt is locked, and after the budget there is none.
func TestAttempts(t *testing.T) {
	log := newLog()
	few := func(c *Config) { c.Limits.LockedAfter, c.Limits.Attempts = 2, 4 }
	a, b := start(t, "a", log.Door(), few), start(t, "b", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for attempt := 1; ; attempt++ {
		o := tx.Opened()
		locked := attempt > 2
		if o.Attempt != attempt || (o.Mode == "locked") != locked {
			t.Fatalf("attempt %d: %+v", attempt, o)
		}
		if locked {
			if err := tx.Abort(ctx, "again"); err != nil {
				t.Fatal(err)
			}
		} else {
			must(tx.Read(ctx, "shard:/x"))(t)
			must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
			if d := must(tx.Seal(ctx))(t); d.Code != "stale_read" || d.GiveUp {
				t.Fatalf("attempt %d: %+v", attempt, d)
			}
		}
		next, err := tx.Retry(ctx)
		if attempt == 4 {
			if p := problemIn(t, err); p.Code != codeGaveUp {
				t.Fatalf("after the budget: %+v", p)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if same := must(tx.Retry(ctx))(t); same.ID() != next.ID() {
			t.Fatalf("two successors: %s and %s", next.ID(), same.ID())
		}
		tx = next
	}
}

// The successor of a conflict asks for its predecessor's whole footprint at first; aborted after that grant, it is
// settled by the sidecar, and the scope is free again.
func TestWholeFootprintAndSettlement(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	former := newTx("a.1.9", 1, 0, sequencer.Begin{}, time.Now())
	former.reads = []sequencer.Read{{Scope: "shard:/r"}}
	former.writes = []sequencer.ShardWrite{{Scope: "shard:/w"}}
	former.early = &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeConflict}
	_, first := a.session.successor(former)
	if len(first) != 2 || first[0] != (sequencer.Want{Scope: "shard:/w", Access: sequencer.WriteAccess}) {
		t.Fatalf("the successor asks for %+v", first)
	}
	next := must(a.session.start(ctx, sequencer.Begin{}, func(t *tx) { t.first = first }))(t)
	tx := a.client.Tx(string(next.id))
	must(tx.Read(ctx, "shard:/r"))(t)
	if got := log.Outcomes()[log.Seq()-1]; got.Kind != sequencer.OutcomeGranted || len(got.Added) != 2 {
		t.Fatalf("granted %+v", got)
	}
	if err := tx.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	settled := func() bool {
		o := log.Outcomes()[log.Seq()-1]
		return o.Kind == sequencer.OutcomeSettled && o.Tx == next.id && o.Final
	}
	if err := log.Until(ctx, settled); err != nil {
		t.Fatalf("not settled: %v", err)
	}
	if d := must(a.client.Put(ctx, "shard:/w", []byte("1"), client.WriteOptions{}))(t); d.State != api.StateCommitted {
		t.Fatalf("the scope is not free: %+v", d)
	}
}

// A transaction beyond the log's caps is refused and stays open.
func TestFootprintLimit(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	long := strings.Repeat("s", 900)
	for i := range 100 { // 90 KiB of names: more than a footprint may have
		must(tx.Read(ctx, fmt.Sprintf("shard:/%s/%d", long, i)))(t)
	}
	must(a.client.Get(ctx, "shard:/loose"))(t)
	for range 2 {
		_, err := tx.Seal(ctx)
		p := problemIn(t, err)
		if p.Code != codeLimit || p.Status != 429 || p.Decision == nil || p.Decision.State != api.StateOpen {
			t.Fatalf("sealed: %+v", p)
		}
	}
	if len(a.session.loose) != 1 {
		t.Fatalf("the loose reads were not given back: %v", a.session.loose)
	}
	if err := tx.Abort(ctx, "too much"); err != nil {
		t.Fatal(err)
	}
}

// A session's loose reads go to its next seal, once; reading again makes up for one that was overtaken.
func TestLooseReads(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	overtake := func() {
		t.Helper()
		must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
		if err := a.view.reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
	}
	put := func(want string) {
		t.Helper()
		d := must(a.client.Put(ctx, "shard:/y", []byte("y"), client.WriteOptions{}))(t)
		if d.Code != want {
			t.Fatalf("put: %+v, wanted %q", d, want)
		}
	}
	must(a.client.Get(ctx, "shard:/x"))(t)
	overtake()
	put("stale_read")
	put("")
	must(a.client.Get(ctx, "shard:/x"))(t)
	overtake()
	must(a.client.Get(ctx, "shard:/x"))(t)
	put("")
	must(a.client.List(ctx, "shard:/", "", 0))(t)
	overtake()
	put("stale_read")
	for i := range maxLoose + 1 {
		must(a.client.Get(ctx, fmt.Sprintf("shard:/many/%d", i)))(t)
	}
	if n := len(a.session.loose); n != 1 {
		t.Fatalf("%d loose reads are kept", n)
	}
	overtake()
	put("stale_read") // too many to name: one of everything
	must(a.client.Get(ctx, "shard:/x"))(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	overtake()
	if d := must(tx.Seal(ctx))(t); d.Code != "stale_read" {
		t.Fatalf("a transaction's seal does not carry them: %+v", d)
	}
}

// fakeClock moves when the test says so.
type fakeClock struct {
	mu   sync.Mutex
	now  time.Time
	beat chan time.Time
}

func (f *fakeClock) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeClock) Ticker(time.Duration) (<-chan time.Time, func()) { return f.beat, func() {} }

// advance moves the clock and returns once the beat before this one has been worked off.
func (f *fakeClock) advance(d time.Duration) {
	f.mu.Lock()
	f.now = f.now.Add(d)
	now := f.now
	f.mu.Unlock()
	f.beat <- now
}

// The watermark follows the view, stops at the oldest open transaction or loose read, and is repeated in time to renew
// the lease, not more often.
func TestWatermark(t *testing.T) {
	log := newLog()
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", log.Door(), func(s *Sidecar) { s.clock = clock })
	ctx := background(t)
	marks := func() (out []sequencer.Seq) {
		for _, in := range log.Intents() {
			if in.Kind == sequencer.IntentWatermark {
				out = append(out, in.Watermark.Seq)
			}
		}
		return out
	}
	second := func(n int) {
		for range n {
			clock.advance(time.Second)
		}
		clock.advance(0)
	}
	expect := func(what string, n int, last sequencer.Seq) {
		t.Helper()
		got := marks()
		if len(got) != n || n > 0 && got[n-1] != last {
			t.Fatalf("%s: watermarks %v, wanted %d, the last %d", what, got, n, last)
		}
	}
	second(2)
	expect("idle", 0, 0)
	second(7)
	expect("idle for longer", 3, 1)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	second(1)
	expect("moved", 4, 2)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(a.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	second(2)
	expect("an open transaction", 4, 2)
	second(1)
	expect("its lease", 5, 2)
	must(tx.Seal(ctx))(t)
	must(a.client.Get(ctx, "shard:/x"))(t)
	at := log.Seq()
	must(start(t, "b", log.Door()).client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t)
	if err := a.view.reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	second(1)
	expect("a loose read", 6, at)
	must(a.client.Put(ctx, "shard:/x", []byte("3"), client.WriteOptions{}))(t)
	second(1)
	expect("sealed", 7, log.Seq())
	idle := must(a.client.Begin(ctx, client.BeginOptions{DeadlineMs: 1000}))(t)
	clock.advance(time.Minute)
	if d := must(idle.Status(ctx, testWait))(t); d.Code != "deadline" {
		t.Fatalf("left lying: %+v", d)
	}
}

// A stop refuses what is new, ends long polls, and lets nothing run on.
func TestStop(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	polled := make(chan error, 1)
	go func() {
		_, err := tx.Status(ctx, testWait)
		polled <- err
	}()
	begun := time.Now()
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Fatalf("the stop took %v", took)
	}
	<-polled
	once := client.New(a.URL(), a.Token(), client.WithTries(1))
	defer once.Close()
	if _, err := once.Begin(ctx, client.BeginOptions{}); err == nil {
		t.Fatal("a stopped sidecar began a transaction")
	}
}

// Health, readiness per part and metrics answer without a token; readiness names what is wrong.
func TestOperations(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	page := func(path string) (int, string) {
		resp, err := checked{t, &http.Transport{DisableKeepAlives: true}}.RoundTrip(
			must(http.NewRequestWithContext(ctx, http.MethodGet, a.URL()+path, nil))(t))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, string(must(io.ReadAll(resp.Body))(t))
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/openapi.json", "/v1/openapi.yaml"} {
		if status, body := page(path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	_, body := page("/metrics")
	for _, line := range []string{`hence_sidecar_requests_total{class="2xx",route="write_shard"} 1`,
		`hence_sidecar_decisions_total{code="none",state="committed"} 1`, `hence_sidecar_deliveries_total{way="nats"} 2`,
		`hence_sidecar_seal_decision_seconds_count 1`, `hence_sidecar_view_seq 2`} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	door.SetReady(fmt.Errorf("no broker answers"))
	if status, body := page("/readyz"); status != 503 || !strings.Contains(body, "no broker answers") {
		t.Errorf("readyz: %d %s", status, body)
	}
}

// Without a view nothing is answered, and the reason is given.
func TestNotReady(t *testing.T) {
	log := newLog()
	r := launch(t, "a", deaf{log.Door()}, nil, func(c *Config) { c.Limits.SessionWait = time.Millisecond })
	once := client.New(r.URL(), r.Token(), client.WithTries(1))
	defer once.Close()
	ctx := background(t)
	if _, err := once.Get(ctx, "shard:/x"); problemIn(t, err).Code != codeNotReady {
		t.Fatalf("a read: %v", err)
	}
	if _, err := once.Chain(ctx, 0, 0); problemIn(t, err).Code != codeNotReady {
		t.Fatalf("the chain: %v", err)
	}
}

// deaf is a log whose snapshot never comes.
type deaf struct{ Log }

func (d deaf) Snapshot(ctx context.Context, _ string) (*topology.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The configuration is checked before anything is opened.
func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Agent: "A"}, {Agent: "a|b"}, {Agent: strings.Repeat("a", 64)}, {Agent: "a", Workspace: "w.x"},
		{Agent: "a", Token: "short"}, {Agent: "a", Token: "long enough but spaces"}, {Agent: "a", Listen: "nowhere"}} {
		if s, err := New(c, nil); err == nil {
			t.Errorf("%+v was taken", c)
			_ = s.Close()
		}
	}
}
