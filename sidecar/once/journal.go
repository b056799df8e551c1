package once

import (
	"cmp"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
)

// keeper is the journal as the keys use it.
type keeper interface {
	// TakeKeys gives what the journal has of keys to whom keeps them from now on.
	TakeKeys(to journal.KeyKeeper) map[string]*journal.KeyRecord
	// KeepKey adds a record; RestKey one that the journal has before any later one.
	KeepKey(body []byte) error
	RestKey(body []byte) error
}

// Open takes over what a journal says of keys, and keeps the journal up to date from now on.
func (k *Keys) Open(j keeper) {
	read := j.TakeKeys(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.journal = j
	var list []*keyed
	for _, r := range read {
		e := &keyed{key: r.Key, at: time.UnixMilli(r.AtMs), lasts: true, done: r.Done}
		copy(e.request[:], r.Request)
		e.Slot.tx, e.Slot.fresh, e.Slot.seen, e.Slot.told = r.Tx, r.Fresh, r.Seen, r.Done
		if r.Status != 0 {
			e.answer = &Answer{Status: r.Status, Header: r.Header, Media: r.Media, Body: r.Body}
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *keyed) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key, b.key)) })
	for _, e := range list {
		k.add(e)
		if e.answer != nil {
			k.answers = append(k.answers, e)
		}
	}
	k.forget()
}

// save journals what is known of a key's request, or lets it rest there.
func (k *Keys) save(e *keyed, rests bool) error {
	k.mu.Lock()
	to := k.journal
	body, err := e.record()
	k.mu.Unlock()
	if err != nil || to == nil { // without a journal nothing outlives the process
		return err
	}
	if rests {
		return to.RestKey(body)
	}
	return to.KeepKey(body) // not under the lock: a rewriting journal asks for the keys under its own
}

// Records are the keys that a restart must know, oldest first.
func (k *Keys) Records() ([]journal.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var out []journal.Entry
	for _, e := range k.order {
		if !e.lasts || !e.done && e.Slot.Get() == "" {
			continue // it has made nothing: the request may be made again
		}
		body, err := e.record()
		if err != nil {
			return nil, err
		}
		out = append(out, journal.Entry{Kind: journal.RecordKey, Body: body})
	}
	return out, nil
}

// Unanswered are the transactions of requests that a restart must know and that have no answer yet.
func (k *Keys) Unanswered() map[sequencer.TxID]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[sequencer.TxID]bool{}
	for _, e := range k.order {
		if e.lasts && !e.done {
			out[e.Slot.Get()] = true
		}
	}
	return out
}

// record is the entry as the journal has it; Keys.mu is held.
func (e *keyed) record() ([]byte, error) {
	e.Slot.mu.Lock()
	r := journal.KeyRecord{Key: e.key, Request: e.request[:], AtMs: e.at.UnixMilli(), Tx: e.Slot.tx, Fresh: e.Slot.fresh,
		Seen: e.Slot.seen, Done: e.done}
	e.Slot.mu.Unlock()
	bare := r
	bare.Seen = nil
	if e.answer != nil {
		r.Seen = nil // it is in the answer
		r.Status, r.Header, r.Media, r.Body = e.answer.Status, e.answer.Header, e.answer.Media, e.answer.Body
	}
	body, err := r.JSON()
	if err == nil && len(body) > journal.MaxKeyRecord {
		return bare.JSON()
	}
	return body, err
}
