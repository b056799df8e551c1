package agent

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
)

// faulty fails the n-th write with an error, after a part of it.
type faulty struct {
	journal.Disk
	fault *fault
}

type fault struct {
	mu   sync.Mutex
	in   int // writes until it strikes; negative: never
	err  error
	part int
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
	n, err := f.Disk.Write(p[:min(f.fault.part, len(p))])
	return n, errors.Join(f.fault.err, err)
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
