package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
)

// said passes on what a logger writes.
type said chan string

func (s said) Write(b []byte) (int, error) { s <- string(b); return len(b), nil }

// TestAwaitToken makes the file once the command waits for it.
func TestAwaitToken(t *testing.T) {
	path, lines := filepath.Join(t.TempDir(), "token"), make(said, 1)
	logger := slog.New(slog.NewTextHandler(lines, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	type answer struct {
		token string
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		token, err := awaitToken(ctx, logger, path)
		got <- answer{token, err}
	}()
	if line := <-lines; !strings.Contains(line, path) {
		t.Errorf("it says %q", line)
	}
	want, err := access.KeepToken(slog.New(slog.DiscardHandler), path)
	if err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.err != nil || a.token != want {
		t.Errorf("it reads %+v, want %q", a, want)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := awaitToken(ctx, logger, path); err == nil {
		t.Error("a token that others can read is taken")
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := awaitToken(gone, logger, path+"2"); !errors.Is(err, context.Canceled) {
		t.Errorf("told to stop it says %v", err)
	}
}
