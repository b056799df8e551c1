package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// The world of orphans: one sidecar has committed T1, which wrote two scopes, and retracts it at some time. There are
// transactions of another one that hold these scopes, and that one may die; what it leaves unsettled is adopted only
// where an outcome names it as an orphan in the way. Adopters may die too.
const (
	orphanSidecars = 3 // who retracts, who holds, and one more
	orphanTxs      = 2 // of the one that holds; each has one of the scopes
	retracter      = 0
	holder         = 1
)

type orphanConfig struct {
	txs    int // that hold a scope of what is retracted
	deaths int
	copies int // late copies of adoptions that were accepted
}

type orphanWorld struct {
	sidecars [orphanSidecars]sequencer.Seq // incarnations; zero: dead
	ticks    uint8
	deaths   uint8
	copies   uint8
	asked    bool // the retraction
	turn     bool
	over     bool // it is done
	txs      [orphanTxs]orphanTx
}

type orphanTx struct {
	phase phase
	owner sequencer.Seq // zero: an orphan
	named bool          // an outcome has named it as an orphan since it became one
	tried [orphanSidecars]uint8
	took  uint8                // the sidecar that has adopted it last, counted from 1
	knows [orphanSidecars]bool // the sidecar was told, and has not asked yet
	times uint8                // settlements that were sent
}

// newOrphans makes the world of orphans.
func newOrphans(cfg orphanConfig) *plain[orphanWorld] {
	o := orphans{cfg}
	return &plain[orphanWorld]{
		name:  fmt.Sprintf("orphans, 2 scopes x %d transactions, %d deaths, %d copies", 1+cfg.txs, cfg.deaths, cfg.copies),
		start: o.start, moves: o.moves, ended: o.ended,
	}
}

type orphans struct{ cfg orphanConfig }

func (o orphans) start(s *spot[orphanWorld]) {
	s.w.deaths, s.w.copies = uint8(o.cfg.deaths), uint8(o.cfg.copies)
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.LeaseTicks = 1, sequencer.Logic, 10
	s.log(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	for who := range s.w.sidecars {
		for _, x := range s.log(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: capsAgent(who),
			Join: &sequencer.Join{ID: fmt.Sprintf("j%d", who+1), Logic: sequencer.Logic}}) {
			s.w.sidecars[who] = x.Incarnation
		}
	}
	in := o.intent(s, retracter, sequencer.IntentTouch, "T1", 1)
	in.Touch = &sequencer.Touch{}
	for _, scope := range Scopes("ab") {
		in.Touch.Wants = append(in.Touch.Wants, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
	}
	s.log(in)
	in = o.intent(s, retracter, sequencer.IntentSeal, "T1", 1)
	in.Seal = &sequencer.Seal{Touches: []sequencer.TouchReport{{N: 1, Known: true}}, Effects: []sequencer.Effect{{
		Scopes: Scopes("ab"), Class: sequencer.ClassReversible, Tool: "set", Known: true}}}
	s.log(in)
}

func (o orphans) intent(s *spot[orphanWorld], who int, kind sequencer.IntentKind, tx sequencer.TxID,
	n uint32) *sequencer.Intent {
	return &sequencer.Intent{Kind: kind, Tx: tx, N: n, Agent: capsAgent(who), Incarnation: s.w.sidecars[who],
		Base: s.fold.Seq()}
}

func orphanID(i int) sequencer.TxID { return sequencer.TxID(fmt.Sprintf("T%d", i+2)) }

func (o orphans) moves(w *orphanWorld) []move[orphanWorld] {
	var out []move[orphanWorld]
	add := func(idle bool, do func(*spot[orphanWorld]), note string, args ...any) {
		out = append(out, move[orphanWorld]{fmt.Sprintf(note, args...), idle, do})
	}
	for who, incarnation := range w.sidecars {
		if who != retracter && incarnation != 0 && w.deaths > 0 {
			add(true, func(s *spot[orphanWorld]) { o.die(s, who) }, "the sidecar of %s dies", capsAgent(who))
		}
	}
	switch {
	case !w.asked:
		add(true, func(s *spot[orphanWorld]) {
			s.w.asked = true
			o.log(s, o.intent(s, retracter, sequencer.IntentRetract, "T1", 1))
		}, "T1 is to be retracted")
	case w.turn:
		add(false, func(s *spot[orphanWorld]) {
			s.w.turn = false
			in := o.intent(s, retracter, sequencer.IntentSettle, "T1", 1)
			in.Settle = &sequencer.Settle{NoneElse: true, Effects: []sequencer.Settled{{Scopes: Scopes("ab")}}}
			o.log(s, in)
		}, "T1 is compensated")
	}
	for i := range o.cfg.txs {
		out = o.txMoves(w, i, out)
	}
	return out
}

// txMoves lists what can be done about one of the transactions in the way.
func (o orphans) txMoves(w *orphanWorld, i int, out []move[orphanWorld]) []move[orphanWorld] {
	t := &w.txs[i]
	add := func(idle bool, do func(*spot[orphanWorld]), note string, args ...any) {
		out = append(out, move[orphanWorld]{fmt.Sprintf(note, args...), idle, do})
	}
	if t.phase == phaseNone && w.sidecars[holder] != 0 {
		add(true, func(s *spot[orphanWorld]) {
			s.w.txs[i].phase, s.w.txs[i].owner = phaseOpen, s.w.sidecars[holder]
			in := o.intent(s, holder, sequencer.IntentTouch, orphanID(i), 1)
			in.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: Scopes("ab")[i], Access: sequencer.WriteAccess}}}
			o.log(s, in)
		}, "%s takes its scope", orphanID(i))
	}
	if t.phase == phaseOpen {
		add(false, func(s *spot[orphanWorld]) {
			in := o.intent(s, holder, sequencer.IntentAbort, orphanID(i), 1)
			in.Abort = &sequencer.Abort{}
			o.log(s, in)
		}, "%s is given up", orphanID(i))
	}
	for who, incarnation := range w.sidecars {
		switch {
		case incarnation == 0 || t.phase != phaseAborted:
		case t.owner == incarnation:
			add(false, func(s *spot[orphanWorld]) { o.settle(s, who, i) }, "%s settles %s", capsAgent(who), orphanID(i))
		case t.knows[who]: // it must ask only if no sidecar was faster since
			add(t.owner != 0 || !t.named, func(s *spot[orphanWorld]) { o.adopt(s, who, i, false) }, "%s adopts %s",
				capsAgent(who), orphanID(i))
		}
	}
	if t.took > 0 && w.copies > 0 && w.sidecars[t.took-1] != 0 {
		add(true, func(s *spot[orphanWorld]) { o.adopt(s, int(s.w.txs[i].took)-1, i, true) },
			"the adoption of %s by %s arrives again", orphanID(i), capsAgent(int(t.took)-1))
	}
	return out
}

