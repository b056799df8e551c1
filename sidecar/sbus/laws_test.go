package sbus_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// size is how many cases a law is tried with: few by default, all with HENCE_SBUS_FULL=1, so many with
// HENCE_SBUS_SIZE=N.
func size(few, all int) int {
	if n, err := strconv.Atoi(os.Getenv("HENCE_SBUS_SIZE")); err == nil {
		return n
	}
	if os.Getenv("HENCE_SBUS_FULL") == "1" {
		return all
	}
	return few
}

// alongside runs n cases, some at a time.
func alongside(n int, one func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				one(i)
			}
		})
	}
	group.Wait()
}

func (n *node) create(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if code, body := n.ask(t, "POST", "/shard", fmt.Sprintf(`{"key":%q,"content":"0"}`, key)); code != 201 {
			t.Errorf("%s is not made: %d %s", key, code, body)
		}
	}
}

func (n *node) read(t *testing.T, name string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if code, body := n.ask(t, "GET", "/shard/"+key+"?agent_id="+name, ""); code != 200 {
			t.Errorf("%s is not read: %d %s", key, code, body)
		}
	}
}

func (n *node) commits(t *testing.T, name, key string, version int) (code int, body string) {
	t.Helper()
	return n.ask(t, "POST", "/commit",
		fmt.Sprintf(`{"key":%q,"expected_version":%d,"delta":"by %s","agent_id":%q}`, key, version, name, name))
}

// Of two that have read x and y and write one each exactly one commits.
func TestBusPairs(t *testing.T) {
	const atOne = 25_000 // beyond 100,000 names a node takes one in a hundred new ones for one that it has forgotten
	for left := size(300, 100_000); left > 0; left -= atOne {
		pairsAt(t, start(t, memlog.New("default")), min(left, atOne))
	}
}

func pairsAt(t *testing.T, n *node, pairs int) {
	alongside(pairs, func(i int) {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		n.create(t, x, y)
		n.read(t, a, x, y)
		n.read(t, b, x, y)
		var code [2]int
		var body [2]string
		var group sync.WaitGroup
		group.Go(func() { code[0], body[0] = n.commits(t, a, x, 0) })
		group.Go(func() { code[1], body[1] = n.commits(t, b, y, 0) })
		group.Wait()
		if code[0]+code[1] != 200+409 || !strings.Contains(body[0]+body[1], "CrossShardStale") {
			t.Errorf("pair %d: %d %s and %d %s", i, code[0], body[0], code[1], body[1])
		}
	})
}

// Pairs that have read nothing of each other's both commit.
func TestBusDisjointPairs(t *testing.T) {
	n := start(t, memlog.New("default"))
	alongside(size(200, 20_000), func(i int) {
		var group sync.WaitGroup
		for _, name := range []string{fmt.Sprint("a", i), fmt.Sprint("b", i)} {
			key, beside := "of-"+name, "beside-"+name
			n.create(t, key, beside)
			n.read(t, name, key, beside)
			group.Go(func() {
				if code, body := n.commits(t, name, key, 0); code != 200 {
					t.Errorf("%s: %d %s", name, code, body)
				}
			})
		}
		group.Wait()
	})
}

// One name that reads, writes, reads the next and writes that, among shards that no other name writes, is never
// refused: its own writes do not stand in its way.
func TestBusChains(t *testing.T) {
	n := start(t, memlog.New("default"))
	const shards = 4
	for i := range shards {
		n.create(t, fmt.Sprint("s", i))
	}
	var versions [shards]int
	for i := range size(400, 10_000) {
		at := i % shards
		key := fmt.Sprint("s", at)
		if i%7 < 5 {
			n.read(t, "chain", key)
		}
		if code, body := n.commits(t, "chain", key, versions[at]); code != 200 {
			t.Fatalf("step %d: %d %s", i, code, body)
		}
		versions[at]++
	}
}

// A name for each request takes bounded memory, and none that has lost its log commits on it.
func TestBusManyNames(t *testing.T) {
	const kept = 100
	n := start(t, memlog.New("default"), func(c *sidecar.Config) { c.Limits.Readers = kept })
	n.create(t, "x", "y")
	names := size(1000, 10_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	alongside(names, func(i int) { n.read(t, fmt.Sprint("name", i), "x") })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("%d names take %d bytes", names, grown)
	}
	expired, passed := 0, 0
	for i := range min(names, 1000) {
		switch code, body := n.commits(t, fmt.Sprint("name", i), "y", passed); code {
		case 410:
			expired++
		case 200:
			passed++
		default:
			t.Fatalf("name %d: %d %s", i, code, body)
		}
	}
	if passed > kept || expired < min(names, 1000)-kept {
		t.Errorf("%d of %d names are kept, %d were told that they are not", passed, names, expired)
	}
}
