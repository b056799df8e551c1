package streams

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// What agents do under one name may be more than a row has room for: reads, writes, and transactions that come again
// under the name. The row can always be written, and is the same whatever order all of it came in.
func TestClosureRowIsBounded(t *testing.T) {
	long := strings.Repeat("x", 900)
	joins := make([]func(*topology.ClosureRow), 0, 12_000)
	for i := range 4000 {
		scope := sequencer.Scope(fmt.Sprintf("doc:/%d/%s", i, long))
		writer := sequencer.TxID(fmt.Sprintf("%d%s", i, strings.Repeat("w", 4000)))
		joins = append(joins,
			func(r *topology.ClosureRow) {
				joinEvent(r, &topology.Event{Kind: topology.EventWrite, Scope: scope}, 1)
			},
			func(r *topology.ClosureRow) {
				joinEvent(r, &topology.Event{Kind: topology.EventRead, Scope: scope, Writer: writer}, 1)
			},
			func(r *topology.ClosureRow) {
				joinOutcome(r, &sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Seq: 9, RestsOn: []sequencer.TxID{writer}})
			})
	}
	row := func() *topology.ClosureRow {
		r := &topology.ClosureRow{Workspace: "w", Tx: "t", Events: &topology.EventSpan{First: noOffset}}
		for i, join := range joins {
			if join(r); i%100 == 99 { // not after each: it sorts
				finishRow(r)
			}
		}
		finishRow(r)
		return r
	}
	first := row()
	b, err := topology.EncodeClosureRow(first)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes: %d reads, %d writes, %d rests on", len(b), len(first.Edges), len(first.Writes), len(first.RestsOn))
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(joins), reflect.Swapper(joins))
	if second := row(); !reflect.DeepEqual(first, second) {
		t.Error("in another order the row is another one")
	}
}
