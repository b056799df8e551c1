package gate

import (
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
)

// steps are a job's marks and the points around them.
type steps struct {
	start                                         Step
	beforeStart, beforeCall, afterCall, afterMark failpoint.Point
}

func callSteps() steps {
	return steps{StepStarted, failpoint.CallBeforeStart, failpoint.CallBeforeCall, failpoint.CallAfterCall,
		failpoint.CallAfterAnswer}
}

func releaseSteps() steps {
	return steps{StepStarted, failpoint.ReleaseBeforeStart, failpoint.ReleaseBeforeCall, failpoint.ReleaseAfterCall,
		failpoint.ReleaseAfterAnswer}
}

func undoSteps() steps {
	return steps{StepUndoing, failpoint.UndoBeforeStart, failpoint.UndoBeforeCall, failpoint.UndoAfterCall,
		failpoint.UndoAfterAnswer}
}

// job is one call, or one compensation, that is being made.
type job struct {
	steps
	p       *Progress
	call    Call
	adapter Adapter
	max     time.Duration
	life    time.Duration // of the sink's keys; zero: for good
	retry   Retry
	maybe   bool // some try may have reached the sink, or may yet
	foreign bool // the first try was not one of this job
	tries   int
	tally   *tally    // of it and of those that it goes on with; nil: it is only asked for
	first   time.Time // when the first try left
	left    time.Time // when the newest one left, of anybody
	heard   Heard     // what the rule has not weighed yet
	said    Answer
	sure    bool    // of a look-up: nothing was on its way when it began
	no      *Answer // the newest refusal that was no answer to an earlier try
	asked   bool    // since the newest try
	looked  bool    // a last time
	mute    bool    // the tool cannot look calls up
	why     error   // of the last try
}

// facts is what the rule has to know of an effect beyond its marks. A job is made when it is first needed: from then
// on its time counts.
func (g *Engine) facts(w *work) Facts {
	p := w.p
	f := Facts{Phase: w.phase, Behind: w.behind != nil, Sought: w.sought, Again: w.again, Found: w.found,
		Lapsed: w.lapsed}
	unseen := p.Answer == nil || p.Answer.Absent
	if unseen && !(f.Behind && w.phase == PhaseReleased) || !p.Tool.Undo {
		if w.call == nil && w.no == nil {
			w.call, w.no = g.callJob(w)
		}
		f.Call = g.attempt(w.call)
	}
	if w.phase != PhaseUndone || !p.Tool.Undo || p.UndoDone != nil || p.UndoLost {
		return f
	}
	f.Orders = unseen && g.canOrder(p)
	held := f.Behind && compensable(p)
	if !w.first && !held && w.undo == nil && w.undoNo == nil && (f.Orders || p.Ran()) {
		w.undo, w.undoNo = g.undoJob(p, w.claim)
	}
	f.Undo = g.attempt(w.undo)
	return f
}

// attempt is what the rule has to know of a job; nil: it cannot be made.
func (g *Engine) attempt(j *job) Attempt {
	if j == nil {
		return Attempt{Unmade: true}
	}
	a := Attempt{Kept: g.remembered(j), Asks: j.call.Key != "" && !j.mute, Most: j.retry.Attempts, Tries: j.tries,
		Late: j.tries > 0 && g.clock.Now().Sub(j.first) >= j.max, Maybe: j.maybe, Landed: g.landed(j), Asked: j.asked,
		Looked: j.looked, Heard: j.heard, Said: j.said, Sure: j.sure, No: j.no}
	if j.tally != nil {
		a.Made = j.tally.made
	}
	return a
}

// begin sets a job's clock.
func (g *Engine) begin(j *job) *job {
	if j.left = g.clock.Now(); j.p.Waited {
		j.left = j.left.Add(-j.max)
	}
	return j
}

// callJob is the call of an effect, or its release.
func (g *Engine) callJob(w *work) (*job, error) {
	p := w.p
	if !p.Tool.Class.Eager() && !p.Tool.Class.Gated() {
		// A read has no marks and no settlement: as a job it would be listed as an effect.
		panic(fmt.Sprintf("gate: %s/%d is called as an effect, but is %s", p.Tx, p.Index, p.Tool.Class))
	}
	a, err := g.adapter(&p.Effect, p.Tool.Name)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", p.Tool.Name, err)
	}
	j := &job{steps: callSteps(), p: p, call: g.callOf(&p.Effect), adapter: a, max: p.Tool.maxTime(),
		life: p.Tool.KeyLife, retry: p.Tool.Retry, maybe: MayHaveLeft(p, w.claim)}
	if w.phase == PhaseReleased {
		j.steps = releaseSteps()
	}
	known := p.Answer != nil || p.GivenUp
	if j.foreign = j.maybe || known; !known {
		// A known call is only asked for, so it has no tries to count.
		g.recall(j)
	}
	return g.begin(j), nil
}

// remembered says that the sink surely still knows the call's key when a repetition gets there.
func (g *Engine) remembered(j *job) bool {
	if j.call.Key == "" {
		// Without a key a repetition happens a second time.
		return false
	}
	if j.foreign {
		return KeyLives(j.life, g.clock.Now().Add(j.max), j.p.At)
	}
	return j.life <= 0 || g.clock.Now().Add(j.max).Sub(j.first) < j.life // of no call yet: longer than any life
}

// ClocksApart is the most by which the clocks of two machines are taken to differ.
const ClocksApart = 15 * time.Minute

// KeyLives says that a sink which knows keys for so long (zero: for good) surely knows one at a time of this machine,
// where the call was issued at a time of another one, or of this one before its clock was set. An issue that is later
// than the clocks explain says that they differ by more, and nothing of the age.
func KeyLives(life time.Duration, at, issued time.Time) bool {
	age := at.Sub(issued)
	return life <= 0 || !issued.IsZero() && age > -ClocksApart && age+ClocksApart < life
}

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
	// One engine carries several transactions at once.
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
	if j == nil || j.tally == nil {
		return
	}
	// See recall.
	g.mu.Lock()
	defer g.mu.Unlock()
	if *j.marked() = j.tally.all(); stopped {
		g.tallies[j.tallyOf()] = j.tally
	}
}
