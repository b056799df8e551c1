package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

func committed(log *memlog.Log) (out []*sequencer.Outcome) {
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeCommitted {
			out = append(out, o)
		}
	}
	return out
}

// Of two transactions that have both read x and y and each write one of them, one commits. In every mode.
func TestWriteSkew(t *testing.T) {
	const pairs = 120
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	var both, one, none int
	for i := range pairs {
		mode := []string{"optimistic", "ordered", "locked"}[i%3]
		var group, read sync.WaitGroup
		read.Add(2)
		won := make([]bool, 2)
		for side, r := range []*rig{a, b} {
			group.Go(func() {
				d, err := skewed(ctx, r.client, mode, side, &read)
				if err != nil {
					t.Error(err)
				}
				won[side] = d.State == api.StateCommitted
			})
		}
		group.Wait()
		switch {
		case won[0] && won[1]:
			both++
		case won[0] || won[1]:
			one++
		default:
			none++
		}
	}
	t.Logf("both %d, one %d, none %d", both, one, none)
	if both > 0 || one < pairs*99/100 {
		t.Errorf("of %d pairs both committed in %d, exactly one in %d", pairs, both, one)
	}
}

// skewed reads both shards, waits until the other side has read them too, and writes one.
func skewed(ctx context.Context, c *client.Client, mode string, side int,
	read *sync.WaitGroup) (client.Decision, error) {
	tx, err := c.Begin(ctx, client.BeginOptions{Mode: mode})
	for _, scope := range []string{"shard:/x", "shard:/y"} {
		if err == nil {
			_, err = tx.Read(ctx, scope)
		}
	}
	read.Done()
	read.Wait()
	if err == nil {
		err = tx.Write(ctx, []string{"shard:/x", "shard:/y"}[side], []byte(tx.ID()), client.WriteOptions{})
	}
	var p *client.Problem
	if errors.As(err, &p) && p.Decision != nil {
		return *p.Decision, nil // wounded meanwhile
	}
	if err != nil {
		return client.Decision{}, err
	}
	return tx.Seal(ctx)
}

// Four sidecars of one workspace, two of them joining late, have the same chain hash at every seq they share.
func TestOneOrder(t *testing.T) {
	log := newLog()
	ctx := background(t)
	rigs := []*rig{start(t, "a", log.Door()), start(t, "b", log.Door())}
	write := func(n int) {
		var group sync.WaitGroup
		for i, r := range rigs {
			group.Go(func() {
				for j := range n {
					scope := fmt.Sprintf("shard:/s%d", (i+j)%3)
					if _, err := r.client.Put(ctx, scope, fmt.Appendf(nil, "%d %d", i, j), client.WriteOptions{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	write(20)
	rigs = append(rigs, start(t, "c", log.Door()))
	write(20)
	late := log.Door()
	late.LagSnapshots(7) // its snapshot shows more than it is complete for
	rigs = append(rigs, start(t, "d", late))
	write(20)
	chains := map[uint64]string{}
	shared := 0
	for _, r := range rigs {
		if err := r.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
		for from := uint64(0); ; {
			page := must(r.client.Chain(ctx, from, 100))(t)
			for _, link := range page.Links {
				if known, ok := chains[link.Seq]; ok && known != link.Chain {
					t.Fatalf("%s has another chain at %d", r.config.Agent, link.Seq)
				} else if ok {
					shared++
				}
				chains[link.Seq] = link.Chain
				from = link.Seq + 1
			}
			if from > page.Seq {
				break
			}
		}
		for i := range 3 {
			scope := sequencer.Scope(fmt.Sprintf("shard:/s%d", i))
			mine, _ := r.view.Read(scope)
			theirs, _ := rigs[0].view.Read(scope)
			if mine.Version != theirs.Version || string(mine.Content) != string(theirs.Content) {
				t.Fatalf("%s shows %s otherwise", r.config.Agent, scope)
			}
		}
	}
	if uint64(len(chains)) != uint64(log.Seq())+1 || shared < int(log.Seq()) {
		t.Fatalf("%d chain hashes of %d decisions, %d shared", len(chains), log.Seq(), shared)
	}
}

// A decision that does not follow from its predecessors stops the sidecar with an error that says so.
func TestBrokenChain(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	if err := log.Corrupt(2); err != nil {
		t.Fatal(err)
	}
	door := log.Door()
	door.LagSnapshots(2)
	b := launch(t, "b", door, nil)
	<-b.done
	if err := b.stop(); !errors.Is(err, view.ErrChain) {
		t.Fatalf("it ended with %v", err)
	}
}

// Lost connections, lost answers and silent event topics change nothing but the time it takes. Every read and write is
// published once, with contiguous indexes.
func TestFaultyLog(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	reads := 0
	for i := range 30 {
		switch i % 5 {
		case 1:
			door.FailAppends(2)
		case 2:
			door.LoseAnswers(2)
		case 3:
			door.Drop()
		case 4:
			door.Silence(i%2 == 0)
		}
		mode := []string{"optimistic", "ordered", "locked"}[i%3]
		tx := must(a.client.Begin(ctx, client.BeginOptions{Mode: mode}))(t)
		must(tx.Read(ctx, "shard:/x"))(t)
		reads++
		if err := tx.Write(ctx, "shard:/x", fmt.Appendf(nil, "%d", i), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
			t.Fatalf("%d in %s: %+v", i, mode, d)
		}
	}
	door.Silence(false)
	if n := len(committed(log)); n != 30 {
		t.Fatalf("%d commits of 30", n)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	for _, in := range log.Intents() {
		if in.Tx != "" && in.N != 1 {
			t.Errorf("%s: what was repeated got another number", in.ID())
		}
	}
	seen := map[uint64]*topology.Event{}
	kinds := map[topology.EventKind]int{}
	for _, ev := range log.Events() {
		if seen[ev.Index] != nil {
			t.Fatalf("index %d twice", ev.Index)
		}
		seen[ev.Index] = ev
		kinds[ev.Kind]++
	}
	for i := range uint64(len(seen)) {
		if seen[i+1] == nil {
			t.Fatalf("index %d of %d is missing", i+1, len(seen))
		}
	}
	if kinds[topology.EventRead] != reads || kinds[topology.EventWrite] != 30 || door.FailedEvents() == 0 {
		t.Fatalf("events %v, %d refused", kinds, door.FailedEvents())
	}
}
