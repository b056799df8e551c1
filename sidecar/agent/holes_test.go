package agent

import (
	"bytes"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// The rows of docs/holes.md that a sidecar has to close.

// Row 3b: a read's view seq is the one at which its call left, not the one at which its answer arrived. The content
// here is fetched, and the view moves while it is on its way.
func TestHole3bViewWhenTheCallLeft(t *testing.T) {
	log := newLog()
	doorB := log.Door()
	a, b := start(t, "a", log.Door()), start(t, "b", doorB)
	ctx := background(t)
	old := bytes.Repeat([]byte("old "), 4096)
	must(a.client.Put(ctx, "shard:/x", old, client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	release := doorB.HoldContents()
	type result struct {
		shard client.Shard
		err   error
	}
	answered := make(chan result, 1)
	go func() {
		got, err := tx.Read(ctx, "shard:/x")
		answered <- result{got, err}
	}()
	<-doorB.Asked()
	left := b.view.At()
	must(a.client.Put(ctx, "shard:/x", []byte("new"), client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	release()
	got := <-answered
	if got.err != nil || !bytes.Equal(got.shard.Content, old) || got.shard.View > uint64(left) {
		t.Fatalf("the read left at %d: view %d, %d bytes, %v", left, got.shard.View, len(got.shard.Content), got.err)
	}
	if err := tx.Write(ctx, "shard:/y", []byte("built on old"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	d := must(tx.Seal(ctx))(t)
	if d.State != api.StateAborted || d.Code != string(sequencer.CodeStaleRead) || d.MovedSeq <= got.shard.View {
		t.Fatalf("it committed on a value that was overwritten while it was fetched: %+v", d)
	}
}

// Row 5d: a read in locked mode is answered only once the view has reached its grant. The grant is decided, and the
// value before it too, while the view is held back.
func TestHole5dLockedReadWaitsForItsGrant(t *testing.T) {
	log := newLog()
	doorB := log.Door()
	a, b := start(t, "a", log.Door()), start(t, "b", doorB)
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("old"), client.WriteOptions{}))(t)
	tx := must(b.client.Begin(ctx, client.BeginOptions{Mode: "locked"}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	doorB.Hold()
	must(a.client.Put(ctx, "shard:/x", []byte("new"), client.WriteOptions{}))(t)
	written := log.Seq()
	answered := make(chan client.Shard, 1)
	go func() {
		got, err := tx.Read(ctx, "shard:/x")
		if err != nil {
			t.Error(err)
		}
		answered <- got
	}()
	granted := func() bool {
		for _, o := range log.Outcomes() {
			if o.Kind == sequencer.OutcomeGranted && o.Tx == sequencer.TxID(tx.ID()) {
				return true
			}
		}
		return false
	}
	if err := log.Until(ctx, granted); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answered:
		t.Fatalf("the read was answered with %q before the view showed its grant", got.Content)
	default:
	}
	doorB.Release()
	got := <-answered
	if string(got.Content) != "new" || got.View <= uint64(written) {
		t.Fatalf("read %q at view %d; written at %d", got.Content, got.View, written)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("a locked read went stale: %+v", d)
	}
}

// Row 12: only refusals that stay true whatever the log brings next are answered from the view. Of all codes these are
// five; a stale read is answered while no decision arrives, and the abort still goes into the log.
func TestHole12OnlyMonotoneCodesFromTheView(t *testing.T) {
	five := map[sequencer.Code]bool{sequencer.CodeStaleRead: true, sequencer.CodeVersionMismatch: true,
		sequencer.CodeCascade: true, sequencer.CodeLostBranch: true, sequencer.CodeTooOld: true}
	for _, c := range []sequencer.Code{sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeConflict,
		sequencer.CodeWounded, sequencer.CodeCascade, sequencer.CodePhantomTool, sequencer.CodeLostBranch,
		sequencer.CodeVetoed, sequencer.CodeDeadline, sequencer.CodeIncompleteFootprint, sequencer.CodeLeaseExpired,
		sequencer.CodeTooOld, sequencer.CodeToolFailed, sequencer.CodeAbortedByAgent, sequencer.CodeLimit,
		sequencer.CodeRulesChanged, ""} {
		if answerable(c) != five[c] {
			t.Errorf("%q is answered from the view: %v", c, answerable(c))
		}
	}
	log := newLog()
	doorB := log.Door()
	a, b := start(t, "a", log.Door()), start(t, "b", doorB)
	ctx := background(t)
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Read(ctx, "shard:/x"))(t)
	watch := must(b.client.Begin(ctx, client.BeginOptions{Observe: true}))(t)
	must(watch.Read(ctx, "shard:/x"))(t)
	must(a.client.Put(ctx, "shard:/x", []byte("new"), client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	doorB.Hold()
	at := log.Seq()
	d := must(tx.Seal(ctx))(t)
	if d.Code != string(sequencer.CodeStaleRead) || d.Seq != 0 || d.MovedSeq != uint64(at) || d.MovedBy == "" {
		t.Fatalf("answered %+v", d)
	}
	aborted := func() bool {
		last := log.Outcomes()[log.Seq()-1]
		return last.Kind == sequencer.OutcomeAborted && last.Tx == sequencer.TxID(tx.ID())
	}
	if err := log.Until(ctx, aborted); err != nil {
		t.Fatalf("the abort is not in the log: %v", err)
	}
	doorB.Release()
	if d := must(watch.Seal(ctx))(t); d.State != api.StateCommitted || d.Would != "stale_read" || d.Seq == 0 {
		t.Fatalf("an observer was refused, or was not told: %+v", d)
	}
}

// Row 12 once more: a lock of a younger transaction refuses a write, but that one may end first, so the log is asked.
func TestHole12ConflictIsAskedOfTheLog(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	older := must(a.client.Begin(ctx, client.BeginOptions{Mode: "ordered"}))(t)
	younger := must(b.client.Begin(ctx, client.BeginOptions{Mode: "locked"}))(t)
	must(younger.Read(ctx, "shard:/x"))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if err := older.Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(older.Seal(ctx))(t); d.State != api.StateCommitted || d.Seq == 0 {
		t.Fatalf("the older one: %+v", d)
	}
	d := must(younger.Status(ctx, testWait))(t)
	if d.Code != string(sequencer.CodeWounded) || d.Seq == 0 || !d.Retryable {
		t.Fatalf("the younger one: %+v", d)
	}
	next := must(younger.Retry(ctx))(t)
	got := must(next.Read(ctx, "shard:/x"))(t)
	if string(got.Content) != "1" || next.Opened().Attempt != 2 || next.Opened().Mode != "locked" {
		t.Fatalf("the successor %+v read %+v", next.Opened(), got)
	}
	if d := must(next.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("the successor: %+v", d)
	}
}
