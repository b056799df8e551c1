package demo

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
)

// commit makes the record of a committed attempt that read scopes at versions and wrote all of them.
func commit(seq uint64, versions map[string]uint64) *Attempt {
	a := &Attempt{Agent: "a", Tx: fmt.Sprintf("tx-%d", seq), End: EndCommitted, Seq: seq}
	for scope, version := range versions {
		a.Reads = append(a.Reads, ReadRecord{Scope: scope, Version: version})
		a.Writes = append(a.Writes, WriteRecord{Scope: scope})
	}
	return a
}

func TestLostUpdatesFindsEachKind(t *testing.T) {
	const x, y = "shard:/x", "shard:/y"
	at := func(scope string, v uint64) map[string]uint64 { return map[string]uint64{scope: v} }
	blind := &Attempt{Tx: "blind", End: EndCommitted, Seq: 6, Writes: []WriteRecord{{Scope: x}}}
	aborted := commit(6, at(x, 5))
	aborted.End = EndAborted
	for _, c := range []struct {
		name     string
		attempts []*Attempt
		want     string
	}{
		{"one after the other", []*Attempt{commit(5, at(x, 0)), commit(7, at(x, 5))}, ""},
		{"both read nothing", []*Attempt{commit(5, at(x, 0)), commit(7, at(x, 0))}, "tx-7 lost tx-5"},
		{"records in any order", []*Attempt{commit(7, at(x, 0)), commit(5, at(x, 0))}, "tx-7 lost tx-5"},
		{"another scope", []*Attempt{commit(5, at(y, 0)), commit(7, at(x, 0))}, ""},
		{"an aborted write between", []*Attempt{commit(5, at(x, 0)), aborted, commit(7, at(x, 5))}, ""},
		{"a write without a read between", []*Attempt{commit(5, at(x, 0)), blind, commit(7, at(x, 5))}, "tx-7 lost blind"},
		{"a write without a read loses nothing", []*Attempt{commit(5, at(x, 0)), blind}, ""},
		{"two lost, the last is named", []*Attempt{commit(5, at(x, 0)), commit(7, at(x, 5)), commit(9, at(x, 0))},
			"tx-9 lost tx-7"},
	} {
		var got []string
		for _, l := range lostUpdates(c.attempts) {
			got = append(got, l.Tx+" lost "+l.By)
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%s: got %q, want %q", c.name, g, c.want)
		}
	}
}

// TestLostUpdatesFindsSeededOnes puts stale versions into random serial histories: exactly those are found.
func TestLostUpdatesFindsSeededOnes(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		version := map[string]uint64{}
		var attempts []*Attempt
		var want []uint64
		for i := range 100 {
			seq, scope := uint64(2*i+1), fmt.Sprintf("shard:/s%d", rng.IntN(5))
			read := version[scope]
			if read > 0 && rng.IntN(10) == 0 {
				read-- // just before the write that it overwrites
				want = append(want, seq)
			}
			attempts = append(attempts, commit(seq, map[string]uint64{scope: read}))
			version[scope] = seq
		}
		rng.Shuffle(len(attempts), func(i, j int) { attempts[i], attempts[j] = attempts[j], attempts[i] })
		var got []uint64
		for _, l := range lostUpdates(attempts) {
			got = append(got, l.Seq)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: found %v, want %v", seed, got, want)
		}
	}
}

func TestMissingComparesWithTheLog(t *testing.T) {
	told := commit(5, nil)
	for name, c := range map[string]struct {
		log  map[string]logged
		want string
	}{
		"there":       {map[string]logged{"tx-5": {committed: true, seq: 5}}, ""},
		"not there":   {map[string]logged{}, "nothing"},
		"aborted":     {map[string]logged{"tx-5": {code: "stale_read", seq: 5}}, "aborted: stale_read"},
		"other place": {map[string]logged{"tx-5": {committed: true, seq: 6}}, "committed at seq 6"},
	} {
		got := ""
		for _, m := range missing([]*Attempt{told}, c.log) {
			got = m.Log
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestReplayFindsTampering commits tasks of the built-in data set in an order of their own, and tampers with the
// state, the order and the records.
func TestReplayFindsTampering(t *testing.T) {
	set := retail.Small(1)
	domain, initial := set.Domain(), retail.Memory(set.Initial())
	var tasks []retail.Task
	for n := range 4 {
		tasks = append(tasks, set.Contended(n, fmt.Sprint("note ", n)))
	}
	var attempts []*Attempt
	for i := range tasks {
		attempts = append(attempts, &Attempt{Task: i, End: EndCommitted, Seq: uint64(10 - i)}) // the last one first
	}
	ordered := committedTasks(attempts, tasks)
	final, err := domain.Replay(initial, ordered)
	if err != nil {
		t.Fatal(err)
	}
	differs := func(final retail.Memory, ordered []retail.Task) int {
		t.Helper()
		keys, err := replay(domain, initial, final, ordered)
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	if n := differs(final, ordered); n != 0 {
		t.Fatalf("an honest final state differs in %d shards", n)
	}
	if differs(final, tasks) == 0 {
		t.Error("a replay in another order than the commits' is not noticed")
	}
	if differs(final, ordered[1:]) == 0 {
		t.Error("a missing commit is not noticed")
	}
	key := retail.OrderKey(set.ContendedOrder())
	final[key] = bytes.Replace(final[key], []byte("note 0"), []byte("note 9"), 1)
	if differs(final, ordered) == 0 {
		t.Error("a tampered shard is not noticed")
	}
	delete(final, key)
	if differs(final, ordered) == 0 {
		t.Error("a shard that is gone is not noticed")
	}
}
