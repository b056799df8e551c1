// Package states compares what two replicas of the processors say of their states. Both compute the same decisions
// from the same log. Each says in hence.hashes which state it has come to, every so many seqs. Where they differ, one
// of them computes wrongly and no process can know which.
//
// What a replica says later about the same seq counts. So the one that was wrong can be started again, without its
// table and its offsets, with a binary that is right: it folds the log from its beginning, says what is right at that
// seq, and the difference ends.
package states

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// maxStates is how many (workspace, seq) are remembered to be compared.
const maxStates = 1 << 16

// Comparison is what is known of both replicas' states. It is not safe for concurrent use.
type Comparison struct {
	log string // hashes of another log have nothing to do with ours
	fix string // what to do about a difference

	states map[stateAt]*[2]*topology.StateHash // of replicas a and b
	order  []stateAt                           // the order in which they came; a ring once it is full
	oldest int
	differ map[string]*Difference // by workspace: the first one that has not ended
	every  [2]saidEvery           // of replicas a and b
}

// saidEvery is how many seqs a replica goes on between two states that it says.
type saidEvery struct {
	seqs uint32 // zero: it has not said
	atMs int64  // when it said so, by its own clock
}

type stateAt struct {
	workspace string
	seq       sequencer.Seq
}

// Difference is an error that stops the owners of a workspace's partition.
type Difference struct {
	Workspace string
	Seq       sequencer.Seq // where the replicas differ first
	a, b      topology.StateHash
	fix       string
}

// Error says what to do.
func (d *Difference) Error() string {
	return fmt.Sprintf("replicas a and b differ in workspace %q at seq %d (a, %s: %x; b, %s: %x): nothing more of its "+
		"partition is published. %s", d.Workspace, d.Seq, d.a.Instance, d.a.Hash[:6], d.b.Instance, d.b.Hash[:6], d.fix)
}

// New begins a comparison of what the replicas of a log say; cfg is for the commands that end a difference.
func New(cfg streams.Config, log string) *Comparison {
	return &Comparison{log: log, fix: fixDifference(cfg), states: make(map[stateAt]*[2]*topology.StateHash),
		differ: make(map[string]*Difference)}
}

// fixDifference has the commands that let one replica or the other compute the log from its beginning.
func fixDifference(cfg streams.Config) string {
	return fmt.Sprintf("One of them is wrong: compare `hence version` of both. Stop all members of that group and let "+
		"it forget what it computed, if it is a: `%s`; if it is b: `%s`. Start it with the right binary: it computes "+
		"the log again, and both go on once they agree, as `hence doctor --brokers %s` then says",
		cfg.ForgetCommand(topology.ReplicaA), cfg.ForgetCommand(topology.ReplicaB), strings.Join(cfg.Brokers, ","))
}

// Judgement is what one more state has changed.
type Judgement struct {
	Compared bool        // the other replica had said its state there
	Found    *Difference // the replicas differ, or do so earlier than was known
	First    bool        // beside Found: the workspace had no difference before
	Ended    *Difference // the replicas agree where they differed
}

// Take compares one state with what the other replica has said about it.
func (c *Comparison) Take(h *topology.StateHash) (j Judgement) {
	of, ok := indexOf(h.Replica)
	if !ok || h.Log != c.log {
		return j
	}
	if h.Every != 0 {
		c.Every(h.Replica, h.Every, h.AtMs)
	}
	at := stateAt{h.Workspace, h.Seq}
	both := c.remember(at)
	was := c.differ[at.workspace]
	if was != nil && was.Seq == at.seq { // others may have taken its place since
		*both = [2]*topology.StateHash{&was.a, &was.b}
	}
	both[of] = h
	if both[0] == nil || both[1] == nil {
		return j
	}
	j.Compared = true
	switch same := both[0].Hash == both[1].Hash; {
	case !same && (was == nil || at.seq <= was.Seq):
		j.Found = &Difference{Workspace: at.workspace, Seq: at.seq, a: *both[0], b: *both[1], fix: c.fix}
		j.First = was == nil
		c.differ[at.workspace] = j.Found
	case same && was != nil && was.Seq == at.seq:
		j.Ended = was
		delete(c.differ, at.workspace)
	}
	return j
}

func indexOf(replica string) (of int, ok bool) {
	switch replica {
	case topology.ReplicaA:
		return 0, true
	case topology.ReplicaB:
		return 1, true
	}
	return 0, false
}

// Every notes how many seqs a replica goes on between two states that it says; what it said later, by its own clock,
// counts.
func (c *Comparison) Every(replica string, seqs uint32, atMs int64) {
	if of, ok := indexOf(replica); ok && atMs >= c.every[of].atMs {
		c.every[of] = saidEvery{seqs, atMs}
	}
}

// Uneven says that the replicas say their states at different seqs; empty: they do not.
func (c *Comparison) Uneven() string {
	a, b := c.every[0].seqs, c.every[1].seqs
	if a == 0 || b == 0 || a == b {
		return ""
	}
	return fmt.Sprintf("replica a says its state every %d seqs and replica b every %d: only states at the same seq are "+
		"compared, so a difference is found late or never. Run both with the same setting (HashEvery), that is, with the "+
		"same release of hence streams", a, b)
}

// remember finds the entry of a state or makes it, in the place of the oldest one when there are too many.
func (c *Comparison) remember(at stateAt) *[2]*topology.StateHash {
	if both := c.states[at]; both != nil {
		return both
	}
	if len(c.order) < maxStates {
		c.order = append(c.order, at)
	} else {
		delete(c.states, c.order[c.oldest])
		c.order[c.oldest] = at
		c.oldest = (c.oldest + 1) % maxStates
	}
	both := new([2]*topology.StateHash)
	c.states[at] = both
	return both
}

// Said counts the remembered states: those of replica a, of replica b, and those that both have said.
func (c *Comparison) Said() (a, b, both uint64) {
	for _, h := range c.states {
		if h[0] != nil {
			a++
		}
		if h[1] != nil {
			b++
		}
		if h[0] != nil && h[1] != nil {
			both++
		}
	}
	return a, b, both
}

// Differences are those that have not ended, by workspace; the map is the comparison's own.
func (c *Comparison) Differences() map[string]*Difference { return c.differ }
