package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/streams"
)

// inFolder lets a sidecar have its journal in a folder.
func inFolder(dir string) func(*setup) { return func(c *setup) { c.DataDir = dir } }

// lost fails the test unless an error is the 410 of an agent that has to read again.
func lost(t *testing.T, err error) {
	t.Helper()
	if p := problemIn(t, err); p.Status != http.StatusGone || p.Code != api.CodeSessionLost {
		t.Fatalf("not told to read again: %+v", p)
	}
}

// Two agents with one data folder have two journals, and a lock for each.
func TestTwoAgentsInOneFolder(t *testing.T) {
	dir, log := t.TempDir(), newLog()
	bot := start(t, "bot", log.Door(), inFolder(dir))
	other := start(t, "eu-bot", log.Door(), inFolder(dir)) // a lock of its own, too
	if bot.journalPath() == other.journalPath() {
		t.Error("two agents have one journal")
	}
}

// onAnotherLog begins transaction a.1.1 with a call on one log and kills the sidecar; then the log is another one,
// with another transaction of that name, which is committed, and whose sidecar does not see it.
func onAnotherLog(ctx context.Context, t *testing.T, world *sink) (dir string, two *memlog.Log, id string) {
	t.Helper()
	one := newLog()
	a := start(t, "a", one.Door(), withTools(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "old"}, client.EffectOptions{}))(t)
	dir = a.copied(t, nil)
	two = newLog()
	door := two.Door()
	b := start(t, "a", door, withTools(world))
	again := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(again.Effect(ctx, "unmail", at{At: "new"}, client.EffectOptions{}))(t)
	if again.ID() != tx.ID() {
		t.Fatal(tx.ID(), again.ID())
	}
	held(t, b, two, door, again)
	return dir, two, tx.ID()
}

// What the journal of another log says of a transaction is not true of one that has its name here: its held call stays
// where it is, and the one that was committed here is not dropped in silence.
func TestJournalOfAnotherLogSettlesNothing(t *testing.T) {
	for name, place := range map[string]func(t *testing.T, dir string, two *memlog.Log){
		"in its own place": func(*testing.T, string, *memlog.Log) {},
		"in this log's place": func(t *testing.T, dir string, two *memlog.Log) {
			path := journal.JournalsIn(dir, journal.Of{Workspace: "default", Agent: "a"})[0].Path
			must(0, os.Rename(path, journalIn(t, dir, two, "a")))(t)
		},
		"where older releases look": func(t *testing.T, dir string, two *memlog.Log) {
			asOlder(t, dir, time.Now().Add(-time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, world, said := background(t), newSink(), new(lines)
			dir, two, id := onAnotherLog(ctx, t, world)
			place(t, dir, two)
			c := start(t, "a", two.Door(), said.config(dir), quick(world)).aloneNow()
			c.final(ctx, t, id)
			world.expect(t)
			if list := two.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
				t.Errorf("residue: %+v", list)
			}
			aside := 0
			for _, f := range journal.JournalsIn(dir, journal.Of{Workspace: "default", Agent: "a"}) {
				if f.Aside == "other-log" {
					aside++
					if n := len(said.with(f.Path)); n != 1 {
						t.Errorf("%s is said %d times", f.Path, n)
					}
				}
			}
			if name != "in its own place" && aside != 1 {
				t.Errorf("%d journals were moved aside", aside)
			}
		})
	}
}

// What an agent read on another log binds no write here, and does not count for a fresh read either: the agent is told
// once to read again, also when the process is killed before it was, and also on the log that it comes back to.
func TestReadsOfAnotherLog(t *testing.T) {
	ctx, one, two, dir := background(t), newLog(), newLog(), t.TempDir()
	put := func(r *rig) error {
		_, err := r.client.Put(ctx, "shard:/y", []byte("rests on x"), client.WriteOptions{})
		return err
	}
	again := func(log *memlog.Log) *rig {
		t.Helper()
		r := start(t, "a", log.Door(), inFolder(dir))
		if err := r.stop(); err != nil { // before the agent came
			t.Fatal(err)
		}
		r = start(t, "a", log.Door(), inFolder(dir))
		lost(t, put(r))
		if err := put(r); err != nil {
			t.Fatalf("told twice: %v", err)
		}
		must(r.client.Get(ctx, "shard:/x"))(t)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := start(t, "a", one.Door(), inFolder(dir))
	for range 20 {
		must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	}
	must(a.client.Get(ctx, "shard:/x"))(t)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	again(two)
	again(one)
	same := start(t, "a", one.Door(), inFolder(dir))
	if err := put(same); err != nil {
		t.Errorf("told on the log that it was on: %v", err)
	}
}

// A journal of two logs, as older releases have written it, is neither a panic nor read: it is moved aside.
func TestJournalOfTwoLogs(t *testing.T) {
	log, dir := newLog(), t.TempDir()
	path := journalIn(t, dir, log, "a")
	id := must(log.Door().ID(t.Context()))(t)
	var records []journal.Entry
	for _, v := range []any{journal.Of{Log: id, Workspace: "default", Agent: "a"}, journal.JoinedRecord{Agent: "a",
		Workspace: "default", Incarnation: 1},
		journal.JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 1}} {
		kind := byte(journal.RecordJoined)
		if len(records) == 0 {
			kind = journal.RecordOf
		}
		records = append(records, journal.Entry{Kind: kind, Body: must(json.Marshal(v))(t)})
	}
	j := must(journal.WriteWhole(path, journal.OpenOS, records))(t)
	must(0, j.Close())(t)
	r := start(t, "a", log.Door(), inFolder(dir))
	must(os.Stat(path + ".damaged-1"))(t)
	_, err := r.client.Put(background(t), "shard:/y", nil, client.WriteOptions{})
	lost(t, err)
}

// Before the log has said its id no journal is open: nothing is answered from one, and it is said why. When the log is
// another one afterwards the process ends: what it knows is true of the former one.
func TestLogThatIsNotKnownYet(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	dir := a.copied(t, nil)
	door := log.Door()
	door.SetID(errors.New("no broker answers"))
	b := launch(t, "a", door, nil, inFolder(dir), func(c *setup) { c.Limits.WatermarkEvery = time.Hour })
	once := client.New(b.URL(), b.Token(), client.WithTries(1))
	defer once.Close()
	_, err := once.Tx(tx.ID()).Seal(ctx)
	if p := problemIn(t, err); p.Code != api.CodeNotReady || !p.SafeSameKey {
		t.Errorf("a transaction of the journal that is not open: %+v", p)
	}
	if err := b.session.delivery.Health(); !errors.Is(err, journal.ErrNotOpen) {
		t.Errorf("the journal's health: %v", err)
	}
	door.SetID(nil)
	<-b.Ready()
	_, err = once.Tx(tx.ID()).Seal(ctx)
	lost(t, err)

	door.SetID(streams.ErrOtherLog)
	for seen := log.Seq(); log.Seq() < seen+2; { // until its lease is over, and it joins again
		if err := log.Tick(1); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		t.Fatal("it goes on with the journal of the former log")
	}
	if err := b.stop(); !errors.Is(err, streams.ErrOtherLog) {
		t.Errorf("it ended with %v", err)
	}
}
