package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

const workspace = "sim"

// truth reads the log the moment that it grows. A decision is determined once its intent is in the log, so this is
// what everybody must come to sooner or later.
type truth struct {
	r    *run
	log  []*sequencer.Intent
	fold *sequencer.Fold

	out    []*sequencer.Outcome // by seq
	chain  sequencer.Hash
	floor  sequencer.Seq
	time   sequencer.Tick
	rules  sequencer.Rules
	hashes []sequencer.Hash // of the state after each record whose offset is divisible by hashEvery

	txs     map[sequencer.TxID]*txInfo
	list    []*txInfo // by their first outcome
	ledger  ledger
	writes  []write
	state   [numLeaves]token              // as the commits so far leave it
	laid    [numLeaves][]laid             // what they left one after another
	shards  [numLeaves][]shard            // versions, of shards only
	winners map[string]*sequencer.Outcome // of branch groups
	tools   map[toolServer][]sequencer.Tool
	joins   map[string]sequencer.Seq // by intent
	refused map[sequencer.TxID]int   // step of the first outcome: a refused seal may have opened its transaction
	rested  int                      // list is final up to here
	resets  int                      // of all shards
	// blind: the workspace observes, or under the older logics it has: what it lets through breaks the checks of values.
	blind bool
	watch watch
	least undoLeast
	live  map[string]sequencer.Seq // sidecars, by agent
}

// write is one scope that an outcome moved.
type write struct {
	seq   sequencer.Seq
	scope sequencer.Scope
	tx    sequencer.TxID
}

type shard struct {
	seq   sequencer.Seq
	tx    sequencer.TxID
	value token

	absent bool // a reset has taken it away
	stays  bool // its writer was taken back, and what was there before is not known any more
}

// txInfo is what the outcomes say about one transaction.
type txInfo struct {
	id        sequencer.TxID
	agent     string
	outs      []*sequencer.Outcome
	owners    []owner
	epoch     sequencer.Epoch
	free      bool // it opened while the workspace observed
	loose     bool // it was not final at some time while the workspace observed
	sealed    bool
	seal      *sequencer.Seal
	levels    sequencer.Levels // of the rules at the seal
	committed bool
	decision  sequencer.Seq
	final     sequencer.Seq
	grants    []sequencer.Scope    // for writing
	wants     []sequencer.Want     // of a waiting touch
	waitDue   sequencer.Tick       // when that touch has waited long enough
	due       sequencer.Tick       // the deadline
	answered  bool                 // the hook has given its verdict
	denied    bool                 // the first was its own no
	verdict   uint32               // the greatest number of one
	words     []sequencer.Approval // of people on its calls, while it waited
	opened    int                  // step of the first outcome, or before
	kept      bool                 // a successor has its epoch

	cone       sequencer.Seq // where a retraction took it into its cone; its turn; its compensation
	turn       sequencer.Seq
	undone     sequencer.Seq
	retraction sequencer.TxID
	time       sequencer.Tick // of its decision
}

func newTruth(r *run) *truth {
	return &truth{r: r, fold: sequencer.New(workspace), rules: sequencer.DefaultRules(),
		txs: map[sequencer.TxID]*txInfo{}, winners: map[string]*sequencer.Outcome{},
		tools: map[toolServer][]sequencer.Tool{}, joins: map[string]sequencer.Seq{},
		refused: map[sequencer.TxID]int{}, live: map[string]sequencer.Seq{}}
}

func (i *txInfo) decided(view sequencer.Seq) bool { return i.decision != 0 && i.decision <= view }

func (i *txInfo) settledAt(view sequencer.Seq) bool { return i.final != 0 && i.final <= view }

// finalAt: as a view at seq shows it, nothing is left to do about it.
func (i *txInfo) finalAt(view sequencer.Seq) bool {
	back := i.cone != 0 && i.cone <= view && (i.undone == 0 || i.undone > view)
	return i.settledAt(view) && !back
}

// residue reports whether its settlement left something unclean.
func (i *txInfo) residue() bool {
	return slices.ContainsFunc(i.outs, func(o *sequencer.Outcome) bool {
		return o.Kind == sequencer.OutcomeSettled && len(o.Residue) > 0
	})
}

