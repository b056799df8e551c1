package once

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
)

// ask enters a request and answers it, as a face does; it fails the test where that is refused.
func ask(t *testing.T, k *Keys, key string, answer *Answer) (replayed *Answer) {
	t.Helper()
	e, replayed, err := k.Enter(key, [32]byte{1}, true)
	if err != nil {
		t.Fatal(err)
	}
	if replayed == nil {
		k.Leave(e, answer)
	}
	return replayed
}

// codeOf is the code of the problem that a key is refused with; empty: it is not.
func codeOf(k *Keys, key string, request [32]byte) string {
	e, _, err := k.Enter(key, request, true)
	if err != nil {
		return api.AsProblem(err).Code
	}
	k.Leave(e, nil)
	return ""
}

// What is remembered is bounded in number, in bytes and in age. A request under way is never dropped: where all are,
// a further one is told to come again.
func TestBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	k := New(4, 4096, time.Hour, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	for i := range 20 {
		ask(t, k, strings.Repeat("k", i+1), &Answer{Status: http.StatusOK, Body: make([]byte, 600)})
		if n := len(k.order); n > 4 || n != len(k.byKey) || k.size > k.bytes {
			t.Fatalf("%d keys are remembered, %d in the index, %d bytes", n, len(k.byKey), k.size)
		}
	}
	now = now.Add(2 * time.Hour)
	running := make([]*keyed, 4)
	for i := range running {
		var err error
		if running[i], _, err = k.Enter(fmt.Sprint(i), [32]byte{}, true); err != nil {
			t.Fatal(err)
		}
	}
	if code := codeOf(k, "fifth", [32]byte{}); code != api.CodeBusy {
		t.Errorf("a fifth request beside four that are under way: %q", code)
	}
	for _, e := range running {
		k.Leave(e, nil)
	}
	if code := codeOf(k, "fifth", [32]byte{}); code != "" {
		t.Errorf("once they have ended: %q", code)
	}
}

// A key belongs to one request, and to one try of it at a time. A request that was answered and whose answer was
// dropped is not made again, unless what it made says the answer.
func TestEnter(t *testing.T) {
	k := New(100, 2*keyBytes, time.Hour, time.Now, slog.New(slog.DiscardHandler))
	e, _, err := k.Enter("k", [32]byte{1}, true)
	if err != nil {
		t.Fatal(err)
	}
	for want, request := range map[string][32]byte{api.CodeKeyInFlight: {1}, api.CodeKeyReused: {2}} {
		if code := codeOf(k, "k", request); code != want {
			t.Errorf("while it is under way: %q, want %q", code, want)
		}
	}
	k.Leave(e, nil)
	if code := codeOf(k, "k", [32]byte{1}); code != "" {
		t.Errorf("after a try without an answer: %q", code)
	}
	if ask(t, k, "k", &Answer{Status: 200}) != nil || ask(t, k, "k", nil) == nil {
		t.Error("the answer is not kept")
	}
	e, _, _ = k.Enter("large", [32]byte{1}, true)
	k.Leave(e, &Answer{Status: 200, Body: make([]byte, 3*keyBytes)})
	if code := codeOf(k, "large", [32]byte{1}); code != api.CodeForgotten {
		t.Errorf("an answer that there was no room for: %q", code)
	}
	e, _, _ = k.Enter("made", [32]byte{1}, true)
	e.Slot.Set("a.1.1")
	k.Leave(e, &Answer{Status: 200, Body: make([]byte, 3*keyBytes)})
	e, _, err = k.Enter("made", [32]byte{1}, true)
	if err != nil || e.Slot.Get() != "a.1.1" || e.Slot.MayBeginAnew() {
		t.Errorf("with the transaction that it has made: %v, %+v", err, e)
	}
}

// A slot that nothing is kept in answers as a request without a key does.
func TestNoSlot(t *testing.T) {
	var s *Slot
	s.Set("a.1.1")
	s.Calls(1)
	s.Keep(&api.Receipt{})
	if s.Get() != "" || s.Called() != nil || s.Kept() != nil || !s.Creates(true) || s.Creates(false) || s.Save() != nil {
		t.Error("no slot keeps something")
	}
}

// A start has the keys of the former process that still count, with their answers and with what they had made; a
// journal that is rewritten keeps those, and no others.
func TestKeysInARewrittenJournal(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	quiet := slog.New(slog.DiscardHandler)
	start := func(rewrite int64) (*Keys, *journal.Journal) {
		t.Helper()
		j := journal.New(nil, 8192, rewrite, quiet)
		of := journal.Of{Log: "log", Workspace: "default", Agent: "a"}
		never := func(*journal.Ledger, time.Time) (bool, error) { return false, nil }
		if err := j.Open(dir, of, journal.OpenOS, never); err != nil {
			t.Fatal(err)
		}
		k := New(100, 1<<20, time.Hour, func() time.Time { return now }, quiet)
		k.Open(j)
		return k, j
	}
	k, j := start(1)
	ask(t, k, "old", &Answer{Status: 200, Body: []byte("{}")})
	now = now.Add(30 * time.Minute)
	ask(t, k, "young", &Answer{Status: 201, Media: "m", Body: []byte("{}"), Header: map[string]string{"Location": "x"}})
	e, _, _ := k.Enter("killed", [32]byte{1}, true)
	e.Slot.Set("a.1.1")
	if err := e.Slot.Save(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Enter("nothing made", [32]byte{1}, true); err != nil {
		t.Fatal(err)
	}
	now = now.Add(31 * time.Minute)
	if err := j.Close(); err != nil { // rewrites: the limit is one byte
		t.Fatal(err)
	}
	k, j = start(1 << 20)
	defer j.Close()
	if len(k.order) != 2 {
		t.Errorf("%d keys are left of four, want the young one and the one of a transaction", len(k.order))
	}
	got := ask(t, k, "young", nil)
	if got == nil || got.Status != 201 || got.Header["Location"] != "x" || got.Media != "m" {
		t.Errorf("the young key's answer is %+v", got)
	}
	e, got, err := k.Enter("killed", [32]byte{1}, true)
	if err != nil || got != nil || e.Slot.Get() != "a.1.1" || !e.Slot.MayBeginAnew() {
		t.Errorf("the request that was killed: %+v %v, %+v", got, err, e)
	}
	if code := codeOf(k, "killed", [32]byte{2}); code != api.CodeKeyReused {
		t.Errorf("another request with its key: %q", code)
	}
}

// A key's name is what may stand in a header.
func TestValidKey(t *testing.T) {
	for key, valid := range map[string]bool{"k": true, strings.Repeat("k", 255): true, strings.Repeat("k", 256): false,
		"a\nb": false, "ü": false, "a b~": true} {
		if err := ValidKey(key); (err == nil) != valid {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// The bound on bytes is one on memory.
func TestHeap(t *testing.T) {
	k := New(32768, 16<<20, time.Hour, time.Now, slog.New(slog.DiscardHandler))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 64 {
		e, _, err := k.Enter(fmt.Sprint(i), [32]byte{byte(i)}, false)
		if err != nil {
			t.Fatal(err)
		}
		whole := json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`) // what a sink may answer
		k.Leave(e, &Answer{Status: http.StatusOK, Body: whole})
	}
	if kept := heap() - before; kept > 3*k.bytes/2 {
		t.Errorf("%d MiB are kept, %d may be", kept>>20, k.bytes>>20)
	}
	runtime.KeepAlive(k)
}
