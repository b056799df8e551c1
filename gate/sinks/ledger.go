package sinks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// The headers that the ledger reads.
const (
	headerKey         = "Idempotency-Key"
	headerCompensates = "Hence-Compensates"
	headerForbidOnly  = "Hence-Forbid-Only"
)

// headerReplayed marks an answer that is kept under the key.
const headerReplayed = "Idempotent-Replayed"

const (
	maxBody    = 1 << 20
	maxEntries = 1 << 20
	maxWaiting = 4096 // requests of F5 that wait at one time
)

// Entry is one thing that the ledger did.
type Entry struct {
	ID          int             `json:"id"` // 1-based, in the order in which it was done
	Key         string          `json:"key,omitempty"`
	Compensates string          `json:"compensates,omitempty"`
	Nothing     bool            `json:"nothing,omitempty"` // Compensates was never used, and was only to be refused
	Path        string          `json:"path"`
	Body        json.RawMessage `json:"body"`
	At          time.Time       `json:"at"`
	Result      json.RawMessage `json:"result,omitempty"` // what LedgerOptions.Do answered
}

// Said is what a call tells its sink of itself, where the policy's body names tx, index and task: by that a sink can
// be compared with the log.
type Said struct {
	Tx    string
	Index int
	Task  string // as text, also where it is a number
}

