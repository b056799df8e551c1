package sequencer

import (
	"errors"
	"fmt"
)

// ErrUnknownLogic is returned by Fold.Step when the record changes the rules to a logic that this package does not
// implement. The fold is unchanged and must not be given later records: run a version that knows the logic.
var ErrUnknownLogic = errors.New("sequencer: the log asks for rules that this version does not implement")

// Fold is one workspace's state machine. It is not safe for concurrent use.
//
// Invariant: between two steps State has all that later steps depend on; the other fields are indexes and counters
// that Restore makes again. So a fold that is restored from a state decides as the one that the state was taken from.
// TestReplicaStateCarriesAll holds the outcomes to it, TestCountersFollowTheState the counters.
type Fold struct {
	workspace string

	// Invariant: none of these ever goes back, under any record (TestNothingGoesBack). What is forgotten below floor and
	// horizon could not be asked for again.
	seq     Seq // of the last outcome
	floor   Seq // Invariant: at most seq, and at most every live sidecar's watermark unless CapSeqs or MaxKept moved it
	horizon Seq
	tickN   uint64 // number of the last tick that counted
	time    Tick

	lastEpoch Epoch  // Invariant: the greatest epoch given; a smaller one is only inherited, see inheritEpoch
	lastOrder uint64 // Invariant: the greatest Order given: no two transactions share one, so it is a key of the indexes
	chain     Hash   // of the outcome at seq
	rules     Rules  // Invariant: Logic is between 1 and the package's Logic, and does not go back

	sidecars   sidecars
	joins      joins
	txs        map[TxID]*tx // Invariant: ranged over only where the order cannot show, else through inOrder
	undecided  int          // Invariant: how many of txs are open or sealed; MaxOpen bounds it
	settled    retention
	groups     map[string]*group
	catalogues catalogues

	// The indexes. Invariant: each is what restoreTxs makes of the state's transactions, at the end of every step.
	holds  index[uint64, *bound] // what is granted, claimed or held, by scope
	grants index[uint64, *bound] // of these, what is granted: a touch that only looks for refusals walks no claims
	asks   index[uint64, *ask]   // what waiting transactions are interested in, by scope; see wake.go
	deps   map[TxID][]*tx        // waiting sealed transactions, by those that they rest on
	window *window
	open   int // bytes kept for transactions that are not settled. Invariant: the sum of tx.size
	chosen int // bytes kept for branch groups with a winner

	// Invariant: only the first may run: two cones at once could each put back what the other one takes away. A queued
	// one's transaction is remembered until it starts (keepFrom).
	retractions []*retraction
	undoneAt    index[uint64, *tx] // remembered members of cones, by what they wrote
	undoing     int                // bytes kept for retractions. Invariant: the sum of retraction.size
	undoneNames int                // bytes of the names of the retractions that members of cones are in
	listed      int                // bytes kept for the names of tool servers
	shards      shardLog
	tombs       []Tombstone // by Seq: those above the horizon of what is remembered
	tombBytes   int         // Invariant: the sum over them

	looked  int // see look
	step    stepState
	scratch encoder // room for what is hashed; empty between uses
}

// stepState is what one step collects.
// Invariant: it is empty between steps; a step that left something waiting here would decide differently after a
// restore.
type stepState struct {
	offset  int64
	in      *Intent
	id      string // of in, once it was asked for
	out     []Outcome
	repeats []Seq
	heard   bool           // an approval said something new
	queue   wakeQueue      // Invariant: holds a transaction exactly while its wake is set
	moved   []Scope        // where something was granted or released, and whose waiters are not queued yet
	seen    map[Scope]bool // those of moved, once there are many
	touched []*tx          // Invariant: each one's hold changes are carried by an outcome of this step; finish checks it
}

// New returns the fold of a workspace whose log is empty.
func New(workspace string) *Fold {
	return &Fold{
		workspace: workspace, rules: DefaultRules(),
		sidecars: newSidecars(), joins: newJoins(), txs: map[TxID]*tx{}, groups: map[string]*group{},
		catalogues: newCatalogues(), deps: map[TxID][]*tx{}, window: newWindow(nil), shards: newShardLog(),
	}
}

