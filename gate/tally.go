package gate

import "github.com/hence-dev/hence/sequencer"

// tally is how often a call, or its compensation, has left: before this process, as far as the marks say, and under
// it. A mark is there before its call, which a lease may still stop, so marks alone count too many.
type tally struct{ before, made int }

func (t *tally) all() int { return t.before + t.made }

type tallyOf struct {
	tx    sequencer.TxID
	index uint32
	undo  bool
}

func (j *job) tallyOf() tallyOf {
	return tallyOf{tx: j.p.Tx, index: j.p.Index, undo: j.start == StepUndoing}
}

// marked are the tries that a job's marks say.
func (j *job) marked() *int {
	if j.start == StepUndoing {
		return &j.p.UndoTries
	}
	return &j.p.Tries
}

// recall gives a job the tally of one that was stopped in this process. Another process begins with none of its own:
// what kept the former one from its sink may be over.
func (g *Engine) recall(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := j.tallyOf()
	if j.tally = g.tallies[of]; j.tally == nil {
		j.tally = &tally{before: *j.marked()}
	}
	delete(g.tallies, of)
}

// remember keeps the tally of a job that is to be gone on with, and says in any case how often its call has left.
func (g *Engine) remember(j *job, stopped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *j.marked() = j.tally.all(); stopped {
		g.tallies[j.tallyOf()] = j.tally
	}
}
