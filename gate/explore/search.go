package explore

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"time"

	folds "github.com/hence-dev/hence/sequencer/explore"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
)

// node is a state that waits to be looked at.
type node struct {
	id uint32
	st *sequencer.State
	w  world
}

type gateStep struct {
	from uint32
	act  gateAct
}

// search walks the gate's world. States are told apart exactly.
type search struct {
	m      *model
	seed   maphash.Seed
	seen   map[uint64]bool
	steps  []gateStep
	report folds.Report
	what   string // the violation
	acts   []gateAct
}

func newSearch(cfg Config) *search {
	return &search{m: newModel(cfg), seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
}

func (s *search) key(w *world, st *sequencer.State) uint64 {
	c, plain := *w, *st
	c.steps, plain.Chain = 0, sequencer.Hash{}
	h := plain.Hash()
	return maphash.Comparable(s.seed, c) ^ binary.LittleEndian.Uint64(h[:])
}

func (s *search) run() folds.Report {
	start := time.Now()
	root := s.m.root()
	st := root.fold().State()
	layer := []node{{st: &st, w: root.world}}
	s.seen[s.key(&root.world, &st)] = true
	s.steps = append(s.steps, gateStep{})
	s.what = root.fault
	for len(layer) > 0 && s.what == "" && len(s.steps) < s.m.cfg.MaxStates {
		var next []node
		for i := range layer {
			if next = s.expand(&layer[i], next); s.what != "" {
				break
			}
			layer[i].st = nil
		}
		layer = next
		s.report.Depth++
	}
	s.report.Name, s.report.States, s.report.Duration = s.m.cfg.Name, len(s.steps), time.Since(start)
	s.report.Complete = len(layer) == 0 && s.what == ""
	if s.what != "" {
		s.report.Violation = &folds.Violation{What: s.what, Trace: s.m.trace(s.acts)}
	}
	return s.report
}

// expand takes every step that a state allows, and adds the states not seen before.
func (s *search) expand(n *node, next []node) []node {
	var room [32]gateAct
	acts := s.m.actions(&n.w, room[:0])
	moves := false
	for _, act := range acts {
		moves = moves || !act.idle()
		next = s.take(n, act, next)
		if s.what != "" {
			return next
		}
	}
	if !moves {
		cur := &state{world: n.w}
		s.m.ended(cur)
		s.report.Ends++
		s.what, s.acts = cur.fault, s.way(n.id)
	}
	return next
}

func (s *search) take(n *node, act gateAct, next []node) []node {
	var fold *sequencer.Fold
	cur := state{world: n.w, fold: func() *sequencer.Fold {
		if fold != nil {
			return fold
		}
		f, err := sequencer.Restore(*n.st)
		if err != nil {
			panic(fmt.Sprintf("explore: a state that the fold exported is not restored: %v", err))
		}
		fold = f
		return fold
	}}
	s.m.apply(&cur, act)
	s.report.Transitions++
	if cur.landed {
		s.report.Commits++
	}
	if cur.fault != "" {
		s.what, s.acts = cur.fault, append(s.way(n.id), act)
		return next
	}
	st := n.st
	if fold != nil {
		after := fold.State()
		st = &after
	}
	key := s.key(&cur.world, st)
	if s.seen[key] {
		return next
	}
	s.seen[key] = true
	s.steps = append(s.steps, gateStep{n.id, act})
	return append(next, node{uint32(len(s.steps) - 1), st, cur.world})
}

func (s *search) way(id uint32) []gateAct {
	var out []gateAct
	for ; id != 0; id = s.steps[id].from {
		out = append(out, s.steps[id].act)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// trace walks a way again and writes it down.
func (m *model) trace(acts []gateAct) folds.Trace {
	var t folds.Trace
	f := sequencer.New(workspace)
	put := func(in *sequencer.Intent) {
		t.Intents, t.Notes = append(t.Intents, in), append(t.Notes, "")
		t.Lines = append(t.Lines, script.Format(in))
		step, _ := folds.Step(f, int64(len(t.Intents)), in)
		for i := range step.Outcomes {
			t.Lines = append(t.Lines, "#   "+folds.OutcomeLine(&step.Outcomes[i]))
		}
	}
	for _, in := range m.opening() {
		put(in)
	}
	s := m.root()
	for _, act := range acts {
		s.intents, s.fault = nil, ""
		m.apply(s, act)
		for _, in := range s.intents {
			put(in)
		}
		if len(s.intents) == 0 {
			note := act.note()
			t.Lines = append(t.Lines, "# "+note)
			if last := &t.Notes[len(t.Notes)-1]; *last == "" {
				*last = note
			} else {
				*last += "; " + note
			}
		}
	}
	return t
}

// note says what a step that reaches no log did.
func (a gateAct) note() string {
	who := [...]string{"incarnation 1 of a1", "incarnation 2 of a1", "a2"}[a.proc]
	call := fmt.Sprintf("the call of effect %d of %s", a.effect, gateTxID(int(a.tx)))
	if a.what == undoing {
		call = fmt.Sprintf("the compensation of effect %d of %s", a.effect, gateTxID(int(a.tx)))
	}
	switch a.verb {
	case gateView:
		return who + " sees all that was decided"
	case gateRead:
		return who + " reads"
	case gateCall:
		return call + " leaves from " + who
	case gateLand:
		return call + " from " + who + " lands and is answered"
	case gateMute:
		return call + " from " + who + " lands and is not answered"
	case gateLose:
		return call + " from " + who + " is lost"
	case gateRefuse:
		return call + " from " + who + " finds the sink down"
	case gateAsk:
		return who + " looks up " + call
	case gateTimeout:
		return who + " gets no answer to " + call
	case gateWaited:
		return who + " has waited for the calls of others on " + string(gateTxID(int(a.tx)))
	case gateCrash:
		return who + " dies"
	case gateLapse:
		return who + " finds that its lease may be over"
	}
	return "the sinks of a1 are down for good"
}