// apply appends a record and checks what it leads to.
func (t *truth) apply(in *sequencer.Intent) {
	offset := int64(len(t.log))
	t.log = append(t.log, in)
	step, err := t.fold.Step(offset, in)
	if len(step.Outcomes) > 0 || in == nil || in.Kind != sequencer.IntentTick && in.Kind != sequencer.IntentWatermark {
		t.traceIntent(offset, in)
	}
	if err != nil {
		t.r.fail("offset %d: %v", offset, err)
		return
	}
	if len(step.Repeats) > 0 {
		t.r.probe(ProbeDuplicate)
	}
	t.ledger.fresh = t.ledger.fresh[:0]
	t.onVerdict(in)
	for i := range step.Outcomes {
		if t.r.failed == "" {
			t.observe(&step.Outcomes[i], in)
		}
	}
	if t.watch.ending {
		t.beginEnforcing()
	}
	t.checkFresh()
	t.checkWaiting()
	if offset%hashEvery == 0 {
		t.hashes = append(t.hashes, t.fold.StateHash())
	}
}

// agrees reports whether a published outcome is the one of that seq.
func (t *truth) agrees(o *sequencer.Outcome) bool {
	return o.Seq >= 1 && int(o.Seq) <= len(t.out) && t.out[o.Seq-1].Chain == o.Chain
}

// observe checks one outcome against all before it and files it.
func (t *truth) observe(o *sequencer.Outcome, in *sequencer.Intent) {
	t.traceOutcome(o)
	switch {
	case int(o.Seq) != len(t.out)+1:
		t.r.fail("seq %d follows seq %d", o.Seq, len(t.out))
	case o.ChainAfter(t.chain) != o.Chain:
		t.r.fail("seq %d breaks the chain", o.Seq)
	case o.Floor < t.floor || o.Floor > o.Seq:
		t.r.fail("seq %d: the floor goes from %d to %d", o.Seq, t.floor, o.Floor)
	case o.Time < t.time:
		t.r.fail("seq %d: time goes from %d back to %d", o.Seq, t.time, o.Time)
	}
	t.chain, t.floor, t.time = o.Chain, o.Floor, o.Time
	t.out = append(t.out, o)
	info := t.info(o)
	t.noteUnder(o)
	t.ledger.move(t.r, info, o)
	switch o.Kind {
	case sequencer.OutcomeRefused:
		t.onRefused(info, o, in)
	case sequencer.OutcomeRules:
		t.onRules(o)
		t.r.probe(ProbeRules)
	case sequencer.OutcomeJoined, sequencer.OutcomeLeaseEnded, sequencer.OutcomeAdopted:
		t.checkLease(o, in)
		t.onOwner(info, o)
	case sequencer.OutcomeConfirmed:
		t.r.probe(ProbeConfirmed)
		if t.live[o.Agent] != o.Incarnation || o.Tx != "" || o.Code != "" {
			t.r.fail("%d confirms incarnation %d of %s, whose live one is %d", o.Seq, o.Incarnation, o.Agent, t.live[o.Agent])
		}
	case sequencer.OutcomeGranted:
		t.onGranted(info, o)
	case sequencer.OutcomeWaiting:
		t.onSealed(info, in)
		if in.Kind == sequencer.IntentTouch {
			info.wants, info.waitDue = in.Touch.Wants, o.Time+t.rules.BoundTicks
		}
	case sequencer.OutcomeRegistered, sequencer.OutcomeUnregistered:
		t.tools[toolServer{o.Incarnation, o.Server}] = in.Register.Tools
	case sequencer.OutcomeSelected:
		if w := t.winners[o.Group]; w != nil && w.Seq > t.floor {
			t.r.fail("group %s chooses %s at %d after %s at %d", o.Group, o.Winner, o.Seq, w.Winner, w.Seq)
		}
		t.winners[o.Group] = o
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		t.onSealed(info, in)
		t.onDecided(info, o)
	case sequencer.OutcomeSettled:
		if info.cone != 0 && info.final != 0 {
			t.onTaken(info, o, in)
		} else {
			t.onSettled(info, o, in)
		}
	case sequencer.OutcomeRetracting:
		t.onRetracting(info, o)
	case sequencer.OutcomeTurn:
		t.onTurn(info, o)
	}
	t.checkOwn(info, o)
	t.checkEvidence(o, in)
	for _, w := range o.Writes {
		t.writes = append(t.writes, write{o.Seq, w.Scope, o.Tx})
	}
}

