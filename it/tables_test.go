package it

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// tablesIn is how long the derived tables may lag behind what they are derived from.
const tablesIn = 60 * time.Second

// TestTables holds the tables of closure and frontier to a brute-force reading of the exported topics, after a run of
// many agents, and again after the processors and all that they kept in memory are gone and others began anew.
func TestTables(t *testing.T) {
	agents := number(t, "HENCE_IT_TABLE_AGENTS", sample(64))
	d := harness.Deploy(t, harness.Start(t))
	rec := traffic.NewRecorder()
	run(t, d.Sidecars(t, agents), traffic.Plan{Transactions: 8, Scopes: 60, Reads: 3, Writes: 2, Seed: 5,
		Think: 20 * time.Millisecond, Modes: []string{"optimistic", "ordered", "locked"}}, rec)
	attempts := rec.Attempts()
	holds(t, attempts, decisionsOf(t, d.Servers, d.Workspace, attempts))
	outcomes, _ := recorded(t, d.Servers, d.Workspace)
	closures, frontiers := tables(t, d)
	t.Logf("%s by %d agents; %d decisions; tables equal: %d transactions, %d scopes", rec.Figures(), agents,
		len(outcomes), closures, frontiers)
	walked(t, d)

	d.StopProcessors()
	d.StartProcessors(t)
	closures, frontiers = tables(t, d)
	t.Logf("after new processors began: tables equal, %d transactions, %d scopes", closures, frontiers)
	walked(t, d)
	if scars := d.Count(t, "hence_scars_total"); scars != 0 {
		t.Errorf("%v scars", scars)
	}
	seedScar(t, d)
}

// tables compares both tables with the topics until they are equal, and returns their sizes.
func tables(t *testing.T, d *harness.Deployment) (closures, frontiers int) {
	t.Helper()
	harness.Eventually(t, tablesIn, func() error {
		want := closuresByForce(t, d)
		closures = len(want)
		return sameRows(want, closureTable(t, d))
	})
	harness.Eventually(t, tablesIn, func() error {
		want := frontiersByForce(t, d)
		frontiers = len(want)
		return sameRows(want, frontierTable(t, d))
	})
	return closures, frontiers
}

