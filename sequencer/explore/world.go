package explore

import (
	"strconv"

	"github.com/hence-dev/hence/sequencer"
)

// The sizes of a world: fixed, so that a world is one value without pointers.
const (
	maxAgents   = 4
	maxScopes   = 3
	maxEffects  = 4
	maxReads    = 4
	maxVersions = 12
)

// seq is a sequencer.Seq of a small world.
type seq uint16

// token stands for the value that one transaction leaves; zero is the value that a resource begins with.
type token uint8

// world is all of a state but the fold: resources, sidecars, agents. It is a plain value.
type world struct {
	head   seq
	steps  uint16             // records of the log so far
	value  [maxScopes]token   // what each resource holds now; of a shard, what effects under its name did outside
	serial [maxScopes]token   // what it holds once the committed transactions have run alone, in commit order
	last   [maxScopes]seq     // the seq of its last write in the log
	shard  [maxScopes]history // the contents that views show
	agents [maxAgents]agent
	dups   uint8           // late copies still to come
	ticks  uint8           // ticks so far
	chosen uint8           // the agent whose first transaction was chosen among the branches, counted from 1
	branch uint8           // the agent whose branch has committed, counted from 1
	past   [maxScopes]past // where transactions may be retracted: what has committed at each resource
	watch  watch           // where the workspace may observe: since when, and what it left
}

// history is what views show of a shard.
type history struct {
	n    uint8
	list [maxVersions]version
}

type version struct {
	at    seq
	value token
}

func (h *history) put(at seq, value token) {
	h.list[h.n] = version{at, value}
	h.n++
}

// shown is the version that a view shows.
func (h *history) shown(view seq) version {
	var out version
	for _, v := range h.list[:h.n] {
		if v.at <= view {
			out = v
		}
	}
	return out
}

// before is the content that the committed transactions leave.
func (h *history) before() token {
	if h.n == 0 {
		return 0
	}
	return h.list[h.n-1].value
}

// forget drops the versions that no view from here on shows.
func (h *history) forget(view seq) {
	for h.n > 1 && h.list[1].at <= view {
		copy(h.list[:], h.list[1:h.n])
		h.n--
		h.list[h.n] = version{}
	}
}

// agent is one agent and its sidecar.
type agent struct {
	incarnation seq
	view        seq // its view is at least here
	mark        seq // its last watermark
	pc          uint8
	done        bool
	crashes     uint8  // how often its sidecar has started again
	whole       bool   // the first touch asks for the whole footprint
	txs         [2]txn // the current transaction, and a predecessor that is not settled
}

// phase is where a transaction stands, as the fold decided.
type phase uint8

const (
	phaseNone phase = iota // not begun
	phaseOpen
	phaseSealed
	phaseCommitted
	phaseAborted
	phaseFinalCommitted
	phaseFinalAborted
	phaseRetracting // in a cone, and settled on its own account
	phaseRetracted
)

func (p phase) final() bool { return p >= phaseFinalCommitted && p != phaseRetracting }

func (p phase) aborted() bool { return p == phaseAborted || p == phaseFinalAborted }

// txn is one transaction as its sidecar and the world know it.
type txn struct {
	attempt  uint8
	phase    phase
	by       seq   // the incarnation that sends its intents
	judged   bool  // the hook has answered
	stuck    bool  // it would wait for its own session: it gives up
	asked    bool  // its retraction was asked for
	asks     uint8 // how often that was refused because of what observes
	loose    bool  // it was not final at some time while the workspace observed
	strayed  bool  // it has sent a settlement of a scope that is another one's
	cone     bool  // it is in a cone
	turn     bool  // its compensation has its turn
	seen     bool  // its sidecar acts on the decision
	waiting  bool  // a touch waits
	retry    bool  // the code of its abort allows a successor
	conflict bool  // that code is conflict
	begun    bool  // a begin was sent
	sealed   bool  // a seal was sent
	touches  uint8
	base     seq
	grantAt  seq // of the last grant
	decision seq
	write    uint8 // scopes granted for writing
	read     uint8 // scopes granted for reading
	askWrite uint8 // scopes that the waiting touch asks for
	askRead  uint8
	writing  uint8 // the numbers of granted touches that asked for writing, as bits
	effects  [maxEffects]effect
	nEffects uint8
	reads    [maxReads]read
	nReads   uint8
}

// effectState is what became of one effect.
type effectState uint8

const (
	effectReady  effectState = iota // its touch is granted; the call may have left
	effectFlying                    // it left before its sidecar saw the abort, and has not landed
	effectLanded
	effectUndone
	effectDropped // it never left
	effectLeaked  // given up: it stands though its transaction was aborted
	effectGated   // waits for the commit
)

type effect struct {
	scope uint8
	state effectState
	undo  token
	sent  bool // it was held, and has left for good
}

