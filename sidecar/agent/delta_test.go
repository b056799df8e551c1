package agent

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// Two agents write deltas of one shard in transactions that overlap: both commit, and both show both.
func TestDeltasDoNotConflict(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	ta, tb := open(ctx, t, a, client.BeginOptions{}), open(ctx, t, b, client.BeginOptions{Mode: "ordered"})
	for _, one := range []struct {
		tx   *client.Tx
		text string
	}{{ta, "a\n"}, {tb, "b\n"}, {ta, "c\n"}} {
		if err := one.tx.Write(ctx, "shard:/x", []byte(one.text), client.WriteOptions{Op: "append"}); err != nil {
			t.Fatal(err)
		}
	}
	var undone string
	for _, tx := range []*client.Tx{tb, ta} {
		if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
			t.Fatalf("%+v", d)
		}
		undone = tx.ID()
	}
	d := must(a.client.Put(ctx, "shard:/n", []byte("-7"), client.WriteOptions{Op: "add"}))(t)
	if d.State != api.StateCommitted {
		t.Fatalf("%+v", d)
	}
	large := strings.Repeat("large ", 2000) // by reference
	must(a.client.Put(ctx, "shard:/large", []byte(large), client.WriteOptions{MediaType: "text/x"}))(t)
	must(b.client.Put(ctx, "shard:/large", []byte("and more"), client.WriteOptions{Op: "append"}))(t)
	late := start(t, "late", log.Door())
	for _, r := range []*rig{a, b, late} {
		shows(t, r, log, map[string]string{"shard:/x": "b\na\nc\n", "shard:/n": "-7", "shard:/large": large + "and more"})
	}
	if got := must(late.client.Look(ctx, "shard:/large"))(t); got.MediaType != "text/x" {
		t.Errorf("media type %q", got.MediaType)
	}
	takenOut(t, b, undone)
	for _, r := range []*rig{a, b, late, start(t, "later", log.Door())} {
		shows(t, r, log, map[string]string{"shard:/x": "b\n"})
	}
}

func shows(t *testing.T, r *rig, log interface{ Seq() sequencer.Seq }, want map[string]string) {
	t.Helper()
	ctx := background(t)
	if err := r.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	for scope, text := range want {
		if got := must(r.client.Look(ctx, scope))(t); string(got.Content) != text {
			t.Errorf("%s of %s is %.60q, want %.60q", scope, r.session.agent, got.Content, text)
		}
	}
}

func takenOut(t *testing.T, r *rig, tx string) {
	t.Helper()
	ctx := background(t)
	must(r.client.Retract(ctx, tx, "", false))(t)
	err := r.view.Waits.Until(ctx, "seq", func() bool {
		got, _ := r.view.Transaction(sequencer.TxID(tx))
		return got.Retraction.Undone
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A transaction that reads a shard which it has a delta of sees the delta, and rests on what it read.
func TestReadOfOwnDelta(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/n", []byte("40"), client.WriteOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	tx := open(ctx, t, b, client.BeginOptions{})
	for range 2 {
		if err := tx.Write(ctx, "shard:/n", []byte("1"), client.WriteOptions{Op: "add"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(tx.Read(ctx, "shard:/n"))(t); string(got.Content) != "42" || !got.Pending {
		t.Fatalf("%q, pending %v", got.Content, got.Pending)
	}
	must(a.client.Put(ctx, "shard:/n", []byte("1"), client.WriteOptions{Op: "add"}))(t)
	if d := must(tx.Seal(ctx))(t); d.Code != string(sequencer.CodeStaleRead) {
		t.Errorf("it has read 40, and is %s %s", d.State, d.Code)
	}
	tx = open(ctx, t, b, client.BeginOptions{})
	if err := tx.Write(ctx, "shard:/x", []byte("all"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Write(ctx, "shard:/x", []byte(" and more"), client.WriteOptions{Op: "append"}); err != nil {
		t.Fatal(err)
	}
	if got := must(tx.Read(ctx, "shard:/x"))(t); string(got.Content) != "all and more" {
		t.Errorf("%q", got.Content)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("%+v", d)
	}
	shows(t, a, log, map[string]string{"shard:/x": "all and more", "shard:/n": "41"})
}

// Deltas that cannot be folded are refused before they are sealed, each with what to do instead.
func TestBadDeltas(t *testing.T) {
	a := start(t, "a", newLog().Door())
	ctx := background(t)
	seven := uint64(7)
	must(a.client.Put(ctx, "shard:/text", []byte("no number"), client.WriteOptions{}))(t)
	must(a.client.Put(ctx, "shard:/most", []byte("9223372036854775807"), client.WriteOptions{}))(t)
	must(a.client.Put(ctx, "shard:/full", make([]byte, sequencer.MaxMerged-2), client.WriteOptions{}))(t)
	for _, c := range []struct {
		scope, text, code, says string
		o                       client.WriteOptions
	}{
		{"shard:/n", "1", api.CodeBadRequest, "append, add or union", client.WriteOptions{Op: "max"}},
		{"shard:/n", "1.5", api.CodeBadRequest, "int64 in decimal digits", client.WriteOptions{Op: "add"}},
		{"shard:/n", "1", api.CodeBadRequest, "expects no version", client.WriteOptions{Op: "add", IfVersion: &seven}},
		{"shard:/n", strings.Repeat("x", 5000), api.CodeTooLarge, "at most 4096 bytes", client.WriteOptions{Op: "append"}},
		{"shard:/text", "1", api.CodeNotMergeable, "no int64", client.WriteOptions{Op: "add"}},
		{"shard:/most", "1", api.CodeNotMergeable, "the sum would not be one", client.WriteOptions{Op: "add"}},
		{"shard:/full", "xyz", api.CodeNotMergeable, "more than 262144 bytes", client.WriteOptions{Op: "append"}},
	} {
		_, err := a.client.Put(ctx, c.scope, []byte(c.text), c.o)
		if problemCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %+v: %v, want %s: %s", c.scope, c.o, err, c.code, c.says)
		}
	}
	must(a.client.Put(ctx, "shard:/full", []byte("xy"), client.WriteOptions{Op: "append"}))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	if err := tx.Write(ctx, "shard:/n", []byte("1"), client.WriteOptions{Op: "add"}); err != nil {
		t.Fatal(err)
	}
	err := tx.Write(ctx, "shard:/n", []byte("1"), client.WriteOptions{Op: "append"})
	if problemCode(err) != api.CodeBadRequest || !strings.Contains(err.Error(), "another transaction") {
		t.Error(err)
	}
}

// A workspace of logic 3 knows no deltas: its processors would take one for the content.
func TestDeltaOfAnOlderLogic(t *testing.T) {
	log := newLog()
	if _, err := log.Add(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "z",
		Join: &sequencer.Join{ID: "z", Logic: merges - 1}}); err != nil {
		t.Fatal(err)
	}
	a := start(t, "a", log.Door())
	_, err := a.client.Put(background(t), "shard:/n", []byte("1"), client.WriteOptions{Op: "add"})
	if problemCode(err) != api.CodeBadRequest || !strings.Contains(err.Error(), "hence rules set --logic 4") {
		t.Error(err)
	}
}
