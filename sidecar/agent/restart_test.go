package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/streams"
)

// crash runs another sidecar of the agent on a copy of the journal as it is now: what a killed process leaves.
func (r *rig) crash(t *testing.T, door Log, change func([]byte) []byte) *rig {
	t.Helper()
	return start(t, r.config.Agent, door, func(c *setup) { c.DataDir = r.copied(t, change) })
}

// copied is a folder with a copy of the journal as it is now.
func (r *rig) copied(t *testing.T, change func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	content := must(os.ReadFile(r.journalPath()))(t)
	if change != nil {
		content = change(content)
	}
	if content == nil {
		return dir
	}
	name := must(filepath.Rel(r.config.DataDir, r.journalPath()))(t)
	to := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func problemIn(t *testing.T, err error) *client.Problem {
	t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) {
		t.Fatalf("not a problem: %v", err)
	}
	return p
}

// After a crash open transactions are lost and say what to read again; sealed ones are told as the log decided them;
// loose reads still bind the next seal.
func TestCrash(t *testing.T) {
	log := newLog()
	doorA := log.Door()
	a, b := start(t, "a", doorA), start(t, "b", log.Door())
	ctx := background(t)
	must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	done := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := done.Write(ctx, "shard:/done", []byte("d"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	told := must(done.Seal(ctx))(t)
	open := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(open.Read(ctx, "shard:/x"))(t)
	ordered := must(a.client.Begin(ctx, client.BeginOptions{Mode: "ordered"}))(t)
	must(ordered.Read(ctx, "shard:/o"))(t)
	sealed := sealUnanswered(t, a, doorA, log)
	must(a.client.Get(ctx, "shard:/x"))(t)

	again := a.crash(t, log.Door(), nil)
	for _, tx := range []*client.Tx{open, ordered} {
		p := problemIn(t, again.client.Tx(tx.ID()).Write(ctx, "shard:/z", nil, client.WriteOptions{}))
		if p.Status != 410 || p.Code != api.CodeSessionLost || len(p.ReRead) != 1 {
			t.Fatalf("%s: %+v", tx.ID(), p)
		}
		_, err := again.client.Tx(tx.ID()).Seal(ctx)
		if p := problemIn(t, err); p.Status != 410 {
			t.Fatalf("%s: %+v", tx.ID(), p)
		}
	}
	if d := must(again.client.Tx(done.ID()).Seal(ctx))(t); d.State != api.StateCommitted || d.Seq != told.Seq {
		t.Fatalf("told %+v, after the crash %+v", told, d)
	}
	if d := must(again.client.Tx(sealed).Seal(ctx))(t); d.State != api.StateCommitted || d.Seq == 0 {
		t.Fatalf("sealed before the crash: %+v", d)
	}
	next := must(again.client.Tx(open.ID()).Retry(ctx))(t)
	if next.Opened().Attempt != 2 {
		t.Fatalf("the successor: %+v", next.Opened())
	}
	must(b.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	if err := again.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	put := func() client.Decision {
		return must(again.client.Put(ctx, "shard:/z", []byte("z"), client.WriteOptions{}))(t)
	}
	if d := put(); d.Code != "stale_read" {
		t.Fatalf("the loose read from before the crash was forgotten: %+v", d)
	}
	if d := put(); d.State != api.StateCommitted {
		t.Fatalf("the next one: %+v", d)
	}
}

// A seal that never reached the log is looked for by the next start alone. Those after it know that it is nowhere:
// else each would read the log from where that transaction began, for as long as the journal is kept.
func TestCrashLooksOnce(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, ctx := start(t, "a", door), background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := tx.Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	door.FailAppends(1 << 20)
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _, _ = tx.Seal(short) }()
	sealed := func() bool { return a.session.txs[sequencer.TxID(tx.ID())].phase == phaseSealed }
	if err := a.session.eventually(ctx, sealed); err != nil {
		t.Fatal(err)
	}
	last := a
	for start := range 3 {
		last = last.crash(t, log.Door(), nil)
		if to := inside(last.session, func() sequencer.Seq { return last.session.readTo }); (to > 0) != (start == 0) {
			t.Errorf("start %d has read the log up to %d for it", start+1, to)
		}
		_, err := last.client.Tx(tx.ID()).Seal(ctx)
		if p := problemIn(t, err); p.Status != 410 || p.Code != api.CodeSessionLost {
			t.Errorf("start %d says %+v", start+1, p)
		}
	}
}

// Until a sidecar that was started again has read the log it says so, and tells no client to do again what may be
// committed; when the log cannot be read that far back it says that.
func TestCrashBeforeTheLogIsRead(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	open := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	sealed := sealUnanswered(t, a, door, log)
	away := unreadLog{Door: log.Door(), blocked: make(chan struct{}), from: log.Seq()}
	again := launch(t, "a", away, nil, func(c *setup) { c.DataDir = a.copied(t, nil) })
	once := client.New(again.URL(), again.Token(), client.WithTries(1))
	defer once.Close()
	for _, tx := range []string{open.ID(), sealed} {
		_, err := once.Tx(tx).Retry(ctx)
		if p := problemIn(t, err); p.Status != 503 || p.Code != api.CodeNotReady || !p.SafeSameKey {
			t.Errorf("%s: %+v", tx, p)
		}
		if _, err = once.Tx(tx).Seal(ctx); problemIn(t, err).Code != api.CodeNotReady {
			t.Errorf("%s: %v", tx, err)
		}
	}
	close(away.blocked)
	<-again.Ready()
	if d := must(again.client.Tx(sealed).Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("sealed before the crash: %+v", d)
	}
	if next := must(again.client.Tx(open.ID()).Retry(ctx))(t); next.Opened().Attempt != 2 {
		t.Errorf("the successor: %+v", next.Opened())
	}

	lost := a
	for range 2 { // also of a start whose former one could not read it either
		lost = lost.crash(t, shortLog{Door: log.Door(), from: log.Seq()}, nil)
		_, err := lost.client.Tx(sealed).Retry(ctx)
		if p := problemIn(t, err); p.Status != 410 || p.Code != api.CodeForgotten || p.Retryable {
			t.Errorf("sealed, and the log is shortened: %+v", p)
		}
		if _, err = lost.client.Tx(open.ID()).Seal(ctx); problemIn(t, err).Code != api.CodeSessionLost {
			t.Errorf("open, and the log is shortened: %v", err)
		}
	}
}

// unreadLog has its first decisions only once it is let.
type unreadLog struct {
	*memlog.Door
	blocked chan struct{}
	from    sequencer.Seq
}

func (l unreadLog) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	if after < l.from {
		select {
		case <-l.blocked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return l.Door.Follow(ctx, workspace, after, apply)
}

// A start that cannot read the whole log at once goes on where it was stopped, and does not give up while it gets on.
func TestCrashReadsOn(t *testing.T) {
	log := newLog()
	door := log.Door()
	a, b, ctx := start(t, "a", door), start(t, "b", log.Door()), background(t)
	sealed := sealUnanswered(t, a, door, log)
	for n := range 2 * maxResolves {
		must(b.client.Put(ctx, "shard:/y", []byte{byte(n)}, client.WriteOptions{}))(t)
	}
	again := a.crash(t, choppyLog{Door: log.Door(), from: log.Seq()}, nil)
	if d := must(again.client.Tx(sealed).Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("sealed before the crash: %+v", d)
	}
}

// A transaction began after its base, and after its session's join: a session begins before its view has come so far.
func TestBeganAfter(t *testing.T) {
	tx := func(base, incarnation sequencer.Seq) *journal.TxRecord {
		return &journal.TxRecord{Base: base, Incarnation: incarnation}
	}
	for want, of := range map[sequencer.Seq][]*journal.TxRecord{
		9: nil,
		8: {tx(2, 8)},
		7: {tx(2, 8), tx(7, 4)},
		5: {tx(5, 4), tx(8, 4)},
	} {
		if got := beganAfter(of, 9); got != want {
			t.Errorf("it begins at %d, want %d", got, want)
		}
	}
}

// choppyLog has its former decisions one at a time.
type choppyLog struct {
	*memlog.Door
	from sequencer.Seq
}

func (l choppyLog) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	had := false
	return l.Door.Follow(ctx, workspace, after, func(o *sequencer.Outcome, way streams.Way) error {
		if had && o.Seq < l.from {
			return errors.New("chopped")
		}
		had = true
		return apply(o, way)
	})
}

// shortLog has lost its first decisions.
type shortLog struct {
	*memlog.Door
	from sequencer.Seq
}

func (l shortLog) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	if after < l.from {
		return streams.ErrGone
	}
	return l.Door.Follow(ctx, workspace, after, apply)
}

// sealUnanswered seals a transaction whose decision the sidecar does not see.
func sealUnanswered(t *testing.T, r *rig, door *memlog.Door, log *memlog.Log) string {
	t.Helper()
	ctx := background(t)
	tx := must(r.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := tx.Write(ctx, "shard:/sealed", []byte("s"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	short, cancel := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = tx.Seal(short)
	}()
	err := log.Until(ctx, func() bool {
		for _, o := range log.Outcomes() {
			if o.Kind == sequencer.OutcomeCommitted && string(o.Tx) == tx.ID() {
				return true
			}
		}
		return false
	})
	cancel()
	<-sent
	if err != nil {
		t.Fatal(err)
	}
	return tx.ID()
}

// A damaged or missing journal of a session that was alive fails closed: the agent is told once to read again.
func TestJournalLost(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"damaged": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"missing": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog()
			a := start(t, "a", log.Door())
			ctx := background(t)
			must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Read(ctx, "shard:/x"))(t)
			must(a.client.Get(ctx, "shard:/x"))(t)
			again := a.crash(t, log.Door(), change)
			_, err := again.client.Tx(tx.ID()).Read(ctx, "shard:/x")
			if p := problemIn(t, err); p.Status != 410 || p.Code != api.CodeSessionLost {
				t.Fatalf("the open transaction: %+v", p)
			}
			_, err = again.client.Put(ctx, "shard:/y", []byte("rests on x"), client.WriteOptions{})
			if p := problemIn(t, err); p.Status != 410 || p.Code != api.CodeSessionLost || p.SafeSameKey {
				t.Fatalf("a write that rests on forgotten reads: %+v", p)
			}
			d := must(again.client.Put(ctx, "shard:/y", []byte("read again"), client.WriteOptions{}))(t)
			if d.State != api.StateCommitted {
				t.Fatalf("after reading again: %+v", d)
			}
		})
	}
}

