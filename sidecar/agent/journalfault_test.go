package agent

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// failsAt is a journal's file whose n-th and following writes and syncs fail, a while long.
type failsAt struct {
	journal.Disk
	count    *atomic.Int64
	from, to int64
	part     bool // a failed write leaves half of it
}

func (f *failsAt) fails() bool {
	n := f.count.Add(1)
	return n >= f.from && n < f.to
}

func (f *failsAt) Write(p []byte) (int, error) {
	switch {
	case !f.fails():
		return f.Disk.Write(p)
	case !f.part:
		return 0, syscall.ENOSPC
	}
	n, err := f.Disk.Write(p[:len(p)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f *failsAt) Sync() error {
	if f.fails() {
		return syscall.EIO
	}
	return f.Disk.Sync()
}

// Whichever write of a journal fails, of a start that goes on without the former one and of the work after it: the
// log's decision is what happens in the world, once, or it is on the list.
func TestEveryJournalWriteFails(t *testing.T) {
	const writes = 40 // of a run without faults there are about 32
	for _, many := range []int64{1, 3} {
		for at := int64(1); at <= writes; at += many {
			t.Run(fmt.Sprintf("%d from %d", many, at), func(t *testing.T) {
				t.Parallel()
				failsFrom(t, at, many, at%2 == many/2)
			})
		}
	}
}

func failsFrom(t *testing.T, from, many int64, commit bool) {
	ctx, log, world := background(t), newLog(), newSink()
	former := start(t, "a", log.Door(), quick(world))
	var count atomic.Int64
	open := func(path string) (journal.Disk, error) {
		file, err := journal.OpenOS(path)
		return &failsAt{Disk: file, count: &count, from: from, to: from + many, part: from%3 == 0}, err
	}
	a := launch(t, "a", log.Door(), func(c *setup) { c.Machine.Open = open }, quick(world)) // owes a 410, and waits
	_ = former.stop()
	select {
	case <-a.Ready():
	case <-a.done:
		return // it did not start, and said why
	case <-ctx.Done():
		t.Fatal("neither ready nor ended")
	}
	once := client.New(a.URL(), a.Token(), client.WithTries(1))
	defer once.Close()
	tx, err := once.Begin(ctx, client.BeginOptions{})
	for range 8 { // the 410, and the journal
		if err == nil {
			break
		}
		tx, err = once.Begin(ctx, client.BeginOptions{})
	}
	if err != nil {
		t.Fatalf("no transaction begins: %v", err)
	}
	_, e1 := tx.Effect(ctx, "unset", at{At: "x"}, client.EffectOptions{})
	_, e2 := tx.Effect(ctx, "unmail", at{At: "y"}, client.EffectOptions{})
	_, e3 := tx.Effect(ctx, "set", at{At: "z"}, client.EffectOptions{})
	if errors.Join(e1, e2, e3) == nil && commit {
		if _, err := tx.Seal(ctx); err != nil {
			_ = tx.Abort(ctx, "the seal failed")
		}
	} else {
		_ = tx.Abort(ctx, "it went wrong")
	}
	_ = a.stop() // before the copy is taken: else both could release
	start(t, "a", log.Door(), quick(world), inFolder(a.copied(t, nil))).aloneNow()
	judgeFault(t, log.Until(ctx, func() bool { return settledOrUnknown(log.Outcomes(), tx.ID()) }), world.world(),
		committedIn(log.Outcomes(), tx.ID()), len(log.Residue()))
}

// settledOrUnknown reports whether the log knows nothing of a transaction, or that it is final.
func settledOrUnknown(all []*sequencer.Outcome, id string) bool {
	known := false
	for _, o := range all {
		if string(o.Tx) == id {
			if known = true; o.Final {
				return true
			}
		}
	}
	return !known
}

func committedIn(all []*sequencer.Outcome, id string) bool {
	return hasOutcome(all, sequencer.OutcomeCommitted, id)
}

// hasOutcome reports whether a log says this of a transaction.
func hasOutcome(all []*sequencer.Outcome, kind sequencer.OutcomeKind, id string) bool {
	return slices.ContainsFunc(all, func(o *sequencer.Outcome) bool { return o.Kind == kind && string(o.Tx) == id })
}

// hasEvent reports whether the events topic has this of a transaction.
func hasEvent(all []*topology.Event, kind topology.EventKind, id string) bool {
	return slices.ContainsFunc(all, func(e *topology.Event) bool { return e.Kind == kind && string(e.Tx) == id })
}

func judgeFault(t *testing.T, never error, world []string, committed bool, residue int) {
	t.Helper()
	if never != nil {
		t.Fatalf("never final: %v, %q", never, world)
	}
	count := func(what string) (n int) {
		for _, w := range world {
			if w == what {
				n++
			}
		}
		return n
	}
	for x, tool := range map[string]string{"x": "unset ", "z": "set "} {
		made, back := count(tool+x), count("back "+x)
		if committed && (made != 1 || back != 0) || !committed && made > back && residue == 0 {
			t.Errorf("committed %v, %d residues, %q", committed, residue, world)
		}
	}
	if mails := count("unmail y"); mails > 1 || mails == 1 && !committed || mails == 0 && committed && residue == 0 {
		t.Errorf("committed %v, %d residues, %q", committed, residue, world)
	}
}
