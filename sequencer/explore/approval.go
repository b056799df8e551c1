package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// The sizes of the world of approvals: T1 with up to two held effects, two people who may approve or deny them, each
// through a sidecar of his own; T0 is older and in T1's way, T2 younger and wants what T1 claims.
const (
	approvalPeople  = 2
	approvalEffects = 2
	approvalBound   = 2 // ticks; the deadline of a transaction is half of it
	approvalTime    = 3 // ticks; T1 is sealed in the first ones
)

// approvalConfig is a configuration of the world of approvals.
type approvalConfig struct {
	effects [approvalEffects]approvalNeed
	people  int // who may say something
	words   int // that are said
	copies  int // words that come once more, later
	older   bool
	younger bool
	crash   bool // T1's sidecar may start again
}

// approvalNeed is what one effect of T1 asks for.
type approvalNeed uint8

const (
	noEffect approvalNeed = iota
	needsNothing
	needsYes
)

// approvalWorld is what has happened so far.
type approvalWorld struct {
	sidecars [1 + approvalPeople]sequencer.Seq // T1's, and one of each of the people
	phase    phase                             // of T1
	args     uint8                             // that T1 was sealed with
	sealed   uint8                             // when
	time     uint8
	heard    [approvalEffects]approvalWord // the word that counts
	words    uint8
	copies   uint8
	sent     [4]approvalWord // all words, in their order
	older    phase
	younger  phase
	crashed  bool
}

// approvalWord is what one of the people said of one effect; by 0: nothing.
type approvalWord struct {
	by, effect, args uint8
	yes              bool
}

// newApprovals makes the world of approvals.
func newApprovals(cfg approvalConfig) *plain[approvalWorld] {
	a := approving{cfg}
	return &plain[approvalWorld]{name: fmt.Sprintf("approvals, %+v", cfg), start: a.start, moves: a.moves,
		ended: a.ended, every: a.every}
}

type approving struct{ cfg approvalConfig }

func (a approving) start(s *spot[approvalWorld]) {
	for i := range s.w.sidecars {
		a.join(s, i)
	}
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = 1, sequencer.Logic
	rules.ApprovalTicks, rules.DeadlineTicks = approvalBound, approvalBound/2
	s.log(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	if a.cfg.older {
		a.send(s, 2, &sequencer.Intent{Kind: sequencer.IntentTouch, Tx: "T0", Begin: approvalPatience(),
			Touch: &sequencer.Touch{Wants: []sequencer.Want{{Scope: "res:/o", Access: sequencer.WriteAccess}}}})
		s.w.older = phaseOpen
	}
}

// approvalPatience lets a transaction outlive the walk.
func approvalPatience() *sequencer.Begin { return &sequencer.Begin{DeadlineTicks: 4 * approvalTime} }

func (a approving) join(s *spot[approvalWorld], i int) {
	id := fmt.Sprintf("j%d", i)
	if s.w.crashed {
		id += " again"
	}
	for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: approvalAgent(i),
		Join: &sequencer.Join{ID: id, Logic: sequencer.Logic}}) {
		if o.Kind == sequencer.OutcomeJoined {
			s.w.sidecars[i] = o.Seq
		}
		a.observe(s, &o)
	}
}

func (a approving) moves(w *approvalWorld) []move[approvalWorld] {
	var out []move[approvalWorld]
	add := func(idle bool, do func(*spot[approvalWorld]), note string, args ...any) {
		out = append(out, move[approvalWorld]{fmt.Sprintf(note, args...), idle, do})
	}
	if w.phase == phaseNone && w.time < approvalTime-approvalBound+1 {
		for args := range uint8(2) {
			add(false, func(s *spot[approvalWorld]) { a.seal(s, args) }, "T1 is sealed with arguments %d", args)
		}
	}
	if w.time < approvalTime {
		add(w.phase != phaseSealed, a.tick, "time passes")
	}
	a.speak(w, add)
	if a.cfg.younger && w.younger == phaseNone {
		add(true, a.follow, "T2 is sealed")
	}
	switch w.older {
	case phaseOpen:
		add(false, a.commitOlder, "T0 commits")
	case phaseCommitted:
		add(false, func(s *spot[approvalWorld]) { a.settle(s, 2, "T0") }, "T0 is settled")
	}
	if w.younger == phaseCommitted {
		add(false, func(s *spot[approvalWorld]) { a.settle(s, 1, "T2") }, "T2 is settled")
	}
	if a.cfg.crash && !w.crashed {
		add(true, func(s *spot[approvalWorld]) {
			s.w.crashed = true
			a.join(s, 0)
		}, "T1's sidecar starts again")
	}
	return out
}

