package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is part of io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with are the lines that have a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (l *lines) config(dir string) func(*setup) {
	return func(c *setup) { c.DataDir, c.Logger = dir, slog.New(slog.NewTextHandler(l, nil)) }
}

// A new sidecar over the volume of its predecessor goes on; over an emptied one it says in one line what
// is lost, fails closed for what was open, lets nothing out that was held, and goes on too.
func TestVolume(t *testing.T) {
	const lost, kept = "an emptied volume", "going on with the journal of the former session"
	for name, empty := range map[string]bool{"the same": false, "emptied": true} {
		t.Run(name, func(t *testing.T) {
			log, world, dir, ctx := newLog(), newSink(), t.TempDir(), background(t)
			first := start(t, "a", log.Door(), withTools(world), new(lines).config(dir))
			done := must(first.client.Begin(ctx, client.BeginOptions{}))(t)
			must(done.Effect(ctx, "stage", at{At: "done"}, client.EffectOptions{}))(t)
			must(done.Seal(ctx))(t)
			first.final(ctx, t, done.ID())
			open := must(first.client.Begin(ctx, client.BeginOptions{}))(t)
			must(open.Effect(ctx, "stage", at{At: "open"}, client.EffectOptions{}))(t)
			must(first.client.Get(ctx, "shard:/x"))(t) // of no transaction
			if err := first.stop(); err != nil {
				t.Fatal(err)
			}
			if empty {
				for _, entry := range must(os.ReadDir(dir))(t) {
					if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
						t.Fatal(err)
					}
				}
			}
			said := new(lines)
			again := start(t, "a", log.Door(), withTools(world), said.config(dir))
			_, err := again.client.Tx(open.ID()).Seal(ctx)
			if p := problemIn(t, err); p.Status != 410 || p.Code != api.CodeSessionLost {
				t.Errorf("the open transaction: %+v", p)
			}
			_, err = again.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{})
			if empty {
				if p := problemIn(t, err); p.Status != 410 || len(said.with(kept)) != 0 || len(said.with(lost)) != 1 {
					t.Errorf("%+v, %q", p, said.with("level=WARN"))
				}
				_, err = again.client.Put(ctx, "shard:/y", []byte("1"), client.WriteOptions{})
			} else if len(said.with(kept)) != 1 || len(said.with(lost)) != 0 {
				t.Errorf("%q, %q", said.with(kept), said.with(lost))
			}
			if err != nil {
				t.Errorf("it does not go on: %v", err)
			}
			if c, err := again.client.Closure(ctx, done.ID(), 1); err != nil || len(c.Rows) != 1 {
				t.Errorf("what was decided: %+v, %v", c, err)
			}
			world.expect(t, "stage done")
		})
	}
}
