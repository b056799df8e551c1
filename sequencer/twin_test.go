package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// twin decides what the fold decides, slowly and plainly: lists that are searched from end to end, everything looked
// at again after each change. It is written from the rules, not from the fold, to disagree with it where one of them
// is wrong. It says nothing about kept bytes and gives no details in words.
type twin struct {
	seq, floor, horizon sequencer.Seq
	tickN               uint64
	time                sequencer.Tick
	epoch               sequencer.Epoch
	rules               sequencer.Rules
	sidecars            []*twinSidecar // live ones
	joins               []sequencer.JoinState
	txs                 []*twinTx // in order of appearance
	window              []sequencer.WindowState
	groups              map[string]*sequencer.GroupState
	retractions         []*twinRetraction        // the running one first
	versions            []sequencer.ShardVersion // in the order in which they came
	unversioned         sequencer.Seq
	tombs               []sequencer.Tombstone

	offset  int64
	intent  *sequencer.Intent
	out     []sequencer.Outcome
	repeats []sequencer.Seq
	heard   bool // an approval said something new
}

type twinSidecar struct {
	agent       string
	incarnation sequencer.Seq
	watermark   sequencer.Seq
	due         sequencer.Tick
	servers     map[string]*sequencer.Register // the last one of each server; no tools: withdrawn
	changed     map[string]sequencer.Seq       // by which outcome; zero: an older logic's
	gone        map[string]bool
}

type twinTx struct {
	id                 sequencer.TxID
	agent              string
	incarnation, owner sequencer.Seq
	begin              sequencer.Begin
	free               bool
	epoch              sequencer.Epoch
	phase              sequencer.Phase
	due                sequencer.Tick
	would              sequencer.Code
	code               sequencer.Code
	grants             []sequencer.Hold
	asked              []uint32 // numbers of the touches for writing that were granted, or wait
	waiting            *sequencer.WaitingState
	seal               *sequencer.Seal
	levels             sequencer.Levels
	footprint          sequencer.Hash
	restsOn, residue   []sequencer.TxID
	gated              []sequencer.Scope
	verdictDue         sequencer.Tick
	verdict            int
	approvalDue        sequencer.Tick
	words              []sequencer.Approval // by Index
	signer             string               // of its seal
	decision           sequencer.Seq
	succeeded          bool
	stale              *twinFinding
	answers            map[sequencer.IntentKind]sequencer.Answer
	past               *sequencer.Past // since logic 2, of a committed one up to the horizon
	commit             sequencer.Tick  // when it was decided
	shared, sealed     []sequencer.Scope
	coneOf             sequencer.TxID   // the retracted transaction that takes it along
	reported           []sequencer.Hold // what the outcomes so far say that it holds
	fresh              bool             // it has no outcome yet
	first              sequencer.Seq    // of its first outcome
	given              []twinGiven
	waitsSince         sequencer.Seq // the outcome that says that its touch waits
}

// twinFinding is why something is refused or aborted.
type twinFinding struct {
	code     sequencer.Code
	level    sequencer.Levels // zero: no level switches it off
	scope    sequencer.Scope
	moved    sequencer.Writer
	blockers []sequencer.Blocker

	by, tool, agent string
}

func newTwin() *twin {
	return &twin{rules: sequencer.DefaultRules(), groups: map[string]*sequencer.GroupState{}}
}

func (t *twinTx) undecided() bool {
	return t.phase == sequencer.PhaseOpen || t.phase == sequencer.PhaseSealed
}

func (t *twinTx) final() bool {
	return t.phase == sequencer.PhaseFinalCommitted || t.phase == sequencer.PhaseFinalAborted ||
		t.phase == sequencer.PhaseRetracted
}

// older: t is older than u. One without an epoch yet is the younger one.
func (t *twinTx) older(u *twinTx) bool { return t.epoch != 0 && (u.epoch == 0 || t.epoch < u.epoch) }

func (t *twinTx) sameSession(u *twinTx) bool {
	return t.incarnation == u.incarnation && t.begin.Session == u.begin.Session ||
		t.begin.Group != "" && t.begin.Group == u.begin.Group
}