// speak adds what people may say next, and what of it may come once more.
func (a approving) speak(w *approvalWorld, add func(bool, func(*spot[approvalWorld]), string, ...any)) {
	for by := range uint8(a.cfg.people) {
		for effect, need := range a.cfg.effects {
			for args := range uint8(2) {
				for _, yes := range []bool{true, false} {
					word := approvalWord{by + 1, uint8(effect), args, yes}
					if int(w.words) == a.cfg.words || need == noEffect || !yes && args > 0 {
						continue // a no does not depend on the arguments
					}
					add(true, func(s *spot[approvalWorld]) {
						s.w.sent[s.w.words] = word
						s.w.words++
						a.say(s, word)
					}, "p%d says %t to effect %d with arguments %d", by+1, yes, effect, args)
				}
			}
		}
	}
	for _, word := range w.sent[:w.words] {
		if int(w.copies) < a.cfg.copies {
			add(true, func(s *spot[approvalWorld]) {
				s.w.copies++
				a.say(s, word)
			}, "a word of p%d comes once more", word.by)
		}
	}
}

func (a approving) send(s *spot[approvalWorld], sidecar int, in *sequencer.Intent) []sequencer.Outcome {
	in.Agent, in.Incarnation, in.Base = approvalAgent(sidecar), s.w.sidecars[sidecar], approvalPeople
	if in.N == 0 {
		in.N = 1
	}
	outcomes := s.log(in)
	for i := range outcomes {
		a.observe(s, &outcomes[i])
	}
	return outcomes
}

func (a approving) seal(s *spot[approvalWorld], args uint8) {
	seal := &sequencer.Seal{}
	for i, need := range a.cfg.effects {
		if need == noEffect {
			continue
		}
		e := sequencer.Effect{Index: uint32(i), Class: sequencer.ClassIrreversible, Tool: "send",
			Scopes: []sequencer.Scope{approvalScope(i)}}
		if need == needsYes {
			e.Approve, e.Args = true, approvalArgs(args)
		}
		seal.Effects = append(seal.Effects, e)
	}
	if a.cfg.older {
		seal.Reads = []sequencer.Read{{Scope: "res:/o", View: s.fold.Seq()}}
	}
	s.w.phase, s.w.args, s.w.sealed = phaseSealed, args, s.w.time
	a.send(s, 0, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "T1", Seal: seal})
}

func (a approving) tick(s *spot[approvalWorld]) {
	s.w.time++
	for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentTick,
		Tick: &sequencer.TickMark{N: uint64(s.w.time), Weight: 1}}) {
		a.observe(s, &o)
	}
}

// say puts a word into the log, and knows what must come of it.
func (a approving) say(s *spot[approvalWorld], word approvalWord) {
	var refused sequencer.Code
	fresh := false
	switch heard := &s.w.heard[word.effect]; {
	case s.w.phase == phaseNone:
		refused = sequencer.CodeTooOld // nothing of T1 is known
	case s.w.phase != phaseSealed:
	case a.cfg.effects[word.effect] != needsYes:
		refused = sequencer.CodeWrongFootprint
	case word.yes && word.args != s.w.args:
		refused = sequencer.CodeWrongFootprint
	case heard.by == 0 || heard.yes && !word.yes:
		*heard, fresh = word, true
	}
	outcomes := a.send(s, int(word.by), &sequencer.Intent{Kind: sequencer.IntentVerdict, Tx: "T1",
		Verdict: &sequencer.Verdict{Approvals: []sequencer.Approval{{Index: uint32(word.effect), Yes: word.yes,
			By: approvalAgent(int(word.by)), Args: approvalArgs(word.args)}}}})
	switch {
	case refused != "" && (len(outcomes) != 1 || outcomes[0].Code != refused):
		s.violate("a word that says %t with other arguments, too early or to what needs none is not refused as %s", word.yes,
			refused)
	case refused == "" && !fresh && len(outcomes) > 0:
		s.violate("a word that says nothing new makes an outcome: %s", outcomes[0].Kind)
	case fresh && !word.yes && s.w.phase == phaseSealed:
		s.violate("p%d has denied effect %d of T1, which goes on", word.by, word.effect)
	}
}

// follow seals T2, which wants what T1 claims.
func (a approving) follow(s *spot[approvalWorld]) {
	s.w.younger = phaseSealed
	a.send(s, 1, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "T2", Begin: approvalPatience(),
		Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: "shard:/s"}},
			Effects: []sequencer.Effect{{Class: sequencer.ClassIrreversible, Scopes: []sequencer.Scope{approvalScope(0)}}}}})
}

// commitOlder commits T0 over what T1 claims.
func (a approving) commitOlder(s *spot[approvalWorld]) {
	a.send(s, 2, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "T0", Seal: &sequencer.Seal{
		Touches: []sequencer.TouchReport{{N: 1, Known: true}},
		Effects: []sequencer.Effect{{Class: sequencer.ClassIrreversible, Scopes: []sequencer.Scope{approvalScope(0)}}}}})
	if s.w.older == phaseOpen {
		s.violate("T0 waits, and only younger ones are in its way")
	}
}

func (a approving) settle(s *spot[approvalWorld], sidecar int, id sequencer.TxID) {
	a.send(s, sidecar, &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: id, Settle: &sequencer.Settle{NoneElse: true,
		Effects: []sequencer.Settled{{Scopes: []sequencer.Scope{approvalScope(0)}}}}})
}

