package agent

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// Names of shards come back as they were given, whatever is in them.
func TestNames(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	for name, canonical := range map[string]string{
		"shard:/a b?c#d": "shard:/a%20b%3Fc%23d", "shard:/a%2Fb/c": "shard:/a%2Fb/c",
		"shard:/ü": "shard:/%C3%BC", "x:y": "shard:/x%3Ay", "/a/./b/": "shard:/a/b"} {
		d := must(a.client.Put(ctx, name, []byte(name), client.WriteOptions{}))(t)
		if d.State != api.StateCommitted {
			t.Fatalf("%s: %+v", name, d)
		}
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		if got := must(tx.Read(ctx, canonical))(t); string(got.Content) != name || got.Scope != canonical {
			t.Errorf("%s came back as %+v", name, got)
		}
		if got := must(a.client.Get(ctx, name))(t); string(got.Content) != name {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An expected version holds or it does not, with PUT and in a transaction, at once and at the seal.
func TestExpectedVersions(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	version := func(v uint64) client.WriteOptions { return client.WriteOptions{IfVersion: &v} }
	put := func(o client.WriteOptions) (uint64, string) {
		d, err := a.client.Put(ctx, "shard:/x", []byte("x"), o)
		if err != nil {
			p := problemIn(t, err)
			if p.Status != 412 || len(p.ReRead) != 1 || p.Retryable != true {
				t.Fatalf("put: %+v", p)
			}
			return 0, p.Code
		}
		return d.Seq, d.Code
	}
	one, _ := put(version(0))
	if _, code := put(version(0)); code != "version_mismatch" {
		t.Fatalf("created twice: %q", code)
	}
	two, code := put(version(one))
	if code != "" || two <= one {
		t.Fatalf("replaced: %d %q", two, code)
	}
	for _, wrong := range []uint64{one, one - 1, 0} {
		if _, code := put(version(wrong)); code != "version_mismatch" {
			t.Fatalf("version %d of %d: %q", wrong, two, code)
		}
	}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	err := tx.Write(ctx, "shard:/x", []byte("y"), version(one))
	if p := problemIn(t, err); p.Code != "version_mismatch" || p.MovedSeq != two {
		t.Fatalf("written: %+v", p)
	}
	if err := tx.Write(ctx, "shard:/x", []byte("y"), version(two)); err != nil {
		t.Fatal(err)
	}
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	must(b.client.Put(ctx, "shard:/x", []byte("z"), version(two)))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if d := must(tx.Seal(ctx))(t); d.Code != "version_mismatch" || d.Scope != "shard:/x" {
		t.Fatalf("sealed: %+v", d)
	}
}

// A large content travels by reference and comes back whole, at every size around the bounds.
func TestContentSizes(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	for _, size := range []int{0, 1, 4 << 10, 4<<10 + 1, 256 << 10} {
		content := bytes.Repeat([]byte{0xff}, size)
		d := must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{}))(t)
		if d.State != api.StateCommitted {
			t.Fatalf("%d bytes: %+v", size, d)
		}
		if err := b.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
		tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
		got := must(tx.Read(ctx, "shard:/x"))(t)
		loose := must(b.client.Get(ctx, "shard:/x"))(t)
		if !bytes.Equal(got.Content, content) || !bytes.Equal(loose.Content, content) || !got.Exists {
			t.Fatalf("%d bytes came back as %d and %d", size, len(got.Content), len(loose.Content))
		}
		if err := tx.Abort(ctx, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for i := range 40 { // 160 KiB inline would be too much for one record
		scope := "shard:/many/" + strings.Repeat("n", i+1)
		if err := tx.Write(ctx, scope, bytes.Repeat([]byte{'m'}, 4<<10), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("many: %+v", d)
	}
	list := must(a.client.List(ctx, "shard:/many", "", 30))(t)
	rest := must(a.client.List(ctx, "shard:/many", list.Next, 30))(t)
	if len(list.Items) != 30 || len(rest.Items) != 10 || rest.Next != "" {
		t.Fatalf("pages of %d and %d", len(list.Items), len(rest.Items))
	}
	versions := must(a.client.Versions(ctx, "shard:/x"))(t)
	if len(versions.Items) != 5 || versions.Items[0].Size != 256<<10 {
		t.Fatalf("versions %+v", versions)
	}
	if old := must(a.client.GetVersion(ctx, "shard:/x", versions.Items[3].Version))(t); len(old.Content) != 1 {
		t.Fatalf("a former version: %d bytes", len(old.Content))
	}
}
