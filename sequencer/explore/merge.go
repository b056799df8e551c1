package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// The sizes of the world of writes that merge: three transactions on two shards, each through a sidecar of its own.
const (
	mergeAgents = 3
	mergeShards = 2
	mergeLog    = 24 // shard writes of decisions
)

// mergeFault is a mistake of who follows the decisions.
type mergeFault uint8

const (
	followsRight  mergeFault = iota
	countsTwice              // a decision that comes again is applied again
	losesDelta               // what it writes down lacks the last delta
	forgetsDeltas            // what it writes down is the value alone, though a delta in it may still be taken out
)

// mergeProgram is what one transaction does.
type mergeProgram struct {
	reads  [mergeShards]bool
	writes [mergeShards]bool
	ops    [mergeShards]sequencer.Op
	tomb   bool // it takes both shards away and does nothing else
	hook   bool
	effect bool // a gated one at a resource of its own: it is settled, and compensated in its turn
}

type mergeConfig struct {
	name     string
	programs [mergeAgents]mergeProgram
	retracts [mergeAgents]bool
	fault    mergeFault
}

// mergeWorld is what has happened so far, as the outcomes say.
type mergeWorld struct {
	txs  [mergeAgents]mergeTx
	n    uint8
	log  [mergeLog]mergeWrite
	gone uint8 // the transactions that are taken back, as bits
	left uint8 // members of the running retraction whose turn is still to come
}

type mergeTx struct {
	incarnation sequencer.Seq
	view        sequencer.Seq // of its reads; zero: not read yet
	decision    sequencer.Seq
	phase       phase
	judged      bool
	asked       bool
	turn        bool
	cone        bool
}

// mergeWrite is one shard write of a decision.
type mergeWrite struct {
	at       sequencer.Seq
	shard    uint8
	who      uint8 // whose content it is
	op       sequencer.Op
	absent   bool
	restored sequencer.Seq
	removes  sequencer.Seq
}

// bothShards stands for the pattern of a tombstone.
const bothShards = mergeShards

// newMerge makes the world of writes that merge.
func newMerge(cfg mergeConfig) *plain[mergeWorld] {
	m := merging{cfg}
	return &plain[mergeWorld]{name: "merge, " + cfg.name, start: m.start, moves: m.moves, ended: m.ended,
		every: m.every}
}

type merging struct{ cfg mergeConfig }

func (m merging) start(s *spot[mergeWorld]) {
	for i := range s.w.txs {
		for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: mergeAgent(i),
			Join: &sequencer.Join{ID: "j" + mergeAgent(i), Logic: sequencer.Logic}}) {
			s.w.txs[i].incarnation = o.Incarnation
		}
	}
}

func (m merging) moves(w *mergeWorld) []move[mergeWorld] {
	var out []move[mergeWorld]
	for i := range w.txs {
		t, p := &w.txs[i], &m.cfg.programs[i]
		add := func(idle bool, what string, do func(*spot[mergeWorld])) {
			out = append(out, move[mergeWorld]{fmt.Sprintf("%s %s", mergeTxID(i), what), idle, do})
		}
		switch {
		case t.phase == phaseNone && p.reads != [mergeShards]bool{} && t.view == 0:
			add(false, "reads", func(s *spot[mergeWorld]) { s.w.txs[i].view = s.fold.Seq() })
		case t.phase == phaseNone:
			add(false, "seals", func(s *spot[mergeWorld]) { m.seal(s, i) })
		case t.phase == phaseSealed && p.hook && !t.judged:
			add(false, "has its verdict", func(s *spot[mergeWorld]) { m.judge(s, i) })
		case t.phase == phaseCommitted, t.phase == phaseRetracting && t.turn:
			add(false, "is settled", func(s *spot[mergeWorld]) { m.settle(s, i) })
		}
		if m.cfg.retracts[i] && !t.asked && !t.cone && (t.phase == phaseCommitted || t.phase == phaseFinalCommitted) {
			add(true, "is retracted", func(s *spot[mergeWorld]) {
				s.w.txs[i].asked = true
				m.send(s, i, &sequencer.Intent{Kind: sequencer.IntentRetract})
			})
		}
	}
	return out
}