// info finds the transaction that an outcome is about. A refused intent may have opened one.
func (t *truth) info(o *sequencer.Outcome) *txInfo {
	if o.Tx == "" {
		return nil
	}
	info := t.txs[o.Tx]
	if info == nil {
		if _, found := t.refused[o.Tx]; !found {
			t.refused[o.Tx] = t.r.now
		}
		if o.Kind == sequencer.OutcomeRefused && !opened(o) {
			return nil
		}
		info = &txInfo{id: o.Tx, agent: o.Agent, free: t.rules.Observe, loose: t.rules.Observe,
			owners: []owner{{o.Seq, o.Incarnation}}, opened: t.refused[o.Tx]}
		t.txs[o.Tx] = info
		t.checkBranch(info, o)
		info.due = o.Time + t.rules.DeadlineTicks
		if a := t.r.attempts[o.Tx]; a != nil && a.begin.DeadlineTicks != 0 {
			info.due = o.Time + a.begin.DeadlineTicks
		}
		t.list = append(t.list, info)
		if a := t.r.attempts[o.Tx]; a != nil && o.Epoch != 0 {
			if p := t.txs[a.begin.Predecessor]; p != nil && p.epoch == o.Epoch {
				t.r.probe(ProbeWoundedKept)
				if p.kept {
					t.r.fail("%s keeps the epoch %d of %s, which another one has kept", o.Tx, o.Epoch, p.id)
				}
				p.kept = true
			}
		}
	}
	if o.Would != "" {
		t.r.probe(ProbeObserved)
	}
	info.epoch = max(info.epoch, o.Epoch)
	info.outs = append(info.outs, o)
	return info
}

// opened reports whether a refused intent has a transaction all the same: its first touch or seal has opened it.
func opened(o *sequencer.Outcome) bool {
	return o.Epoch != 0 || len(o.Added) > 0 || o.Code == sequencer.CodeOwnTransaction || o.Code == sequencer.CodeSibling
}

func (t *truth) onRefused(info *txInfo, o *sequencer.Outcome, in *sequencer.Intent) {
	t.r.probe(ProbeRefused(o.Code))
	switch {
	case o.Code == sequencer.CodeOwnTransaction && t.r.swarm.logic >= 3:
		t.checkOwnSession(o)
	case in == nil, o.Code != sequencer.CodeNotWhileObserving && o.Tx != "": // a retraction may be given up in any step
	case in.Kind == sequencer.IntentRegister && o.Code == sequencer.CodeLimit && t.rules.Logic >= 3:
		delete(t.tools, toolServer{o.Incarnation, in.Register.Server}) // what cannot be kept is absent
	case in.Kind == sequencer.IntentUnregister && o.Code == sequencer.CodeLimit && t.rules.Logic >= 3:
		t.r.fail("a withdrawal of %s by incarnation %d is refused", in.Register.Server, o.Incarnation)
	case in.Kind == sequencer.IntentJoin:
		t.checkJoinRefused(o)
	case o.Code == sequencer.CodeNotWhileObserving:
		t.checkNotObserving(in)
	}
	if info != nil && o.Code == sequencer.CodeTouchBound {
		info.wants = nil
	}
	if info != nil && info.decision != 0 && o.Code == sequencer.CodeTooOld {
		t.r.probe(ProbeForgotten)
		if in != nil && in.Kind == sequencer.IntentRetract && in.Tx == info.id {
			t.checkTooOld(info, o)
		}
	}
	if o.Code == sequencer.CodeLeaseExpired && o.Tx != "" {
		t.r.probe(ProbeZombieIntent)
	}
}

// checkOwnSession: a transaction is refused as for its own session for one of its conversation or of its group only.
func (t *truth) checkOwnSession(o *sequencer.Outcome) {
	a := t.r.attempts[o.Tx]
	for _, blocker := range o.BlockedBy {
		b := t.r.attempts[blocker.Tx]
		group := a.begin.Group != "" && a.begin.Group == b.begin.Group
		if !group && (a.incarnation != b.incarnation || a.begin.Session != b.begin.Session) {
			t.r.fail("%s of %q is refused for %s of %q as for its own session", o.Tx, a.begin.Session, blocker.Tx,
				b.begin.Session)
		}
	}
}