// holds is what binds others because of t, worked out from where t stands.
func (t *twinTx) holds() []sequencer.Hold {
	out := slices.Clone(t.grants)
	claim := func(s sequencer.Scope, a sequencer.Access) {
		out = append(out, sequencer.Hold{Scope: s, Kind: sequencer.Claimed, Access: a})
	}
	switch t.phase {
	case sequencer.PhaseOpen:
		for _, w := range t.begin.May {
			claim(w.Scope, w.Access)
		}
		if t.waiting != nil {
			for _, w := range t.waiting.Wants {
				claim(w.Scope, w.Access)
			}
		}
	case sequencer.PhaseSealed:
		for _, s := range append(gatedScopes(t.seal), shardScopes(t.seal)...) {
			claim(s, sequencer.WriteAccess)
		}
	case sequencer.PhaseCommitted:
		for _, s := range t.gated {
			out = append(out, sequencer.Hold{Scope: s, Kind: sequencer.Held, Access: sequencer.WriteAccess})
		}
	}
	if t.inCone() {
		for _, x := range t.past.Writes {
			out = append(out, sequencer.Hold{Scope: x.Scope, Kind: sequencer.Granted, Access: sequencer.WriteAccess})
		}
	}
	return unique(out)
}

func unique[T comparable](list []T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func gatedScopes(s *sequencer.Seal) []sequencer.Scope {
	var out []sequencer.Scope
	for _, e := range s.Effects {
		if e.Class == sequencer.ClassBufferable || e.Class == sequencer.ClassIrreversible {
			out = append(out, e.Scopes...)
		}
	}
	return out
}

func shardScopes(s *sequencer.Seal) []sequencer.Scope {
	var out []sequencer.Scope
	for _, w := range s.Shards {
		out = append(out, w.Scope)
	}
	return out
}

// writtenScopes are those that a commit changes, sorted, each once.
func writtenScopes(s *sequencer.Seal) []sequencer.Scope {
	out := shardScopes(s)
	for _, e := range s.Effects {
		if e.Class != sequencer.ClassRead {
			out = append(out, e.Scopes...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writes are all scopes that a sealed transaction counts as writing.
func (t *twinTx) writes() []sequencer.Scope {
	out := writtenScopes(t.seal)
	for _, g := range t.grants {
		if g.Access == sequencer.WriteAccess {
			out = append(out, g.Scope)
		}
	}
	return out
}

func (w *twin) tx(id sequencer.TxID) *twinTx {
	for _, t := range w.txs {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (w *twin) sidecar(incarnation sequencer.Seq) *twinSidecar {
	for _, s := range w.sidecars {
		if s.incarnation == incarnation {
			return s
		}
	}
	return nil
}

// emit numbers an outcome.
func (w *twin) emit(o sequencer.Outcome) sequencer.Seq {
	w.seq++
	o.Workspace, o.Seq, o.Offset, o.RulesVersion, o.Time, o.Floor = "ws", w.seq, w.offset, w.rules.Version, w.time,
		w.floor
	if o.Intent == "" {
		o.Intent = w.intent.ID()
	}
	o.Retryable = o.Code.Retryable()
	o.Signer = w.signer(&o)
	w.out = append(w.out, o)
	return w.seq
}

// emitTx numbers an outcome about a transaction, with how its holds changed since its last one.
func (w *twin) emitTx(t *twinTx, o sequencer.Outcome) sequencer.Seq {
	o.Tx, o.Mode, o.Epoch, o.Group, o.Footprint = t.id, t.begin.Mode, t.epoch, t.begin.Group, t.footprint
	if o.Agent == "" {
		o.Agent, o.Incarnation = t.agent, t.incarnation
	}
	now := t.holds()
	for _, h := range now {
		if !slices.Contains(t.reported, h) {
			o.Added = append(o.Added, h)
		}
	}
	for _, h := range t.reported {
		if !slices.Contains(now, h) {
			o.Ended = append(o.Ended, h)
		}
	}
	t.reported = now
	if t.fresh && w.bounded() {
		t.first = w.seq + 1
	}
	t.fresh = false
	return w.emit(o)
}

func (f *twinFinding) outcome(kind sequencer.OutcomeKind) sequencer.Outcome {
	return sequencer.Outcome{Kind: kind, Code: f.code, Scope: f.scope, Moved: f.moved, BlockedBy: f.blockers,
		By: f.by, Tool: f.tool, MovedAgent: f.agent}
}

// refuse answers the intent; t is nil where no transaction remembers it.
func (w *twin) refuse(t *twinTx, f twinFinding) {
	o := f.outcome(sequencer.OutcomeRefused)
	o.Agent, o.Incarnation = w.intent.Agent, w.intent.Incarnation
	if t == nil {
		o.Tx = w.intent.Tx
		w.emit(o)
		return
	}
	w.answer(t, w.emitTx(t, o))
}

func (w *twin) refuseCode(t *twinTx, code sequencer.Code) { w.refuse(t, twinFinding{code: code}) }

func (w *twin) answer(t *twinTx, seq sequencer.Seq) {
	in := w.intent
	last, some := t.answers[in.Kind]
	switch {
	case !some || last.Incarnation == in.Incarnation || in.Incarnation == t.owner:
	case in.Kind == sequencer.IntentSettle && w.rules.Logic >= 2,
		in.Kind == sequencer.IntentAdopt && w.bounded() && last.Incarnation == t.owner:
		return // a late copy of the owner's must still be known
	}
	t.remember(sequencer.Answer{Kind: in.Kind, Incarnation: in.Incarnation, N: in.N, Seq: seq})
}

// remember keeps the answer to the intent with the greatest number.
func (t *twinTx) remember(a sequencer.Answer) {
	if last := t.answers[a.Kind]; last.Incarnation != a.Incarnation || last.N <= a.N {
		t.answers[a.Kind] = a
	}
}

func (w *twin) repeat(t *twinTx, seq sequencer.Seq) {
	if t != nil {
		w.answer(t, seq)
	}
	w.repeats = append(w.repeats, seq)
}

// step applies one intent.
func (w *twin) step(offset int64, in *sequencer.Intent) (outcomes []sequencer.Outcome, repeats []sequencer.Seq) {
	if in.Kind == sequencer.IntentVerdict && len(in.Verdict.Approvals) > 0 && w.rules.Logic < 4 {
		older := *in
		older.Verdict = &sequencer.Verdict{Footprint: in.Verdict.Footprint, Yes: in.Verdict.Yes,
			Unavailable: in.Verdict.Unavailable}
		in = &older
	}
	in = w.unsigned(in)
	w.offset, w.intent, w.out, w.repeats, w.heard = offset, in, nil, nil, false
	w.apply(in)
	w.undoSome()
	for w.advanceOne() {
	}
	w.tellWaiting(in)
	w.forget()
	return w.out, w.repeats
}

func (w *twin) apply(in *sequencer.Intent) {
	if w.unreadable(in) {
		return
	}
	switch in.Kind {
	case sequencer.IntentJoin:
		w.join(in)
		return
	case sequencer.IntentTick:
		w.tick(in.Tick)
		return
	case sequencer.IntentRules:
		w.setRules(in.Rules)
		return
	}
	sc := w.sidecar(in.Incarnation)
	dead := sc == nil || sc.agent != in.Agent
	if in.Kind == sequencer.IntentWatermark {
		asks := in.Watermark.Confirm != 0 && w.bounded()
		if !dead {
			sc.watermark = max(sc.watermark, min(in.Watermark.Seq, w.seq))
			sc.due = w.time + w.rules.LeaseTicks
		}
		if asks && dead {
			w.refuseCode(nil, sequencer.CodeLeaseExpired)
		} else if asks {
			w.emit(sequencer.Outcome{Kind: sequencer.OutcomeConfirmed, Agent: in.Agent, Incarnation: in.Incarnation})
		}
		return
	}
	if dead {
		w.refuseCode(nil, sequencer.CodeLeaseExpired)
		return
	}
	switch in.Kind {
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		w.register(sc, in)
	case sequencer.IntentSelect:
		w.choose(in)
	default:
		w.applyTx(in)
	}
}
