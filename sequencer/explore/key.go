package explore

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/hence-dev/hence/sequencer"
)

// keyer turns states into keys: two states of one key have the same future. A key has 64 bits: among ten million
// states the chance that any two share one by accident is below one in a hundred thousand.
type keyer struct {
	m    *model
	seed maphash.Seed
	buf  []byte
}

func newKeyer(m *model) *keyer {
	return &keyer{m: m, seed: maphash.MakeSeed(), buf: make([]byte, 0, 512)}
}

func (k *keyer) key(w *world, st *sequencer.State) uint64 {
	if k.m.exact() {
		return k.exact(w, st)
	}
	return maphash.Bytes(k.seed, k.canonical(w, st))
}

// exact tells states apart by everything but the number of records and what hashes over it.
func (k *keyer) exact(w *world, st *sequencer.State) uint64 {
	c, plain := *w, *st
	c.steps, plain.Chain = 0, sequencer.Hash{}
	h := plain.Hash()
	return maphash.Comparable(k.seed, c) ^ binary.LittleEndian.Uint64(h[:])
}

// canonical writes what the future depends on. While no watermark moves the floor, seqs and epochs are only ever
// compared: a seq counts for how many writes lie below it, an epoch for its rank. What is final blocks nothing.
func (k *keyer) canonical(w *world, st *sequencer.State) []byte {
	m := k.m
	b := append(k.buf[:0], w.chosen, w.branch)
	writes := w.writes()
	if m.retracts {
		k.events(w, st, &writes)
	}
	for i := range len(m.cfg.Scopes) {
		b = append(b, byte(w.value[i]), byte(w.serial[i]), writes.rank(w.last[i]), w.shard[i].n)
		for _, v := range w.shard[i].list[:w.shard[i].n] {
			b = append(b, writes.rank(v.at), byte(v.value))
		}
	}
	epochs := k.epochs(w, st)
	for who := range m.cfg.Agents {
		a := &w.agents[who]
		b = append(b, bits(a.done, a.whole), a.pc, a.crashes)
		if m.reader(w, who) {
			b = append(b, writes.rank(a.view))
		}
		if a.done && !m.retracts && !m.watches() {
			continue
		}
		for slot := range a.txs {
			t := &a.txs[slot]
			b = k.txn(b, who, t, &writes)
			b = k.decided(b, record(st, m.txID(who, t)), epochs)
		}
		b = append(b, rankOf(epochs, k.inherited(w, st, who)))
	}
	if m.retracts {
		b = k.remembered(b, w, st, &writes)
	}
	if m.watches() {
		b = k.watched(b, w, st)
	}
	k.buf = b
	return b
}

// txn writes one transaction as the model knows it.
func (k *keyer) txn(b []byte, who int, t *txn, writes *seqs) []byte {
	b = append(b, byte(t.phase), k.attempt(who, t),
		bits(t.seen, t.waiting, t.retry, t.conflict, t.begun, t.sealed, t.judged, t.stuck),
		bits(t.asked, t.cone, t.turn, t.loose, t.strayed), t.asks)
	if t.phase == phaseNone && t.nReads == 0 && !t.waiting {
		return b
	}
	b = append(b, t.touches, t.write, t.read, t.askWrite, t.askRead, t.writing, t.nEffects)
	for _, e := range t.effects[:t.nEffects] {
		b = append(b, e.scope, byte(e.state)|bits(e.sent)<<7, byte(e.undo))
	}
	if k.m.reads[who] {
		b = append(b, writes.rank(t.grantAt), writes.rank(t.decision))
	}
	if t.phase >= phaseCommitted && !(k.m.retracts && t.stands()) {
		return b
	}
	b = append(b, t.nReads)
	for _, r := range t.reads[:t.nReads] {
		b = append(b, r.scope, bits(r.swap, r.pending, r.own), byte(r.value), writes.rank(r.view))
	}
	return b
}

// attempt: who may try for ever has no use for the number of the try; two that follow each other leave different
// values.
func (k *keyer) attempt(who int, t *txn) byte {
	if last := k.m.cfg.Agents[who].LockAfter; k.m.cfg.Agents[who].Retries < 0 && int(t.attempt) > last {
		return byte(last) + (t.attempt-byte(last))&1
	}
	return t.attempt
}

// decided writes one transaction as the fold knows it.
func (k *keyer) decided(b []byte, t *sequencer.TxState, epochs []sequencer.Epoch) []byte {
	if t == nil || t.Phase >= sequencer.PhaseFinalCommitted {
		return append(b, 0)
	}
	b = append(b, 1+byte(t.Phase), rankOf(epochs, t.Epoch), byte(len(t.Grants)), byte(len(t.Gated)),
		byte(len(t.GrantedNs)), bits(t.Waiting != nil, t.Seal != nil, t.Succeeded))
	for _, g := range t.Grants {
		b = append(b, k.scope(g.Scope), byte(g.Access))
	}
	if t.Waiting != nil {
		b = append(b, byte(len(t.Waiting.Wants)))
		for _, w := range t.Waiting.Wants {
			b = append(b, k.scope(w.Scope), byte(w.Access))
		}
	}
	return b
}

func (k *keyer) scope(s sequencer.Scope) byte { return byte(k.m.scope(s)) }

// inherited is the epoch that the agent's next begin would keep.
func (k *keyer) inherited(w *world, st *sequencer.State, who int) sequencer.Epoch {
	t := w.agents[who].txs[0]
	if t.attempt == 0 || t.phase != phaseNone || k.m.mode(who, &t) == sequencer.Optimistic {
		return 0
	}
	t.attempt--
	if p := record(st, k.m.txID(who, &t)); p != nil && p.Code == sequencer.CodeWounded && !p.Succeeded {
		return p.Epoch
	}
	return 0
}

// epochs are those that can still be compared.
func (k *keyer) epochs(w *world, st *sequencer.State) []sequencer.Epoch {
	var out []sequencer.Epoch
	for i := range st.Txs {
		if t := &st.Txs[i]; t.Phase < sequencer.PhaseFinalCommitted {
			out = append(out, t.Epoch)
		}
	}
	for who := range k.m.cfg.Agents {
		out = append(out, k.inherited(w, st, who))
	}
	return out
}

func rankOf(epochs []sequencer.Epoch, e sequencer.Epoch) byte {
	n := byte(0)
	for i, x := range epochs {
		if x < e && !contains(epochs[:i], x) {
			n++
		}
	}
	return n
}

func contains(epochs []sequencer.Epoch, e sequencer.Epoch) bool {
	for _, x := range epochs {
		if x == e {
			return true
		}
	}
	return false
}

func record(st *sequencer.State, id sequencer.TxID) *sequencer.TxState {
	for i := range st.Txs {
		if st.Txs[i].ID == id {
			return &st.Txs[i]
		}
	}
	return nil
}

func bits(flags ...bool) byte {
	var b byte
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return b
}
