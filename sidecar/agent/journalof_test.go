package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
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

// Journals of different logs, workspaces and agents never lie at one path.
func TestJournalNames(t *testing.T) {
	all := map[string]journal.Of{}
	for _, of := range []journal.Of{{Log: "l", Workspace: "shop", Agent: "eu-bot"}, {Log: "l", Workspace: "shop-eu",
		Agent: "bot"}, {Log: "l", Workspace: "bot", Agent: "shop-eu"},
		{Log: "k", Workspace: "shop", Agent: "eu-bot"}, {Log: "l/shop", Workspace: "eu", Agent: "bot"}, {Log: "l",
			Workspace: "shop", Agent: "bot"}, {Log: "a%2Fb", Workspace: "w", Agent: "a"}, {Log: "a/b", Workspace: "w",
			Agent: "a"}} {
		path := of.Path("d")
		if former, ok := all[path]; ok {
			t.Errorf("%v and %v have %s", of, former, path)
		}
		if all[path] = of; strings.Count(path, "/") != 5 {
			t.Errorf("%v lies at %s", of, path)
		}
	}
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
	for name, twice := range map[string]func(*testing.T, *journal.Ledger){
		"both sessions are the first": func(t *testing.T, l *journal.Ledger) {
			for range 2 {
				told(t, l, journal.RecordJoined, journal.JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 1})
			}
		},
		"a name is used twice": func(t *testing.T, l *journal.Ledger) {
			for _, count := range []int{600, 1100} {
				for n := range count {
					id := api.TxName("a", 1, uint64(n+1))
					told(t, l, journal.RecordBegun, &journal.TxRecord{Tx: id, Incarnation: 1, Base: 1})
					told(t, l, journal.RecordDecided, &journal.DecidedRecord{Tx: id, State: "committed", Final: n%2 == 0, Seq: 2})
				}
			}
		},
		"two agents": func(t *testing.T, l *journal.Ledger) {
			told(t, l, journal.RecordJoined, journal.JoinedRecord{Agent: "b", Workspace: "default", Incarnation: 1})
			told(t, l, journal.RecordJoined, journal.JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := journal.NewLedger()
			if twice(t, l); l.Mixed == nil {
				t.Error("it is taken for one of one log")
			}
		})
	}
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

func told(t *testing.T, l *journal.Ledger, kind byte, v any) {
	t.Helper()
	if err := l.Apply(append([]byte{kind}, must(json.Marshal(v))(t)...)); err != nil {
		t.Fatal(err)
	}
}

// A record that could not be read back is not left in the journal, where the next start would fall over it: what was
// to be recorded fails, and the journal takes others.
func TestRecordThatCannotBeReadBack(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir, nil, Limits{})
	if err := d.Session(journal.JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3}); err != nil {
		t.Fatal(err)
	}
	before := d.Bytes()
	if err := d.Record(journal.RecordSealed, &journal.DecidedRecord{Tx: "a.3.1"}); !errors.Is(err, journal.ErrJournal) ||
		d.Bytes() != before {
		t.Errorf("a seal of nothing: %v, %d of %d bytes", err, d.Bytes(), before)
	}
	if err := errors.Join(d.Record(journal.RecordBegun, &journal.TxRecord{Tx: "a.3.1"}), d.Close()); err != nil {
		t.Fatal(err)
	}
	if d = opened(t, dir, nil, Limits{}); d.Ledger.Txs["a.3.1"] == nil { // a damaged one would have been moved aside
		t.Errorf("the journal after that: %v", d.Ledger.Txs)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// Journals that no start uses do not pile up: the newest are kept, and of the others such as may be the only trace of
// an act. One that a process holds is not touched.
func TestOldJournalsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	of := func(n int) journal.Of { return journal.Of{Log: fmt.Sprint("log", n), Workspace: "default", Agent: "a"} }
	const count = journal.KeptAside + 5
	for n := range count {
		l := journal.NewLedger()
		l.Of = of(n)
		switch n {
		case 1, 2, 3:
			id := api.TxName("a", 1, 1)
			told(t, l, journal.RecordBegun, &journal.TxRecord{Tx: id, Incarnation: 1})
			e := gate.Effect{Tx: id, Tool: gate.Tool{Name: "unmail", Class: sequencer.ClassIrreversible}}
			told(t, l, journal.RecordEffect, &gate.Progress{Effect: e})
			if n > 1 {
				told(t, l, journal.RecordMark, gate.Mark{Tx: id, Step: gate.StepStarted})
			}
			if n > 2 {
				told(t, l, journal.RecordMark, gate.Mark{Tx: id, Step: gate.StepAnswered, Answer: &gate.Answer{}})
			}
		}
		path := of(n).Path(dir)
		lock := must(journal.LockFile(path + ".lock"))(t)
		j := must(journal.WriteWhole(path, journal.OpenOS, must(l.Records())(t)))(t)
		then := time.Now().Add(time.Duration(n-count) * time.Minute)
		must(0, errors.Join(j.Close(), os.Chtimes(path, then, then)))(t)
		if n == 4 {
			defer lock.Close()
		} else {
			must(0, lock.Close())(t)
		}
	}
	d := journal.New(nil, 8192, 8<<20, quiet())
	if err := d.Open(dir, of(count), journal.OpenOS, nil); err != nil {
		t.Fatal(err)
	}
	must(0, d.Close())(t)
	for n := range count + 1 {
		_, err := os.Stat(of(n).Path(dir))
		if gone := n < 5 && n != 2 && n != 4; gone != errors.Is(err, os.ErrNotExist) {
			t.Errorf("log %d: %v", n, err)
		}
	}
	if left := must(filepath.Glob(filepath.Join(dir, journal.JournalsDir, "log0", "default", "*")))(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
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
