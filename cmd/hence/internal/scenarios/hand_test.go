package scenarios_test

import (
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
)

// fires is what a run contains: the kinds that are certain, in the order of reports, and what its runtime refused.
type fires struct {
	kinds    string
	dropped  int // begins that found a lock
	aborted  int // commits that were refused
	cascaded int // operations that were taken back because of another
}

// columns are the runtimes of the table. The first three of each row were written down before any runtime was.
func columns() []runtimes.Kind {
	return []runtimes.Kind{runtimes.Vanilla, runtimes.PessimisticDrop, runtimes.Snapshot, runtimes.Serializable,
		runtimes.Cascade, runtimes.Sequencer, runtimes.RegistryValidate}
}

// hand is what each scenario fires under the runtimes of columns, derived from the scripts by hand before any of it
// was run. Why each cell is what it is:
//
//	stale-read       both begin on doc, E commits v1, then R v2: R overwrites what it has not read. The overwriting
//	                 reader and the overwritten writer depend on each other, hence the cycle. A lock on doc is E's when
//	                 R begins: R is dropped. Validation finds the version v1, newer than R's read
//	tool-removed     no lock and no version is on the registry
//	phantom-write    p commits, then j reads it and commits, then p is retracted: each step alone is in order
//	phantom-claim    no runtime validates what an agent says of its own reads: nothing is certain, A3 is possible
//	effect-reorder   the effects are one operation's own: no other operation takes part
//	pipeline         each agent begins after the one before it has committed
//	fan-out-merge    the workers read one task together and write cells of their own. Locks are exclusive, so the second
//	                 worker's read conflicts with the first one's
//	single-agent     one after the other
//	edit-review      the reviewer writes a verdict, not the document: stale, and serializable before the editor
//	plan-execute     the executor begins after the planner has committed
//	triage           the triager writes nothing, so default snapshot isolation asks it nothing; the reporter begins
//	                 without a read and meets the triager's lock only when it commits
//	shared-workspace each reads all three slots, then each writes its own: who commits later is stale, and each pair
//	                 overwrote what the other had read. The first keeps the locks, the other two are dropped
//	deer-flow        the node has not read todos, so nothing that watches reads has anything to say
//	shared-block     of four that read together the first commits well, six times
//	five-calls       as effect-reorder
//	the others       every call writes a cell of its own, and reads one that is committed
func hand() map[string][7]fires {
	none, phantom, cascade, order := fires{}, fires{kinds: "A2"}, fires{kinds: "A3"}, fires{kinds: "A6"}
	stale, lost := fires{kinds: "A1"}, fires{kinds: "A1 lost-update cycle"}
	skew, null := fires{kinds: "A1 write-skew cycle"}, fires{kinds: "null-overwrite"}
	dropped := func(n int) fires { return fires{dropped: n} }
	aborted := func(n int) fires { return fires{aborted: n} }
	one := aborted(1)
	return map[string][7]fires{
		"stale-read":        {lost, dropped(1), one, one, one, lost, lost},
		"tool-removed":      {phantom, phantom, phantom, phantom, phantom, phantom, one},
		"phantom-write":     {cascade, cascade, cascade, cascade, {cascaded: 1}, cascade, cascade},
		"effect-reorder":    {order, order, order, order, order, none, order},
		"pipeline":          {},
		"fan-out-merge":     {none, dropped(1), none, none, none, none, none},
		"single-agent":      {},
		"phantom-claim":     {},
		"edit-review":       {stale, dropped(1), one, one, one, stale, stale},
		"plan-execute":      {},
		"triage":            {stale, one, stale, one, one, stale, stale},
		"research-collab":   {},
		"supervisor":        {},
		"hierarchical":      {},
		"code-review":       {},
		"customer-triage":   {},
		"shared-workspace":  {skew, dropped(2), aborted(2), aborted(2), aborted(2), skew, skew},
		"deer-flow":         {null, null, null, null, null, null, null},
		"deer-flow-reducer": {},
		"shared-block":      {lost, dropped(18), aborted(18), aborted(18), aborted(18), lost, lost},
		"five-calls":        {order, order, order, order, order, none, order},
	}
}

// TestHandRuns holds each run against the table.
func TestHandRuns(t *testing.T) {
	under := columns()
	for _, s := range scenarios.All() {
		for i, want := range hand()[s.Name] {
			r := scenarios.Run(s, runtimes.New(under[i]), scenarios.Options{})
			got := fires{r.Fired(), r.Counts.Dropped, r.Counts.Aborted, r.Counts.Cascaded}
			if got != want {
				t.Errorf("%s under %s: %+v, by hand %+v; refused: %v", s.Name, under[i], got, want, r.Why)
			}
		}
	}
}

// TestHandIsWhole holds that every scenario has its row.
func TestHandIsWhole(t *testing.T) {
	rows := hand()
	for _, s := range scenarios.All() {
		if _, has := rows[s.Name]; !has {
			t.Errorf("the table has no row for %s", s.Name)
		}
		delete(rows, s.Name)
	}
	for name := range rows {
		t.Errorf("no scenario is called %s", name)
	}
}
