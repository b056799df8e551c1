package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// defaultStates bounds a walk whose configuration does not.
const defaultStates = 20_000_000

// workspace is the one that the explored log belongs to.
const workspace = "w"

// node is a state that waits to be looked at.
type node struct {
	id uint32
	st *sequencer.State
	w  world
}

// step is how a state was reached first.
type step struct {
	from uint32
	act  action
}

// edge is one transition, kept where agents may try for ever.
type edge struct {
	from, to uint32
	act      action
}

type search struct {
	m      *model
	keys   *keyer
	seen   map[uint64]uint32
	steps  []step // by the state's number
	edges  []edge // those without a commit, where agents may try for ever
	cycles bool
	report Report
	found  *path
	visit  func(*world, *sequencer.State) // of each new state; may be nil
}

// path ends in a violation: the steps to a state, then more.
type path struct {
	what string
	acts []action
}

func newSearch(cfg Config) *search {
	if len(cfg.Agents) > maxAgents || len(cfg.Scopes) > maxScopes {
		panic(fmt.Sprintf("explore: %s has %d agents and %d scopes; a world holds %d and %d", cfg.Name, len(cfg.Agents),
			len(cfg.Scopes), maxAgents, maxScopes))
	}
	if cfg.MaxStates == 0 {
		cfg.MaxStates = defaultStates
	}
	m := newModel(cfg)
	s := &search{m: m, keys: newKeyer(m), seen: map[uint64]uint32{}}
	for _, a := range cfg.Agents {
		s.cycles = s.cycles || a.Retries < 0
	}
	return s
}

func (s *search) run() Report {
	root := s.m.root()
	st := root.fold().State()
	layer := []node{{st: &st, w: root.world}}
	s.seen[s.keys.key(&root.world, &st)] = 0
	s.steps = append(s.steps, step{})
	if root.fault != "" {
		s.found = &path{what: root.fault}
	}
	for len(layer) > 0 && s.found == nil && len(s.steps) < s.m.cfg.MaxStates {
		var next []node
		for i := range layer {
			if next = s.expand(&layer[i], next); s.found != nil {
				break
			}
			layer[i].st = nil
		}
		layer = next
		s.report.Depth++
	}
	s.report.States = len(s.steps)
	s.report.Complete = len(layer) == 0 && s.found == nil
	if s.cycles && s.found == nil {
		s.findCycle()
	}
	if s.found != nil {
		s.report.Complete = false
		s.report.Violation = &Violation{What: s.found.what, Trace: s.m.trace(s.found.acts)}
	}
	return s.report
}

// expand takes every step that a state allows, and adds the states not seen before.
func (s *search) expand(n *node, next []node) []node {
	var room [32]action
	acts := s.m.actions(&n.w, room[:0])
	moves := false
	for _, act := range acts {
		moves = moves || !act.verb.idle()
		next = s.take(n, act, next)
		if s.found != nil {
			return next
		}
	}
	if !moves {
		s.end(n)
	}
	return next
}

// end looks at a state in which nothing has to happen any more.
func (s *search) end(n *node) {
	cur := &state{world: n.w}
	for who := range s.m.cfg.Agents {
		if !n.w.agents[who].done {
			cur.violate("%s waits for ever", s.m.txID(who, &n.w.agents[who].txs[0]))
		}
	}
	s.m.ended(cur, n.st)
	s.report.Ends++
	if cur.fault != "" {
		s.found = &path{cur.fault, s.way(n.id)}
	}
}

// take takes one step.
func (s *search) take(n *node, act action, next []node) []node {
	var fold *sequencer.Fold
	cur := state{world: n.w, fold: func() *sequencer.Fold {
		fold = s.foldAt(n)
		return fold
	}}
	s.m.apply(&cur, act)
	s.report.Transitions++
	if cur.landed {
		s.report.Commits++
	}
	if cur.fault != "" {
		s.found = &path{cur.fault, append(s.way(n.id), act)}
		return next
	}
	st := n.st
	if fold != nil {
		after := fold.State()
		st = &after
	}
	key := s.keys.key(&cur.world, st)
	id, known := s.seen[key]
	if !known {
		if s.visit != nil {
			s.visit(&cur.world, st)
		}
		id = uint32(len(s.steps))
		s.seen[key] = id
		s.steps = append(s.steps, step{n.id, act})
		next = append(next, node{id, st, cur.world})
	}
	if s.cycles && !cur.landed {
		s.edges = append(s.edges, edge{n.id, id, act})
	}
	return next
}

