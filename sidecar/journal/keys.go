package journal

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// RecordKey is the kind of journal records that say what became of a request with an Idempotency-Key; the last one of
// a key counts.
const RecordKey = 'K'

// MaxKeyRecord bounds such a record. What is larger is written without the answer: the key is known all the same.
const MaxKeyRecord = maxRecord / 2

// KeyRecord is a key as the journal has it.
type KeyRecord struct {
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
	read map[string]*KeyRecord
	keys KeyKeeper // nil until then
}

// KeyKeeper keeps keys: a rewritten journal asks it for their records.
type KeyKeeper interface {
	Records() ([]Entry, error)
}

// TakeKeys is part of keeper.
func (d *Journal) TakeKeys(to KeyKeeper) map[string]*KeyRecord {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	read := d.Ledger.keys.read
	d.Ledger.keys = keyring{keys: to}
	return read
}

// KeepKey is part of keeper.
func (d *Journal) KeepKey(body []byte) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.keep(RecordKey, body)
}

// apply adds a record.
func (r *keyring) apply(body []byte) error {
	one := &KeyRecord{}
	if err := json.Unmarshal(body, one); err != nil {
		return err
	}
	if len(one.Request) != sha256.Size {
		return fmt.Errorf("a key with a request's hash of %d bytes", len(one.Request))
	}
	if r.read == nil {
		r.read = map[string]*KeyRecord{}
	}
	r.read[one.Key] = one
	return nil
}

// Records are those that a rewritten journal still needs.
func (r *keyring) Records() ([]Entry, error) {
	if r.keys == nil {
		return nil, nil // no journal is rewritten before its keys have been taken over
	}
	return r.keys.Records()
}
