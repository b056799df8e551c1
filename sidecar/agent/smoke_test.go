package agent

import (
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A shard is put, read in a transaction, written there, and read again by another agent's sidecar.
func TestReadWriteSeal(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	d := must(a.client.Put(ctx, "shard:/x", []byte("one"), client.WriteOptions{MediaType: "text/plain"}))(t)
	if d.State != api.StateCommitted {
		t.Fatalf("put: %+v", d)
	}
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"optimistic", "ordered", "locked"} {
		tx := must(b.client.Begin(ctx, client.BeginOptions{Mode: mode}))(t)
		got := must(tx.Read(ctx, "shard:/x"))(t)
		if !got.Exists || got.Version == 0 || got.Overtaken != nil {
			t.Fatalf("%s: read %+v", mode, got)
		}
		if err := tx.Write(ctx, "shard:/x", append(got.Content, '+'), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
			t.Fatalf("%s: seal %+v", mode, d)
		}
	}
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if got := must(a.client.Get(ctx, "shard:/x"))(t); string(got.Content) != "one+++" {
		t.Fatalf("read %+v", got)
	}
}
