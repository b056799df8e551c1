package sidecar

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

const maxKeyBytes = 255

// keys remembers the answers of requests that carried an Idempotency-Key: in memory, bounded, for a while.
type keys struct {
	most  int
	bytes int64
	age   time.Duration
	now   func() time.Time

	mu    sync.Mutex
	size  int64
	byKey map[string]*keyed
	order []*keyed // oldest first
}

// keyed is one key's request.
type keyed struct {
	key     string
	request [sha256.Size]byte
	at      time.Time
	running bool
	answer  *reply // nil while running, or when the answer may change
	slot    txSlot
}

// txSlot keeps the transaction or the tool call that a request has made, so that the same request makes no other.
type txSlot struct {
	mu   sync.Mutex
	tx   sequencer.TxID
	call *issued
	seen *api.Receipt // of a call that is a read or a write of the transaction: it is nowhere else
}

// keep notes the receipt of such a call.
func (s *txSlot) keep(r *api.Receipt) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = r
}

// kept is the receipt that was noted; nil: none.
func (s *txSlot) kept() *api.Receipt {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// calls notes the tool call that the request makes; nil: it was not made after all.
func (s *txSlot) calls(i *issued) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = i
}

// called is the tool call that the request has made; nil: none yet.
func (s *txSlot) called() *issued {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call
}

func (s *txSlot) get() sequencer.TxID {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tx
}

func (s *txSlot) set(id sequencer.TxID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx = id
}

func newKeys(l Limits, now func() time.Time) *keys {
	return &keys{most: l.IdempotencyKeys, bytes: l.IdempotencyBytes, age: l.IdempotencyAge, now: now,
		byKey: map[string]*keyed{}}
}

// keyed runs a request once per Idempotency-Key. A request with a key is finished even when its client goes away, so
// that the client can come back for the answer.
func (s *Sidecar) keyed(c *call, route *route) (*reply, error) {
	key := c.request.Header.Get("Idempotency-Key")
	if key == "" || route.method == http.MethodGet {
		return s.run(c, c.request.Context(), route)
	}
	if err := validKey(key); err != nil {
		return nil, err
	}
	entry, err := s.keys.enter(key, fingerprint(c))
	if err != nil {
		return nil, err
	}
	if entry.answer != nil {
		again := *entry.answer
		again.header = map[string]string{"Idempotency-Replayed": "true"}
		for k, v := range entry.answer.header {
			again.header[k] = v
		}
		return &again, nil
	}
	c.slot = &entry.slot
	out, err := s.run(c, context.WithoutCancel(c.request.Context()), route)
	if err != nil {
		out = problemReply(err)
	}
	s.keys.leave(entry, out)
	return out, nil
}

func validKey(key string) error {
	if len(key) > maxKeyBytes {
		return problem(codeBadRequest, "the Idempotency-Key has more than %d characters", maxKeyBytes)
	}
	for _, c := range key {
		if c < ' ' || c > '~' {
			return problem(codeBadRequest, "the Idempotency-Key has a character that is not printable ASCII")
		}
	}
	return nil
}

// fingerprint tells requests apart: what they ask for, not how they travel.
func fingerprint(c *call) (sum [sha256.Size]byte) {
	h := sha256.New()
	r := c.request
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"),
		r.Header.Get("If-Match"), r.Header.Get("If-None-Match")} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.Write(c.body)
	h.Sum(sum[:0])
	return sum
}

var errKeysFull = errors.New("every remembered Idempotency-Key belongs to a request under way")

// enter finds a key's answer, or lets the caller work out one.
func (k *keys) enter(key string, request [sha256.Size]byte) (*keyed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	if e := k.byKey[key]; e != nil {
		switch {
		case e.request != request:
			return nil, problem(codeKeyReused, "this key came with another request before: use a new key for a new request")
		case e.running:
			return nil, problem(codeKeyInFlight, "the first request with this key is under way: ask again")
		}
		e.running = e.answer == nil
		return e, nil
	}
	if len(k.order) >= k.most {
		return nil, problem(codeBusy, "%v", errKeysFull)
	}
	e := &keyed{key: key, request: request, at: k.now(), running: true}
	k.byKey[key] = e
	k.order = append(k.order, e)
	return e, nil
}

// leave keeps the answer, unless the same request may well be answered otherwise when it comes again.
func (k *keys) leave(e *keyed, out *reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.running = false
	p, refused := out.value.(*api.Problem)
	if refused && p.SafeSameKey || out.status >= http.StatusInternalServerError || out.status == http.StatusAccepted {
		return
	}
	e.answer = out
	k.size += e.bytes()
	k.forget()
}

func (e *keyed) bytes() int64 {
	if e.answer == nil {
		return 0
	}
	return int64(len(e.answer.raw)) + 1024
}

// forget drops old keys, then the oldest ones beyond the bounds; never one of a request under way.
func (k *keys) forget() {
	now := k.now()
	for range len(k.order) {
		e := k.order[0]
		if now.Sub(e.at) <= k.age && len(k.order) < k.most && k.size <= k.bytes {
			return
		}
		k.order = k.order[1:]
		if e.running {
			k.order = append(k.order, e)
			continue
		}
		k.size -= e.bytes()
		delete(k.byKey, e.key)
	}
}
