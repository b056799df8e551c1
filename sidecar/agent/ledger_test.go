package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
)

// A rewritten journal has the calls of settled transactions without their arguments. They come back from the log when
// such a one is retracted, also after a restart.
func TestRewrittenJournalOfSettledCalls(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.JournalBytes = 1 })
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	d := a.session.delivery
	if d.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	settled := func() bool {
		p, _ := a.session.progress(sequencer.TxID(tx.ID()), 0)
		return p.Args == nil
	}
	if err := a.session.eventually(ctx, settled); err != nil {
		t.Fatal(err)
	}
	d.Mu.Lock()
	d.Shortly = 0
	d.Mu.Unlock()
	if err := d.Mark(); err != nil {
		t.Fatal(err)
	}
	journal := a.die(t, door)
	if !strings.Contains(string(journal), `"Args":null`) {
		t.Error("the journal was not rewritten")
	}
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	retractNow(t, log, b, tx.ID())
	retracted(t, log, tx.ID())
	world.expect(t, "set x", "back x")
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("the list of residues: %+v", list)
	}
}

// A transaction in which an agent may have acted by itself is not forgotten before it is settled.
func TestForgetKeepsOwnActs(t *testing.T) {
	for name, own := range map[string]*journal.OwnRecord{
		"handed over": {Scopes: []sequencer.Scope{"order:/1"}},
		"told":        {Told: &sequencer.Settle{NoneElse: true}},
	} {
		l := journal.NewLedger()
		put := func(kind byte, v any) {
			t.Helper()
			body := must(json.Marshal(v))(t)
			if err := l.Apply(append([]byte{kind}, body...)); err != nil {
				t.Fatal(err)
			}
		}
		own.Tx = "a.3.1"
		put(journal.RecordBegun, &journal.TxRecord{Tx: own.Tx, Incarnation: 3})
		put(journal.RecordOwn, own)
		put(journal.RecordDecided, &journal.DecidedRecord{Tx: own.Tx, State: api.StateAborted})
		for i := range journal.KeptDecided + 8 {
			id := sequencer.TxID(fmt.Sprintf("a.3.%d", i+2))
			put(journal.RecordBegun, &journal.TxRecord{Tx: id, Incarnation: 3})
			put(journal.RecordDecided, &journal.DecidedRecord{Tx: id, State: api.StateAborted})
		}
		if t1 := l.Txs[own.Tx]; t1 == nil || len(t1.Own) != len(own.Scopes) || t1.Told != own.Told && t1.Told == nil {
			t.Errorf("%s: %+v", name, t1)
		}
		if len(l.Decided) != journal.KeptDecided {
			t.Errorf("%s: %d are kept", name, len(l.Decided))
		}
		put(journal.RecordSettled, &journal.DecidedRecord{Tx: own.Tx})
		for i := range journal.KeptDecided {
			id := sequencer.TxID(fmt.Sprintf("a.4.%d", i))
			put(journal.RecordBegun, &journal.TxRecord{Tx: id, Incarnation: 4})
			put(journal.RecordDecided, &journal.DecidedRecord{Tx: id, State: api.StateAborted})
		}
		if slices.Contains(l.Decided, own.Tx) || l.Txs[own.Tx] != nil {
			t.Errorf("%s: it is settled, and still kept", name)
		}
	}
}

// TestLedgerKeepsClean holds that a restart knows of a settlement that it left no residue; an older record says
// nothing of it.
func TestLedgerKeepsClean(t *testing.T) {
	for _, clean := range []bool{true, false} {
		l := journal.NewLedger()
		l.Begin(&journal.TxRecord{Tx: "a.1.1", Incarnation: 1})
		l.Decide(l.Txs["a.1.1"], &journal.DecidedRecord{Tx: "a.1.1", State: "committed", Seq: 2})
		if err := l.Move(journal.RecordSettled, &journal.DecidedRecord{Tx: "a.1.1", Clean: clean}); err != nil {
			t.Fatal(err)
		}
		again := journal.NewLedger()
		for _, r := range must(l.Records())(t) {
			if err := again.Apply(append([]byte{r.Kind}, r.Body...)); err != nil {
				t.Fatal(err)
			}
		}
		if d := again.Txs["a.1.1"].Decided; !d.Final || d.Clean != clean {
			t.Errorf("clean %v: read again it is %+v", clean, d)
		}
	}
}