// die lets a lease end while the other sidecars renew theirs.
func (o orphans) die(s *spot[orphanWorld], who int) {
	s.w.deaths--
	for s.w.sidecars[who] != 0 { // while a transaction is undecided a tick weighs 1
		s.w.ticks++
		o.log(s, &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: uint64(s.w.ticks), Weight: 8}})
		for other, incarnation := range s.w.sidecars {
			if other != who && incarnation != 0 {
				s.log(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: capsAgent(other), Incarnation: incarnation,
					Watermark: &sequencer.Watermark{Seq: 1}})
			}
		}
	}
}

func (o orphans) settle(s *spot[orphanWorld], who, i int) {
	s.w.txs[i].times++
	in := o.intent(s, who, sequencer.IntentSettle, orphanID(i), uint32(s.w.txs[i].times))
	in.Settle = &sequencer.Settle{Effects: []sequencer.Settled{{Scopes: []sequencer.Scope{Scopes("ab")[i]}}}}
	o.log(s, in)
}

// adopt asks for the settlement of an orphan, or does so again with the same record. What was accepted once makes no
// outcome when it comes again.
func (o orphans) adopt(s *spot[orphanWorld], who, i int, again bool) {
	t := &s.w.txs[i]
	if again {
		s.w.copies--
	} else {
		t.knows[who] = false
		t.tried[who]++
	}
	outcomes := o.log(s, o.intent(s, who, sequencer.IntentAdopt, orphanID(i), uint32(t.tried[who])))
	for k := range outcomes {
		switch x := &outcomes[k]; {
		case again && x.Tx == orphanID(i):
			s.violate("a copy of the adoption of %s by %s, which was accepted, makes an outcome: %s %s", x.Tx,
				capsAgent(who), x.Kind, x.Code)
		case x.Kind == sequencer.OutcomeAdopted:
			t.took = uint8(who + 1)
		}
	}
}

// log gives the fold a record and follows what it decided.
func (o orphans) log(s *spot[orphanWorld], in *sequencer.Intent) []sequencer.Outcome {
	outcomes := s.log(in)
	for k := range outcomes {
		o.observe(s, &outcomes[k])
	}
	return outcomes
}

func (o orphans) observe(s *spot[orphanWorld], x *sequencer.Outcome) {
	for i, b := range x.BlockedBy {
		if b.Why == "orphan" && i > 0 && x.BlockedBy[i-1].Why != "orphan" {
			s.violate("%s of %s names an orphan after one that has an owner", x.Kind, x.Tx)
		}
	}
	switch x.Kind {
	case sequencer.OutcomeRefused:
		if x.Code != sequencer.CodeNotOrphan {
			s.violate("an intent of %s is refused: %s: %s", x.Tx, x.Code, x.Detail)
		}
	case sequencer.OutcomeTurn:
		s.w.turn = true
	case sequencer.OutcomeLeaseEnded:
		for who := range s.w.sidecars {
			if s.w.sidecars[who] == x.Incarnation {
				s.w.sidecars[who] = 0
			}
		}
	case sequencer.OutcomeSettled:
		s.w.over = s.w.over || x.Tx == "T1"
	}
	for i := range s.w.txs {
		t := &s.w.txs[i]
		switch {
		case x.Kind == sequencer.OutcomeLeaseEnded && t.owner == x.Incarnation:
			t.owner, t.named = 0, false
		case x.Tx != orphanID(i):
		case x.Kind == sequencer.OutcomeAborted:
			if t.phase = phaseAborted; x.Final {
				t.phase = phaseFinalAborted
			}
		case x.Kind == sequencer.OutcomeAdopted:
			t.owner, t.named = x.Incarnation, false
		case x.Kind == sequencer.OutcomeSettled:
			t.phase, t.took = phaseFinalAborted, 0
			t.knows = [orphanSidecars]bool{}
		}
		for _, b := range x.BlockedBy {
			if b.Tx != orphanID(i) || b.Why != "orphan" {
				continue
			}
			t.named = true
			for who, incarnation := range s.w.sidecars {
				t.knows[who] = t.knows[who] || incarnation != 0
			}
		}
	}
}

// ended: a retraction that was accepted ends, whichever sidecar died.
func (o orphans) ended(s *spot[orphanWorld]) {
	if s.w.asked && !s.w.over {
		s.violate("the retraction of T1 was accepted and never ends")
	}
}