func (t *truth) onGranted(info *txInfo, o *sequencer.Outcome) {
	info.wants = nil
	for _, x := range info.outs[:len(info.outs)-1] {
		if x.Intent == o.Intent && (x.Kind == sequencer.OutcomeGranted || x.Kind == sequencer.OutcomeRefused) {
			t.r.fail("%s is granted at %d and was answered at %d: %s %s", o.Intent, o.Seq, x.Seq, x.Kind, x.Code)
			return
		}
	}
	for _, h := range o.Added {
		if h.Kind == sequencer.Granted && h.Access == sequencer.WriteAccess {
			info.grants = append(info.grants, h.Scope)
		}
	}
	if slices.ContainsFunc(info.outs, func(x *sequencer.Outcome) bool {
		return x.Kind == sequencer.OutcomeWaiting && x.Intent == o.Intent
	}) {
		t.r.probe(ProbeWaitGranted)
	}
}

// onSealed notes the footprint that a transaction was sealed with.
func (t *truth) onSealed(info *txInfo, in *sequencer.Intent) {
	if in != nil && in.Kind == sequencer.IntentSeal && in.Tx == info.id && !info.sealed {
		info.sealed, info.seal, info.levels = true, in.Seal, t.rules.Levels
		if info.unapproved() {
			info.due = max(info.due, t.time+t.rules.ApprovalTicks)
		}
		if len(info.outs) == 1 {
			t.r.probe(ProbeFolded)
		}
	}
}

// onVerdict notes that the hook has answered on the footprint that waits.
func (t *truth) onVerdict(in *sequencer.Intent) {
	if in == nil || in.Kind != sequencer.IntentVerdict || len(in.Verdict.Approvals) > 0 { // those have their own numbers
		return
	}
	info := t.txs[in.Tx]
	if info == nil || in.Incarnation != info.owner() || in.N <= info.verdict {
		return // a duplicate, or overtaken by a later one
	}
	info.verdict = in.N
	if info.answered || !info.sealed || in.Verdict.Footprint != info.seal.Footprint() {
		return
	}
	info.answered, info.denied = true, !in.Verdict.Yes && !in.Verdict.Unavailable
}

func (t *truth) onDecided(info *txInfo, o *sequencer.Outcome) {
	if info.decision != 0 {
		t.r.fail("%s is decided at %d and again at %d", info.id, info.decision, o.Seq)
		return
	}
	info.decision = o.Seq
	if o.Final {
		info.final = o.Seq
	}
	if o.Kind == sequencer.OutcomeAborted {
		t.checkAbort(info, o)
		t.r.report.Aborts[o.Code]++
		t.r.probe(ProbeAborted(o.Code))
		return
	}
	info.committed, info.time = true, o.Time
	t.least.other = t.least.other || t.rules.Logic < 3
	t.r.report.Commits++
	if len(info.outs) > 1 && info.outs[len(info.outs)-2].Kind == sequencer.OutcomeWaiting {
		t.r.probe(ProbeWaitCommitted)
	}
	if len(o.Residue) > 0 {
		t.r.probe(ProbeStoodOnResidue)
	}
	t.checkCommit(info, o)
}

func (t *truth) onSettled(info *txInfo, o *sequencer.Outcome, in *sequencer.Intent) {
	switch {
	case info.decision == 0 || info.final != 0:
		t.r.fail("%s is settled at %d: decided at %d, final at %d", info.id, o.Seq, info.decision, info.final)
		return
	case in.Incarnation != info.owner():
		t.r.fail("%s is settled at %d by incarnation %d; its owner is %d", info.id, o.Seq, in.Incarnation, info.owner())
		return
	}
	info.final = o.Seq
	for _, e := range in.Settle.Effects {
		switch {
		case !t.r.real: // the model says so itself
		case e.Result == sequencer.ResultLeaked:
			t.r.probe(ProbeLeaked)
		case e.Result == sequencer.ResultUnresolved:
			t.r.probe(ProbeUnresolved)
		case e.Result == sequencer.ResultPartial:
			t.r.probe(ProbeNotSent)
		}
	}
	if len(o.Residue) > 0 {
		t.r.probe(ProbeResidue)
	}
	t.checkSettled(info, in.Settle, o)
}

// owner is who settles a transaction since when.
type owner struct {
	since       sequencer.Seq
	incarnation sequencer.Seq // zero: an orphan
}

// ownerAt is who settles the transaction as a view at seq sees it.
func (i *txInfo) ownerAt(view sequencer.Seq) sequencer.Seq {
	for n := len(i.owners) - 1; n >= 0; n-- {
		if i.owners[n].since <= view {
			return i.owners[n].incarnation
		}
	}
	return 0
}

func (i *txInfo) owner() sequencer.Seq { return i.owners[len(i.owners)-1].incarnation }

