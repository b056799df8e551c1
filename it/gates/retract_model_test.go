package gates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/topology"
)

// life is one committed transaction as its agent knows it. It writes its name, so that a reader knows from which one.
type life struct {
	name  string
	tx    string
	seq   uint64
	saw   []string // names of those from whom it read
	wrote []string // shards and files
	row   bool     // it added a row under its name
	left  []int    // indexes of the calls that left with its commit
}

// story is the committed transactions of one round, in commit order.
type story []*life

// cone are the names of those that follow from roots: who read from one of them, or overwrote it, and so on. It knows
// nothing of the log.
func (s story) cone(roots ...string) map[string]bool {
	in := map[string]bool{}
	for _, name := range roots {
		in[name] = true
	}
	for grown := true; grown; {
		grown = false
		for at, l := range s {
			follows := slices.ContainsFunc(l.saw, func(name string) bool { return in[name] }) || s[:at].under(l, in)
			if follows && !in[l.name] {
				in[l.name], grown = true, true
			}
		}
	}
	return in
}

// under says whether a later transaction wrote over one of a cone.
func (s story) under(later *life, cone map[string]bool) bool {
	return slices.ContainsFunc(s, func(l *life) bool {
		return cone[l.name] && slices.ContainsFunc(l.wrote, func(scope string) bool {
			return slices.Contains(later.wrote, scope)
		})
	})
}

// without is what each scope holds as if the cone had never run: the name of its last writer; empty: nothing.
func (s story) without(cone map[string]bool) map[string]string {
	out := map[string]string{}
	for _, l := range s {
		for _, scope := range l.wrote {
			if cone[l.name] {
				out[scope] += ""
			} else {
				out[scope] = l.name
			}
		}
	}
	return out
}

// txs are the transactions of a cone, the most recent first.
func (s story) txs(cone map[string]bool) (out []string) {
	for _, l := range slices.Backward(s) {
		if cone[l.name] {
			out = append(out, l.tx)
		}
	}
	return out
}

func (s story) named(name string) string {
	for _, l := range s {
		if l.name == name {
			return l.tx
		}
	}
	return ""
}

// leaks are the calls that had left when their transaction was undone, as the residue names them.
func (s story) leaks(cone map[string]bool) (out []string) {
	for _, l := range s {
		for _, index := range l.left {
			if cone[l.name] {
				out = append(out, fmt.Sprintf("%s/%d leaked", l.tx, index))
			}
		}
	}
	slices.Sort(out)
	return out
}

// unclean is the residue of a workspace as its topic has it: transaction, index and result of each.
func unclean(tb testing.TB, d *harness.Deployment) (out []string) {
	tb.Helper()
	for _, value := range harness.ReadTable(tb, d.Brokers, topology.TopicResidue, d.Workspace) {
		var r topology.Residue
		if err := json.Unmarshal(value, &r); err != nil {
			tb.Fatalf("a record of %s: %v: %s", topology.TopicResidue, err, value)
		}
		out = append(out, fmt.Sprintf("%s/%d %s", r.Tx, r.Index, r.Result))
	}
	slices.Sort(out)
	return out
}

// rowsOf are the rows that stand, by task.
func rowsOf(tb testing.TB, shop *harness.Shop) map[string]bool {
	tb.Helper()
	rows := map[string]bool{}
	for _, row := range shop.Standing(tb) {
		rows[row.Task] = true
	}
	return rows
}

// settledWorld holds the sinks and the residue against what the stories say: rows of a cone are gone, files are as
// they were, and what had left is listed, no more and no less.
func settledWorld(tb testing.TB, d *harness.Deployment, shop *harness.Shop, told []*retold) (leaked int) {
	tb.Helper()
	rows, want := map[string]bool{}, []string{}
	for _, r := range told {
		for _, l := range r.story {
			if l.row && !r.cone[l.name] {
				rows[l.name] = true
			}
		}
		want = append(want, r.story.leaks(r.cone)...)
	}
	if got := rowsOf(tb, shop); !maps.Equal(got, rows) {
		tb.Errorf("%d rows stand: want the %d of those that were not retracted", len(got), len(rows))
	}
	slices.Sort(want)
	if got := unclean(tb, d); !slices.Equal(got, want) {
		tb.Errorf("the residue has %d entries: want the %d calls that had left; %s", len(got), len(want), parted(got, want))
	}
	return len(want)
}

// parted names the first few that two sorted lists do not share.
func parted(got, want []string) string {
	var out []string
	for _, x := range got {
		if _, ok := slices.BinarySearch(want, x); !ok {
			out = append(out, "unexpected "+x)
		}
	}
	for _, x := range want {
		if _, ok := slices.BinarySearch(got, x); !ok {
			out = append(out, "missing "+x)
		}
	}
	return strings.Join(out[:min(len(out), 8)], ", ")
}

// TestConeOfStory holds the model itself against a story whose cone can be seen.
func TestConeOfStory(t *testing.T) {
	s := story{
		{name: "before", wrote: []string{"a", "b"}},
		{name: "root", wrote: []string{"a"}},
		{name: "reads", saw: []string{"root"}, wrote: []string{"c"}},
		{name: "beside", saw: []string{"before"}, wrote: []string{"d"}},
		{name: "overwrites", wrote: []string{"c", "b"}},
		{name: "after", wrote: []string{"e"}},
	}
	cone := s.cone("root")
	if want := map[string]bool{"root": true, "reads": true, "overwrites": true}; !maps.Equal(cone, want) {
		t.Errorf("the cone is %v: want %v", cone, want)
	}
	want := map[string]string{"a": "before", "b": "before", "c": "", "d": "beside", "e": "after"}
	if got := s.without(cone); !maps.Equal(got, want) {
		t.Errorf("without it the scopes hold %v: want %v", got, want)
	}
}
