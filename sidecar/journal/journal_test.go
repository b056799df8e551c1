package journal

import (
	"context"

	"github.com/hence-dev/hence/sidecar/internal/memlog"

	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// opened is the delivery log of agent a in a folder.
func opened(t *testing.T, dir string, events publisher, rewrite int64) *Journal {
	t.Helper()
	d := New(events, 8192, rewrite, quiet())
	never := func(*Ledger, time.Time) (bool, error) { return false, nil }
	if err := d.Open(dir, Of{Log: "log", Workspace: "default", Agent: "a"}, OpenOS, never); err != nil {
		t.Fatal(err)
	}
	return d
}

// What a rewritten journal comes to is what the long one came to.
func TestJournalRewrite(t *testing.T) {
	dir := t.TempDir()
	open := func() *Journal {
		return opened(t, dir, nil, 1)
	}
	d := open()
	read := func(tx sequencer.TxID, scope sequencer.Scope, view sequencer.Seq) {
		ev := &topology.Event{Kind: topology.EventRead, Workspace: "default", Agent: "a", Incarnation: 3,
			Tx: tx, Scope: scope, View: view}
		if err := d.Event(ev, nil); err != nil {
			t.Fatal(err)
		}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(d.Session(JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3, Boot: ""}))
	ok(d.Record(RecordBegun, &TxRecord{Tx: "a.3.1", Incarnation: 3, Base: 3}))
	ok(d.Record(RecordBegun, &TxRecord{Tx: "a.3.2", Incarnation: 3, Base: 4}))
	read("a.3.1", "shard:/x", 5)
	read("", "shard:/loose1", 5)
	ok(d.Record(RecordSealed, &DecidedRecord{Tx: "a.3.1"}))
	read("", "shard:/loose2", 6)
	read("a.3.2", "shard:/y", 7)
	ok(d.Record(RecordDecided, &DecidedRecord{Tx: "a.3.1", State: "committed", Seq: 9, Final: true}))
	before := d.Ledger
	if d.file.size < 100 {
		t.Fatalf("the journal has %d bytes", d.file.size)
	}
	ok(d.Close()) // rewrites: the limit is one byte
	d = open()
	after := d.Ledger
	if len(after.Pending) != 4 || len(before.Pending) != 4 || !reflect.DeepEqual(after.Joined, before.Joined) {
		t.Fatalf("pending %d, joined %+v", len(after.Pending), after.Joined)
	}
	if len(after.Loose[""]) != 1 || after.Loose[""][0].Scope != "shard:/loose2" {
		t.Fatalf("loose %+v", after.Loose)
	}
	sealed, open2 := after.Txs["a.3.1"], after.Txs["a.3.2"]
	if sealed == nil || sealed.Decided == nil || sealed.Decided.Seq != 9 || len(sealed.Reads) != 1 {
		t.Fatalf("sealed %+v", sealed)
	}
	if open2 == nil || open2.Decided != nil || len(open2.Reads) != 1 || open2.Reads[0].View != 7 {
		t.Fatalf("open %+v", open2)
	}
	ok(d.Close())
}

// A record that could not be read back is not left in the journal, where the next start would fall over it: what was
// to be recorded fails, and the journal takes others.
func TestRecordThatCannotBeReadBack(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir, nil, 8<<20)
	if err := d.Session(JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3}); err != nil {
		t.Fatal(err)
	}
	before := d.Bytes()
	if err := d.Record(RecordSealed, &DecidedRecord{Tx: "a.3.1"}); !errors.Is(err, ErrJournal) ||
		d.Bytes() != before {
		t.Errorf("a seal of nothing: %v, %d of %d bytes", err, d.Bytes(), before)
	}
	if err := errors.Join(d.Record(RecordBegun, &TxRecord{Tx: "a.3.1"}), d.Close()); err != nil {
		t.Fatal(err)
	}
	if d = opened(t, dir, nil, 8<<20); d.Ledger.Txs["a.3.1"] == nil { // a damaged one would have been moved aside
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
	of := func(n int) Of { return Of{Log: fmt.Sprint("log", n), Workspace: "default", Agent: "a"} }
	const count = keptAside + 5
	for n := range count {
		l := newLedger()
		l.Of = of(n)
		switch n {
		case 1, 2, 3:
			id := api.TxName("a", 1, 1)
			told(t, l, RecordBegun, &TxRecord{Tx: id, Incarnation: 1})
			e := gate.Effect{Tx: id, Tool: gate.Tool{Name: "unmail", Class: sequencer.ClassIrreversible}}
			told(t, l, recordEffect, &gate.Progress{Effect: e})
			if n > 1 {
				told(t, l, recordMark, gate.Mark{Tx: id, Step: gate.StepStarted})
			}
			if n > 2 {
				told(t, l, recordMark, gate.Mark{Tx: id, Step: gate.StepAnswered, Answer: &gate.Answer{}})
			}
		}
		path := of(n).Path(dir)
		lock := must(lockFile(path + ".lock"))(t)
		j := must(WriteWhole(path, OpenOS, must(l.Records())(t)))(t)
		then := time.Now().Add(time.Duration(n-count) * time.Minute)
		must(0, errors.Join(j.Close(), os.Chtimes(path, then, then)))(t)
		if n == 4 {
			defer lock.Close()
		} else {
			must(0, lock.Close())(t)
		}
	}
	d := New(nil, 8192, 8<<20, quiet())
	if err := d.Open(dir, of(count), OpenOS, nil); err != nil {
		t.Fatal(err)
	}
	must(0, d.Close())(t)
	for n := range count + 1 {
		_, err := os.Stat(of(n).Path(dir))
		if gone := n < 5 && n != 2 && n != 4; gone != errors.Is(err, os.ErrNotExist) {
			t.Errorf("log %d: %v", n, err)
		}
	}
	if left := must(filepath.Glob(filepath.Join(dir, journalsDir, "log0", "default", "*")))(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What no topic takes is passed over: what comes after it is published, and none of it again after a restart.
func TestEventTooLarge(t *testing.T) {
	dir, log := t.TempDir(), memlog.New("default")
	open := func() *Journal {
		return opened(t, dir, log.Door(), 8<<20)
	}
	d := open()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	stopped := make(chan struct{})
	go func() { defer close(stopped); d.Publish(ctx) }()
	if err := d.Session(JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{600_000, 10} {
		ev := &topology.Event{Kind: topology.EventContent, Workspace: "default", Agent: "a", Content: make([]byte, size)}
		if err := d.Event(ev, nil); err != nil {
			t.Fatal(err)
		}
	}
	if left := d.Drain(ctx); left > 0 {
		t.Errorf("%d events are not published", left)
	}
	cancel()
	<-stopped
	if events := log.Events(); len(events) != 1 || events[0].Index != 2 {
		t.Errorf("%d events are published", len(events))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	if left := d.Backlog(); left > 0 {
		t.Errorf("after a restart %d events are to be published", left)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// syncedDisk keeps how much of the file is on the disk.
type syncedDisk struct {
	Disk
	written, synced int
}

func (s *syncedDisk) Write(p []byte) (int, error) {
	n, err := s.Disk.Write(p)
	s.written += n
	return n, err
}

func (s *syncedDisk) Sync() error {
	s.synced = s.written
	return s.Disk.Sync()
}

// A start after a loss of power finds that there was a session: else it would tell no conversation to read again.
func TestSessionIsOnTheDisk(t *testing.T) {
	var disk *syncedDisk
	open := func(path string) (Disk, error) {
		file, err := OpenOS(path)
		disk = &syncedDisk{Disk: file}
		return disk, err
	}
	d := New(nil, 8192, 1<<20, quiet())
	if err := d.Open(t.TempDir(), Of{Log: "log", Workspace: "default", Agent: "a"}, open, nil); err != nil {
		t.Fatal(err)
	}
	before := disk.written
	if err := d.Session(JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3, Boot: "b"}); err != nil {
		t.Fatal(err)
	}
	if disk.written == before || disk.synced != disk.written {
		t.Errorf("of %d bytes %d are on the disk", disk.written, disk.synced)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The events of a session are numbered from 1, whatever the gate says of calls as it begins.
func TestSessionNumbersItsEvents(t *testing.T) {
	d := New(takesAll{}, 1<<30, 1<<40, quiet())
	if err := d.Open(t.TempDir(), Of{Log: "log", Workspace: "default", Agent: "a"}, OpenOS, nil); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var beside sync.WaitGroup
	for range 4 {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := d.Event(&topology.Event{Kind: topology.EventTouch, Workspace: "default", Tx: "a.1.1", Agent: "a",
					Scope: "thing:/x"}, nil)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 400 {
		err := d.Session(JoinedRecord{Agent: "a", Workspace: "default", Incarnation: sequencer.Seq(n + 1)})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	beside.Wait()
	next := map[sequencer.Seq]uint64{}
	for _, ev := range d.Ledger.Pending {
		if next[ev.Incarnation]++; ev.Incarnation != 0 && ev.Index != next[ev.Incarnation] {
			t.Fatalf("event %d of session %d is its %d.", ev.Index, ev.Incarnation, next[ev.Incarnation])
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// takesAll is a topic that never answers.
type takesAll struct{}

func (takesAll) PublishAsync([]*topology.Event, func(sequencer.Place, error)) {}
