package sidecar

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// recordKey is the kind of journal records that say what became of a request with an Idempotency-Key; the last one of
// a key counts.
const recordKey = 'K'

// maxKeyRecord bounds such a record. What is larger is written without the answer: the key is known all the same.
const maxKeyRecord = maxRecord / 2

// keyRecord is a key as the journal has it.
type keyRecord struct {
	Key     string
	Request []byte
	AtMs    int64
	Tx      sequencer.TxID    `json:",omitempty"` // that the request has made
	Fresh   bool              `json:",omitempty"`
	Seen    *api.Receipt      `json:",omitempty"`
	Done    bool              `json:",omitempty"`
	Status  int               `json:",omitempty"` // of the answer; zero: it is not kept
	Header  map[string]string `json:",omitempty"`
	Media   string            `json:",omitempty"`
	Body    json.RawMessage   `json:",omitempty"`
}

// keyring is what a journal's ledger has of keys: what was read at the start, until somebody keeps them.
type keyring struct {
	read map[string]*keyRecord
	keys keyKeeper // nil until then
}

// keyKeeper keeps keys: a rewritten journal asks it for their records.
type keyKeeper interface {
	records() ([]journalRecord, error)
}

// keeper is the journal as the keys use it.
type keeper interface {
	// takeKeys gives what the journal has of keys to whom keeps them from now on.
	takeKeys(to keyKeeper) map[string]*keyRecord
	// keepKey adds a record.
	keepKey(body []byte) error
}

// takeKeys is part of keeper.
func (d *delivery) takeKeys(to keyKeeper) map[string]*keyRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	read := d.ledger.keys.read
	d.ledger.keys = keyring{keys: to}
	return read
}

// keepKey is part of keeper.
func (d *delivery) keepKey(body []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keep(recordKey, body)
}

// apply adds a record.
func (r *keyring) apply(body []byte) error {
	one := &keyRecord{}
	if err := json.Unmarshal(body, one); err != nil {
		return err
	}
	if len(one.Request) != sha256.Size {
		return fmt.Errorf("a key with a request's hash of %d bytes", len(one.Request))
	}
	if r.read == nil {
		r.read = map[string]*keyRecord{}
	}
	r.read[one.Key] = one
	return nil
}

// records are those that a rewritten journal still needs.
func (r *keyring) records() ([]journalRecord, error) {
	if r.keys == nil {
		return nil, nil // no journal is rewritten before its keys have been taken over
	}
	return r.keys.records()
}

// open takes over what a journal says of keys, and keeps the journal up to date from now on.
func (k *keys) open(j keeper) {
	read := j.takeKeys(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.journal = j
	var list []*keyed
	for _, r := range read {
		e := &keyed{key: r.Key, at: time.UnixMilli(r.AtMs), lasts: true, done: r.Done}
		copy(e.request[:], r.Request)
		e.slot.tx, e.slot.fresh, e.slot.seen, e.slot.told = r.Tx, r.Fresh, r.Seen, r.Done
		if r.Status != 0 {
			e.answer = &answer{Status: r.Status, Header: r.Header, Media: r.Media, Body: r.Body}
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

// save journals what is known of a key's request.
func (k *keys) save(e *keyed) error {
	k.mu.Lock()
	body, err := e.record()
	k.mu.Unlock()
	if err != nil {
		return err
	}
	return k.journal.keepKey(body)
}

// records are the keys that a restart must know, oldest first.
func (k *keys) records() ([]journalRecord, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var out []journalRecord
	for _, e := range k.order {
		if !e.lasts || !e.done && e.slot.get() == "" {
			continue // it has made nothing: the request may be made again
		}
		body, err := e.record()
		if err != nil {
			return nil, err
		}
		out = append(out, journalRecord{recordKey, body})
	}
	return out, nil
}

// record is the entry as the journal has it; keys.mu is held.
func (e *keyed) record() ([]byte, error) {
	e.slot.mu.Lock()
	r := keyRecord{Key: e.key, Request: e.request[:], AtMs: e.at.UnixMilli(), Tx: e.slot.tx, Fresh: e.slot.fresh,
		Seen: e.slot.seen, Done: e.done}
	e.slot.mu.Unlock()
	bare := r
	bare.Seen = nil
	if e.answer != nil {
		r.Seen = nil // it is in the answer
		r.Status, r.Header, r.Media, r.Body = e.answer.Status, e.answer.Header, e.answer.Media, e.answer.Body
	}
	body, err := json.Marshal(&r)
	if err == nil && len(body) > maxKeyRecord {
		body, err = json.Marshal(&bare)
	}
	if err != nil {
		return nil, fmt.Errorf("encode a journal record: %w", err)
	}
	return body, nil
}
