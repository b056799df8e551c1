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

// onDisk is a log that keeps the parts of contents in a file, as a broker does, and looks at the heap meanwhile.
type onDisk struct {
	*memlog.Door
	log    *memlog.Log
	parted atomic.Uint32
	peak   atomic.Uint64
	meet   func() // readers come by before they read

	mu    sync.Mutex
	file  *os.File
	end   int64
	parts map[int64]int64 // where a part's content is, by its offset in the topic
}

// heap is what the process still needs of what it has allocated.
func heap() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// look takes the heap at some of the parts that come by: a collection takes a while.
func (d *onDisk) look() {
	if d.parted.Add(1)%lookAt != 0 {
		return
	}
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
	if d.meet != nil {
		d.meet()
	}
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
			d.look()
		}
		if whole, err := chain.Add(at, &ev); whole || err != nil {
			return err
		}
	}
	return chain.End()
}

const (
	lookAt = 8       // parts between two looks at the heap
	slack  = 6 << 20 // bytes that the heap may have above contents that are written: parts on their way, and the test's
)

// memoryRig is a sidecar that writes and reads contents of 16 MiB.
type memoryRig struct {
	*rig
	t    *testing.T
	door *onDisk
	idle uint64
}

func newMemoryRig(t *testing.T) *memoryRig {
	log := newLog()
	file := must(os.Create(filepath.Join(t.TempDir(), "parts")))(t)
	t.Cleanup(func() { file.Close() })
	door := &onDisk{Door: log.Door(), log: log, file: file, parts: map[int64]int64{}}
	m := &memoryRig{rig: start(t, "a", door), t: t, door: door}
	allowLarge(t, m.rig)
	m.idle = heap()
	return m
}

// above is how far the heap was above idle since it was last asked for.
func (m *memoryRig) above() int64 { return int64(m.door.peak.Swap(0)) - int64(m.idle) }

func (m *memoryRig) do(method string, scope int, query string, body io.Reader, size int64) *http.Response {
	req, err := http.NewRequestWithContext(m.t.Context(), method,
		fmt.Sprintf("%s/v1/workspaces/default/shards/x/%d?%s", m.URL(), scope, query), body)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+m.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	return resp
}

// content is what is written to a scope.
func content() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), sequencer.MaxContent) }

func (m *memoryRig) write(scope int, body io.Reader) {
	resp := m.do(http.MethodPut, scope, "", body, sequencer.MaxContent)
	if resp == nil {
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		m.t.Errorf("written: %s", resp.Status)
	}
}

func (m *memoryRig) read(scope int) {
	resp := m.do(http.MethodGet, scope, "look=true", http.NoBody, 0)
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	got, want := sha256.New(), sha256.New()
	_, _ = io.Copy(want, content())
	if n, err := io.Copy(got, resp.Body); err != nil || n != sequencer.MaxContent ||
		string(got.Sum(nil)) != string(want.Sum(nil)) {
		m.t.Errorf("read: %s, %d bytes, %v", resp.Status, n, err)
	}
}

// TestLargeMemory: a content of 16 MiB is held once while it is written, and in parts while it is read.
func TestLargeMemory(t *testing.T) {
	m := newMemoryRig(t)
	for range 2 {
		m.write(0, content())
		if n := m.above(); n < sequencer.MaxContent/2 || n > sequencer.MaxContent+slack { // a look may miss the most
			t.Errorf("while it is written the heap is %d KiB above idle", n>>10)
		}
		m.read(0)
		if n := m.above(); n > slack {
			t.Errorf("while it is read the heap is %d KiB above idle", n>>10)
		}
	}
}

// TestLargeMemoryAtOnce: as many writers and readers as there may be at once hold no more than each alone.
func TestLargeMemoryAtOnce(t *testing.T) {
	const writers, readers = 2, 4
	if os.Getenv("HENCE_TEST_FULL") != "1" {
		t.Skip("HENCE_TEST_FULL=1 writes and reads seven contents of 16 MiB")
	}
	m := newMemoryRig(t)
	m.write(0, content())
	m.above()
	var there atomic.Int32
	all := make(chan struct{})
	m.door.meet = func() {
		if there.Add(1) == writers+readers {
			close(all)
		}
		<-all
	}
	var flows sync.WaitGroup
	for i := range writers {
		flows.Go(func() {
			whole := content()
			m.write(1+i, io.MultiReader(io.LimitReader(whole, sequencer.MaxContent-1), meeting(m.door.meet), whole))
		})
	}
	for range readers {
		flows.Go(func() { m.read(0) })
	}
	flows.Wait()
	if n := m.above(); n < writers*sequencer.MaxContent || n > writers*sequencer.MaxContent+2*slack {
		t.Errorf("with %d writers and %d readers the heap is %d KiB above idle", writers, readers, n>>10)
	}
	for i := range writers {
		m.read(1 + i)
	}
}

// meeting is the end of a part of a body, where its sender waits.
type meeting func()

func (f meeting) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
