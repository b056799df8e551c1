package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// opened is the delivery log of agent a in a folder.
func opened(t *testing.T, dir string, events Writer, lim Limits) *journal.Journal {
	t.Helper()
	d := journal.New(events, lim.withDefaults().PendingEvents, lim.withDefaults().JournalBytes, quiet())
	never := func(*journal.Ledger, time.Time) (bool, error) { return false, nil }
	if err := d.Open(dir, journal.Of{Log: "log", Workspace: "default", Agent: "a"}, journal.OpenOS, never); err != nil {
		t.Fatal(err)
	}
	return d
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// readJournal opens a journal and collects its records.
func readJournal(t *testing.T, path string) (*journal.File, [][]byte, error) {
	t.Helper()
	var got [][]byte
	j, err := journal.OpenFile(path, journal.OpenOS, quiet(), func(r []byte) error {
		got = append(got, bytes.Clone(r))
		return nil
	})
	return j, got, err
}

func writeJournal(t *testing.T, path string, records ...string) {
	t.Helper()
	j, _, err := readJournal(t, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := j.Append(r[0], []byte(r[1:])); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// A journal that ends anywhere inside its last record is cut back to the record before it, and takes records again.
func TestJournalTornTail(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	writeJournal(t, whole, "Aone", "Btwo", "Cthree")
	content := must(os.ReadFile(whole))(t)
	last := len(journal.Frame(nil, 'C', []byte("three")))
	for cut := 1; cut <= last; cut++ {
		path := filepath.Join(dir, "torn")
		if err := os.WriteFile(path, content[:len(content)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, got, err := readJournal(t, path)
		if err != nil || len(got) != 2 || string(got[1]) != "Btwo" {
			t.Fatalf("cut by %d: %q, %v", cut, got, err)
		}
		if err := errors.Join(j.Append('D', []byte("four")), j.Close()); err != nil {
			t.Fatal(err)
		}
		if _, got, err = readJournal(t, path); err != nil || len(got) != 3 || string(got[2]) != "Dfour" {
			t.Fatalf("cut by %d, then appended: %q, %v", cut, got, err)
		}
	}
}

// One wrong bit before the last record is damage: the file is moved aside and nothing of it is used.
func TestJournalDamage(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	writeJournal(t, whole, "Aone", "Btwo", "Cthree")
	content := must(os.ReadFile(whole))(t)
	last := len(journal.Frame(nil, 'C', []byte("three")))
	for at := range len(content) - last {
		path := filepath.Join(dir, fmt.Sprint("damaged", at))
		changed := bytes.Clone(content)
		changed[at] ^= 0x10
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		j, _, err := readJournal(t, path)
		if !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if kept := must(os.ReadFile(path + ".damaged-1"))(t); !bytes.Equal(kept, changed) {
			t.Fatalf("byte %d: the damaged file was not kept", at)
		}
	}
}

// faulty fails the n-th write with an error, after a part of it.
type faulty struct {
	journal.Disk
	fault *fault
}

type fault struct {
	mu       sync.Mutex
	in       int // writes until it strikes; negative: never
	err      error
	part     int
	truncate error
	struck   int
}

func (f *fault) arm(in int, err error, part int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in, f.err, f.part = in, err, part
}

func (f *fault) open(path string) (journal.Disk, error) {
	file, err := journal.OpenOS(path)
	return faulty{file, f}, err
}

func (f faulty) Write(p []byte) (int, error) {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	if f.fault.in != 0 {
		f.fault.in--
		return f.Disk.Write(p)
	}
	f.fault.struck++
	n, err := f.Disk.Write(p[:min(f.fault.part, len(p))])
	return n, errors.Join(f.fault.err, err)
}

func (f faulty) Truncate(size int64) error {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	if f.fault.truncate != nil {
		return f.fault.truncate
	}
	return f.Disk.Truncate(size)
}

// A write that fails leaves no part of its record behind, and the next one works.
func TestJournalFailedWrite(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		path := filepath.Join(t.TempDir(), "journal")
		f := &fault{in: -1}
		j, err := journal.OpenFile(path, f.open, quiet(), func([]byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for part := range 16 {
			f.arm(0, cause, part)
			if err := j.Append('X', []byte("lost")); !errors.Is(err, journal.ErrJournal) || !errors.Is(err, cause) {
				t.Fatalf("%v after %d bytes: %v", cause, part, err)
			}
			f.arm(-1, nil, 0)
			if err := j.Append('K', []byte("kept")); err != nil {
				t.Fatal(err)
			}
		}
		f.arm(0, cause, 3)
		f.truncate = cause
		if err := j.Append('X', []byte("lost")); !errors.Is(err, cause) {
			t.Fatal(err)
		}
		f.arm(-1, nil, 0)
		f.truncate = nil
		if err := j.Append('X', []byte("after a half record")); !errors.Is(err, journal.ErrJournal) {
			t.Fatalf("a journal with half a record took another: %v", err)
		}
		_ = j.Close()
		if _, got, err := readJournal(t, path); err != nil || len(got) != 16 {
			t.Fatalf("%d records, %v", len(got), err)
		}
	}
}

// What a rewritten journal comes to is what the long one came to.
func TestJournalRewrite(t *testing.T) {
	dir := t.TempDir()
	open := func() *journal.Journal {
		return opened(t, dir, nil, Limits{JournalBytes: 1})
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
	ok(d.Session(journal.JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 3, Boot: ""}))
	ok(d.Record(journal.RecordBegun, &journal.TxRecord{Tx: "a.3.1", Incarnation: 3, Base: 3}))
	ok(d.Record(journal.RecordBegun, &journal.TxRecord{Tx: "a.3.2", Incarnation: 3, Base: 4}))
	read("a.3.1", "shard:/x", 5)
	read("", "shard:/loose1", 5)
	ok(d.Record(journal.RecordSealed, &journal.DecidedRecord{Tx: "a.3.1"}))
	read("", "shard:/loose2", 6)
	read("a.3.2", "shard:/y", 7)
	ok(d.Record(journal.RecordDecided, &journal.DecidedRecord{Tx: "a.3.1", State: "committed", Seq: 9, Final: true}))
	before := d.Ledger
	if d.Journal.Size < 100 {
		t.Fatalf("the journal has %d bytes", d.Journal.Size)
	}
	ok(d.Close()) // rewrites: the limit is one byte
	d = open()
	after := d.Ledger
	if len(after.Pending) != 4 || len(before.Pending) != 4 || after.Joined != before.Joined {
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

// Two processes cannot have one journal.
func TestJournalLock(t *testing.T) {
	dir := t.TempDir()
	log := newLog()
	start(t, "a", log.Door(), func(c *setup) { c.DataDir = dir })
	second := launch(t, "a", log.Door(), nil, func(c *setup) { c.DataDir = dir })
	<-second.done
	if err := second.stop(); !errors.Is(err, journal.ErrJournalLocked) {
		t.Fatalf("the second one: %v", err)
	}
}

// A read that the journal does not take is not answered; once the disk has room again it is.
func TestReadNeedsTheJournal(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		f := &fault{in: -1}
		log := newLog()
		r := startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Open = f.open })
		once := client.New(r.URL(), r.Token(), client.WithTries(1))
		t.Cleanup(once.Close)
		ctx := background(t)
		must(once.Put(ctx, "shard:/x", []byte("secret"), client.WriteOptions{}))(t)
		tx := must(once.Begin(ctx, client.BeginOptions{}))(t)
		f.arm(0, cause, 5)
		_, err := tx.Read(ctx, "shard:/x")
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != api.CodeJournal || p.Status != 503 || !p.SafeSameKey {
			t.Fatalf("read under %v: %v", cause, err)
		}
		if _, err := once.Get(ctx, "shard:/x"); !errors.As(err, &p) || p.Code != api.CodeJournal {
			t.Fatalf("loose read under %v: %v", cause, err)
		}
		f.arm(-1, nil, 0)
		if got := must(tx.Read(ctx, "shard:/x"))(t); string(got.Content) != "secret" {
			t.Fatalf("read %+v", got)
		}
	}
}

var _ io.Writer = faulty{}
