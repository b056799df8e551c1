package journal

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// maxMark bounds a mark with its answer: one that is larger is not kept, and its call is then unknown.
const maxMark = maxRecord / 4

// Issue journals a tool call before it runs or is held.
func (d *Journal) Issue(p *gate.Progress) error { return d.Record(RecordEffect, p) }

// Stamp journals a mark. That a call which can be made only once is about to be made is on the disk when it returns:
// not even the crash of the machine may let it be made again. So is that a call is about to be undone: what undoes it
// may take no key.
func (d *Journal) Stamp(m gate.Mark) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	if len(body) > maxMark {
		return fmt.Errorf("%w: the answer has %d bytes, at most %d are kept", ErrJournal, len(body), maxMark)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.write(RecordMark, body); err != nil {
		return err
	}
	switch m.Step {
	case gate.StepUndoing:
		return d.sync()
	case gate.StepStarted:
		if p := d.Ledger.progress(m.Tx, m.Index); p != nil && p.Key == "" {
			return d.sync()
		}
	}
	return nil
}

// sync returns once what was journalled is on the disk; d.mu is held.
func (d *Journal) sync() error {
	if d.Journal == nil {
		return nil
	}
	return d.Journal.sync()
}

// progress is what is known of one call; nil: nothing.
func (l *Ledger) progress(id sequencer.TxID, index uint32) *gate.Progress {
	t := l.Txs[id]
	if t == nil {
		return nil
	}
	if at := t.effect(index); at >= 0 {
		return t.effects[at]
	}
	return nil
}

// Call is what is known of one tool call.
func (d *Journal) Call(id sequencer.TxID, index uint32) (gate.Progress, bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if p := d.Ledger.progress(id, index); p != nil {
		return *p, true
	}
	return gate.Progress{}, false
}

// Effects are a transaction's tool calls as the journal has them; known is false when it has nothing of it.
func (d *Journal) Effects(id sequencer.TxID) (out []gate.Progress, known bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Ledger.effectsOf(id)
}

// Calls are a transaction's tool calls, as effects has them; shared: others have settled it, so the log may know more
// of them.
func (d *Journal) Calls(id sequencer.TxID) (out []gate.Progress, known, shared bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	out, known = d.Ledger.effectsOf(id)
	return out, known, known && d.Ledger.Txs[id].Shared
}

// ContentEvent is an event that keeps a content, and the reference to it, whose place is known once it is published.
func ContentEvent(body []byte) (*topology.Event, *sequencer.Ref) {
	sum, size := sequencer.Hash(sha256.Sum256(body)), int64(len(body))
	return &topology.Event{Kind: topology.EventContent, Content: body, Size: size,
		SHA256: sum}, &sequencer.Ref{Size: size, SHA256: sum}
}
