// Package once makes a request with an Idempotency-Key happen once: it remembers the key with the request's hash, what
// the request has made (Slot) and the answer.
//
// Guarantees: of two requests with one key at a time one runs; another request under a key that is in use is refused;
// an answer that was kept is given again, also after a start where the journal has it; Slot.Save returns before
// anything that the request makes can leave. Memory is bounded in keys, in bytes and in time: beyond the bytes answers
// go before keys, so that a repetition is refused rather than done again.
//
// It knows no HTTP and no transaction: whether a repetition may begin again is the agent's to say.
package once

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

const maxKeyBytes = 255

// Keys remembers requests that carried an Idempotency-Key, with their answers: bounded, for a while. What a restart
// must know of them is in the journal.
type Keys struct {
	most  int
	bytes int64
	age   time.Duration
	now   func() time.Time
	log   *slog.Logger

	journal keeper // nil until open

	mu      sync.Mutex
	size    int64 // Invariant: the sum of the entries' sizes
	byKey   map[string]*keyed
	order   []*keyed // oldest first
	answers []*keyed // those with an answer, in the order in which they were given
	forgets bool     // keys were dropped before their time, and that was said
}

// keyed is one key's request. It is guarded by Keys.mu.
type keyed struct {
	key     string
	request [sha256.Size]byte
	at      time.Time
	lasts   bool // its answer counts after a restart, too
	running bool
	done    bool    // it was answered
	answer  *Answer // nil: it was not, or may be answered otherwise, or there was no room for it
	size    int64
	Slot    Slot
}

// keyBytes is what a key costs beside its texts and its answer.
const keyBytes = 256

// Answer is what a request was answered.
type Answer struct {
	Status int
	Header map[string]string
	Media  string
	Body   []byte
}

// Slot keeps the transaction or the tool call that a request has made, so that the same request makes no other.
type Slot struct {
	journal func(rests bool) error // nil: nothing of it outlives the process

	mu    sync.Mutex
	dirty bool // the journal does not say yet what is here
	told  bool // the request was answered before, so what it made is not made again
	tx    sequencer.TxID
	fresh bool         // the shard that it writes was not there before
	call  any          // the tool call that the agent has made of it
	seen  *api.Receipt // of a call that is a read or a write of the transaction: it is nowhere else
}

// Keep notes the receipt of such a call.
func (s *Slot) Keep(r *api.Receipt) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.dirty = r, true
}

