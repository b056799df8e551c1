package torture

import (
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// Bounds of a judgement.
const (
	restBound  = 2 * time.Minute  // until nothing is left open and every effect has arrived
	scopeBound = 30 * time.Second // of the search of one scope's order
	chainTail  = 500              // seqs of which every view is asked for its hashes
)

// verdict is what a slice came to, beside its faults.
type verdict struct {
	Attempts     int `json:"attempts"`
	Committed    int `json:"committed"` // as agents were told
	Aborted      int `json:"aborted"`
	Unknown      int `json:"unknown"`  // that agents were not told
	Resolved     int `json:"resolved"` // of these, what the log shows as decided
	Decisions    int `json:"decisions"`
	Effects      int `json:"effects"`
	Sent         int `json:"sent"`
	Residues     int `json:"residues"`
	Linearizable int `json:"linearizable"` // operations on registers that porcupine has judged
	Views        int `json:"views"`        // seqs of which at least two views were compared
	Hashes       int `json:"hashes"`       // state hashes that both replicas of the processors have published
	Lost         int `json:"lost"`         // decisions that agents were told of and the log has not, or has otherwise
	Violations   int `json:"violations"`
}

// judge waits until everything has come to rest and runs every check.
func (l *lab) judge() (v verdict) {
	l.Helper()
	outcomes := harness.DecisionsOf(l, l.servers, l.workspace, l.named(nil))
	attempts := l.named(outcomes)
	found := &check.Effects{}
	look := client.New(l.cars[0].url, token, client.WithWorkspace(l.workspace))
	harness.Eventually(l, restBound, func() error {
		outcomes = harness.DecisionsOf(l, l.servers, l.workspace, attempts)
		found = &check.Effects{Issued: l.Issued, Sent: append(l.mails(), l.charges()...)}
		found.Attempts, found.Decisions = attempts, harness.Checked(outcomes)
		found.Residue = harness.Residue(l, look)
		if open := append(found.Unresolved(), found.Lost()...); len(open) > 0 {
			return fmt.Errorf("%d things are left, among them: %s", len(open), open[0])
		}
		return nil
	})
	all := found.History.All()
	for _, more := range [][]check.Violation{found.Leaks(), found.Duplicates(), found.Lost(), found.Orders()} {
		all = append(all, more...)
	}
	var more []check.Violation
	all = append(append(all, l.rows(found)...), l.twice()...)
	v.Linearizable, more = found.Linearizable(scopeBound)
	all = append(all, more...)
	v.Views, more = l.sameViews(outcomes)
	all = append(all, more...)
	v.Hashes, more = l.sameHashes()
	all = append(all, more...)
	harness.NoViolations(l, all)
	recorded.Agrees(l, l.servers.Brokers, l.workspace, outcomes, max(97, len(outcomes)/50))
	v.count(attempts, outcomes)
	v.Lost = len(found.LostAcknowledged())
	v.Effects, v.Sent, v.Residues, v.Violations = len(found.Issued), len(found.Sent), len(found.Residue), len(all)
	return v
}

func (v *verdict) count(attempts []check.Attempt, outcomes []*sequencer.Outcome) {
	v.Attempts, v.Decisions = len(attempts), len(outcomes)
	decided := map[string]bool{}
	for _, o := range outcomes {
		if o.Kind == sequencer.OutcomeCommitted || o.Kind == sequencer.OutcomeAborted {
			decided[string(o.Tx)] = true
		}
	}
	for i := range attempts {
		switch attempts[i].State {
		case check.Committed:
			v.Committed++
		case check.Aborted:
			v.Aborted++
		case check.Unknown:
			v.Unknown++
			if decided[attempts[i].Tx] {
				v.Resolved++
			}
		}
	}
}

// mine says whether a tool call is of this load: a new log gives transactions the names of former ones.
func (l *lab) mine(task string) bool { return strings.HasPrefix(task, l.generation+"-") }

func (l *lab) mails() (mine []check.Sent) {
	l.Helper()
	all, tasks := l.shop.Mails(l)
	for i := range all {
		if l.mine(tasks[i]) {
			mine = append(mine, all[i])
		}
	}
	return mine
}

func (l *lab) charges() (mine []check.Sent) {
	l.Helper()
	for _, sent := range l.shop.Charges(l) {
		if l.mine(strings.TrimPrefix(sent.Key, "charge/")) {
			mine = append(mine, sent)
		}
	}
	return mine
}

// twice finds mails that came a second time, whatever log they are of.
func (l *lab) twice() (found []check.Violation) {
	l.Helper()
	_, tasks := l.shop.Mails(l)
	seen := map[string]bool{}
	for _, task := range tasks {
		if seen[task] {
			found = append(found, check.Violation{Check: "sent_twice", Text: "the mail of " + task})
		}
		seen[task] = true
	}
	return found
}

// rows holds that what was done at once stands where its transaction is committed, and is taken back where it is not,
// or that a residue says otherwise.
func (l *lab) rows(e *check.Effects) (found []check.Violation) {
	l.Helper()
	committed, unclean := map[string]bool{}, map[string]bool{}
	for _, d := range e.Decisions {
		committed[d.Tx] = committed[d.Tx] || d.Kind == string(check.Committed)
	}
	for _, r := range e.Residue {
		unclean[r.Tx] = true
	}
	standing := map[string]bool{}
	for _, did := range l.shop.Standing(l) {
		if !l.mine(did.Task) {
			continue
		}
		standing[did.Tx] = true
		if !committed[did.Tx] && !unclean[did.Tx] {
			found = append(found, check.Violation{Check: "not_undone",
				Text: "the row of " + did.Tx + " stands and it did not commit"})
		}
	}
	for _, i := range e.Issued {
		if !i.Held && committed[i.Tx] && !standing[i.Tx] && !unclean[i.Tx] {
			found = append(found, check.Violation{Check: "lost_row", Text: i.Tx + " is committed and its row does not stand"})
		}
	}
	return found
}

// sameViews holds that every sidecar's view has the chain of the log.
func (l *lab) sameViews(outcomes []*sequencer.Outcome) (shared int, found []check.Violation) {
	l.Helper()
	from := uint64(1)
	if n := len(outcomes); n > chainTail {
		from = uint64(outcomes[n-chainTail].Seq)
	}
	views := map[string]map[uint64]string{"the log": {}}
	for _, o := range outcomes {
		if uint64(o.Seq) >= from {
			views["the log"][uint64(o.Seq)] = fmt.Sprintf("%x", o.Chain)
		}
	}
	for _, car := range l.cars {
		cl := client.New(car.url, token, client.WithWorkspace(l.workspace))
		chain, err := cl.Chain(l.Context(), uint64(outcomes[len(outcomes)-1].Seq), 1)
		if err == nil { // a view that was started late remembers little
			chain, err = cl.Chain(l.Context(), max(from, chain.First), chainTail)
		}
		l.must(err)
		views[car.name] = map[uint64]string{}
		for _, link := range chain.Links {
			views[car.name][link.Seq] = link.Chain
		}
	}
	return check.SameChain(views)
}

// sameHashes holds that both replicas of the processors have come to the same states.
func (l *lab) sameHashes() (shared int, found []check.Violation) {
	l.Helper()
	states := map[string]map[uint64]string{}
	for _, r := range harness.ReadTopic(l, l.servers.Brokers, topology.TopicHashes, l.workspace) {
		h, err := topology.DecodeStateHash(r.Value)
		l.must(err)
		if states[h.Replica] == nil {
			states[h.Replica] = map[uint64]string{}
		}
		hash := fmt.Sprintf("%x", h.Hash)
		if former := states[h.Replica][uint64(h.Seq)]; former != "" && former != hash {
			found = append(found, check.Violation{Check: "same_state",
				Text: fmt.Sprintf("replica %s has two states at seq %d: %s and %s", h.Replica, h.Seq, former, hash)})
		}
		states[h.Replica][uint64(h.Seq)] = hash
	}
	shared, more := check.SameChain(states)
	return shared, append(found, more...)
}
