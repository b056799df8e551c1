package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A dry run and an explanation say how long a transaction can still be taken back, which bound is nearest and when.
// One beyond the horizon is said to be that.
func TestSaysWhatIsLeft(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	commits := uint32(3)
	must(a.client.SetRules(ctx, 0, client.RulesChange{HorizonCommits: &commits}))(t)
	first := must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	left := func() (*api.Undo, string) {
		t.Helper()
		dry := must(a.client.Retract(ctx, first.Tx, "", true))(t)
		why := must(a.client.Explain(ctx, first.Tx))(t)
		if dry.Undo == nil || why.Undo == nil || !strings.HasSuffix(why.Paragraph, why.Undo.Sentence) {
			t.Fatalf("a dry run: %+v, explained: %+v", dry.Undo, why)
		}
		return dry.Undo, why.Paragraph
	}
	if u, text := left(); u.CommitsLeft != 3 || u.Nearest != "commits" || u.BytesLeft < 100_000 ||
		!strings.Contains(text, "can be taken back for 3 more commits") || !strings.Contains(text, "an estimate") {
		t.Errorf("of the newest commit: %+v\n%s", u, text)
	}
	for range 2 {
		must(a.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{}))(t)
	}
	if u, text := left(); u.CommitsLeft != 1 || !strings.Contains(text, "for 1 more commit,") {
		t.Errorf("two commits later: %+v\n%s", u, text)
	}
	must(a.client.Put(ctx, "shard:/y", []byte("2"), client.WriteOptions{}))(t)
	if _, err := a.client.Retract(ctx, first.Tx, "", true); problemCode(err) != "too_old" {
		t.Errorf("three commits later: %v", err)
	}
	if why := must(a.client.Explain(ctx, first.Tx))(t); why.Undo != nil || !strings.Contains(why.Paragraph, "no longer") {
		t.Errorf("explained: %+v", why)
	}
}

// What was taken back is said to be, with the seq, and no more how long it can be: by its own sidecar, by another, by
// one that began behind the retraction, and of a transaction that followed from it.
func TestSaysWhatWasTakenBack(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	first := must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Read(ctx, "shard:/x"))(t)
	if err := tx.Write(ctx, "shard:/y", []byte("2"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(tx.Seal(ctx))(t)
	must(b.client.Retract(ctx, first.Tx, "", false))(t)
	for _, r := range []*rig{a, b} {
		taken(ctx, t, r, sequencer.TxID(first.Tx))
	}
	c := start(t, "c", log.Door())
	for name, r := range map[string]*rig{"own": a, "another": b, "a later": c} {
		for id, want := range map[string]string{first.Tx: ".", tx.ID(): " with the retraction of " + first.Tx + "."} {
			seen, known := b.view.Transaction(sequencer.TxID(id))
			if !known || seen.Retraction.Over == 0 {
				t.Fatalf("%s: %+v", id, seen)
			}
			want := fmt.Sprintf("It was taken back at seq %d", seen.Retraction.Over) + want
			if name == "a later" { // the closure table does not say when
				want = strings.Replace(want, fmt.Sprintf(" at seq %d", seen.Retraction.Over), "", 1)
			}
			why := must(r.client.Explain(ctx, id))(t)
			if !why.Decision.Undone || why.Undo != nil || !strings.Contains(why.Paragraph, want) ||
				strings.Contains(why.Paragraph, "can be taken back") || strings.Contains(why.Paragraph, "no longer") {
				t.Errorf("%s sidecar of %s, want %q: %+v", name, id, want, why)
			}
		}
	}
}