// Workspace returns the name that the fold was made for.
func (f *Fold) Workspace() string { return f.workspace }

// Seq returns the seq of the last outcome.
func (f *Fold) Seq() Seq { return f.seq }

// Floor returns the seq below which everything is stable and forgotten.
func (f *Fold) Floor() Seq { return f.floor }

// Time returns the log's time.
func (f *Fold) Time() Tick { return f.time }

// Step applies the next record of the log, runs to the step's fixpoint and returns what was decided. An error is
// ErrUnknownLogic, and nothing was applied.
func (f *Fold) Step(offset int64, in *Intent) (Step, error) {
	if logic, asked := f.asksLogic(in); asked && (logic == 0 || logic > Logic) {
		return Step{}, fmt.Errorf("%w: logic %d, this one is %d", ErrUnknownLogic, logic, Logic)
	}
	if in = f.plain(in); in == nil || !in.readable(f.merging()) {
		// Skipped and not refused: it takes no seq, so every reader of the log passes over it alike.
		return Step{Ignored: true}, nil
	}
	before := f.seq
	f.step.offset, f.step.in = offset, in
	// The order is part of the protocol. The record first; then turns, which may refuse what waits; then the fixpoint,
	// once all causes are in. Who waits is told after it, for only then is it known; what is forgotten goes last, since
	// this step's checks still needed it.
	f.apply(in)
	f.advanceRetractions()
	f.settleDown()
	f.answerWaiting(in)
	f.forget()
	return f.finish(before), nil
}

// asksLogic is the logic that a record asks for.
func (f *Fold) asksLogic(in *Intent) (logic uint32, asked bool) {
	switch {
	case in == nil:
	case in.Kind == IntentRules && in.Rules != nil && in.Rules.Logic == 0 && f.bounded():
		// No version ever implements it, so it is refused as one that goes back, and the workspace goes on.
	case in.Kind == IntentRules && in.Rules != nil:
		// Stopped before the record: a fold that guesses what an unknown logic does would diverge from those that know
		// (holes 11).
		return in.Rules.Logic, true
	case in.Kind == IntentJoin && f.seq == 0 && in.readable(false) && in.Join.Logic != 0:
		return in.Join.Logic, true
	}
	return 0, false
}

// retracts: the workspace's logic has retraction.
func (f *Fold) retracts() bool { return f.rules.Logic >= 2 }

// finish hands the step's outcomes out and leaves the scratch space empty.
func (f *Fold) finish(before Seq) Step {
	for _, t := range f.step.touched {
		if t.added.len()+t.ended.len() > 0 {
			// Views learn of holds from outcomes only: one changed in silence would let a gate run, or wait, on what is not so.
			panic(fmt.Sprintf("sequencer: holds of %s in %s changed without an outcome at seq %d", t.ID, f.workspace, f.seq))
		}
	}
	out := Step{Outcomes: f.step.out, Repeats: f.step.repeats}
	if n := len(out.Outcomes); n > 0 && before/StateHashEvery != f.seq/StateHashEvery {
		h := f.StateHash()
		out.Outcomes[n-1].StateHash = &h
	}
	f.step = stepState{queue: f.step.queue[:0], moved: f.step.moved[:0], touched: f.step.touched[:0]}
	return out
}

func (f *Fold) apply(in *Intent) {
	switch in.Kind {
	case IntentTick:
		f.applyTick(in.Tick)
	case IntentJoin:
		f.applyJoin(in)
	case IntentRules:
		f.applyRules(in)
	case IntentWatermark:
		f.applyWatermark(in)
	default:
		if sc := f.sidecars.live(in.Incarnation); sc == nil || sc.Agent != in.Agent {
			// Its transactions have ended with its lease; what it still sends would act in the name of an incarnation that
			// others already settle for.
			f.refuseDead(in)
			return
		}
		f.applyLive(in)
	}
}

