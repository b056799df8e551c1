package agent

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A retraction puts back what stood in a shard before the horizon, too: its writer has said it.
func TestRetractOldContent(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	horizon := uint32(16)
	must(a.client.SetRules(ctx, 0, client.RulesChange{HorizonSeqs: &horizon}))(t)
	must(a.client.Put(ctx, "shard:/old", []byte("old"), client.WriteOptions{}))(t)
	for i := range 4 * horizon {
		must(a.client.Put(ctx, fmt.Sprintf("shard:/other/%d", i%3), []byte("x"), client.WriteOptions{}))(t)
	}
	tx := open(ctx, t, a, client.BeginOptions{})
	if err := tx.Write(ctx, "shard:/old", []byte("bad"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	must(a.client.Retract(ctx, tx.ID(), "", false))(t)
	undone := func() bool {
		seen, _ := a.view.Transaction(sequencer.TxID(tx.ID()))
		return seen.Retraction.Undone
	}
	if err := a.session.eventually(ctx, undone); err != nil {
		t.Fatal(err)
	}
	if s := must(a.client.Get(ctx, "shard:/old"))(t); string(s.Content) != "old" {
		t.Errorf("the shard holds %q", s.Content)
	}
	if d := must(tx.Status(ctx, 0))(t); len(d.Residue) != 0 {
		t.Errorf("it left residue: %+v", d)
	}
}