// observe follows one outcome.
func (a approving) observe(s *spot[approvalWorld], o *sequencer.Outcome) {
	switch {
	case o.Tx == "T0" && o.Kind == sequencer.OutcomeCommitted:
		s.w.older = phaseCommitted
	case o.Tx == "T0" && o.Final:
		s.w.older = phaseFinalCommitted
	case o.Tx == "T2" && o.Final:
		s.w.younger = phaseFinalCommitted
	case o.Tx == "T2" && o.Kind == sequencer.OutcomeCommitted:
		s.w.younger = phaseCommitted
		if s.w.phase == phaseSealed {
			s.violate("T2 commits over what T1 claims, which waits")
		}
	case o.Tx != "T1":
	case o.Kind == sequencer.OutcomeWaiting:
		a.told(s, o, true)
	case o.Kind == sequencer.OutcomeCommitted:
		s.w.phase = phaseFinalCommitted
		a.leaves(s)
		a.told(s, o, false)
	case o.Kind == sequencer.OutcomeAborted:
		a.told(s, o, false)
		a.refused(s, o)
		s.w.phase = phaseFinalAborted
	}
}

// leaves: what is released was approved, and not denied.
func (a approving) leaves(s *spot[approvalWorld]) {
	for i, need := range a.cfg.effects {
		word := s.w.heard[i]
		switch {
		case need != needsYes:
		case word.by == 0:
			s.violate("effect %d of T1 leaves without a yes to its arguments", i)
		case !word.yes:
			s.violate("effect %d of T1 leaves, and p%d has denied it", i, word.by)
		}
	}
}

// refused: T1 ends as denied on a no, or when a word is missing at the bound, and not otherwise.
func (a approving) refused(s *spot[approvalWorld], o *sequencer.Outcome) {
	denied, silent := false, false
	for i, need := range a.cfg.effects {
		word := s.w.heard[i]
		denied = denied || word.by != 0 && !word.yes
		silent = silent || need == needsYes && word.by == 0
	}
	late := s.w.time >= s.w.sealed+approvalBound
	switch {
	case o.Code == sequencer.CodeLeaseExpired && s.w.crashed:
	case o.Code == sequencer.CodeDenied && (denied || silent && late):
	case o.Code == sequencer.CodeDeadline && late && !silent, o.Code == sequencer.CodeStaleRead && s.w.older != phaseOpen:
	default:
		s.violate("T1 ends as %s at %d, sealed at %d; denied: %t, silence: %t", o.Code, s.w.time, s.w.sealed, denied, silent)
	}
}

// told holds that an outcome says who said what, and of a waiting one also what is missing.
func (a approving) told(s *spot[approvalWorld], o *sequencer.Outcome, waits bool) {
	var want []sequencer.Approval
	for i, need := range a.cfg.effects {
		word := s.w.heard[i]
		switch {
		case need != needsYes:
		case word.by != 0:
			want = append(want, sequencer.Approval{Index: uint32(i), Yes: word.yes, By: approvalAgent(int(word.by)),
				Args: approvalArgs(word.args)})
		case waits:
			want = append(want, sequencer.Approval{Index: uint32(i), Args: approvalArgs(s.w.args)})
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(o.Approvals) {
		s.violate("%s of T1 says %v; what was said is %v", o.Kind, o.Approvals, want)
	}
}

// every: once all have agreed and no transaction is in the way, T1 waits no longer.
func (a approving) every(s *spot[approvalWorld], _ *sequencer.Fold) {
	blocked := s.w.older == phaseOpen || s.w.older == phaseCommitted || s.w.younger == phaseCommitted
	if s.w.phase != phaseSealed || blocked {
		return
	}
	for i, need := range a.cfg.effects {
		if need == needsYes && !s.w.heard[i].yes {
			return
		}
	}
	s.violate("T1 waits, and everybody has agreed")
}

func (a approving) ended(s *spot[approvalWorld]) {
	if s.w.phase == phaseSealed {
		s.violate("T1 waits for ever")
	}
}

func approvalAgent(i int) string { return [...]string{"a1", "p1", "p2"}[i] }

func approvalScope(i int) sequencer.Scope { return [...]sequencer.Scope{"res:/x", "res:/y"}[i] }

func approvalArgs(k uint8) sequencer.Hash { return sequencer.Hash{k + 1} }

// approvalConfigs are all of them: some small ones, and larger ones.
func approvalConfigs() (small, large []approvalConfig) {
	for _, effects := range [][approvalEffects]approvalNeed{{needsYes}, {needsNothing, needsYes}, {needsYes, needsYes}} {
		race := approvalConfig{effects: effects, people: 2, words: 2}
		late := approvalConfig{effects: effects, people: 1, words: 1, copies: 1, younger: true, crash: true}
		small = append(small, race, late)
		race.older, late.older, late.words = true, true, 2
		large = append(large, race, late)
	}
	return small, append(large, approvalConfig{effects: [approvalEffects]approvalNeed{needsYes, needsYes}, people: 2,
		words: 3, older: true})
}