func (m merging) send(s *spot[mergeWorld], i int, in *sequencer.Intent) {
	in.Tx, in.Agent, in.Incarnation, in.Base = mergeTxID(i), mergeAgent(i), s.w.txs[i].incarnation, mergeAgents
	if in.N == 0 {
		in.N = 1
	}
	outcomes := s.log(in)
	for k := range outcomes {
		m.observe(s, &outcomes[k])
	}
}

func (m merging) footprint(t *mergeTx, i int) *sequencer.Seal {
	p := &m.cfg.programs[i]
	seal := &sequencer.Seal{Hook: p.hook}
	for k := range mergeShards {
		if p.reads[k] {
			seal.Reads = append(seal.Reads, sequencer.Read{Scope: mergeShard(k), View: t.view})
		}
		if p.writes[k] {
			seal.Shards = append(seal.Shards, sequencer.ShardWrite{Scope: mergeShard(k), Op: p.ops[k],
				Content: mergeContent(i, p.ops[k])})
		}
	}
	if p.tomb {
		seal.Shards = []sequencer.ShardWrite{{Scope: "shard:/", Absent: true}}
	}
	if p.effect {
		seal.Effects = append(seal.Effects, sequencer.Effect{Class: sequencer.ClassIrreversible, Tool: "send",
			Scopes: []sequencer.Scope{mergeOwn(i)}})
	}
	return seal
}

func (m merging) seal(s *spot[mergeWorld], i int) {
	s.w.txs[i].phase = phaseOpen
	m.send(s, i, &sequencer.Intent{Kind: sequencer.IntentSeal, Seal: m.footprint(&s.w.txs[i], i)})
}

func (m merging) judge(s *spot[mergeWorld], i int) {
	s.w.txs[i].judged = true
	m.send(s, i, &sequencer.Intent{Kind: sequencer.IntentVerdict, Verdict: &sequencer.Verdict{Yes: true,
		Footprint: m.footprint(&s.w.txs[i], i).Footprint()}})
}

func (m merging) settle(s *spot[mergeWorld], i int) {
	in := &sequencer.Intent{Kind: sequencer.IntentSettle, N: 1, Settle: &sequencer.Settle{NoneElse: true,
		Effects: []sequencer.Settled{{Scopes: []sequencer.Scope{mergeOwn(i)}}}}}
	if s.w.txs[i].phase == phaseRetracting {
		in.N = 2
	}
	m.send(s, i, in)
}

// content is what a transaction writes at a shard.
func mergeContent(i int, op sequencer.Op) []byte {
	switch op {
	case sequencer.OpAdd:
		return []byte(strconv.Itoa(1 << i))
	case sequencer.OpSet:
		return []byte(strconv.Itoa(700 + i))
	}
	return []byte(mergeTxID(i) + "\n")
}

// observe follows one outcome.
func (m merging) observe(s *spot[mergeWorld], o *sequencer.Outcome) {
	i := mergeIndex(o.Tx)
	if i < 0 {
		return
	}
	t := &s.w.txs[i]
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		t.phase = phaseSealed
		m.waits(s, i, o)
	case sequencer.OutcomeCommitted:
		m.commits(s, i)
		t.phase, t.decision = phaseCommitted, o.Seq
		if o.Final {
			t.phase = phaseFinalCommitted
		}
	case sequencer.OutcomeAborted:
		t.phase = phaseFinalAborted
		m.aborts(s, i, o)
	case sequencer.OutcomeRetracting:
		if len(o.Cone) > 0 {
			m.starts(s, o)
		}
	case sequencer.OutcomeTurn:
		t.turn = true
	case sequencer.OutcomeSettled:
		switch {
		case o.Retraction != "":
			t.phase, t.turn = phaseRetracted, false
			s.w.gone, s.w.left = s.w.gone|1<<i, s.w.left&^(1<<i)
		case t.cone:
			t.phase = phaseRetracting
		default:
			t.phase = phaseFinalCommitted
		}
	}
	for k := range o.Shards {
		m.note(s, i, o.Seq, &o.Shards[k])
	}
	if o.Kind == sequencer.OutcomeRefused && (o.Code != sequencer.CodeTooOld || !m.cfg.programs[i].tomb) {
		s.violate("an intent of %s is refused: %s", o.Tx, o.Code)
	}
}

