package hostile

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// World is what the senders of one workspace's log know of it: from the decisions alone, as sidecars do. It draws
// intents that make sense, and mutates them. Equal seeds that see equal decisions draw equal intents.
type World struct {
	rng   *rand.Rand
	logic uint32

	seq      sequencer.Seq
	time     sequencer.Tick
	tick     uint64 // the number of the next tick
	rules    sequencer.Rules
	sidecars []sidecar
	txs      []*knownTx // the latest ones, in order of appearance
	byID     map[sequencer.TxID]*knownTx
	n        map[string]uint32 // the last number by incarnation, transaction and kind
	gen      uint64            // of the last registration
	fresh    int
	joins    int
	past     []*sequencer.Intent // some that were drawn before
	queue    []*sequencer.Intent // what comes next
}

type sidecar struct {
	agent       string
	incarnation sequencer.Seq
}

// knownTx is what is known of a transaction.
type knownTx struct {
	id          sequencer.TxID
	agent       string
	incarnation sequencer.Seq
	owner       sequencer.Seq
	group       string
	sealed      bool
	decided     bool
	committed   bool
	final       bool
	waits       bool
	turn        bool
	footprint   sequencer.Hash
	holds       []sequencer.Hold
	touches     uint32
}

// maxKnown is how many transactions are kept in mind.
const maxKnown = 48

// NewWorld begins a workspace whose first join asks for a logic.
func NewWorld(seed uint64, logic uint32) *World {
	return &World{rng: rand.New(rand.NewPCG(seed, uint64(logic))), logic: logic, rules: sequencer.DefaultRules(),
		byID: map[sequencer.TxID]*knownTx{}, n: map[string]uint32{}}
}

// See takes note of a decision.
func (w *World) See(o *sequencer.Outcome) {
	w.seq, w.time = o.Seq, o.Time
	switch o.Kind {
	case sequencer.OutcomeJoined:
		w.sidecars = append(w.sidecars, sidecar{o.Agent, o.Incarnation})
		if o.Rules != nil { // the log's first join says the logic
			w.rules = *o.Rules
		}
	case sequencer.OutcomeLeaseEnded:
		w.sidecars = slices.DeleteFunc(w.sidecars, func(s sidecar) bool { return s.incarnation == o.Incarnation })
		for _, t := range w.txs {
			if t.owner == o.Incarnation {
				t.owner = 0
			}
		}
	case sequencer.OutcomeRules:
		w.rules = *o.Rules
	}
	if o.Tx != "" {
		w.seeTx(o)
	}
}

// Ticks says which tick comes next: no decision does.
func (w *World) Ticks(next sequencer.TickMark) { w.tick = next.N }

func (w *World) seeTx(o *sequencer.Outcome) {
	t := w.byID[o.Tx]
	if t == nil {
		if o.Kind == sequencer.OutcomeRefused {
			return
		}
		t = &knownTx{id: o.Tx, agent: o.Agent, incarnation: o.Incarnation, owner: o.Incarnation, group: o.Group}
		w.txs, w.byID[o.Tx] = append(w.txs, t), t
		if len(w.txs) > maxKnown {
			delete(w.byID, w.txs[0].id)
			w.txs = slices.Delete(w.txs, 0, 1)
		}
	}
	t.holds = append(t.holds, o.Added...)
	t.holds = slices.DeleteFunc(t.holds, func(h sequencer.Hold) bool { return slices.Contains(o.Ended, h) })
	t.final = t.final || o.Final
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		t.waits, t.footprint = true, o.Footprint
		t.sealed = t.sealed || o.Footprint != sequencer.Hash{}
	case sequencer.OutcomeGranted, sequencer.OutcomeRefused:
		t.waits = false
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		t.decided, t.committed, t.waits = true, o.Kind == sequencer.OutcomeCommitted, false
	case sequencer.OutcomeRetracting:
		t.final, t.owner = false, o.Incarnation
	case sequencer.OutcomeTurn:
		t.turn = true
	case sequencer.OutcomeAdopted:
		t.owner = o.Incarnation
	}
}

// live is a live sidecar, mostly; the zero one when there is none.
func (w *World) live() sidecar {
	if len(w.sidecars) == 0 {
		return sidecar{agent: "a1"}
	}
	return w.sidecars[w.rng.IntN(len(w.sidecars))]
}

// of is the sidecar of an incarnation, or any live one.
func (w *World) of(incarnation sequencer.Seq) sidecar {
	for _, s := range w.sidecars {
		if s.incarnation == incarnation {
			return s
		}
	}
	return w.live()
}

// one draws a transaction that fits, rather a late one; nil when there is none.
func (w *World) one(fits func(*knownTx) bool) *knownTx {
	var list []*knownTx
	for _, t := range w.txs {
		if fits(t) {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1-min(w.rng.IntN(len(list)), w.rng.IntN(len(list)))]
}

func (w *World) rarely(k int) bool { return w.rng.IntN(k) == 0 }

func pick[T any](w *World, list ...T) T { return list[w.rng.IntN(len(list))] }

// newID is a name that no transaction had, rarely a long one.
func (w *World) newID() sequencer.TxID {
	w.fresh++
	return sequencer.TxID(fmt.Sprintf("T%d%s", w.fresh, w.tail()))
}

// tail makes a name long, rarely: of letters, or of what JSON has to escape.
func (w *World) tail() string {
	if !w.rarely(25) {
		return ""
	}
	return text(pick(w, "x", "\x01", "é", "\u2028"), w.rng.IntN(maxNameBytes-16))
}

// number is the next one of an intent.
func (w *World) number(in *sequencer.Intent) uint32 {
	key := fmt.Sprint(in.Incarnation, in.Tx, in.Kind)
	w.n[key]++
	return w.n[key]
}

// text repeats a piece up to so many bytes.
func text(piece string, bytes int) string {
	out := make([]byte, 0, max(bytes, 0))
	for len(out)+len(piece) <= bytes {
		out = append(out, piece...)
	}
	return string(out)
}
