package redis

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/redis/testredis"
)

// TestShards holds that of commits that meet one is made, and that one whose other shard is written between the
// comparison and the write is compared again.
func TestShards(t *testing.T) {
	at, ctx := testredis.Serve(t), t.Context()
	s, err := Open(ctx, at, "test", 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if text, err := s.Settings(ctx); err != nil || !strings.Contains(text, "append") {
		t.Errorf("settings %q, %v", text, err)
	}
	for _, key := range []string{"a", "b"} {
		if made, err := s.Create(ctx, key, "of\n"+key); !made || err != nil {
			t.Fatalf("%s: %v, %v", key, made, err)
		}
	}
	if made, err := s.Create(ctx, "a", "again"); made || err != nil {
		t.Errorf("made again: %v, %v", made, err)
	}
	if _, _, there, err := s.Read(ctx, "none"); there || err != nil {
		t.Errorf("none is there: %v, %v", there, err)
	}
	var made atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, refused, err := s.Commit(ctx, "a", "text", 0, nil, unless("a", 0))
			if err != nil {
				t.Error(err)
			}
			if refused == "" {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if version, text, there, err := s.Read(ctx, "a"); made.Load() != 1 || version != 1 || text != "text" || !there ||
		err != nil {
		t.Errorf("%d commits, version %d, %q, %v, %v", made.Load(), version, text, there, err)
	}
	moves := 0
	_, refused, err := s.Commit(ctx, "b", "text", 0, []string{"a"}, func(there map[string]uint64) string {
		if moves++; moves == 1 { // after the comparison's read
			if _, refused, err := s.Commit(context.WithoutCancel(ctx), "a", "moved", 1, nil, unless("a", 1)); refused != "" ||
				err != nil {
				t.Errorf("%s, %v", refused, err)
			}
		}
		return unless("a", 1)(there)
	})
	if refused == "" || err != nil || moves != 2 {
		t.Errorf("on a read that moved: %q after %d comparisons, %v", refused, moves, err)
	}
	if version, text, _, err := s.Read(ctx, "b"); version != 0 || text != "of\nb" || err != nil {
		t.Errorf("b is at %d: %q, %v", version, text, err)
	}
}

// unless refuses where a key has another version.
func unless(key string, version uint64) func(map[string]uint64) string {
	return func(there map[string]uint64) string {
		if there[key] != version {
			return "moved"
		}
		return ""
	}
}

// TestAddress holds which addresses are taken.
func TestAddress(t *testing.T) {
	if at, err := Address("redis://127.0.0.1:6379"); err != nil || at != "127.0.0.1:6379" {
		t.Errorf("%s, %v", at, err)
	}
	for _, wrong := range []string{"127.0.0.1:6379", "http://127.0.0.1:6379", "redis://127.0.0.1", "redis://a@b:1",
		"redis://b:1/2", ":"} {
		if at, err := Address(wrong); err == nil {
			t.Errorf("%s is taken as %s", wrong, at)
		}
	}
}
