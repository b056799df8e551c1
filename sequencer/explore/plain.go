package explore

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
)

// plain is a world beside one fold that is not that of Config: a value W without pointers, and what can happen next in
// it. States are told apart exactly.
type plain[W comparable] struct {
	name  string
	start func(*spot[W])                          // what is in front of everything
	moves func(*W) []move[W]                      // in a fixed order
	ended func(*spot[W])                          // a state in which nothing has to happen any more
	every func(s *spot[W], after *sequencer.Fold) // after each step that reached the log; may be nil
}

// move is one step.
type move[W comparable] struct {
	note string
	idle bool // it need not happen
	do   func(*spot[W])
}

// spot is a state while it is being looked at.
type spot[W comparable] struct {
	w      W
	fold   *sequencer.Fold
	fault  string // the first property that does not hold
	landed bool   // something committed
	logged bool
	trace  *Trace // nil: not traced
}

func (s *spot[W]) violate(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// log gives the fold a record.
func (s *spot[W]) log(in *sequencer.Intent) []sequencer.Outcome {
	s.logged = true
	step, fault := Step(s.fold, int64(s.fold.Seq()), in)
	if fault != "" {
		s.violate("%s", fault)
	}
	if s.trace != nil {
		s.trace.Intents, s.trace.Notes = append(s.trace.Intents, in), append(s.trace.Notes, "")
		s.trace.Lines = append(s.trace.Lines, script.Format(in))
	}
	for i := range step.Outcomes {
		o := &step.Outcomes[i]
		s.landed = s.landed || o.Kind == sequencer.OutcomeCommitted
		if s.trace != nil {
			s.trace.Lines = append(s.trace.Lines, "#   "+OutcomeLine(o))
		}
	}
	return step.Outcomes
}

// plainNode is a state that waits to be looked at.
type plainNode[W comparable] struct {
	id uint32
	st *sequencer.State
	w  W
}

type plainStep struct {
	from uint32
	move uint16
}

type plainSearch[W comparable] struct {
	p      *plain[W]
	seed   maphash.Seed
	seen   map[uint64]bool
	steps  []plainStep
	report Report
	what   string
	way    []uint16
}

// run walks every interleaving, breadth first.
func (p *plain[W]) run() Report {
	start := time.Now()
	s := &plainSearch[W]{p: p, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	root := p.root(nil)
	st := root.fold.State()
	s.seen[s.key(&root.w, &st)] = true
	s.steps, s.what = append(s.steps, plainStep{}), root.fault
	layer := []plainNode[W]{{st: &st, w: root.w}}
	for len(layer) > 0 && s.what == "" && len(s.steps) < defaultStates {
		var next []plainNode[W]
		for i := range layer {
			if next = s.expand(&layer[i], next); s.what != "" {
				break
			}
		}
		layer = next
		s.report.Depth++
	}
	s.report.Name, s.report.States, s.report.Duration = p.name, len(s.steps), time.Since(start)
	s.report.Complete = len(layer) == 0 && s.what == ""
	if s.what != "" {
		s.report.Violation = &Violation{What: s.what, Trace: p.retrace(s.way)}
	}
	return s.report
}

func (p *plain[W]) root(trace *Trace) *spot[W] {
	s := &spot[W]{fold: sequencer.New(workspace), trace: trace}
	p.start(s)
	return s
}

func (s *plainSearch[W]) key(w *W, st *sequencer.State) uint64 {
	plain := *st
	plain.Chain = sequencer.Hash{}
	h := plain.Hash()
	return maphash.Comparable(s.seed, *w) ^ binary.LittleEndian.Uint64(h[:])
}

// expand takes every step that a state allows, and adds the states not seen before.
func (s *plainSearch[W]) expand(n *plainNode[W], next []plainNode[W]) []plainNode[W] {
	moves := false
	for i, m := range s.p.moves(&n.w) {
		moves = moves || !m.idle
		cur := s.at(n)
		m.do(cur)
		s.p.after(cur)
		s.report.Transitions++
		if cur.landed {
			s.report.Commits++
		}
		if cur.fault != "" {
			s.fail(cur.fault, n.id, uint16(i))
			return next
		}
		st := n.st
		if cur.logged {
			after := cur.fold.State()
			st = &after
		}
		if key := s.key(&cur.w, st); !s.seen[key] {
			s.seen[key] = true
			next = append(next, plainNode[W]{uint32(len(s.steps)), st, cur.w})
			s.steps = append(s.steps, plainStep{n.id, uint16(i)})
		}
	}
	if !moves {
		s.report.Ends++
		cur := s.at(n)
		if s.p.ended(cur); cur.fault != "" {
			s.fail(cur.fault, n.id)
		}
	}
	return next
}

func (p *plain[W]) after(s *spot[W]) {
	if s.logged && p.every != nil && s.fault == "" {
		p.every(s, s.fold)
	}
}

// at makes the fold of a state.
func (s *plainSearch[W]) at(n *plainNode[W]) *spot[W] {
	f, err := sequencer.Restore(*n.st)
	if err != nil {
		panic(fmt.Sprintf("explore: a state that the fold exported is not restored: %v", err))
	}
	return &spot[W]{w: n.w, fold: f}
}

// fail notes a violation and the way to it.
func (s *plainSearch[W]) fail(what string, id uint32, last ...uint16) {
	s.what = what
	for ; id != 0; id = s.steps[id].from {
		s.way = append(s.way, s.steps[id].move)
	}
	for i, j := 0, len(s.way)-1; i < j; i, j = i+1, j-1 {
		s.way[i], s.way[j] = s.way[j], s.way[i]
	}
	s.way = append(s.way, last...)
}

// retrace walks a way again and writes it down.
func (p *plain[W]) retrace(way []uint16) Trace {
	var t Trace
	s := p.root(&t)
	for _, i := range way {
		m := p.moves(&s.w)[i]
		t.Lines = append(t.Lines, "# "+m.note)
		m.do(s)
	}
	return t
}
