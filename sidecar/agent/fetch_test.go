package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// archive is a log whose old decisions are given once it is opened, or never again.
type archive struct {
	*memlog.Door
	old    sequencer.Seq // up to here
	opened chan struct{} // nil: open
	asked  chan struct{}
	gone   bool
	held   map[sequencer.Scope][]byte // what the table of scopes has of what was put back
	passes atomic.Int64
}

func (a *archive) Snapshot(ctx context.Context, workspace string) (*topology.Snapshot, error) {
	snap, err := a.Door.Snapshot(ctx, workspace)
	if err != nil {
		return nil, err
	}
	for i := range snap.Shards {
		if row := &snap.Shards[i]; row.Restored != 0 && a.held[row.Scope] != nil {
			row.Content, row.Held = a.held[row.Scope], true
		}
	}
	return snap, nil
}

func (a *archive) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	a.passes.Add(1)
	if after < a.old {
		if a.gone {
			return fmt.Errorf("%w: the topic begins later", streams.ErrGone)
		}
		select {
		case a.asked <- struct{}{}:
		default:
		}
		select {
		case <-a.opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return a.Door.Follow(ctx, workspace, after, apply)
}

// overwritten is a log in which a transaction has overwritten a small shard and a large one and made a third, hundreds
// of commits ago.
func overwritten(t *testing.T, log *memlog.Log) (bad sequencer.TxID, small, large []byte) {
	t.Helper()
	a := start(t, "a", log.Door())
	ctx := background(t)
	small, large = []byte("good \x00\xff"), bytes.Repeat([]byte("0123456789"), 900)
	must(a.client.Put(ctx, "shard:/small", small, client.WriteOptions{MediaType: "text/x-good"}))(t)
	must(a.client.Put(ctx, "shard:/large", large, client.WriteOptions{}))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	for _, scope := range []string{"shard:/small", "shard:/large", "shard:/made"} {
		if err := tx.Write(ctx, scope, []byte("bad"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	must(tx.Seal(ctx))(t)
	for i := range 300 {
		must(a.client.Put(ctx, fmt.Sprintf("shard:/other/%d", i%7), []byte("x"), client.WriteOptions{}))(t)
	}
	return sequencer.TxID(tx.ID()), small, large
}

// taken waits until a view shows that a transaction was taken back.
func taken(ctx context.Context, t *testing.T, r *rig, id sequencer.TxID) {
	t.Helper()
	undone := func() bool {
		seen, _ := r.view.Transaction(id)
		return seen.Retraction.Undone
	}
	if err := r.session.eventually(ctx, undone); err != nil {
		t.Fatal(err)
	}
}

// What a transaction overwrote hundreds of commits ago is put back byte for byte, though a sidecar began from a
// snapshot behind it: inline, by reference, and absent. So it is in one that begins from a snapshot behind the
// retraction, and after a further write and its retraction.
func TestRestoredFromTheLog(t *testing.T) {
	log := newLog()
	bad, small, large := overwritten(t, log)
	holds := func(r *rig) {
		t.Helper()
		ctx := background(t)
		got := must(r.client.Get(ctx, "shard:/small"))(t)
		if !bytes.Equal(got.Content, small) || got.MediaType != "text/x-good" {
			t.Errorf("the small shard holds %q, %s", got.Content, got.MediaType)
		}
		if got := must(r.client.Get(ctx, "shard:/large"))(t); !bytes.Equal(got.Content, large) {
			t.Errorf("the large shard holds %d bytes: %.20q", len(got.Content), got.Content)
		}
		if got := must(r.client.Get(ctx, "shard:/made"))(t); got.Exists {
			t.Errorf("the shard that was not there holds %q", got.Content)
		}
	}
	b := start(t, "b", log.Door())
	ctx := background(t)
	must(b.client.Retract(ctx, string(bad), "", false))(t)
	taken(ctx, t, b, bad)
	holds(b)
	c := start(t, "c", log.Door())
	holds(c)
	again := open(ctx, t, c, client.BeginOptions{})
	if err := again.Write(ctx, "shard:/small", []byte("bad again"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(again.Seal(ctx))(t)
	d := start(t, "d", log.Door())
	must(d.client.Retract(ctx, again.ID(), "", false))(t)
	taken(ctx, t, d, sequencer.TxID(again.ID()))
	holds(d)
}

// While a content is fetched the view goes on and other shards are read; a read of that shard waits for it.
func TestViewGoesOnWhileItFetches(t *testing.T) {
	log := newLog()
	bad, small, _ := overwritten(t, log)
	door := &archive{Door: log.Door(), old: log.Seq(), opened: make(chan struct{}), asked: make(chan struct{}, 1)}
	b := start(t, "b", door)
	ctx := background(t)
	must(b.client.Retract(ctx, string(bad), "", false))(t)
	taken(ctx, t, b, bad)
	<-door.asked
	must(b.client.Put(ctx, "shard:/other/1", []byte("y"), client.WriteOptions{}))(t)
	must(b.client.Get(ctx, "shard:/other/1"))(t)
	waits := func(what string, read func(context.Context) error) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := read(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s was answered without the content: %v", what, err)
		}
	}
	waits("a read", func(ctx context.Context) error { _, err := b.client.Get(ctx, "shard:/small"); return err })
	waits("a look", func(ctx context.Context) error { _, err := b.client.Look(ctx, "shard:/small"); return err })
	waits("a look at a list", func(ctx context.Context) error {
		list, err := b.client.LookAll(ctx, "shard:/small", "", 10)
		if err == nil {
			t.Errorf("listed: %+v", list.Items)
		}
		return err
	})
	must(b.client.LookAll(ctx, "shard:/other", "", 10))(t)
	close(door.opened)
	if got := must(b.client.Get(ctx, "shard:/small"))(t); !bytes.Equal(got.Content, small) {
		t.Errorf("the shard holds %q", got.Content)
	}
}

// What the log no longer has is a problem, and no empty or other content; a list says so, and a write mends it.
func TestRestoredIsGone(t *testing.T) {
	log := newLog()
	bad, _, _ := overwritten(t, log)
	b := start(t, "b", &archive{Door: log.Door(), old: log.Seq(), gone: true})
	ctx := background(t)
	must(b.client.Retract(ctx, string(bad), "", false))(t)
	taken(ctx, t, b, bad)
	_, err := b.client.Get(ctx, "shard:/small")
	if problemCode(err) != api.CodeForgotten {
		t.Fatalf("the read of what is gone: %v", err)
	}
	lost := map[string]bool{}
	for _, item := range must(b.client.List(ctx, "shard:/small", "", 10))(t).Items {
		lost[item.Scope] = item.Lost
	}
	if !lost["shard:/small"] {
		t.Errorf("the list does not say that it is lost: %v", lost)
	}
	must(b.client.Put(ctx, "shard:/small", []byte("new"), client.WriteOptions{}))(t)
	if got := must(b.client.Get(ctx, "shard:/small"))(t); string(got.Content) != "new" {
		t.Errorf("the shard holds %q", got.Content)
	}
}

// What the log no longer has is in the table of scopes, for a sidecar that fetches it and for one that begins with it;
// a further write and its retraction name the decision that carried it at first.
func TestRestoredFromTheTable(t *testing.T) {
	log := newLog()
	bad, small, _ := overwritten(t, log)
	held := map[sequencer.Scope][]byte{"shard:/small": small}
	holds := func(r *rig) {
		t.Helper()
		if got := must(r.client.Get(background(t), "shard:/small"))(t); !bytes.Equal(got.Content, small) {
			t.Errorf("the shard holds %q", got.Content)
		}
	}
	door := &archive{Door: log.Door(), old: log.Seq(), gone: true, held: held}
	b := start(t, "b", door)
	ctx := background(t)
	must(b.client.Retract(ctx, string(bad), "", false))(t)
	taken(ctx, t, b, bad)
	holds(b)
	if _, err := b.client.Get(ctx, "shard:/large"); problemCode(err) != api.CodeForgotten {
		t.Errorf("what neither has: %v", err)
	}
	c := start(t, "c", &archive{Door: log.Door(), old: log.Seq(), gone: true, held: held})
	holds(c)
	again := open(ctx, t, c, client.BeginOptions{})
	if err := again.Write(ctx, "shard:/small", []byte("bad again"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(again.Seal(ctx))(t)
	must(c.client.Retract(ctx, again.ID(), "", false))(t)
	taken(ctx, t, c, sequencer.TxID(again.ID()))
	holds(c)
	holds(start(t, "d", log.Door())) // from the log, which this one still has
}

// However many contents are missing, they are fetched in one reading of the log.
func TestOnePassFetchesAll(t *testing.T) {
	const shards = 40
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	for i := range shards {
		must(a.client.Put(ctx, fmt.Sprint("shard:/s/", i), []byte(fmt.Sprint("good ", i)), client.WriteOptions{}))(t)
	}
	tx := open(ctx, t, a, client.BeginOptions{})
	for i := range shards {
		if err := tx.Write(ctx, fmt.Sprint("shard:/s/", i), []byte("bad"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	must(tx.Seal(ctx))(t)
	must(a.client.Retract(ctx, tx.ID(), "", false))(t)
	taken(ctx, t, a, sequencer.TxID(tx.ID()))
	door := &archive{Door: log.Door()}
	b := start(t, "b", door)
	for i := range shards {
		if got := must(b.client.Get(ctx, fmt.Sprint("shard:/s/", i)))(t); string(got.Content) != fmt.Sprint("good ", i) {
			t.Errorf("shard %d holds %q", i, got.Content)
		}
	}
	if n := door.passes.Load(); n != 2 { // one is the view's own
		t.Errorf("%d readings of the log for the view and %d contents", n, shards)
	}
}