// adoptions is how often a view at seq shows it adopted.
func (i *txInfo) adoptions(view sequencer.Seq) int {
	n := 0
	for _, o := range i.outs {
		if o.Kind == sequencer.OutcomeAdopted && o.Seq <= view {
			n++
		}
	}
	return n
}

// onOwner follows who settles what.
func (t *truth) onOwner(info *txInfo, o *sequencer.Outcome) {
	if o.Kind == sequencer.OutcomeAdopted {
		if info.owner() != 0 || info.decision == 0 || info.over() {
			t.r.fail("%s is adopted at %d and is no orphan", info.id, o.Seq)
		}
		info.owners = append(info.owners, owner{o.Seq, o.Incarnation})
		t.r.probe(ProbeOrphanAdopted)
		return
	}
	switch joining := t.log[len(t.log)-1].Kind == sequencer.IntentJoin; {
	case o.Kind == sequencer.OutcomeJoined:
		t.checkJoined(o)
		t.live[o.Agent] = o.Incarnation
	case !joining: // otherwise the agent goes on with a new incarnation
		delete(t.live, o.Agent)
	}
	for _, x := range t.list {
		switch {
		case x.over():
		case o.Kind == sequencer.OutcomeLeaseEnded && x.owner() == o.Incarnation:
			x.owners = append(x.owners, owner{o.Seq, 0})
		case o.Kind == sequencer.OutcomeJoined && x.decision != 0 && x.agent == o.Agent && x.owner() == 0:
			x.owners = append(x.owners, owner{o.Seq, o.Incarnation})
			t.r.probe(ProbeOrphanJoined)
		}
	}
}

// traceIntent writes a record of the log as one line.
func (t *truth) traceIntent(offset int64, in *sequencer.Intent) {
	if !t.r.tracing {
		return
	}
	if in == nil {
		t.r.note("@%d unreadable", offset)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "@%d %s inc=%d base=%d", offset, in.ID(), in.Incarnation, in.Base)
	switch {
	case in.Touch != nil:
		fmt.Fprintf(&b, " wants %v", in.Touch.Wants)
	case in.Seal != nil:
		for _, r := range in.Seal.Reads {
			fmt.Fprintf(&b, " read %s@%d", r.Scope, r.View)
		}
		for _, e := range in.Seal.Effects {
			fmt.Fprintf(&b, " %s %v", e.Class, e.Scopes)
		}
		for _, w := range in.Seal.Shards {
			fmt.Fprintf(&b, " write %s", w.Scope)
		}
		fmt.Fprintf(&b, " from %v", in.Seal.ReadFrom)
	case in.Settle != nil:
		fmt.Fprintf(&b, " %+v", *in.Settle)
	case in.Watermark != nil:
		fmt.Fprintf(&b, " %s seq=%d", in.Agent, in.Watermark.Seq)
	}
	if in.Begin != nil {
		fmt.Fprintf(&b, " begin %s may %v group %q after %q", in.Begin.Mode, in.Begin.May, in.Begin.Group,
			in.Begin.Predecessor)
	}
	t.r.note("%s", b.String())
}

// traceOutcome writes an outcome as one line.
func (t *truth) traceOutcome(o *sequencer.Outcome) {
	if !t.r.tracing {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "    #%d %s %s", o.Seq, o.Kind, o.Tx)
	if o.Tx == "" {
		fmt.Fprintf(&b, "%s inc=%d", o.Agent, o.Incarnation)
	}
	fmt.Fprintf(&b, " floor=%d time=%d", o.Floor, o.Time)
	if o.Epoch != 0 {
		fmt.Fprintf(&b, " epoch=%d", o.Epoch)
	}
	if o.Code != "" {
		fmt.Fprintf(&b, " %s (%s) moved %v", o.Code, o.Detail, o.Moved)
	}
	for _, h := range o.Added {
		fmt.Fprintf(&b, " +%s %s %s", h.Kind, h.Access, h.Scope)
	}
	for _, h := range o.Ended {
		fmt.Fprintf(&b, " -%s %s %s", h.Kind, h.Access, h.Scope)
	}
	for _, w := range o.Writes {
		fmt.Fprintf(&b, " wrote %s", w.Scope)
	}
	for _, x := range o.BlockedBy {
		fmt.Fprintf(&b, " behind %s(%s)", x.Tx, x.Why)
	}
	if o.Final {
		b.WriteString(" final")
	}
	t.r.note("%s", b.String())
}