// note keeps one shard write of a decision.
func (m merging) note(s *spot[mergeWorld], i int, at sequencer.Seq, w *sequencer.ShardWrite) {
	if s.w.n == mergeLog {
		s.violate("more shard writes than the world has room for")
		return
	}
	shard := mergeShardIndex(w.Scope)
	if w.Scope == "shard:/" {
		shard = bothShards
	}
	s.w.log[s.w.n] = mergeWrite{at: at, shard: shard, who: uint8(i), op: w.Op, absent: w.Absent,
		restored: w.Restored, removes: w.Removes}
	s.w.n++
}

// waits: no transaction waits for one whose only write at the shard is a delta of the same kind.
func (m merging) waits(s *spot[mergeWorld], i int, o *sequencer.Outcome) {
	for _, b := range o.BlockedBy {
		u, k := mergeIndex(b.Tx), mergeShardIndex(b.Scope)
		if u >= 0 && u != i && b.Scope.IsShard() && m.goesWith(i, u, int(k)) && !m.cfg.programs[i].reads[k] {
			s.violate("%s waits for %s at %s, and both write deltas of one kind there", o.Tx, b.Tx, b.Scope)
		}
	}
}

func (m merging) goesWith(i, u, k int) bool {
	p, q := &m.cfg.programs[i], &m.cfg.programs[u]
	return p.writes[k] && q.writes[k] && p.ops[k] == q.ops[k] && p.ops[k] != sequencer.OpSet
}

// aborts: who reads nothing and shares shards with deltas of the same kind only is never refused.
func (m merging) aborts(s *spot[mergeWorld], i int, o *sequencer.Outcome) {
	p := &m.cfg.programs[i]
	for k := range mergeShards {
		if p.reads[k] {
			return
		}
		for u := range m.cfg.programs {
			if u != i && (p.tomb || m.cfg.programs[u].tomb) {
				return
			}
			if u != i && p.writes[k] && m.cfg.programs[u].writes[k] && !m.goesWith(i, u, k) {
				return
			}
		}
	}
	s.violate("%s is refused with %s, and others write only deltas of the same kind where it writes one", o.Tx, o.Code)
}

// starts: a cone has the transactions that read from a member or wrote over its content, and no others.
func (m merging) starts(s *spot[mergeWorld], o *sequencer.Outcome) {
	for _, id := range o.Cone {
		i := mergeIndex(id)
		t := &s.w.txs[i]
		t.cone = true
		s.w.left |= 1 << i
		if t.phase == phaseFinalCommitted {
			t.phase = phaseRetracting
		}
		follows := id == o.Tx
		for _, other := range o.Cone {
			follows = follows || m.follows(&s.w, i, mergeIndex(other))
		}
		if !follows {
			s.violate("%s is taken back with %s, and it has neither read from it nor overwritten it", id, o.Tx)
		}
	}
}

func (m merging) follows(w *mergeWorld, i, u int) bool {
	p, q := &m.cfg.programs[i], &m.cfg.programs[u]
	for k := range mergeShards {
		if m.reset(w, w.txs[u].decision, max(w.txs[i].view, w.txs[i].decision)) && !q.effect {
			continue
		}
		read := p.reads[k] && q.writes[k] && w.txs[i].view >= w.txs[u].decision
		over := p.writes[k] && q.writes[k] && w.txs[i].decision > w.txs[u].decision &&
			(p.ops[k] == sequencer.OpSet || q.ops[k] == sequencer.OpSet)
		if read || over {
			return true
		}
	}
	return false
}