// Kept is the receipt that was noted; nil: none.
func (s *Slot) Kept() *api.Receipt {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Calls notes the tool call that the request makes; nil: it was not made after all.
func (s *Slot) Calls(i any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = i
}

// Called is the tool call that the request has made; nil: none yet.
func (s *Slot) Called() any {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call
}

// Get is the transaction that the request has made; empty: none yet.
func (s *Slot) Get() sequencer.TxID {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tx
}

// Set notes the transaction that the request has made; empty: none that counts.
func (s *Slot) Set(id sequencer.TxID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = s.dirty || s.tx != id
	if s.tx = id; id == "" { // so are what it called and read
		s.call, s.seen = nil, nil
	}
}

// Creates says whether the request makes a shard that was not there, as its first try has found it.
func (s *Slot) Creates(fresh bool) bool {
	if s == nil {
		return fresh
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx == "" {
		s.fresh = fresh
	}
	return s.fresh
}

// MayBeginAnew says whether the request may make another transaction in place of one that left nothing.
func (s *Slot) MayBeginAnew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.told
}

// Save returns once the journal says what the request has made. It is called before anything of that can leave.
func (s *Slot) Save() error { return s.save(false) }

// Rest is Save where the journal says it before the next record: for a request that records more before anything of it
// can leave.
func (s *Slot) Rest() error { return s.save(true) }

func (s *Slot) save(rests bool) error {
	if s == nil || s.journal == nil {
		return nil
	}
	s.mu.Lock()
	dirty := s.dirty
	s.mu.Unlock()
	if !dirty { // one try of a request at a time: nothing makes it dirty meanwhile
		return nil
	}
	if err := s.journal(rests); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = false
	return nil
}

// New remembers at most so many keys, bytes of answers, and for so long.
func New(most int, bytes int64, age time.Duration, now func() time.Time, log *slog.Logger) *Keys {
	return &Keys{most: most, bytes: bytes, age: age, now: now, log: log,
		byKey: map[string]*keyed{}}
}

var errKeysFull = errors.New("every remembered Idempotency-Key belongs to a request under way")

// Enter finds a key's answer, or lets the caller work out one.
func (k *Keys) Enter(key string, request [sha256.Size]byte, lasts bool) (*keyed, *Answer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	if e := k.byKey[key]; e != nil {
		switch {
		case e.request != request:
			return nil, nil, api.Problemf(api.CodeKeyReused,
				"this key came with another request before: use a new key for a new request")
		case e.running:
			return nil, nil, api.Problemf(api.CodeKeyInFlight, "the first request with this key is under way: ask again")
		case e.done && e.answer == nil && e.Slot.Get() == "":
			return nil, nil, api.Problemf(api.CodeForgotten, "the request with this key was answered, and there was "+
				"no room to keep the answer: it is not done again; look at what it was about")
		}
		e.running = e.answer == nil
		return e, e.answer, nil
	}
	if len(k.order) >= k.most {
		return nil, nil, api.Problemf(api.CodeBusy, "%v", errKeysFull)
	}
	e := &keyed{key: key, request: request, at: k.now(), lasts: lasts, running: true}
	k.add(e)
	return e, nil, nil
}

// add takes a request in; k.mu is held.
func (k *Keys) add(e *keyed) {
	if e.lasts && k.journal != nil {
		e.Slot.journal = func(rests bool) error { return k.save(e, rests) }
	}
	k.byKey[e.key] = e
	k.order = append(k.order, e)
	k.count(e)
}

// count brings what an entry costs up to date; k.mu is held.
func (k *Keys) count(e *keyed) {
	size := int64(keyBytes + len(e.key) + len(e.Slot.Get()))
	if e.answer != nil {
		size += int64(len(e.answer.Body))
	}
	if seen := e.Slot.Kept(); seen != nil {
		size += int64(len(seen.Result))
	}
	k.size += size - e.size
	e.size = size
}

// Leave keeps the answer; nil: the same request may well be answered otherwise when it comes again.
func (k *Keys) Leave(e *keyed, out *Answer) {
	k.mu.Lock()
	e.running = false
	if out != nil {
		e.done, e.answer = true, out
		e.Slot.answered()
		k.answers = append(k.answers, e)
	}
	k.count(e)
	k.forget()
	k.mu.Unlock()
	if out == nil || !e.lasts {
		return
	}
	if err := k.save(e, false); err != nil {
		k.log.Error("an answer is not in the journal: after a restart its request is answered from what it made",
			"cause", err)
	}
}

// answered notes that the request has its answer: what that was made of is kept no longer.
func (s *Slot) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.call, s.seen = true, nil, nil
}

// forget drops old keys. Beyond the bound on bytes it drops answers first, the oldest ones, and keeps their keys: a
// repetition is not done again. Then, and beyond the bound on their number, it drops the oldest keys; never one of a
// request under way. k.mu is held.
func (k *Keys) forget() {
	for k.size > k.bytes && len(k.answers) > 0 {
		e := k.answers[0]
		k.answers = k.answers[1:]
		e.answer = nil
		k.count(e)
	}
	now := k.now()
	for range len(k.order) {
		e := k.order[0]
		early := now.Sub(e.at) <= k.age
		if early && len(k.order) < k.most && k.size <= k.bytes {
			return
		}
		k.order = k.order[1:]
		if e.running {
			k.order = append(k.order, e)
			continue
		}
		if early && !k.forgets {
			k.forgets = true
			k.log.Warn("keys of requests are forgotten before their time: too many came", "keys", len(k.order))
		}
		k.drop(e)
	}
}

// drop forgets a key that is no longer in order; k.mu is held.
func (k *Keys) drop(e *keyed) {
	e.answer = nil
	k.size -= e.size
	delete(k.byKey, e.key)
	switch at := slices.Index(k.answers, e); at {
	case -1:
	case 0: // as nearly always, so no other is moved
		k.answers = k.answers[1:]
	default:
		k.answers = slices.Delete(k.answers, at, at+1)
	}
}

// ValidKey refuses a key that is not at most 255 printable ASCII characters, with a problem.
func ValidKey(key string) error {
	if len(key) > maxKeyBytes {
		return api.Problemf(api.CodeBadRequest, "the Idempotency-Key has more than %d characters", maxKeyBytes)
	}
	for _, c := range key {
		if c < ' ' || c > '~' {
			return api.Problemf(api.CodeBadRequest, "the Idempotency-Key has a character that is not printable ASCII")
		}
	}
	return nil
}

// Call says on whose behalf the agent is asked.
type Call struct {
	Session string // the conversation that the request belongs to; empty: the agent's default one
	Slot    *Slot  // what earlier tries of the same request have made; nil: it is not tried again
}