// Said reads it from the body.
func (e *Entry) Said() (Said, error) {
	var body struct {
		Tx    string `json:"tx"`
		Index int    `json:"index"`
		Task  any    `json:"task"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return Said{}, fmt.Errorf("read entry %d of the ledger: %w: %s", e.ID, err, e.Body)
	}
	return Said{body.Tx, body.Index, fmt.Sprint(body.Task)}, nil
}

// LedgerOptions is what a ledger is made of.
type LedgerOptions struct {
	Listen  string // host:port; a free port of loopback when empty
	Faults  Faults
	KeyLess bool // it takes no keys: every request is done, also a repetition

	// Do is what a service does beyond keeping entries: it is called once for each, in their order, one at a time. It
	// must not ask the ledger.
	Do func(Entry) json.RawMessage
}

// Ledger is an HTTP service that appends what it is told: POST /any/path does it, GET /keys/{key} says whether a key
// was done (404: not), GET /entries lists everything.
//
// A key is done once: its repetition gets the first answer with 200, with another body 422. A key that a request names
// in Hence-Compensates is refused with 410 from then on, also when it never came; with Hence-Forbid-Only nothing is
// undone then. The first answer and the 410 are what it keeps under the key, and carry Idempotent-Replayed.
type Ledger struct {
	server  *http.Server
	listen  net.Listener
	serving sync.WaitGroup
	dice    *dice
	keyless bool
	does    func(Entry) json.RawMessage
	stop    context.CancelFunc
	stopped context.Context

	mu          sync.Mutex
	entries     []Entry
	byKey       map[string]int // index into entries
	compensated map[string]bool
	waiting     int
	changed     chan struct{} // closed and replaced at each new entry
}

// StartLedger listens. The caller closes it.
func StartLedger(o LedgerOptions) (*Ledger, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	listen, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("starting the ledger: %w", err)
	}
	l := &Ledger{listen: listen, dice: newDice(o.Faults), keyless: o.KeyLess, does: o.Do, byKey: map[string]int{},
		compensated: map[string]bool{}, changed: make(chan struct{})}
	l.stopped, l.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys/{key}", l.lookUp)
	mux.HandleFunc("GET /entries", l.list)
	mux.HandleFunc("POST /", l.post)
	l.server = &http.Server{Handler: l.counted(mux), ReadHeaderTimeout: 10 * time.Second}
	l.serving.Go(func() { _ = l.server.Serve(listen) }) // ends with Close
	return l, nil
}

// counted lets Close wait for requests that are under way.
func (l *Ledger) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		if l.stopped.Err() != nil {
			l.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		l.serving.Add(1)
		l.mu.Unlock()
		defer l.serving.Done()
		next.ServeHTTP(w, r)
	})
}

// URL is where it listens, without a slash at its end.
func (l *Ledger) URL() string { return "http://" + l.Addr() }

// Addr is its host:port.
func (l *Ledger) Addr() string { return l.listen.Addr().String() }

// Close stops it, requests that wait are not done, and returns when everything of it has ended.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.stop() // under the lock: no request begins from here on
	l.mu.Unlock()
	err := l.server.Close()
	l.serving.Wait()
	if err != nil {
		return fmt.Errorf("closing the ledger: %w", err)
	}
	return nil
}

// SetFaults changes what is injected from now on, and seeds the draws again.
func (l *Ledger) SetFaults(f Faults) { l.dice.set(f) }

// Injected counts the faults so far.
func (l *Ledger) Injected() Injected { return l.dice.injected() }

// Entries returns everything that was done, in order.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Duplicates is how many entries have the key of an earlier one.
func (l *Ledger) Duplicates() int {
	seen, n := map[string]bool{}, 0
	for _, e := range l.Entries() {
		if e.Key != "" && seen[e.Key] {
			n++
		}
		seen[e.Key] = true
	}
	return n
}

// Waiting is how many late requests (F5) are still to be done.
func (l *Ledger) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Settled returns once no late request waits, or why ctx ended.
func (l *Ledger) Settled(ctx context.Context) error {
	return l.until(ctx, "late requests", func() bool { return l.waiting == 0 })
}

// WaitFor returns once at least n entries are there.
func (l *Ledger) WaitFor(ctx context.Context, n int) error {
	return l.until(ctx, "entries", func() bool { return len(l.entries) >= n })
}

func (l *Ledger) until(ctx context.Context, what string, holds func() bool) error {
	for {
		l.mu.Lock()
		ok, changed := holds(), l.changed
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s of the ledger: %w", what, ctx.Err())
		}
	}
}

// order is one request as it came.
type order struct {
	key, compensates, path string
	forbidOnly             bool
	body                   json.RawMessage
}

func (l *Ledger) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || !json.Valid(body) {
		say(w, http.StatusBadRequest, map[string]string{"error": "send one JSON value of at most 1 MiB"})
		return
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		panic(fmt.Sprintf("sinks: valid JSON cannot be compacted: %v", err))
	}
	body = compact.Bytes()
	o := order{key: r.Header.Get(headerKey), compensates: r.Header.Get(headerCompensates), path: r.URL.Path, body: body,
		forbidOnly: r.Header.Get(headerForbidOnly) != ""}
	f := l.dice.draw(o.compensates != "")
	switch {
	case f.refuse, f.undo:
		say(w, l.refuseStatus(), map[string]string{"error": "out of order for a moment"})
		return
	case f.late:
		l.later(o, f)
		panic(http.ErrAbortHandler) // its sender is gone by now, or gets no answer
	}
	status, answer := l.deliver(o, f)
	if f.lose {
		panic(http.ErrAbortHandler)
	}
	if status == http.StatusGone || status == http.StatusOK {
		w.Header().Set(headerReplayed, "true")
	}
	say(w, status, answer)
}

func (l *Ledger) refuseStatus() int {
	l.dice.mu.Lock()
	defer l.dice.mu.Unlock()
	if l.dice.faults.RefuseStatus == 0 {
		return http.StatusServiceUnavailable
	}
	return l.dice.faults.RefuseStatus
}

// later does the request after the delay, whether or not its sender still waits; it returns then.
func (l *Ledger) later(o order, f drawn) {
	l.dice.mu.Lock()
	delay := l.dice.faults.Delay
	l.dice.mu.Unlock()
	l.mu.Lock()
	if l.waiting >= maxWaiting || l.stopped.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.waiting++
	l.mu.Unlock()
	l.serving.Go(func() {
		if pause.Sleep(l.stopped, delay) == nil {
			l.deliver(o, f)
		}
		l.mu.Lock()
		l.waiting--
		l.wake()
		l.mu.Unlock()
	})
	_ = pause.Sleep(l.stopped, delay) // the sender keeps its connection, without an answer
}

// deliver does a request, twice when it is a duplicate; the second answer is dropped.
func (l *Ledger) deliver(o order, f drawn) (int, any) {
	status, answer := l.do(o)
	if f.duplicate {
		l.do(o)
	}
	return status, answer
}

func (l *Ledger) do(o order) (int, any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.keyless && o.key != "" {
		if l.compensated[o.key] {
			return http.StatusGone, map[string]string{"error": "this key was compensated"}
		}
		if i, ok := l.byKey[o.key]; ok {
			if !bytes.Equal(l.entries[i].Body, o.body) {
				return http.StatusUnprocessableEntity, map[string]string{"error": "this key was used for another body"}
			}
			return http.StatusOK, l.entries[i]
		}
	}
	if len(l.entries) >= maxEntries {
		return http.StatusInsufficientStorage, map[string]string{"error": "the ledger is full"}
	}
	e := Entry{ID: len(l.entries) + 1, Key: o.key, Compensates: o.compensates, Path: o.path, Body: o.body,
		At: time.Now().UTC()}
	if o.forbidOnly {
		_, came := l.byKey[o.compensates]
		e.Nothing = !came
	}
	if l.does != nil {
		e.Result = l.does(e)
	}
	l.entries = append(l.entries, e)
	if o.key != "" {
		l.byKey[o.key] = len(l.entries) - 1
	}
	if o.compensates != "" {
		l.compensated[o.compensates] = true
	}
	l.wake()
	return http.StatusCreated, e
}

// wake tells those who wait. The lock is held.
func (l *Ledger) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Ledger) lookUp(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	i, ok := l.byKey[r.PathValue("key")]
	var e Entry
	if ok {
		e = l.entries[i]
	}
	l.mu.Unlock()
	if !ok {
		say(w, http.StatusNotFound, map[string]string{"error": "this key was never used"})
		return
	}
	say(w, http.StatusOK, e)
}

func (l *Ledger) list(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, l.Entries()) }

func say(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sinks: %T is not written as JSON: %v", v, err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a sender that hung up asks again
}
