package agent

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// While a residue is tried again it is neither accepted nor tried a second time; afterwards there is nothing to
// accept. Requests of one sidecar are refused at once, another sidecar's wait for what the residue moves.
func TestAcceptDuringRetry(t *testing.T) {
	for _, two := range []bool{false, true} {
		t.Run(map[bool]string{false: "one sidecar", true: "two sidecars"}[two], func(t *testing.T) {
			log, world := newLog(), newSink()
			a := start(t, "a", log.Door(), quick(world))
			b := a
			if two {
				b = start(t, "b", log.Door(), quick(world))
			}
			ctx := background(t)
			tx := openResidue(t, a, world)
			gateway := make(chan struct{})
			world.set(func() { world.block["unmail"] = gateway })
			tried, other := make(chan error, 1), make(chan error, 2)
			go func() {
				_, err := a.client.RetryResidue(ctx, tx, 0, true)
				tried <- err
			}()
			<-world.entered
			want := api.CodeResidueBusy
			if two {
				want = api.CodeNotResidue
			}
			once := client.New(b.URL(), b.Token(), client.WithTries(1))
			defer once.Close()
			go func() {
				_, err := once.AcceptResidue(ctx, tx, 0, "taken")
				other <- err
			}()
			if !two { // it must not wait for the try
				if err := <-other; problemIn(t, err).Code != want {
					t.Errorf("accepted meanwhile: %v", err)
				}
				if _, err := once.RetryResidue(ctx, tx, 0, true); problemIn(t, err).Code != want {
					t.Errorf("tried meanwhile: %v", err)
				}
			}
			if two {
				waits := func() bool {
					return slices.ContainsFunc(log.Outcomes(), func(o *sequencer.Outcome) bool {
						return o.Kind == sequencer.OutcomeWaiting && o.Agent == "b"
					})
				}
				if err := log.Until(ctx, waits); err != nil {
					t.Fatalf("the other sidecar's acceptance does not wait: %v", err)
				}
			}
			close(gateway)
			if err := <-tried; err != nil {
				t.Error(err)
			}
			if two {
				if err := <-other; problemIn(t, err).Code != want {
					t.Errorf("accepted meanwhile: %v", err)
				}
			}
			world.expect(t, "unmail x")
			if r := log.Residue()[0]; r.State != topology.ResidueResolved || r.Note != "" {
				t.Errorf("the list: %+v", r)
			}
		})
	}
}

// Of an acceptance and a try that begin together, by two sidecars, exactly one counts, and the list has what it did.
func TestAcceptAgainstRetry(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
	ctx := background(t)
	wins := map[topology.ResidueState]int{}
	for round := range 12 {
		tx := openResidue(t, a, world)
		before := len(world.world())
		var accepted, tried error
		var both sync.WaitGroup
		first, second := a, b
		if round%2 == 1 {
			first, second = b, a
		}
		both.Go(func() { _, tried = first.client.RetryResidue(ctx, tx, 0, true) })
		both.Go(func() { _, accepted = second.client.AcceptResidue(ctx, tx, 0, "taken") })
		both.Wait()
		at := slices.IndexFunc(log.Residue(), func(r topology.Residue) bool { return string(r.Tx) == tx })
		r, calls := log.Residue()[at], len(world.world())-before
		wins[r.State]++
		switch {
		case (accepted == nil) == (tried == nil):
			t.Errorf("accepted: %v, tried again: %v", accepted, tried)
		case tried == nil && (r.State != topology.ResidueResolved || calls != 1 || r.Note != ""):
			t.Errorf("it was tried again (%d calls), and the list says %+v", calls, r)
		case accepted == nil && (r.State != topology.ResidueAccepted || calls != 0 || r.Note != "taken"):
			t.Errorf("it was accepted (%d calls), and the list says %+v", calls, r)
		}
	}
	t.Logf("how they ended: %v", wins)
}

// Of two settlements of one transaction that say something else the first counts, and the other is refused; the same
// said again is answered.
func TestSettlementToldOnce(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	for range 8 {
		tx := open(ctx, t, a, client.BeginOptions{})
		touch(ctx, t, tx, writes("order:/1"))
		if err := tx.Abort(ctx, "test"); err != nil {
			t.Fatal(err)
		}
		results := []string{"clean", "leaked"}
		said := make([]error, len(results))
		var all sync.WaitGroup
		for i, result := range results {
			all.Go(func() {
				_, said[i] = tx.Settle(ctx, []client.SettledEffect{{Scopes: []string{"order:/1"}, Result: result}}, true)
			})
		}
		all.Wait()
		a.final(ctx, t, tx.ID())
		left := slices.ContainsFunc(log.Residue(), func(r topology.Residue) bool { return string(r.Tx) == tx.ID() })
		lost := 0
		for i, err := range said {
			var p *client.Problem
			if err != nil && (!errors.As(err, &p) || p.Code != api.CodeSettlementTold && p.Code != api.CodeNothingOwed) {
				t.Errorf("%s: %v", results[i], err)
			}
			if err != nil {
				lost++
			}
		}
		if lost != 1 || left != (said[1] == nil) {
			t.Errorf("clean: %v, leaked: %v, on the list of residues: %v", said[0], said[1], left)
		}
	}
}

// What the agent says after its settlement has gone on without it is refused: it would not count.
func TestSettlementToldLate(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	touch(ctx, t, tx, writes("order:/1"))
	if err := tx.Abort(ctx, "test"); err != nil {
		t.Fatal(err)
	}
	door.Hold() // once the settlement is seen it is told otherwise
	if told, err := flow(a.session, func() (*sequencer.Settle, error) {
		return a.session.settlements().NoWord(sequencer.TxID(tx.ID()), "order:/1")
	}); told == nil || err != nil {
		t.Fatalf("%+v, %v", told, err)
	}
	say := func(result string) error {
		_, err := tx.Settle(ctx, []client.SettledEffect{{Scopes: []string{"order:/1"}, Result: result}}, false)
		return err
	}
	if err := say("clean"); problemIn(t, err).Code != api.CodeSettlementTold {
		t.Errorf("said too late: %v", err)
	}
	door.Release()
	if err := say("unresolved"); err != nil && problemCode(err) != api.CodeNothingOwed {
		t.Errorf("said as it was taken: %v", err)
	}
	a.final(ctx, t, tx.ID())
	if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("the list of residues: %+v", list)
	}
}

// What an operator does through a sidecar does not take the 410 that its agent is owed.
func TestOperatorTakesNo410(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := openResidue(t, a, world)
	a.die(t, door)
	b := reborn(t, log, "a", nil, quick(world)).aloneNow()
	ctx := background(t)
	if _, err := b.client.RetryResidue(ctx, tx, 0, false); problemIn(t, err).Code != api.CodeUnkeyed {
		t.Errorf("tried again: %v", err)
	}
	for range 2 {
		if _, err := b.client.AcceptResidue(ctx, tx, 0, "seen"); problemCode(err) == api.CodeSessionLost {
			t.Errorf("accepted: %v", err)
		}
	}
	if _, err := b.client.Begin(ctx, client.BeginOptions{}); problemIn(t, err).Code != api.CodeSessionLost {
		t.Errorf("the agent begins: %v", err)
	}
}
