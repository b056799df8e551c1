package journal

import (
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// applyEffect adds a tool call, or a mark on one. A transaction that the journal does not know is one that is settled
// here for somebody else.
func (l *Ledger) applyEffect(kind byte, body []byte) error {
	if kind == RecordEffect {
		p := &gate.Progress{}
		if err := json.Unmarshal(body, p); err != nil {
			return err
		}
		p.Args = present(p.Args)
		tidy(p.Answer)
		tidy(p.UndoDone)
		t := l.Txs[p.Tx]
		if t == nil {
			t = &TxRecord{Tx: p.Tx, Incarnation: p.Incarnation, Foreign: true}
			l.Txs[p.Tx] = t
		}
		t.put(p)
		return nil
	}
	var m gate.Mark
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	tidy(m.Answer)
	t := l.Txs[m.Tx]
	if t == nil {
		return nil // settled since
	}
	at := t.effect(m.Index)
	switch {
	case at < 0 && len(t.effects) == 0:
		return nil // settled since
	case at < 0:
		return fmt.Errorf("a mark on call %d of %q, which was never made", m.Index, m.Tx)
	case t.withdraws(at, m):
		t.effects = t.effects[:at] // its touch was refused: the next call takes its place
	default:
		t.effects[at].Apply(m)
	}
	return nil
}

// present is a value as it was before it was written down: none is written as null, and read as four bytes.
func present(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// tidy does that to an answer.
func tidy(a *gate.Answer) {
	if a != nil {
		a.Result, a.Saved = present(a.Result), present(a.Saved)
	}
}

// withdraws reports whether a mark takes an eager call back whose touch was refused: the next call has its index.
func (t *TxRecord) withdraws(at int, m gate.Mark) bool {
	p := t.effects[at]
	return m.Step == gate.StepDropped && p.Tool.Class.Eager() && !p.Started && at == len(t.effects)-1
}

// put adds a call. One that never ran is replaced by the next with its index.
func (t *TxRecord) put(p *gate.Progress) {
	if at := t.effect(p.Index); at >= 0 {
		t.effects[at] = p
		return
	}
	t.effects = append(t.effects, p)
}

func (t *TxRecord) effect(index uint32) int {
	for i, p := range t.effects {
		if p.Index == index {
			return i
		}
	}
	return -1
}

// settle: nothing is left to do for the transaction.
func (l *Ledger) settle(t *TxRecord, clean bool) {
	t.strip()
	switch {
	case t.Foreign:
		delete(l.Txs, t.Tx)
	case t.Decided != nil:
		t.Decided.Final, t.Decided.Clean = true, t.Decided.Clean || clean
	}
}

// strip keeps of the calls of a settled transaction what a list of them shows. A retraction finds the rest in the log.
func (t *TxRecord) strip() {
	for i, p := range t.effects {
		light := *p
		light.Args = nil
		if p.Answer != nil {
			answer := *p.Answer
			if answer.Saved = nil; len(answer.Result) > InlineArgs {
				answer.Result = nil
			}
			light.Answer = &answer
		}
		t.effects[i] = &light
	}
}

// effects are a transaction's tool calls with what is known of them, in issuance order; known is false when the
// ledger has nothing of the transaction.
func (l *Ledger) effectsOf(id sequencer.TxID) (out []gate.Progress, known bool) {
	t := l.Txs[id]
	if t == nil {
		return nil, false
	}
	for _, p := range t.effects {
		out = append(out, *p)
	}
	return out, true
}