// reset: a tombstone lies between two positions. That of a read is as good as its transaction's decision: it would not
// have committed otherwise.
func (m merging) reset(w *mergeWorld, from, to sequencer.Seq) bool {
	for i := range w.txs {
		if at := w.txs[i].decision; m.cfg.programs[i].tomb && at > from && at <= to {
			return true
		}
	}
	return false
}

// commits: what a transaction has read is what stands when it commits.
func (m merging) commits(s *spot[mergeWorld], i int) {
	for k := range mergeShards {
		if !m.cfg.programs[i].reads[k] || s.w.left != 0 {
			continue
		}
		then, err := m.shown(&s.w, k, s.w.txs[i].view)
		if now := m.stands(&s.w, k); err != nil || then != now {
			s.violate("%s commits on %q of %s; what stands is %q (%v)", mergeTxID(i), then, mergeShard(k), now, err)
		}
	}
}

// stands is what a shard holds once those that stand have written, one after the other.
func (m merging) stands(w *mergeWorld, k int) string {
	var order []int
	for i := range w.txs {
		p := &m.cfg.programs[i]
		if w.txs[i].decision != 0 && w.gone&(1<<i) == 0 && (p.writes[k] || p.tomb) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(w.txs[a].decision) - int(w.txs[b].decision) })
	value := "absent"
	for _, i := range order {
		if m.cfg.programs[i].tomb {
			value = "absent"
			continue
		}
		op := m.cfg.programs[i].ops[k]
		delta := string(mergeContent(i, op))
		if value == "absent" && op != sequencer.OpSet {
			value = ""
		}
		switch op {
		case sequencer.OpSet:
			value = delta
		case sequencer.OpAppend:
			value += delta
		case sequencer.OpAdd:
			n, err := strconv.Atoi(value)
			if value != "" && err != nil {
				continue
			}
			d, _ := strconv.Atoi(delta)
			value = strconv.Itoa(n + d)
		case sequencer.OpUnion:
			lines := strings.Fields(value + "\n" + delta)
			slices.Sort(lines)
			value = strings.Join(slices.Compact(lines), "\n") + "\n"
		}
	}
	return value
}

// shown is what a follower shows that has the decisions up to a view.
func (m merging) shown(w *mergeWorld, k int, view sequencer.Seq) (string, error) {
	n := 0
	for n < int(w.n) && w.log[n].at <= view {
		n++
	}
	return m.followed(w, k, n, n, n)
}

// followed is what a follower shows of a shard after the first n writes: it wrote down what it had after the first
// saved ones, was started again, and got those from the again-th on once more.
func (m merging) followed(w *mergeWorld, k, n, saved, again int) (string, error) {
	var x sequencer.Writes
	apply := func(from, to int) {
		for _, e := range w.log[from:to] {
			if int(e.shard) != k && e.shard != bothShards {
				continue
			}
			write := sequencer.ShardWrite{Scope: mergeShard(k), Op: e.op, Absent: e.absent, Restored: e.restored,
				Removes: e.removes}
			if e.removes == 0 && e.restored == 0 && !e.absent {
				write.Content = mergeContent(int(e.who), e.op)
			}
			if m.cfg.fault == countsTwice && e.at <= x.Seq && e.op != sequencer.OpSet && e.removes == 0 {
				x.List = append(x.List, sequencer.Standing{Seq: e.at, Op: e.op, Content: write.Content})
			}
			x.Apply(e.at, &write)
		}
	}
	apply(0, saved)
	if saved < n {
		x.List = slices.Clone(x.List)
		last := len(x.List) - 1
		switch {
		case m.cfg.fault == losesDelta && last >= 0 && x.List[last].Op != sequencer.OpSet:
			x.List = x.List[:last]
		case m.cfg.fault == forgetsDeltas && last >= 0:
			if err := x.Forget(x.Seq, nil); err != nil {
				return "", err
			}
		}
		apply(again, n)
	}
	v, err := x.Value(nil)
	if v.Absent {
		return "absent", err
	}
	return string(v.Content), err
}

