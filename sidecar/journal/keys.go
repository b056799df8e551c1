package journal

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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

// JSON is the record as it is written: json.Marshal would make the same, at five times the cost. Each request with a
// key has two of them, and a journal that is rewritten one for each key, while the agent waits.
func (r *KeyRecord) JSON() ([]byte, error) {
	if len(r.Body) > 0 && !json.Valid(r.Body) {
		return nil, errors.New("encode a journal record: an answer that is not JSON") // no start could read it
	}
	b := make([]byte, 0, 256+len(r.Key)+len(r.Body))
	b = appendText(append(b, `{"Key":`...), r.Key)
	b = append(base64.StdEncoding.AppendEncode(append(b, `,"Request":"`...), r.Request), '"')
	b = strconv.AppendInt(append(b, `,"AtMs":`...), r.AtMs, 10)
	if r.Tx != "" {
		b = appendText(append(b, `,"Tx":`...), string(r.Tx))
	}
	if r.Fresh {
		b = append(b, `,"Fresh":true`...)
	}
	if r.Seen != nil {
		seen, err := json.Marshal(r.Seen)
		if err != nil {
			return nil, fmt.Errorf("encode a journal record: %w", err)
		}
		b = append(append(b, `,"Seen":`...), seen...)
	}
	if r.Done {
		b = append(b, `,"Done":true`...)
	}
	if r.Status != 0 {
		b = strconv.AppendInt(append(b, `,"Status":`...), int64(r.Status), 10)
	}
	begin := `,"Header":{`
	for name, value := range r.Header {
		b = appendText(append(appendText(append(b, begin...), name), ':'), value)
		begin = `,`
	}
	if len(r.Header) > 0 {
		b = append(b, '}')
	}
	if r.Media != "" {
		b = appendText(append(b, `,"Media":`...), r.Media)
	}
	if len(r.Body) > 0 {
		b = append(append(b, `,"Body":`...), r.Body...)
	}
	return append(b, '}'), nil
}

// appendText adds a JSON string.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a string never fails
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// keyring is what a journal's ledger has of keys: what was read at the start, until a KeyKeeper has it.
type keyring struct {
	read map[string]*KeyRecord
	keys KeyKeeper // nil until then
}

// KeyKeeper keeps keys: a rewritten journal asks it for their records, a session for the transactions of requests that
// are not answered.
type KeyKeeper interface {
	Records() ([]Entry, error)
	Unanswered() map[sequencer.TxID]bool
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
	return d.keep(RecordKey, body, false)
}

// RestKey is part of keeper.
func (d *Journal) RestKey(body []byte) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.keep(RecordKey, body, true)
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

// unanswered are the transactions of requests that are not answered: what one has left says whether it may begin anew.
func (r *keyring) unanswered() map[sequencer.TxID]bool {
	if r.keys != nil {
		return r.keys.Unanswered()
	}
	out := map[sequencer.TxID]bool{}
	for _, one := range r.read {
		if !one.Done {
			out[one.Tx] = true
		}
	}
	return out
}

// Records are those that a rewritten journal still needs.
func (r *keyring) Records() ([]Entry, error) {
	if r.keys == nil {
		return nil, nil // no journal is rewritten before its keys have been taken over
	}
	return r.keys.Records()
}
