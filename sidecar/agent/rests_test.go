package agent

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
)

// watched is a log that tells of each intent before it takes it.
type watched struct {
	Log
	leaves func(in *sequencer.Intent)
}

func (w *watched) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	w.leaves(in)
	return w.Log.Append(ctx, workspace, in)
}

// written is a journal's file whose writes are counted.
type written struct {
	journal.Disk
	writes *atomic.Int64
}

func (w written) Write(p []byte) (int, error) {
	w.writes.Add(1)
	return w.Disk.Write(p)
}

// What a request that begins, fills and seals a transaction records is in the journal when its seal leaves: the
// transaction, its reads and writes, the slot of its key, the seal, and the footprint's text. It takes two writes, and
// two more with the decision and the answer.
func TestRecordsRestUntilTheSeal(t *testing.T) {
	log, ctx := newLog(), background(t)
	var writes atomic.Int64
	var place, kinds string
	var before int64
	door := &watched{Log: log.Door(), leaves: func(in *sequencer.Intent) {
		if in.Kind != sequencer.IntentSeal || place == "" {
			return
		}
		file, err := os.ReadFile(place)
		if err != nil {
			t.Error(err)
		}
		kinds = kindsOf(t, file)
	}}
	a := start(t, "a", door, func(c *setup) {
		c.Machine.Open = func(path string) (journal.Disk, error) {
			file, err := journal.OpenOS(path)
			return written{file, &writes}, err
		}
	})
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	got, _, err := a.client.ReadAll(ctx, "shard:/x")
	if err != nil {
		t.Fatal(err)
	}
	place = a.session.delivery.Place()
	for _, c := range []struct {
		want string
		do   func() error
	}{
		{"BEEKSE", func() error {
			_, err := a.client.Commit(ctx, client.Commit{Reads: []client.SeenAt{got[0].At()},
				Writes: []client.Write{{Scope: "shard:/x", Content: []byte("2")}}})
			return err
		}},
		{"BEKSE", func() error {
			_, err := a.client.Put(ctx, "shard:/x", []byte("3"), client.WriteOptions{})
			return err
		}},
	} {
		if err := a.session.delivery.Mark(); err != nil { // nothing rests, so what follows is the request's
			t.Fatal(err)
		}
		before = writes.Load()
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(kinds, c.want) {
			t.Errorf("as the seal leaves the journal has %q, want %s at its end", kinds, c.want)
		}
		if n := writes.Load() - before; n > 5 { // a beat may come in between
			t.Errorf("%d writes for one request", n)
		}
	}
}

// A decision that only rested when the process died is the log's to tell: the next process answers as this one did.
func TestRestingDecisionIsTheLogs(t *testing.T) {
	log, ctx := newLog(), background(t)
	door := log.Door()
	a := start(t, "a", door)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := tx.Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	was := must(tx.Seal(ctx))(t)
	file := a.die(t, door)
	for n := 1; ; n++ { // the process died before what rested was written
		first, last, more := firstOf(t, file, n)
		if last == journal.RecordSealed {
			file = first
			break
		}
		if !more {
			t.Fatalf("no seal in %q", kindsOf(t, file))
		}
	}
	b := reborn(t, log, "a", file)
	known := func() bool {
		one := b.session.txs[sequencer.TxID(tx.ID())]
		return one != nil && one.decided()
	}
	if err := b.session.eventually(ctx, known); err != nil {
		t.Fatal(err)
	}
	now := must(b.client.Tx(tx.ID()).Status(ctx, 0))(t)
	if now.State != was.State || now.Seq != was.Seq {
		t.Errorf("%+v, and it was answered %+v", now, was)
	}
}
