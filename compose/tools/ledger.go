package main

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of the ledger.
const (
	maxCharges = 50_000 // that are kept at least
	maxBody    = 64 << 10
)

// charge is one thing that the ledger did.
type charge struct {
	ID          int             `json:"id"`
	Key         string          `json:"key"`
	Compensates string          `json:"compensates,omitempty"`
	Nothing     bool            `json:"nothing,omitempty"` // Compensates was never used, and was only to be refused
	Path        string          `json:"path"`
	Body        json.RawMessage `json:"body"`
	At          time.Time       `json:"at"`
}

// ledger does each Idempotency-Key once: the same again gets the first answer, another body under it 422. A key that
// a request names in Hence-Compensates is refused with 410 from then on, also when it never came; with
// Hence-Forbid-Only nothing is refunded then.
type ledger struct {
	token string
	mux   *http.ServeMux

	mu    sync.Mutex
	kept  *journal[charge]
	byKey map[string]charge
	never map[string]bool // keys that were compensated
}

func newLedger(kept *journal[charge], token string) *ledger {
	l := &ledger{token: token, kept: kept, mux: http.NewServeMux()}
	l.index()
	l.mux.HandleFunc("POST /", l.post)
	l.mux.HandleFunc("GET /keys/{key}", l.lookUp)
	l.mux.HandleFunc("GET /entries", l.list)
	return l
}

// index reads the journal's records again.
func (l *ledger) index() {
	l.byKey, l.never = map[string]charge{}, map[string]bool{}
	for _, c := range l.kept.records {
		l.note(c)
	}
}

func (l *ledger) note(c charge) {
	l.byKey[c.Key] = c
	if c.Compensates != "" {
		l.never[c.Compensates] = true
	}
}

// ServeHTTP answers those who show the token.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if l.token != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(l.token)) != 1 {
		say(w, http.StatusUnauthorized, problem("show the ledger's token"))
		return
	}
	l.mux.ServeHTTP(w, r)
}

func (l *ledger) post(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	c := charge{Key: r.Header.Get("Idempotency-Key"), Compensates: r.Header.Get("Hence-Compensates"),
		Path: r.URL.Path, Body: body, At: time.Now().UTC()}
	if c.Key == "" {
		say(w, http.StatusBadRequest, problem("send an Idempotency-Key"))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Header.Get("Hence-Forbid-Only") != "" {
		_, came := l.byKey[c.Compensates]
		c.Nothing = !came
	}
	former, done := l.byKey[c.Key]
	switch {
	case l.never[c.Key]:
		say(w, http.StatusGone, problem("this key was compensated"))
	case done && !bytes.Equal(former.Body, c.Body):
		say(w, http.StatusUnprocessableEntity, problem("this key was used for another body"))
	case done:
		say(w, http.StatusOK, former)
	default:
		l.do(w, c)
	}
}

// do keeps a new charge and answers it. The lock is held.
func (l *ledger) do(w http.ResponseWriter, c charge) {
	c.ID = 1
	if n := len(l.kept.records); n > 0 {
		c.ID = l.kept.records[n-1].ID + 1
	}
	forgot, err := l.kept.add(c)
	if err != nil {
		slog.Error("failed to record a charge: it is not made", "error", err)
		say(w, http.StatusServiceUnavailable, problem("it cannot be kept"))
		return
	}
	l.note(c)
	if forgot {
		l.index()
	}
	slog.Info("done", "path", c.Path, "key", c.Key, "compensates", c.Compensates)
	say(w, http.StatusCreated, c)
}

func (l *ledger) lookUp(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.byKey[r.PathValue("key")]; ok {
		say(w, http.StatusOK, c)
		return
	}
	say(w, http.StatusNotFound, problem("this key was never used"))
}

func (l *ledger) list(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	say(w, http.StatusOK, l.kept.records)
}

// readJSON reads a bounded body in its shortest form, or answers what is wrong with it.
func readJSON(w http.ResponseWriter, r *http.Request) (json.RawMessage, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var compact bytes.Buffer
	if err != nil || json.Compact(&compact, body) != nil {
		say(w, http.StatusBadRequest, problem("send one JSON value of at most 64 KiB"))
		return nil, false
	}
	return compact.Bytes(), true
}

func problem(text string) map[string]string { return map[string]string{"error": text} }

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // its reader may have gone
}