// applyLive applies an intent of a live incarnation.
func (f *Fold) applyLive(in *Intent) {
	switch in.Kind {
	case IntentRegister, IntentUnregister:
		f.applyRegister(in)
	case IntentSelect:
		f.applySelect(in)
	case IntentBegin, IntentTouch, IntentSeal, IntentAbort, IntentSettle, IntentAdopt, IntentVerdict, IntentRetract:
		f.applyTx(in)
	default:
		// Refused with a seq, so that a newer sidecar learns that its intent did nothing here.
		f.refuse(in, nil, finding{code: CodeUnknownIntent, detail: "this version does not know the intent"})
	}
}

// emit numbers an outcome, links it into the chain and adds it to the step.
func (f *Fold) emit(o Outcome) Seq { return f.number(&o) }

func (f *Fold) number(o *Outcome) Seq {
	f.seq++
	f.look(1 + len(o.Added) + len(o.Ended) + len(o.Writes) + len(o.May) + len(o.Shards) + len(o.RestsOn) + len(o.Cone))
	o.Workspace, o.Seq, o.Offset = f.workspace, f.seq, f.step.offset
	o.RulesVersion, o.Time, o.Floor = f.rules.Version, f.time, f.floor
	if o.Intent == "" {
		o.Intent = f.stepID()
	}
	if o.Signer == "" {
		o.Signer = f.signerOf(o)
	}
	o.Retryable = o.Code.Retryable()
	o.Chain = o.chainAfter(&f.chain, &f.scratch)
	f.chain = o.Chain
	f.step.out = append(f.step.out, *o)
	return f.seq
}

// stepID names the record of this step.
func (f *Fold) stepID() string {
	if f.step.id == "" {
		f.step.id = f.step.in.ID()
	}
	return f.step.id
}

// intentID names an intent of a transaction; mostly it is this step's, whose name is made once.
func (f *Fold) intentID(kind IntentKind, id TxID, n uint32) string {
	if in := f.step.in; in != nil && in.Kind == kind && in.Tx == id && in.N == n {
		return f.stepID()
	}
	in := Intent{Kind: kind, Tx: id, N: n}
	return in.ID()
}

// emitTx emits an outcome about a transaction, together with the hold changes since its last one.
func (f *Fold) emitTx(t *tx, o Outcome) Seq {
	o.Tx, o.Mode, o.Epoch = t.ID, t.Mode, t.Epoch
	if o.Agent == "" {
		o.Agent, o.Incarnation = t.Agent, t.Incarnation
	}
	o.Group, o.Footprint = t.Group, t.Footprint
	o.Added, o.Ended = t.added.take(), t.ended.take()
	if t.fresh && f.bounded() {
		t.First = f.seq + 1
	}
	t.fresh = false
	return f.number(&o)
}

// refuse answers an intent without changing any transaction.
func (f *Fold) refuse(in *Intent, t *tx, why finding) {
	o := Outcome{Kind: OutcomeRefused, Agent: in.Agent, Incarnation: in.Incarnation, Code: why.code, Detail: why.detail,
		Scope: why.scope, Moved: why.moved, BlockedBy: why.blockers}
	if t != nil {
		// The hold changes of the transaction go with the answer, whichever it is.
		if seq := f.emitTx(t, o); !f.ownersAnswer(t, in) {
			t.answer(in, seq)
		}
		return
	}
	o.Tx = in.Tx
	f.emit(o)
}

// refuseDead answers an intent of an incarnation that is not live.
func (f *Fold) refuseDead(in *Intent) {
	f.refuse(in, nil, finding{code: CodeLeaseExpired, detail: "the incarnation is not live: join again"})
}

// repeat answers a duplicate with the outcome that the original had.
func (f *Fold) repeat(seq Seq) {
	// The same seq and no new one: a duplicate must not look like a second decision.
	if seq != 0 {
		f.step.repeats = append(f.step.repeats, seq)
	}
}

// finding is why something is refused, aborted, or has to wait.
type finding struct {
	code     Code
	detail   string
	scope    Scope
	moved    Writer
	blockers []Blocker
	level    Levels // whose check it is: without that level it is not enforced; zero: always

	// What a refusal says since logic 3.
	by, tool, agent string // as in the outcome
	met             *bound // the hold in the way; see complete
	from            *tx    // whom the reads rest on
}

func (w finding) found() bool { return w.code != "" }
