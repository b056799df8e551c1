package harness

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// RecordedIn is how long a decision that an agent was told of may take to be in hence.decisions: it is delivered as
// soon as it is determined, before its record is.
const RecordedIn = 20 * time.Second

// DecisionsOf are a workspace's decisions as hence.decisions has them, once it has all that the attempts were told of.
func DecisionsOf(tb testing.TB, servers *Servers, workspace string, attempts []check.Attempt,
) []*sequencer.Outcome {
	tb.Helper()
	all, unreadable := DecisionsAmong(tb, servers, workspace, attempts)
	if unreadable > 0 {
		tb.Errorf("hence.decisions has %d records of %s that cannot be read", unreadable, workspace)
	}
	return all
}

// DecisionsAmong is DecisionsOf for a topic into which a test put records that cannot be read.
func DecisionsAmong(tb testing.TB, servers *Servers, workspace string, attempts []check.Attempt,
) (all []*sequencer.Outcome, unreadable int) {
	tb.Helper()
	told := uint64(0)
	for _, a := range attempts {
		told = max(told, a.Seq)
	}
	Eventually(tb, RecordedIn, func() error {
		all, unreadable = Recorded(tb, servers, workspace)
		if n := len(all); n == 0 || uint64(all[n-1].Seq) < told {
			return fmt.Errorf("hence.decisions has %d decisions of %s, agents were told of seq %d", n, workspace, told)
		}
		return nil
	})
	return all, unreadable
}

// Recorded are the decisions that hence.decisions has now, the first copy of each seq, and the number of records that
// are none.
func Recorded(tb testing.TB, servers *Servers, workspace string) (all []*sequencer.Outcome, unreadable int) {
	tb.Helper()
	seen := sequencer.Seq(0)
	for _, r := range ReadTopic(tb, servers.Brokers, topology.TopicDecisions, workspace) {
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			unreadable++
			continue
		}
		if o.Seq <= seen {
			continue
		}
		seen = o.Seq
		all = append(all, o)
	}
	return all, unreadable
}

// Checked are decisions as the checkers read them.
func Checked(outcomes []*sequencer.Outcome) []check.Decision {
	all := make([]check.Decision, len(outcomes))
	for i, o := range outcomes {
		d := check.Decision{Seq: uint64(o.Seq), Kind: o.Kind.String(), Tx: string(o.Tx), Intent: o.Intent,
			Agent: o.Agent, Code: string(o.Code), Chain: fmt.Sprintf("%x", o.Chain)}
		for _, w := range o.Writes {
			d.Writes = append(d.Writes, string(w.Scope))
		}
		all[i] = d
	}
	return all
}

// AttemptsOf are a demo's records as the checkers read them. Scopes are brought into their canonical form.
func AttemptsOf(tb testing.TB, records []Attempt) []check.Attempt {
	tb.Helper()
	all := make([]check.Attempt, len(records))
	for i, r := range records {
		a := check.Attempt{Agent: r.Agent, Tx: r.Tx, Code: r.Code, Seq: r.Seq, State: check.Unknown}
		if r.End == string(check.Committed) || r.End == string(check.Aborted) {
			a.State = check.State(r.End)
		}
		for _, read := range r.Reads {
			a.Reads = append(a.Reads, check.Read{Scope: canonical(tb, read.Scope), Version: read.Version, View: read.View,
				SHA256: read.SHA256})
		}
		for _, w := range r.Writes {
			a.Writes = append(a.Writes, check.Write{Scope: canonical(tb, w.Scope), SHA256: w.SHA256})
		}
		all[i] = a
	}
	return all
}

func canonical(tb testing.TB, text string) string {
	tb.Helper()
	scope, err := sequencer.ParseScope(text)
	if err != nil {
		tb.Fatal(err)
	}
	return string(scope)
}

// Holds runs every checker over a history and the chain of its decisions.
func Holds(tb testing.TB, attempts []check.Attempt, outcomes []*sequencer.Outcome) {
	tb.Helper()
	h := &check.History{Attempts: attempts, Decisions: Checked(outcomes)}
	for i, v := range h.All() {
		if i == 20 {
			tb.Error("and more")
			break
		}
		tb.Error(v)
	}
	var chain sequencer.Hash
	for _, o := range outcomes {
		chain = o.ChainAfter(chain)
		if chain != o.Chain {
			tb.Fatalf("seq %d has chain %x, recomputed it is %x", o.Seq, o.Chain, chain)
		}
	}
}