// When its lease ends a running sidecar joins again; what was open is lost, and new work goes on.
func TestLeaseEnds(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), func(c *setup) { c.Limits.WatermarkEvery = testWait })
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Read(ctx, "shard:/x"))(t)
	former := a.session.inc()
	for log.Seq() < 2 { // until the lease's end and the new join are decided
		if err := log.Tick(1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := tx.Read(ctx, "shard:/x")
	for err == nil {
		_, err = tx.Read(ctx, "shard:/x")
	}
	if p := problemIn(t, err); p.Code != api.CodeSessionLost || len(p.ReRead) != 1 {
		t.Fatalf("the open transaction: %+v", p)
	}
	next := must(tx.Retry(ctx))(t)
	must(next.Read(ctx, "shard:/x"))(t)
	if d := must(next.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("the successor: %+v", d)
	}
	if now := a.session.inc(); now <= former {
		t.Fatalf("incarnation %d after %d", now, former)
	}
}

// When another sidecar of the agent joins, this one does not fight for the session; a request brings it back.
func TestSuperseded(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	second := start(t, "a", log.Door())
	seen := func() bool { return a.session.liveIncarnation() == 0 }
	if err := a.session.eventually(ctx, seen); err != nil {
		t.Fatal(err)
	}
	if inside(a.session, func() bool { return a.session.wantsJoin() }) {
		t.Fatal("the first one wants the session back without being asked")
	}
	if _, err := a.client.Get(ctx, "shard:/x"); err != nil {
		t.Fatalf("a request to the first one: %v", err)
	}
	if err := second.session.eventually(ctx, func() bool { return second.session.liveIncarnation() == 0 }); err != nil {
		t.Fatal(err)
	}
}

// lateTools refuses the catalogue of tools until its sidecar has joined twice.
type lateTools struct {
	Log
	joins atomic.Int32
}

// Append is part of Log.
func (l *lateTools) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	if in.Kind == sequencer.IntentJoin {
		l.joins.Add(1)
	}
	if in.Kind == sequencer.IntentRegister && l.joins.Load() < 2 {
		return 0, errors.New("refused by the test")
	}
	return l.Log.Append(ctx, workspace, in)
}

// A sidecar whose first join came to no session joins again. Nothing was lost by that, and no loss is reported.
func TestJoinWithoutSession(t *testing.T) {
	log, said := newLog(), new(lines)
	door := &lateTools{Log: log.Door()}
	r := start(t, "a", door, said.config(t.TempDir()), func(c *setup) {
		c.Tools = &testTools{sink: newSink(), pins: true}
	})
	ctx := background(t)
	if err := log.Until(ctx, func() bool { return door.joins.Load() == 2 }); err != nil {
		t.Fatalf("it joined %d times, wanted twice: %v", door.joins.Load(), err)
	}
	if tx, err := r.client.Begin(ctx, client.BeginOptions{}); err != nil {
		t.Errorf("%v: %v", tx, err)
	}
	if lost := said.with("an emptied volume"); len(lost) > 0 {
		t.Errorf("it says that a journal was lost: %s", lost)
	}
}