// every holds all followers to what stands, wherever they began and whatever came to them twice.
func (m merging) every(s *spot[mergeWorld], _ *sequencer.Fold) {
	if s.w.left != 0 {
		return // a retraction has taken back some of it
	}
	n := int(s.w.n)
	for k := range mergeShards {
		want := m.stands(&s.w, k)
		for saved := range n + 1 {
			for again := range saved + 1 {
				got, err := m.followed(&s.w, k, n, saved, again)
				if err != nil || got != want {
					s.violate("%s shows %q to who began behind %d writes and got those behind %d again; what stands is %q (%v)",
						mergeShard(k), got, saved, again, want, err)
					return
				}
			}
		}
	}
}

// ended: everybody is final, and who reads now is let through.
func (m merging) ended(s *spot[mergeWorld]) {
	for i := range s.w.txs {
		if !s.w.txs[i].phase.final() {
			s.violate("%s waits for ever", mergeTxID(i))
		}
	}
	head := s.fold.Seq()
	seal := &sequencer.Seal{}
	for k := range mergeShards {
		seal.Reads = append(seal.Reads, sequencer.Read{Scope: mergeShard(k), View: head})
	}
	for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: "R", N: 1, Agent: mergeAgent(0),
		Incarnation: s.w.txs[0].incarnation, Base: head, Seal: seal}) {
		if o.Kind != sequencer.OutcomeCommitted {
			s.violate("everybody is done, and who reads now is refused: %s for %s", o.Code, o.Moved.Tx)
		}
	}
}

func mergeAgent(i int) string { return [...]string{"a1", "a2", "a3"}[i] }

func mergeTxID(i int) sequencer.TxID { return [...]sequencer.TxID{"T1", "T2", "T3"}[i] }

func mergeIndex(id sequencer.TxID) int {
	for i := range mergeAgents {
		if mergeTxID(i) == id {
			return i
		}
	}
	return -1
}

func mergeShard(k int) sequencer.Scope { return [...]sequencer.Scope{"shard:/s", "shard:/t"}[k] }

func mergeShardIndex(s sequencer.Scope) uint8 {
	if s == mergeShard(1) {
		return 1
	}
	return 0
}

func mergeOwn(i int) sequencer.Scope { return [...]sequencer.Scope{"res:/a", "res:/b", "res:/c"}[i] }

// mergePrograms are written in words: R reads, W writes, A appends, D adds and U joins lines at a shard; X takes both
// away; H asks for a verdict, G has a gated effect.
func mergePrograms() []string {
	return []string{"As H", "As At", "Rs At", "Ws G", "As G", "Ds H", "Rs As", "Us At", "Ws H", "X H"}
}

func mergeProgramOf(text string) mergeProgram {
	var p mergeProgram
	for _, word := range strings.Fields(text) {
		k := 0
		if len(word) > 1 && word[1] == 't' {
			k = 1
		}
		write := func(op sequencer.Op) { p.writes[k], p.ops[k] = true, op }
		switch word[0] {
		case 'R':
			p.reads[k] = true
		case 'W':
			write(sequencer.OpSet)
		case 'A':
			write(sequencer.OpAppend)
		case 'D':
			write(sequencer.OpAdd)
		case 'U':
			write(sequencer.OpUnion)
		case 'X':
			p.tomb = true
		case 'H':
			p.hook = true
		case 'G':
			p.effect = true
		}
	}
	return p
}

func mergeOf(programs ...string) mergeConfig {
	cfg := mergeConfig{name: strings.Join(programs, " | ")}
	for i, text := range programs {
		cfg.programs[i], cfg.retracts[i] = mergeProgramOf(text), true
	}
	return cfg
}

// mergeConfigs are all triples of programs, each of which may be retracted at any time once it has committed.
func mergeConfigs() []mergeConfig {
	var out []mergeConfig
	list := mergePrograms()
	for i := range list {
		for j := range i + 1 {
			for k := range j + 1 {
				out = append(out, mergeOf(list[i], list[j], list[k]))
			}
		}
	}
	return out
}