type read struct {
	scope   uint8
	swap    bool // an expected version, not a read of the footprint
	pending bool // CarelessView: the answer is here, the view seq is not taken yet
	own     bool // it saw the transaction's own effect
	value   token
	view    seq
	version seq
}

func (t *txn) addEffect(e effect) {
	t.effects[t.nEffects] = e
	t.nEffects++
}

func (t *txn) addRead(r read) {
	t.reads[t.nReads] = r
	t.nReads++
}

// undecided: the fold knows it and has not decided.
func (t *txn) undecided() bool { return t.phase == phaseOpen || t.phase == phaseSealed }

// has returns the index of the first effect in a state, or -1; hasLast that of the last one.
func (t *txn) has(state effectState) int {
	for i := range int(t.nEffects) {
		if t.effects[i].state == state {
			return i
		}
	}
	return -1
}

func (t *txn) hasLast(state effectState) int {
	for i := int(t.nEffects) - 1; i >= 0; i-- {
		if t.effects[i].state == state {
			return i
		}
	}
	return -1
}

// model is what does not change during a walk.
type model struct {
	cfg    Config
	rules  *sequencer.Rules // in front of everything; nil: none
	shards [maxScopes]bool
	// cell is where a scope's value is kept: resources whose scopes overlap are one resource.
	cell  [maxScopes]int
	reads [maxAgents]bool // the agent's program reads
	// retracts: some transaction may be retracted, so what has committed goes on to matter.
	retracts bool
	// stray: some settlement may be false, so who counts as a scope's writer matters.
	stray bool
	// sidecar is the first agent that goes through the same sidecar.
	sidecar [maxAgents]int
	ids     [maxAgents][]sequencer.TxID
}

// attempts is how many transactions of one agent have their names made in advance.
const attempts = 26

func newModel(cfg Config) *model {
	m := &model{cfg: cfg, rules: openingRules(cfg)}
	for i, s := range cfg.Scopes {
		m.shards[i], m.cell[i] = s.IsShard(), i
		for j := range i {
			if s.Overlaps(cfg.Scopes[j]) && m.cell[i] == i {
				m.cell[i] = m.cell[j]
			}
		}
	}
	for who, a := range cfg.Agents {
		m.sidecar[who] = who
		m.retracts, m.stray = m.retracts || a.Retract, m.stray || a.Strays
		if a.Beside && who > 0 {
			m.sidecar[who] = m.sidecar[who-1]
		}
		for _, op := range a.Program {
			m.reads[who] = m.reads[who] || op.Kind == OpRead || op.Kind == OpSwap
		}
		for n := range attempts {
			m.ids[who] = append(m.ids[who], nameTx(who, n))
		}
	}
	return m
}

// nameTx names a transaction after its agent and its attempt: T1, T1b, T1c.
func nameTx(who, attempt int) sequencer.TxID {
	id := "T" + string(rune('1'+who))
	if attempt > 0 {
		id += string(rune('a' + attempt%attempts))
	}
	if attempt >= attempts {
		id += strconv.Itoa(attempt / attempts)
	}
	return sequencer.TxID(id)
}

func (m *model) txID(who int, t *txn) sequencer.TxID {
	if int(t.attempt) < attempts {
		return m.ids[who][t.attempt]
	}
	return nameTx(who, int(t.attempt))
}

func (m *model) agentName(who int) string { return [...]string{"a1", "a2", "a3", "a4"}[m.sidecar[who]] }

// branches is the one group that there is.
const branches = "g"

// mode is how a transaction is ordered: after enough refusals its agent takes locks.
func (m *model) mode(who int, t *txn) sequencer.Mode {
	a := &m.cfg.Agents[who]
	if a.LockAfter > 0 && int(t.attempt) >= a.LockAfter {
		return sequencer.Locked
	}
	return a.Mode
}

// reader: the agent may still read.
func (m *model) reader(w *world, who int) bool { return m.reads[who] && !w.agents[who].done }

func (m *model) careless(c Careless) bool { return m.cfg.Careless&c != 0 }

// token is the value that a transaction leaves: unique among the transactions that can be alive at once.
func (m *model) token(who int, t *txn) token { return token(1 + 2*who + int(t.attempt&1)) }

// watches: the workspace may observe.
func (m *model) watches() bool { return m.cfg.Observes || m.cfg.Switches > 0 }

// openingRules are those in front of everything, at the newest logic; nil: the first join alone says the logic.
func openingRules(cfg Config) *sequencer.Rules {
	if cfg.Rules == nil && !cfg.Observes {
		return nil
	}
	rules := sequencer.DefaultRules()
	if cfg.Rules != nil {
		rules = *cfg.Rules
	}
	rules.Version, rules.Logic, rules.Observe = 1, sequencer.Logic, cfg.Observes
	return &rules
}

// exact: states are told apart by their very seqs.
func (m *model) exact() bool {
	return m.cfg.Exact || m.stray || m.cfg.Watermarks || m.cfg.Ticks > 0 || m.cfg.Duplicates > 0
}
