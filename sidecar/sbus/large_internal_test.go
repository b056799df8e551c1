package sbus

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// parted is a shard with a large content.
type parted struct {
	moving
	looks int // at the content
	fails int // at which look; zero: at none
}

func (p *parted) Give(context.Context, string, string) (*api.Counted, func(), error) {
	parts := func(_ context.Context, take func([]byte) error) error {
		p.looks++
		if err := take([]byte("half")); err != nil || p.looks == p.fails {
			gone := api.Problemf(api.CodeLog, "lost")
			gone.Retryable = false
			return cmp.Or(err, error(gone))
		}
		return take([]byte("less"))
	}
	return &api.Counted{Scope: "shard:/x", Seq: 1, Size: 8, Parts: parts}, func() {}, nil
}

// A content that is lost once its answer has begun ends the connection, and an answer never ends early; so many are
// passed on at a time, and further ones are refused in the end.
func TestLargeAnswers(t *testing.T) {
	get := func(method string, fails int, busy bool) (w *httptest.ResponseRecorder, looks int, broken any) {
		p := &parted{fails: fails}
		f := New(Config{Shards: p, Resets: p, WaitMost: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		for busy && len(f.reading) < readAtOnce {
			f.reading <- struct{}{}
		}
		defer func() {
			if broken = recover(); !busy && len(f.reading) > 0 {
				t.Error("its place is not free again")
			}
		}()
		w = httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(method, "/shard/x", nil))
		return w, p.looks, nil
	}
	if w, looks, broken := get("GET", 0, false); w.Code != 200 || looks != 2 || broken != nil {
		t.Errorf("whole: %d, seen %d times, %v", w.Code, looks, broken)
	}
	if w, looks, _ := get("GET", 1, false); w.Code != 503 || looks != 1 || w.Header().Get("Retry-After") != "" {
		t.Errorf("lost: %d, seen %d times, %v", w.Code, looks, w.Header())
	}
	if _, _, broken := get("GET", 2, false); broken != http.ErrAbortHandler {
		t.Errorf("lost behind its beginning: %v", broken)
	}
	if w, looks, _ := get("GET", 0, true); w.Code != 503 || looks != 0 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("one more: %d, seen %d times, %v", w.Code, looks, w.Header())
	}
	if w, looks, _ := get("HEAD", 0, false); w.Code != 200 || looks != 1 {
		t.Errorf("HEAD: %d, seen %d times", w.Code, looks)
	}
}

// An answer with a large content does not take it into memory again, and only so many rollbacks hold one.
func TestLargeIsHeldOnce(t *testing.T) {
	if partsOf(&api.Counted{Body: make([]byte, sequencer.ChunkBytes+1)}) == nil {
		t.Error("a large body is written as one")
	}
	f := New(Config{})
	one, _, _ := (&parted{}).Give(t.Context(), "", "")
	for range wholeAtOnce {
		body, _, err := f.wholeOf(t.Context(), one)
		if err != nil || string(body) != "halfless" {
			t.Errorf("%q, %v", body, err)
		}
	}
	if len(f.holding) != wholeAtOnce {
		t.Errorf("%d contents are held, in %d places", wholeAtOnce, len(f.holding))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := f.wholeOf(ended, one); api.AsProblem(err).Code != api.CodeBusy {
		t.Errorf("one more: %v", err)
	}
}
