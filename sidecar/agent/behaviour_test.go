package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
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
	moved := client.Overtaken{Scope: "shard:/x", Written: "shard:/x", Seq: put.Seq, Writer: put.Tx}
	if d := <-polled; d.Overtaken == nil || *d.Overtaken != moved || d.State != api.StateOpen {
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

// What was decided before a sidecar began is explained from the closure table, its own agent's, too.
func TestExplainOld(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	put := must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Read(ctx, "shard:/x"))(t)
	must(a.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	must(tx.Seal(ctx))(t)
	b, again := start(t, "b", log.Door()), start(t, "a", log.Door())
	for _, one := range []*rig{b, again} {
		why := must(one.client.Explain(ctx, put.Tx))(t)
		if why.Decision.State != api.StateCommitted || why.Decision.Seq != put.Seq ||
			!strings.Contains(why.Paragraph, "hence tail --tx "+put.Tx) {
			t.Errorf("what committed: %+v", why)
		}
		why = must(one.client.Explain(ctx, tx.ID()))(t)
		if why.Decision.State != api.StateAborted || why.Decision.Code != "stale_read" {
			t.Errorf("what was refused: %+v", why)
		}
	}
}

// A pattern that was read is overtaken by what appears under it.
func TestPhantom(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/orders/1", []byte("1"), client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"shard:/orders/**", "shard:/*/2", "shard:/**"} {
		tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Read(ctx, pattern))(t)
		must(a.client.Put(ctx, "shard:/orders/2", []byte(pattern), client.WriteOptions{}))(t)
		if d := must(tx.Status(ctx, testWait))(t); d.Overtaken == nil {
			t.Fatalf("%s: not told: %+v", pattern, d)
		}
		if d := must(tx.Seal(ctx))(t); d.Code != "stale_read" {
			t.Fatalf("%s: %+v", pattern, d)
		}
	}
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	if got := must(tx.Read(ctx, "shard:/orders/**"))(t); len(got.Items) != 2 || got.Content != nil {
		t.Fatalf("listed %+v", got)
	}
}

// Writes are read back by their own transaction, and by no other reader before it commits.
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
	got := must(tx.Read(ctx, "shard:/x"))(t)
	if !got.Pending || string(got.Content) != "2" || got.MediaType != "text/plain" {
		t.Fatalf("its own write: %+v", got)
	}
	if got := must(a.client.Get(ctx, "shard:/x"))(t); got.Exists {
		t.Fatalf("not committed: %+v", got)
	}
}

// After k refusals the next attempt is locked, and after the budget there is none.
func TestAttempts(t *testing.T) {
	log := newLog()
	few := func(c *setup) { c.Limits.LockedAfter, c.Limits.Attempts = 2, 4 }
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
			if p := problemIn(t, err); p.Code != api.CodeGaveUp {
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
	next := must(a.session.begins(ctx, sequencer.Begin{}, func(t *tx) { t.first = first }))(t)
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
		if p.Code != api.CodeLimit || p.Status != 429 || p.Decision == nil || p.Decision.State != api.StateOpen {
			t.Fatalf("sealed: %+v", p)
		}
	}
	if a.session.loose.Reads() != 1 {
		t.Fatalf("the loose reads were not given back: %v", a.session.loose)
	}
	if err := tx.Abort(ctx, "too much"); err != nil {
		t.Fatal(err)
	}
}

// A transaction that is older than what the workspace remembers is refused, and can be tried again.
func TestTooOld(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.CapSeqs = 1, sequencer.Logic, 5
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}))(t)
	var txs []*client.Tx
	for range 3 {
		txs = append(txs, must(a.client.Begin(ctx, client.BeginOptions{}))(t))
	}
	for range 20 {
		must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	}
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if floor := a.view.Settings().Floor; floor < 10 {
		t.Fatalf("the floor is at %d", floor)
	}
	if d := must(txs[0].Seal(ctx))(t); d.Code != "too_old" || !d.Retryable {
		t.Fatalf("sealed: %+v", d)
	}
	if err := txs[1].Abort(ctx, ""); err != nil {
		t.Fatalf("aborted: %v", err)
	}
	free := a.session.stand()
	late := a.session.txs[sequencer.TxID(txs[2].ID())]
	late.begin.Mode, late.begun = sequencer.Locked, true // as if its begin had been lost: the log is asked and refuses
	free()
	if _, err := txs[2].Read(ctx, "shard:/x"); problemIn(t, err).Code != "too_old" {
		t.Fatalf("read: %v", err)
	}
	next := must(txs[2].Retry(ctx))(t)
	must(next.Read(ctx, "shard:/x"))(t)
	if d := must(next.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("the successor: %+v", d)
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
		if err := a.view.Reach(ctx, log.Seq()); err != nil {
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
	for i := range journal.MaxLoose + 1 {
		must(a.client.Get(ctx, fmt.Sprintf("shard:/many/%d", i)))(t)
	}
	if n := a.session.loose.Reads(); n != 1 {
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
