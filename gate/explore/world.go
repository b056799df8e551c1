package explore

import (
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// The sizes of the gate's world.
const (
	gateTxs     = 2
	gateProcs   = 3 // two incarnations of the first agent, one of the second
	gateEffects = 3
	gateOwners  = 6
	gateTries   = 2 // calls of one kind that one owner makes for one effect
)

// workspace is the one that the explored log belongs to.
const workspace = "w"

// seq is one of the log; a world has few.
type seq uint16

// token stands for the value that one transaction leaves; zero is the value that a resource begins with.
type token uint8

// valueName names a value for people.
func valueName(v token) string {
	if v == 0 {
		return "the first value"
	}
	return "the value of T" + string(rune('1'+(v-1)/2))
}

// phase is how far a transaction is.
type phase uint8

const (
	phaseNone phase = iota // not begun
	phaseOpen
	phaseSealed
	phaseCommitted
	phaseAborted
	phaseFinalCommitted
	phaseFinalAborted
)

func (p phase) final() bool { return p >= phaseFinalCommitted }

func (p phase) aborted() bool { return p == phaseAborted || p == phaseFinalAborted }

// read is what a transaction read.
type read struct {
	scope uint8
	own   bool // it saw the transaction's own effect
	value token
	view  seq
}

// The processes.
const (
	firstProc  = 0
	secondProc = 1
	otherProc  = 2
	nobody     = -1
)

// world is all of a state but the fold.
type world struct {
	head   seq
	steps  uint16 // records of the log
	ticks  uint16
	died   uint8
	down   bool
	value  [2]token // what each resource holds
	serial [2]token // what the committed transactions, and what is named as residue, leave
	procs  [gateProcs]gateProc
	txs    [gateTxs]gateTx
	marks  [gateProcs][gateTxs][gateEffects]gateMark // by journal
}

// gateProc is one process of a sidecar.
type gateProc struct {
	alive       bool
	gone        bool // it has been alive
	lapsed      bool // by its own clock its lease may be over
	asked       bool // it has asked the log whether it is
	confirmed   seq  // where the log says that it is not
	journal     uint8
	incarnation seq
	ended       seq // where the log ends its lease
	view        seq
	waited      [gateTxs]bool // the maximum time has passed since it came to own the settlement
	sent        [gateTxs]bool // it has sent its settlement
}

// gateTx is one transaction: what its issuer does, what the fold decided, and what became of its effects.
type gateTx struct {
	phase    phase
	pc       uint8
	touches  uint8
	touching bool
	sealed   bool
	aborting bool
	granted  uint8 // scopes, as bits
	issued   uint8 // effects that are in the log, as bits
	asked    uint8 // effects whose touch was sent
	grantAt  seq
	base     seq
	decision seq
	final    seq
	nReads   uint8
	reads    [2]read
	nOwners  uint8
	owners   [gateOwners]gateOwner
	adopted  bool // its settlement had another owner
	effects  [gateEffects]gateEffect
}

// gateOwner is the process that settles from a seq on, counted from 1; zero: none.
type gateOwner struct {
	since seq
	proc  uint8
}

// gateEffect is one effect as its sink knows it.
type gateEffect struct {
	did, undid uint8
	by         uint8 // processes whose calls it took, as bits
	refused    bool  // its compensation came under its key: it is not taken any more
	undo       token
	flying     [2]uint8 // calls under way, and compensations, as bits by process
}

// gateMark is what a journal says about one effect: of its call or release, and of its compensation.
type gateMark [2]gateNote

type gateNote struct {
	started  bool
	answered bool
	ran      bool // as it was answered
	unknown  bool // the last try was not answered in the tool's maximum time
	maybe    bool // some try was not
	asked    bool // it was looked up since, and was not there
	looked   bool // for the last time
	made     uint8
}

// left: a try may have left.
func (n *gateNote) left() bool { return n.started && (!n.answered || n.maybe && !n.ran) }

func (n *gateNote) tries() int { return int(n.made) }

// The two things that are done to an effect.
const (
	doing   = 0
	undoing = 1
)

func (t *gateTx) ownerAt(view seq) int {
	for i := int(t.nOwners) - 1; i >= 0; i-- {
		if t.owners[i].since <= view {
			return int(t.owners[i].proc) - 1
		}
	}
	return nobody
}

func (t *gateTx) own(since seq, proc int) {
	if t.nOwners == gateOwners {
		panic("explore: a settlement changes hands more often than the world holds")
	}
	t.owners[t.nOwners] = gateOwner{since, uint8(proc + 1)}
	t.nOwners++
}

func (t *gateTx) decided() bool { return t.phase >= phaseCommitted }

// over: nothing is left to be done about it.
func (t *gateTx) over() bool { return t.phase.final() }

// flies reports whether a call for the effect is under way by any of the processes in the mask.
func (e *gateEffect) flies(mask uint8) bool { return (e.flying[doing]|e.flying[undoing])&mask != 0 }

// model is what does not change during a walk.
type model struct {
	cfg Config
	ops [gateTxs][]Op // the effects of each transaction, in issuance order
}

func newModel(cfg Config) *model {
	m := &model{cfg: cfg}
	for i, program := range cfg.Programs {
		for _, op := range program {
			if op.Kind != OpRead {
				m.ops[i] = append(m.ops[i], op)
			}
		}
		if len(m.ops[i]) > gateEffects {
			panic("explore: " + cfg.Name + " has more effects than the world holds")
		}
	}
	return m
}

func (m *model) careless(c Careless) bool { return m.cfg.Careless&c != 0 }

// issuer is the process that runs a transaction.
func issuer(tx int) int { return [...]int{firstProc, otherProc}[tx] }

func gateTxID(tx int) sequencer.TxID { return [...]sequencer.TxID{"T1", "T2"}[tx] }

func gateAgent(proc int) string { return [...]string{"a1", "a1", "a2"}[proc] }

func gateToken(tx int) token { return token(1 + 2*tx) }

// index is which effect the operation at pc is.
func (m *model) index(tx int, pc uint8) int {
	n := 0
	for _, op := range m.cfg.Programs[tx][:pc] {
		if op.Kind != OpRead {
			n++
		}
	}
	return n
}

// note is what the process's journal says of an effect.
func (w *world) note(proc, tx, effect, what int) *gateNote {
	return &w.marks[w.procs[proc].journal][tx][effect][what]
}

// claim says on what ground a process settles a transaction.
func (m *model) claim(w *world, proc, tx int) gate.Claim {
	switch {
	case proc == issuer(tx):
		return gate.ClaimOwn
	case m.careless(CarelessClaim):
		return gate.ClaimSuccessor
	case w.procs[proc].journal != uint8(issuer(tx)), w.txs[tx].adopted && !m.careless(CarelessOwners):
		return gate.ClaimStranger
	}
	return gate.ClaimSuccessor
}
