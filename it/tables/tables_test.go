package tables

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// TestTables holds the tables of closure and frontier to a brute-force reading of the exported topics, after a run of
// many agents, and again after the processors and all that they kept in memory are gone and others started again.
func TestTables(t *testing.T) {
	agents := harness.Number(t, "HENCE_IT_TABLE_AGENTS", harness.Sample(64))
	d := harness.Deploy(t, harness.Start(t))
	rec := traffic.NewRecorder()
	plan := traffic.Plan{Transactions: 8, Scopes: 60, Reads: 3, Writes: 2, Seed: 5, Think: 20 * time.Millisecond,
		Modes: harness.Orders()}
	if err := traffic.Run(t.Context(), d.Sidecars(t, agents), plan, rec); err != nil {
		t.Fatal(err)
	}
	attempts := rec.Attempts()
	harness.Holds(t, attempts, harness.DecisionsOf(t, d.Servers, d.Workspace, attempts))
	outcomes, _ := harness.Recorded(t, d.Servers, d.Workspace)
	closures, frontiers := Equal(t, d)
	t.Logf("%s by %d agents; %d decisions; tables equal: %d transactions, %d scopes", rec.Figures(), agents,
		len(outcomes), closures, frontiers)
	walked(t, d)

	d.StopProcessors()
	d.StartProcessors(t)
	closures, frontiers = Equal(t, d)
	t.Logf("after new processors began: tables equal, %d transactions, %d scopes", closures, frontiers)
	walked(t, d)
	if scars := d.Count(t, "hence_scars_total"); scars != 0 {
		t.Errorf("%v scars", scars)
	}
	seedScar(t, d)
}

// walked asks for the closures of some transactions and compares them with a walk over the brute-force rows.
func walked(t *testing.T, d *harness.Deployment) {
	t.Helper()
	rows := closuresByForce(t, d)
	causes := map[string][]string{}
	for tx, row := range rows {
		for _, edge := range strings.Fields(row.Edges) {
			_, rest, _ := strings.Cut(edge, "<-")
			writer, _, _ := strings.Cut(rest, "@")
			if writer != "" {
				causes[tx] = append(causes[tx], writer)
			}
		}
		causes[tx] = append(causes[tx], strings.Fields(row.RestsOn)...)
	}
	c := d.Dial(t)
	asked := 0
	for tx := range rows {
		if asked++; asked > 20 {
			break
		}
		var got *topology.Closure
		harness.Eventually(t, tablesIn, func() (err error) {
			got, err = c.Closure(t.Context(), d.Workspace, sequencer.TxID(tx), 1000)
			return err
		})
		var have []string
		for _, r := range got.Rows {
			have = append(have, string(r.Tx))
		}
		want := reach(causes, tx)
		if len(want) <= 1000 && !got.Truncated && set(have) != set(want) {
			t.Errorf("closure of %s is %v, by force %v", tx, have, want)
		}
	}
}

// reach are all transactions that one rests on, itself included.
func reach(causes map[string][]string, from string) []string {
	seen := map[string]bool{from: true}
	queue := []string{from}
	for i := 0; i < len(queue); i++ {
		for _, next := range causes[queue[i]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return queue
}

// seedScar writes an event that says of a committed transaction that it read what was written after it, and holds that
// this is counted.
func seedScar(t *testing.T, d *harness.Deployment) {
	t.Helper()
	outcomes, _ := harness.Recorded(t, d.Servers, d.Workspace)
	i := slices.IndexFunc(outcomes, func(o *sequencer.Outcome) bool {
		return o.Kind == sequencer.OutcomeCommitted && len(o.Writes) > 0
	})
	first, last := outcomes[i], outcomes[len(outcomes)-1]
	ev := &topology.Event{Kind: topology.EventRead, Workspace: d.Workspace, Tx: first.Tx, Agent: first.Agent,
		Incarnation: first.Incarnation, Index: 1 << 40, Scope: first.Writes[0].Scope, View: last.Seq, Version: last.Seq,
		Writer: last.Tx}
	value, err := topology.EncodeEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	harness.Produce(t, d.Brokers, topology.TopicEvents, topology.EventKey(d.Workspace, first.Tx), value)
	harness.Eventually(t, tablesIn, func() error {
		if n := d.Count(t, "hence_scars_total"); n != 1 {
			return fmt.Errorf("%v scars are counted after one was seeded", n)
		}
		return nil
	})
}
