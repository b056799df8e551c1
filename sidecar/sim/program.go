package sim

import (
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

type opKind uint8

const (
	opRead  opKind = iota // of a shard or of a foreign resource
	opTouch               // and the eager effects under it
	opGated
	opWrite // of a shard
)

// op is one thing that a program does.
type op struct {
	kind   opKind
	scope  sequencer.Scope
	wants  []sequencer.Want
	runs   []sequencer.Scope // opTouch: where eager effects run
	class  sequencer.Class
	key    string // opGated: the business key, the same in every attempt
	keyed  bool   // opTouch: the sinks of what runs take keys
	expect bool
}

// program is what an agent wants to get done, in as many attempts as that takes.
type program struct {
	id       int
	ops      []op
	mode     sequencer.Mode
	levels   *sequencer.Levels
	observe  bool
	may      bool
	hook     bool
	pins     bool
	sloppy   bool
	deadline sequencer.Tick
	group    *group
	last     bool // one of those that must succeed
}

// group is a set of branches of which one is chosen.
type group struct {
	id      string
	since   int // it is chosen among the members some time after that step
	members []sequencer.TxID
}

func (r *run) pick(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := r.n(max(sum, 1))
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return 0
}

func (r *run) scope(foreign bool) sequencer.Scope {
	if r.chance(r.swarm.wide) {
		if foreign {
			return wide()[r.n(2)]
		}
		return wide()[2+r.n(2)]
	}
	if foreign {
		return leaves()[r.n(numForeign)]
	}
	return leaves()[numForeign+r.n(numLeaves-numForeign)]
}

func (r *run) newProgram() *program {
	s := &r.swarm
	r.keys++
	p := &program{id: r.keys, mode: sequencer.Mode(r.pick(s.modes[:]...)), last: r.healing,
		observe: r.chance(s.observe), may: r.chance(s.may), hook: r.chance(s.hook), pins: r.chance(s.pins),
		sloppy: r.chance(s.sloppy)}
	if r.chance(s.levels) {
		l := sequencer.Levels(r.n(int(sequencer.L4) + 1))
		p.levels = &l
	}
	if r.chance(0.2) && !r.healing {
		p.deadline = sequencer.Tick(5 + r.n(30))
	}
	for range 1 + r.n(4) {
		p.ops = append(p.ops, r.newOp(p.mode)...)
	}
	return p
}

// newOp draws what to do next; in locked mode a read asks for its grant first.
func (r *run) newOp(mode sequencer.Mode) []op {
	s := &r.swarm
	switch opKind(r.pick(s.read, s.touch, s.gated, s.write)) {
	case opTouch:
		return []op{r.newTouch()}
	case opGated:
		o := op{kind: opGated, scope: r.scope(true), class: sequencer.ClassIrreversible}
		if r.chance(0.3) {
			o.class = sequencer.ClassBufferable
		}
		if !r.chance(s.unkeyed) {
			r.keys++
			o.key = fmt.Sprintf("k%d", r.keys)
		}
		return []op{o}
	case opWrite:
		return []op{{kind: opWrite, scope: leaves()[numForeign+r.n(numLeaves-numForeign)], expect: r.chance(s.expect)}}
	}
	read := op{kind: opRead, scope: r.scope(r.chance(0.5))}
	if mode != sequencer.Locked {
		return []op{read}
	}
	wants := []sequencer.Want{{Scope: read.scope, Access: sequencer.ReadAccess}}
	return []op{{kind: opTouch, wants: wants}, read}
}

func (r *run) newTouch() op {
	s := &r.swarm
	o := op{kind: opTouch, class: sequencer.ClassReversible}
	o.keyed = !r.chance(s.unkeyed)
	if r.chance(0.2) {
		o.class, o.keyed = sequencer.ClassKnownOutcome, true
	}
	for range 1 + r.n(2) {
		w := sequencer.Want{Scope: r.scope(true), Access: sequencer.WriteAccess}
		if r.chance(0.2) {
			w.Access = sequencer.ReadAccess
		}
		o.wants = append(o.wants, w)
	}
	for _, w := range o.wants {
		if w.Access == sequencer.WriteAccess && r.chance(0.8) {
			o.runs = append(o.runs, w.Scope)
		}
	}
	return o
}

// footprint is all that a program may touch: what a successor asks for at once, and what `may` declares.
func (p *program) footprint() []sequencer.Want {
	var out []sequencer.Want
	add := func(s sequencer.Scope, a sequencer.Access) {
		if w := (sequencer.Want{Scope: s, Access: a}); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	for _, o := range p.ops {
		switch o.kind {
		case opRead:
			add(o.scope, sequencer.ReadAccess)
		case opGated, opWrite:
			add(o.scope, sequencer.WriteAccess)
		}
		for _, w := range o.wants {
			add(w.Scope, w.Access)
		}
	}
	return out
}

// attempt is one transaction of a program. It is what the sidecar's journal keeps, and more than the sidecar looks at.
type attempt struct {
	id          sequencer.TxID
	prog        *program
	incarnation sequencer.Seq
	base        sequencer.Seq
	seen        sequencer.Seq // the last decision that the agent had when it began
	begin       *sequencer.Begin
	ops         []op
	at          int // the next op

	counts  map[sequencer.IntentKind]uint32
	reads   []readRecord
	effects []*effect
	touches []sequencer.TouchReport
	writes  []sequencer.ShardWrite
	from    []sequencer.TxID

	touch     uint32 // the touch that is waited for
	ran       int    // effects of the current op that were started
	call      *call  // the read that is waited for
	callView  sequencer.Seq
	seal      *sequencer.Seal
	aborting  bool
	givenUp   bool // its agent was told that it came to nothing
	refusals  int
	patience  int // it makes no try before that step
	verdictAt int
	sentAt    int // when the last intent was handed to the producer, and its kind
	sentKind  sequencer.IntentKind
	gone      bool                              // the journal lost it
	expected  map[sequencer.Scope]sequencer.Seq // RunReal: versions that its agent named for what it writes
	relies    []pinned                          // RunReal: calls that have left, and rely on the registry
	carried   bool                              // RunReal: reads has those that its conversation was told before it
	turned    []*effect                         // what a retraction's turn has done about the effects
}

type readRecord struct {
	sequencer.Read
	leaves []int
	values []token
}

// effect is one tool call of an attempt that changes something.
type effect struct {
	index   int
	scope   sequencer.Scope
	leaves  []int
	class   sequencer.Class
	key     string
	token   token
	run     *call // the eager call
	known   bool
	ran     bool
	givenUp bool
	idle    bool // it was refused, and its transaction sealed without it
	absent  bool // planned, and its agent or the footprint says that it does not come any more

	mend    *call // release or compensation
	mends   int
	maybe   bool // some try of it was not answered
	settled bool
	result  sequencer.Result
	stops   bool // what comes after it in its settlement is not touched
}

func (e *effect) eager() bool {
	return e.class == sequencer.ClassReversible || e.class == sequencer.ClassKnownOutcome
}

func (e *effect) gated() bool { return !e.eager() }

// stage is when it runs: at once, or after the commit.
func (e *effect) stage() int {
	if e.gated() {
		return 1
	}
	return 0
}

// keyed: the sink takes a key; for what runs at once it is made of transaction and index.
func (e *effect) keyed() bool { return e.key != "" }

// written lists the resources that the attempt's effects and shard writes are on.
func (a *attempt) written() []int {
	var out []int
	for _, e := range a.effects {
		if e.idle {
			continue
		}
		out = append(out, e.leaves...)
	}
	for _, w := range a.writes {
		out = append(out, leavesOf(w.Scope)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
