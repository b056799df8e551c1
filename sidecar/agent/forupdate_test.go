package agent

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// Of two agents that read a shard for update the second waits for the first one's decision, and then reads what that
// has written: both commit, in every mode. Nothing was handed over, so an abort lets the next one on without a word.
func TestReadForUpdate(t *testing.T) {
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		t.Run(mode, func(t *testing.T) {
			log := newLog()
			a, b, ctx := start(t, "a", log.Door()), start(t, "b", log.Door()), background(t)
			one, two := open(ctx, t, a, client.BeginOptions{Mode: mode}), open(ctx, t, b, client.BeginOptions{Mode: mode})
			must(one.ReadForUpdate(ctx, "shard:/x"))(t)
			read := make(chan client.Shard, 1)
			go func() {
				got, err := two.ReadForUpdate(ctx, "shard:/x")
				if err != nil {
					t.Error(err)
				}
				read <- got
			}()
			waiting := func() bool {
				all := ofTx(log, two.ID())
				return len(all) > 0 && all[len(all)-1].Kind == sequencer.OutcomeWaiting
			}
			if err := log.Until(ctx, waiting); err != nil {
				t.Fatal(err)
			}
			if err := one.Write(ctx, "shard:/x", []byte("of one"), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			d := must(one.Seal(ctx))(t)
			if d.State != api.StateCommitted || !d.Final {
				t.Errorf("the first: %+v", d)
			}
			if got := <-read; string(got.Content) != "of one" || got.Version != d.Seq {
				t.Errorf("the second reads %+v, and %d wrote last", got, d.Seq)
			}
			if err := two.Abort(ctx, "changed its mind"); err != nil {
				t.Fatal(err)
			}
			three := open(ctx, t, a, client.BeginOptions{Mode: mode})
			must(three.ReadForUpdate(ctx, "shard:/x"))(t)
			if err := three.Write(ctx, "shard:/x", []byte("of three"), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if d := must(three.Seal(ctx))(t); d.State != api.StateCommitted {
				t.Errorf("the third: %+v", d)
			}
		})
	}
}

// What Hence does not keep is touched, not read for update: the agent has to say what it did there.
func TestReadForUpdateOfAnother(t *testing.T) {
	a, ctx := start(t, "a", newLog().Door()), background(t)
	_, err := open(ctx, t, a, client.BeginOptions{}).ReadForUpdate(ctx, "thing:/1")
	refusedAs(t, err, "bad_request")
}

// For update one shard is granted, not all that a pattern names now or will name: the agent reads each of those that
// it writes. A refused read takes nothing.
func TestReadForUpdateOfAPattern(t *testing.T) {
	log := newLog()
	a, ctx := start(t, "a", log.Door()), background(t)
	must(a.client.Put(ctx, "shard:/x/1", []byte("1"), client.WriteOptions{}))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	for _, pattern := range []string{"shard:/x/**", "shard:/x/*", "shard:/*/1", "shard:/**", "shard:/"} {
		_, err := tx.ReadForUpdate(ctx, pattern)
		if p := refusedAs(t, err, "bad_request"); p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, pattern) {
			t.Errorf("%s: %+v", pattern, p)
		}
	}
	if all := ofTx(log, tx.ID()); len(all) > 0 {
		t.Errorf("what was refused is in the log: %+v", all)
	}
	must(tx.ReadForUpdate(ctx, "shard:/x/1"))(t) // which the patterns name, and others may have it for themselves
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("it ends as %+v", d)
	}
}
