// Package tables compares the tables of closure and frontier with what a plain reading of the exported topics gives.
package tables

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

// Equal compares both tables with the topics until they are equal, and returns their sizes.
func Equal(t *testing.T, d *harness.Deployment) (closures, frontiers int) {
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
	for _, ev := range harness.ReadEvents(t, d.Brokers, d.Workspace) {
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
	outcomes, _ := harness.Recorded(t, d.Servers, d.Workspace)
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
	outcomes, _ := harness.Recorded(t, d.Servers, d.Workspace)
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
