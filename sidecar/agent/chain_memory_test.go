package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// onDisk is a log that keeps the parts of contents in a file, as a broker does, and looks at the heap at each of them.
type onDisk struct {
	*memlog.Door
	log  *memlog.Log
	peak atomic.Uint64

	mu    sync.Mutex
	file  *os.File
	end   int64
	parts map[int64]int64 // where a part's content is, by its offset in the topic
}

// heap is what the process has in objects, those that nobody needs any more and that were not collected yet included.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func (d *onDisk) look() {
	now := heap()
	for was := d.peak.Load(); now > was && !d.peak.CompareAndSwap(was, now); was = d.peak.Load() {
	}
}

func (d *onDisk) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	if events[0].Chunk == nil {
		d.Door.PublishAsync(events, done)
		return
	}
	d.look()
	ev := *events[0]
	d.mu.Lock()
	at := d.end
	n, err := d.file.WriteAt(ev.Content, at)
	d.end += int64(n)
	d.mu.Unlock()
	ev.Content = nil
	d.Door.PublishAsync([]*topology.Event{&ev}, func(place sequencer.Place, failed error) {
		d.mu.Lock()
		d.parts[place.Offset] = at
		d.mu.Unlock()
		if failed == nil {
			failed = err
		}
		done(place, failed)
	})
}

func (d *onDisk) Parts(_ context.Context, ws string, ref sequencer.Ref, take func([]byte) error) error {
	chain := streams.NewChain(ws, ref, take)
	for at := ref.Offset; at <= ref.Last; at++ {
		ev := *d.log.Events()[at]
		if ev.Chunk != nil {
			d.mu.Lock()
			from := d.parts[at]
			d.mu.Unlock()
			ev.Content = make([]byte, ev.Size)
			if _, err := d.file.ReadAt(ev.Content, from); err != nil {
				return err
			}
		}
		d.look()
		if whole, err := chain.Add(at, &ev); whole || err != nil {
			return err
		}
	}
	return chain.End()
}

// mostAboveIdle is what the heap of a sidecar may have above what it has at rest, while contents of 16 MiB are written
// and read.
const mostAboveIdle = 64 << 20

// TestLargeMemory: a content of 16 MiB is held once while it is written, and in parts while it is read, whatever its
// readers' pace.
func TestLargeMemory(t *testing.T) {
	log := newLog()
	file := must(os.Create(filepath.Join(t.TempDir(), "parts")))(t)
	t.Cleanup(func() { file.Close() })
	door := &onDisk{Door: log.Door(), log: log, file: file, parts: map[int64]int64{}}
	a := start(t, "a", door)
	allowLarge(t, a)
	runtime.GC()
	idle := heap()
	do := func(method string, scope int, body io.Reader) *http.Response {
		req, err := http.NewRequestWithContext(background(t), method,
			fmt.Sprintf("%s/v1/workspaces/default/shards/x/%d?look=true", a.URL(), scope), body)
		if err != nil {
			t.Error(err)
			return nil
		}
		if body != http.NoBody {
			req.ContentLength, req.URL.RawQuery = sequencer.MaxContent, ""
		}
		req.Header.Set("Authorization", "Bearer "+a.Token())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return nil
		}
		return resp
	}
	trip := func(scope int) {
		want := sha256.New()
		content := io.LimitReader(rand.NewChaCha8([32]byte{1}), sequencer.MaxContent)
		resp := do(http.MethodPut, scope, io.TeeReader(content, want))
		if resp == nil {
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
			t.Errorf("written: %s", resp.Status)
			return
		}
		if resp = do(http.MethodGet, scope, http.NoBody); resp == nil {
			return
		}
		defer resp.Body.Close()
		got := sha256.New()
		if n, err := io.Copy(got, resp.Body); err != nil || n != sequencer.MaxContent ||
			string(got.Sum(nil)) != string(want.Sum(nil)) {
			t.Errorf("read: %s, %d bytes, %v", resp.Status, n, err)
		}
	}
	for range 2 {
		trip(0)
	}
	one := door.peak.Swap(0)
	t.Logf("idle %d KiB, at most %d KiB above that", idle>>10, (one-idle)>>10)
	if one > idle+mostAboveIdle {
		t.Errorf("the heap grew from %d MiB to %d MiB", idle>>20, one>>20)
	}
}
