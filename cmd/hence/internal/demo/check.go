package demo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
)

// LostUpdate is a committed write that was made in ignorance of another one.
type LostUpdate struct {
	Tx      string `json:"tx"`
	Scope   string `json:"scope"`
	Version uint64 `json:"version"` // what it had read
	Seq     uint64 `json:"seq"`     // of its commit
	By      string `json:"by"`      // the transaction whose write was overwritten unseen
	BySeq   uint64 `json:"by_seq"`
}

// move is one committed write of a scope.
type move struct {
	seq uint64
	tx  string
}

// lostUpdates counts, from the agents' records, the committed transactions' scopes that they read at one version
// and wrote although another committed write had come between that version and their commit. The last write between
// is named.
func lostUpdates(attempts []*Attempt) []LostUpdate {
	moves := map[string][]move{}
	for _, a := range attempts {
		if !a.committed() {
			continue
		}
		for _, w := range a.Writes {
			moves[w.Scope] = append(moves[w.Scope], move{a.Seq, a.Tx})
		}
	}
	var lost []LostUpdate
	for _, a := range attempts {
		if !a.committed() {
			continue
		}
		for _, w := range a.Writes {
			if l, found := lostBy(a, w.Scope, moves[w.Scope]); found {
				lost = append(lost, l)
			}
		}
	}
	slices.SortStableFunc(lost, func(x, y LostUpdate) int {
		return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.Scope, y.Scope))
	})
	return lost
}

// lostBy looks for a write of the scope that a neither saw nor came before.
func lostBy(a *Attempt, scope string, moves []move) (LostUpdate, bool) {
	at := slices.IndexFunc(a.Reads, func(r ReadRecord) bool { return r.Scope == scope })
	if at < 0 {
		return LostUpdate{}, false
	}
	lost := LostUpdate{Tx: a.Tx, Scope: scope, Version: a.Reads[at].Version, Seq: a.Seq}
	for _, m := range moves {
		if m.tx != a.Tx && m.seq > lost.Version && m.seq < a.Seq && m.seq > lost.BySeq {
			lost.By, lost.BySeq = m.tx, m.seq
		}
	}
	return lost, lost.By != ""
}

// Missing is a commit that an agent was told of and that the log lacks or shows otherwise.
type Missing struct {
	Tx    string `json:"tx"`
	Agent string `json:"agent"`
	Seq   uint64 `json:"seq"`
	Log   string `json:"log"` // what the log has instead
}

// logged is what the decision log says of one transaction.
type logged struct {
	committed bool
	code      string
	seq       uint64
	final     bool // settled: nothing of it is still to be released or undone
}

// missing compares what agents were told with the decision log.
func missing(attempts []*Attempt, log map[string]logged) []Missing {
	var found []Missing
	for _, a := range attempts {
		if !a.committed() {
			continue
		}
		l, ok := log[a.Tx]
		instead := ""
		switch {
		case !ok:
			instead = "nothing"
		case !l.committed:
			instead = "aborted: " + l.code
		case l.seq != a.Seq:
			instead = fmt.Sprintf("committed at seq %d", l.seq)
		default:
			continue
		}
		found = append(found, Missing{Tx: a.Tx, Agent: a.Agent, Seq: a.Seq, Log: instead})
	}
	return found
}

// committedTasks returns the tasks of the committed attempts in commit order, each as often as it was committed.
// The loading of the initial data is not a task.
func committedTasks(attempts []*Attempt, tasks []retail.Task) []retail.Task {
	var done []*Attempt
	for _, a := range attempts {
		if a.committed() && a.Task >= 0 {
			done = append(done, a)
		}
	}
	slices.SortFunc(done, func(x, y *Attempt) int { return cmp.Compare(x.Seq, y.Seq) })
	ordered := make([]retail.Task, len(done))
	for i, a := range done {
		ordered[i] = tasks[a.Task]
	}
	return ordered
}

// replay runs the committed tasks alone over the initial state and returns the shards in which the final state
// differs.
func replay(domain *retail.Domain, initial, final retail.Memory, tasks []retail.Task) ([]string, error) {
	alone, err := domain.Replay(initial, tasks)
	if err != nil {
		return nil, fmt.Errorf("replay the committed tasks: %w", err)
	}
	return alone.Diff(final), nil
}