// foldAt makes the fold of a state.
func (s *search) foldAt(n *node) *sequencer.Fold {
	if s.m.cfg.Replay {
		cur := s.m.root()
		f := cur.fold()
		for _, act := range s.way(n.id) {
			s.m.apply(cur, act)
		}
		return f
	}
	return s.m.restore(*n.st)
}

// restore makes the fold of a state. Where the horizon is behind the head it is as if others had committed since.
func (m *model) restore(st sequencer.State) *sequencer.Fold {
	if m.cfg.Behind && st.Seq > m.rules.HorizonSeqs {
		st.Horizon = max(st.Horizon, st.Seq-m.rules.HorizonSeqs)
	}
	f, err := sequencer.Restore(st)
	if err != nil {
		panic(fmt.Sprintf("explore: a state that the fold exported is not restored: %v", err))
	}
	return f
}

// way lists the steps to a state.
func (s *search) way(id uint32) []action {
	var out []action
	for ; id != 0; id = s.steps[id].from {
		out = append(out, s.steps[id].act)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// root is the state after everybody has joined.
func (m *model) root() *state {
	f := sequencer.New(workspace)
	s := &state{fold: func() *sequencer.Fold { return f }}
	s.dups = uint8(m.cfg.Duplicates)
	for _, in := range m.opening() {
		m.step(s, in)
	}
	for who := range m.cfg.Agents {
		m.advance(s, who)
	}
	return s
}

// opening are the records in front of everything: rules, and each sidecar's join.
func (m *model) opening() []*sequencer.Intent {
	var out []*sequencer.Intent
	if m.rules != nil {
		out = append(out, &sequencer.Intent{Kind: sequencer.IntentRules, Rules: m.rules})
	}
	for who := range m.cfg.Agents {
		if m.sidecar[who] == who {
			out = append(out, m.join(who, 0))
		}
	}
	return out
}

// findCycle looks for a way round that commits nothing: agents that can refuse each other for ever.
func (s *search) findCycle() {
	first := make([]uint32, len(s.steps)+1) // edges come in the order of the states that they leave
	for i := len(s.edges) - 1; i >= 0; i-- {
		first[s.edges[i].from] = uint32(i)
	}
	state := make([]byte, len(s.steps)) // 0 new, 1 on the way, 2 done
	at := make([]uint32, len(s.steps))
	for root := range s.steps {
		stack := []uint32{uint32(root)}
		for len(stack) > 0 && s.found == nil {
			n := stack[len(stack)-1]
			if state[n] == 0 {
				state[n], at[n] = 1, first[n]
			}
			i := at[n]
			if state[n] == 2 || int(i) >= len(s.edges) || s.edges[i].from != n {
				state[n] = 2
				stack = stack[:len(stack)-1]
				continue
			}
			at[n]++
			switch to := s.edges[i].to; state[to] {
			case 0:
				stack = append(stack, to)
			case 1:
				s.cycleAt(stack, to, at)
			}
		}
	}
}

// cycleAt notes the way to a cycle and once round it.
func (s *search) cycleAt(stack []uint32, to uint32, at []uint32) {
	acts := s.way(to)
	from := 0
	for i, n := range stack {
		if n == to {
			from = i
		}
	}
	before := len(acts)
	for _, n := range stack[from:] {
		acts = append(acts, s.edges[at[n]-1].act)
	}
	s.found = &path{fmt.Sprintf("nobody commits, and after %d steps all is as it was %d steps before: "+
		"it can go on for ever", len(acts), len(acts)-before), acts}
}