// sameRows compares two tables row by row.
func sameRows[R any](want, got map[string]R) error {
	for key, w := range want {
		g, ok := got[key]
		if !ok {
			return fmt.Errorf("the table has no row %s, want %+v", key, w)
		}
		if !reflect.DeepEqual(w, g) {
			return fmt.Errorf("row %s\n in the table  %+v\n by force      %+v", key, g, w)
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok {
			return fmt.Errorf("the table has a row %s that nothing speaks of: %+v", key, g)
		}
	}
	return nil
}

// closure is a row of the closure table as text: sets are sorted and free of repetitions.
type closure struct {
	Agent, Status, Code    string
	Seq                    uint64
	Edges, RestsOn, Writes string
}

func set(list []string) string {
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

func edgeText(scope sequencer.Scope, writer sequencer.TxID, version, view sequencer.Seq) string {
	return fmt.Sprintf("%s<-%s@%d/%d", scope, writer, version, view)
}

func closureTable(t *testing.T, d *harness.Deployment) map[string]closure {
	t.Helper()
	all := map[string]closure{}
	for key, value := range harness.ReadTable(t, d.Brokers, topology.TableOf(topology.GroupClosure), d.Workspace) {
		row, err := topology.DecodeClosureRow(value)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		c := closure{Agent: row.Agent, Status: row.Status, Code: string(row.Code), Seq: uint64(row.Seq)}
		var edges, rests, writes []string
		for _, e := range row.Edges {
			edges = append(edges, edgeText(e.Scope, e.Writer, e.Version, e.View))
		}
		for _, r := range row.RestsOn {
			rests = append(rests, string(r))
		}
		for _, w := range row.Writes {
			writes = append(writes, string(w))
		}
		c.Edges, c.RestsOn, c.Writes = set(edges), set(rests), set(writes)
		all[string(row.Tx)] = c
	}
	return all
}

// facts are what the topics say of one transaction.
type facts struct {
	agent, code            string
	seq                    uint64
	sealed                 bool
	decided                string
	settled                bool
	edges, restsOn, writes []string
}

func (f *facts) row() closure {
	status := "open"
	switch {
	case f.settled:
		status = "settled"
	case f.decided != "":
		status = f.decided
	case f.sealed:
		status = "sealed"
	}
	return closure{Agent: f.agent, Status: status, Code: f.code, Seq: f.seq, Edges: set(f.edges), RestsOn: set(f.restsOn),
		Writes: set(f.writes)}
}

// closuresByForce reads hence.events and hence.decisions from their beginning.
func closuresByForce(t *testing.T, d *harness.Deployment) map[string]closure {
	t.Helper()
	all := map[string]*facts{}
	of := func(tx sequencer.TxID, agent string) *facts {
		f := all[string(tx)]
		if f == nil {
			f = &facts{}
			all[string(tx)] = f
		}
		f.agent = cmp.Or(agent, f.agent)
		return f
	}
	for _, r := range harness.ReadTopic(t, d.Brokers, topology.TopicEvents, d.Workspace) {
		ev, err := topology.DecodeEvent(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if ev.Tx == "" || ev.Kind == topology.EventContent {
			continue
		}
		f := of(ev.Tx, ev.Agent)
		switch ev.Kind {
		case topology.EventRead:
			f.edges = append(f.edges, edgeText(ev.Scope, ev.Writer, ev.Version, ev.View))
		case topology.EventWrite:
			f.writes = append(f.writes, string(ev.Scope))
		case topology.EventSeal:
			f.seal(ev.Seal)
		}
	}
	outcomes, _ := recorded(t, d.Servers, d.Workspace)
	for _, o := range outcomes {
		if o.Tx != "" {
			of(o.Tx, o.Agent).decide(o)
		}
	}
	rows := map[string]closure{}
	for tx, f := range all {
		rows[tx] = f.row()
	}
	return rows
}

func (f *facts) seal(s *sequencer.Seal) {
	f.sealed = true
	for _, r := range s.Reads {
		f.edges = append(f.edges, edgeText(r.Scope, r.Writer, r.Version, r.View))
	}
	for _, w := range s.Shards {
		f.writes = append(f.writes, string(w.Scope))
	}
}

func (f *facts) decide(o *sequencer.Outcome) {
	switch o.Kind {
	case sequencer.OutcomeSettled:
		f.settled = true
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		f.decided, f.seq, f.code = o.Kind.String(), uint64(o.Seq), string(o.Code)
		for _, r := range o.RestsOn {
			f.restsOn = append(f.restsOn, string(r))
		}
		for _, w := range o.Writes {
			f.writes = append(f.writes, string(w.Scope))
		}
	}
}

// frontier is a row of the frontier table as text.
type frontier struct {
	Seq, Version, Epoch uint64
	Writer, Open, Shard string
}

func openText(tx sequencer.TxID, epoch sequencer.Epoch, since sequencer.Seq) string {
	return fmt.Sprintf("%s/%d/%d", tx, epoch, since)
}

func frontierTable(t *testing.T, d *harness.Deployment) map[string]frontier {
	t.Helper()
	all := map[string]frontier{}
	for key, value := range harness.ReadTable(t, d.Brokers, topology.TableOf(topology.GroupFrontier), d.Workspace) {
		row, err := topology.DecodeFrontierRow(value)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		f := frontier{Seq: uint64(row.Seq), Version: uint64(row.Version), Epoch: uint64(row.Frontier),
			Writer: string(row.Writer.Tx)}
		var open []string
		for _, o := range row.Open {
			open = append(open, openText(o.Tx, o.Epoch, o.Since))
		}
		slices.Sort(open)
		f.Open = strings.Join(open, " ")
		if row.Shard != nil {
			f.Shard = traffic.Hash(row.Shard.Content)
		}
		all[string(row.Scope)] = f
	}
	return all
}

// hold is one hold of a transaction, as the decisions tell of it.
type hold struct {
	tx    sequencer.TxID
	epoch sequencer.Epoch
	since sequencer.Seq
}

// scopeFacts is what the decisions say of one scope.
type scopeFacts struct {
	row   frontier
	holds []hold
	wrote map[sequencer.Seq]string // hash of what a decision carries
}

// frontiersByForce reads hence.decisions from its beginning.
func frontiersByForce(t *testing.T, d *harness.Deployment) map[string]frontier {
	t.Helper()
	all := map[sequencer.Scope]*scopeFacts{}
	outcomes, _ := recorded(t, d.Servers, d.Workspace)
	for _, o := range outcomes {
		at := func(scope sequencer.Scope) *scopeFacts {
			if all[scope] == nil {
				all[scope] = &scopeFacts{wrote: map[sequencer.Seq]string{}}
			}
			all[scope].row.Seq = uint64(o.Seq)
			return all[scope]
		}
		for _, h := range o.Ended {
			p := at(h.Scope)
			if i := slices.IndexFunc(p.holds, func(x hold) bool { return x.tx == o.Tx }); i >= 0 {
				p.holds = slices.Delete(p.holds, i, i+1)
			}
		}
		for _, h := range o.Added {
			p := at(h.Scope)
			p.holds = append(p.holds, hold{o.Tx, o.Epoch, o.Seq})
		}
		for _, w := range o.Writes {
			p := at(w.Scope)
			p.row.Version, p.row.Writer = uint64(o.Seq), string(w.Writer.Tx)
		}
		for _, s := range o.Shards {
			p := at(s.Scope)
			if p.wrote[o.Seq] = traffic.Hash(s.Content); s.Absent {
				p.wrote[o.Seq] = ""
			}
			p.row.Shard = p.wrote[cmp.Or(s.Restored, o.Seq)]
		}
		at("")
	}
	rows := map[string]frontier{}
	for scope, p := range all {
		rows[string(scope)] = p.finished()
	}
	return rows
}

func (p *scopeFacts) finished() frontier {
	var open []string
	for _, h := range p.holds {
		open = append(open, openText(h.tx, h.epoch, h.since))
		if p.row.Epoch == 0 || uint64(h.epoch) < p.row.Epoch {
			p.row.Epoch = uint64(h.epoch)
		}
	}
	slices.Sort(open)
	p.row.Open = strings.Join(open, " ")
	return p.row
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
	outcomes, _ := recorded(t, d.Servers, d.Workspace)
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
