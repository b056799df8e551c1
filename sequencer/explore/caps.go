package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// The sizes of the world of caps: agents that join, of which fewer may be live at once.
const (
	capsAgents = 3
	capsLive   = 2
)

// capsConfig is a configuration of the world of caps.
type capsConfig struct {
	joins  int // of each agent
	all    int // joins of all agents
	copies int // of joins
	ticks  int // each of weight 8; a lease has 10 ticks
	aborts int // of transactions that were not opened
}

type capsWorld struct {
	live   [capsAgents]sequencer.Seq // incarnation; zero: none
	joins  [capsAgents]uint8
	marks  [capsAgents]uint8 // at how many ticks it renewed its lease last, counted from 1
	copies uint8
	ticks  uint8
	aborts uint8
}

// newCaps makes the world of caps.
func newCaps(cfg capsConfig) *plain[capsWorld] {
	c := caps{cfg}
	return &plain[capsWorld]{
		name: fmt.Sprintf("caps, %d sidecars of which %d may live, %d joins each, %d ticks, %d aborts", capsAgents,
			capsLive, cfg.joins, cfg.ticks, cfg.aborts),
		start: c.start, moves: c.moves, ended: func(*spot[capsWorld]) {}, every: c.every,
	}
}

type caps struct{ cfg capsConfig }

func (c caps) start(s *spot[capsWorld]) {
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.MaxSidecars, rules.LeaseTicks = 1, sequencer.Logic, capsLive, 10
	s.log(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
}

func (c caps) moves(w *capsWorld) []move[capsWorld] {
	var out []move[capsWorld]
	add := func(do func(*spot[capsWorld]), note string, args ...any) {
		out = append(out, move[capsWorld]{fmt.Sprintf(note, args...), true, do})
	}
	for who := range w.live {
		if int(w.joins[who]) < c.cfg.joins && int(w.joins[0]+w.joins[1]+w.joins[2]) < c.cfg.all {
			add(func(s *spot[capsWorld]) {
				s.w.joins[who]++
				c.join(s, who)
			}, "%s joins", capsAgent(who))
		}
		if w.joins[who] > 0 && int(w.copies) < c.cfg.copies {
			add(func(s *spot[capsWorld]) {
				s.w.copies++
				c.join(s, who)
			}, "the last join of %s arrives again", capsAgent(who))
		}
		if w.live[who] == 0 {
			continue
		}
		if w.marks[who] <= w.ticks && w.ticks > 0 {
			add(func(s *spot[capsWorld]) {
				s.w.marks[who] = 1 + s.w.ticks
				s.log(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: capsAgent(who), Incarnation: s.w.live[who],
					Watermark: &sequencer.Watermark{Seq: 1}})
			}, "%s renews its lease", capsAgent(who))
		}
		if int(w.aborts) < c.cfg.aborts {
			add(func(s *spot[capsWorld]) { c.abort(s, who) }, "%s aborts what nobody has opened", capsAgent(who))
		}
	}
	if int(w.ticks) < c.cfg.ticks {
		add(c.tick, "time moves")
	}
	return out
}

func capsAgent(who int) string { return [...]string{"a1", "a2", "a3"}[who] }

// join sends the agent's latest join: a new agent is refused only if as many as may live do, a live one never.
func (c caps) join(s *spot[capsWorld], who int) {
	n, was := 0, s.w.live[who]
	for _, incarnation := range s.w.live {
		if incarnation != 0 {
			n++
		}
	}
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: capsAgent(who), Join: &sequencer.Join{
		ID: fmt.Sprintf("j%d.%d", who+1, s.w.joins[who]), Logic: sequencer.Logic}}
	outcomes := s.log(in)
	c.observe(s, outcomes)
	for i := range outcomes {
		o := &outcomes[i]
		if o.Kind == sequencer.OutcomeRefused && (was != 0 || n < capsLive || o.Code != sequencer.CodeLimit) {
			s.violate("the join of %s is refused: %s; it is live: %v, and %d of %d are", capsAgent(who), o.Code, was != 0, n,
				capsLive)
		}
	}
}

func (c caps) tick(s *spot[capsWorld]) {
	s.w.ticks++
	c.observe(s, s.log(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: uint64(s.w.ticks),
		Weight: 8}}))
}

// abort ends a transaction that the fold does not know, and that says where it may go.
func (c caps) abort(s *spot[capsWorld], who int) {
	s.w.aborts++
	in := &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: sequencer.TxID(fmt.Sprintf("T%d", s.w.aborts)), N: 1,
		Agent: capsAgent(who), Incarnation: s.w.live[who], Base: s.fold.Seq(), Abort: &sequencer.Abort{},
		Begin: &sequencer.Begin{Mode: sequencer.Ordered}}
	for _, scope := range Scopes("abd") {
		in.Begin.May = append(in.Begin.May, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
	}
	for _, o := range s.log(in) {
		if o.Kind != sequencer.OutcomeAborted || len(o.May)+len(o.Added)+len(o.Ended) > 0 {
			s.violate("the abort of an unknown transaction is answered: %s %s; it claims %v, %v", o.Kind, o.Code, o.May,
				o.Added)
		}
	}
}

// observe follows who is live.
func (c caps) observe(s *spot[capsWorld], outcomes []sequencer.Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		for who := range s.w.live {
			switch {
			case o.Agent != capsAgent(who):
			case o.Kind == sequencer.OutcomeJoined:
				s.w.live[who] = o.Incarnation
			case o.Kind == sequencer.OutcomeLeaseEnded:
				s.w.live[who] = 0
			}
		}
	}
}

// every holds the fold's state to its caps.
func (c caps) every(s *spot[capsWorld], f *sequencer.Fold) {
	st := f.State()
	if len(st.Sidecars) > capsLive {
		s.violate("%d sidecars are live; the rules allow %d", len(st.Sidecars), capsLive)
	}
	for i := range st.Txs {
		if t := &st.Txs[i]; len(t.May)+len(t.Grants) > 0 {
			s.violate("%s is aborted and still claims %v", t.ID, t.May)
		}
	}
}
