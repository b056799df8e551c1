package sbus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

// moving is a shard whose content others replace, whatever is merged.
type moving struct {
	Shards
	version uint64
	seen    uint64   // resets
	merged  []uint64 // the versions that merges expected
	theirs  string
	ends    func(m *moving) error // of a merge
}

func (m *moving) Resets() uint64                     { return m.seen }
func (m *moving) Reset(context.Context) (int, error) { return 0, nil }
func (m *moving) moved(was uint64) error {
	return &api.KeyedRefusal{Why: api.KeyedMoved, Was: was, Now: m.version}
}
func (m *moving) is(version uint64, s string) *api.Counted {
	return &api.Counted{Seq: 9, Version: version, Body: []byte(s)}
}

func (m *moving) FormerKeyed(_ context.Context, _ string, version uint64) (*api.Counted, error) {
	return m.is(version, "base\n"), nil
}

func (m *moving) Give(context.Context, string, string) (*api.Counted, func(), error) {
	return m.is(m.version, m.theirs), func() {}, nil
}

func (m *moving) CommitKeyed(_ context.Context, in *api.KeyedCommit) (*api.KeyedDone, error) {
	if string(in.Content) == "base\nmine\n" {
		return &api.KeyedDone{}, m.moved(in.Version)
	}
	m.merged = append(m.merged, in.Version)
	return &api.KeyedDone{Version: in.Version + 1}, m.ends(m)
}

// A commit is merged again only where the log has refused the merge before for its version, and so often; one that may
// still commit, that was refused for another reason, or that a reset lies behind, is not.
func TestMergeHookIsAskedAgainOnlyAfterARefusal(t *testing.T) {
	again := func(m *moving) error {
		m.version++
		return m.moved(m.version - 1)
	}
	for name, x := range map[string]struct {
		ends   func(*moving) error
		reset  bool // while the hook thinks
		behind bool // what stands there is no later version than the base
		theirs string
		said   string // by the hook
		asks   int
		merged string
		status int
		says   string
	}{
		"commits": {ends: func(*moving) error { return nil }, asks: 1, merged: "[7]", status: 200, says: `"merged":true`},
		"undecided": {ends: func(*moving) error { return api.Problemf(api.CodeLog, "?") }, asks: 1, merged: "[7]",
			status: 503},
		"stale": {ends: func(m *moving) error { return &api.KeyedRefusal{Why: api.KeyedStale} }, asks: 1, merged: "[7]",
			status: 409, says: "CrossShardStale"},
		"moves on":    {ends: again, asks: askTries, merged: "[7 8 9]", status: 409, says: "VersionMismatch"},
		"reset":       {ends: again, reset: true, asks: 1, merged: "[]", status: 409, says: "VersionMismatch"},
		"behind":      {behind: true, merged: "[]", status: 409, says: "VersionMismatch"},
		"half a pair": {said: `{"content":"\ud800"}`, asks: 1, merged: "[]", status: 409, says: "VersionMismatch"},
		"no text":     {theirs: "\xff", merged: "[]", status: 409, says: "VersionMismatch"},
		"by regions":  {ends: func(*moving) error { return nil }, theirs: "base\nt\n", merged: "[7]", status: 200},
	} {
		m := &moving{version: 7, theirs: "other\n", ends: x.ends}
		if x.behind {
			m.version = 2
		}
		if x.theirs != "" {
			m.theirs = x.theirs
		}
		asks := 0
		f := New(Config{Shards: m, Resets: m, Merge: true, WaitMost: time.Minute, Log: slog.New(slog.DiscardHandler),
			Ask: func(context.Context, []byte, int) ([]byte, error) {
				if asks++; x.reset {
					m.seen++
				}
				return []byte(cmp.Or(x.said, `{"content":"both"}`)), nil
			}})
		w := asked(f)
		if w.Code != x.status || asks != x.asks || fmt.Sprint(m.merged) != x.merged ||
			!strings.Contains(w.Body.String(), x.says) {
			t.Errorf("%s: %d %s, asked %d times, merges %v; want %d %s, %d, %s", name, w.Code, w.Body, asks, m.merged,
				x.status, x.says, x.asks, x.merged)
		}
	}
}

func asked(f *Face) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/commit", strings.NewReader(
		`{"key":"x","expected_version":3,"delta":"base\nmine\n","agent_id":"","additive_hint":true}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// While so many questions are open, further commits are refused at once and not asked about.
func TestMergeHookIsAskedSoManyAtOnce(t *testing.T) {
	open, answer := make(chan struct{}), make(chan struct{})
	m := &moving{version: 7, theirs: "other\n"}
	f := New(Config{Shards: m, Resets: m, WaitMost: time.Minute, Log: slog.New(slog.DiscardHandler),
		Ask: func(context.Context, []byte, int) ([]byte, error) {
			open <- struct{}{}
			<-answer
			return nil, context.Canceled
		}})
	ended := make(chan int)
	for range asksAtOnce {
		go func() { ended <- asked(f).Code }()
		<-open
	}
	if w := asked(f); w.Code != 409 {
		t.Errorf("one more: %d %s", w.Code, w.Body)
	}
	close(answer)
	for range asksAtOnce {
		if code := <-ended; code != 409 {
			t.Errorf("a hook that failed: %d", code)
		}
	}
}
