package sequencer_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

func (w *twin) commit(t *twinTx) {
	s := t.seal
	o := sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Intent: idOf(sequencer.IntentSeal, t.id,
		t.answers[sequencer.IntentSeal].N), Shards: s.Shards, RestsOn: t.restsOn, Residue: t.residue, Would: t.would,
		At: s.At, Approvals: t.words}
	me := sequencer.Writer{Seq: w.seq + 1, Tx: t.id}
	w.keepPast(t)
	o.Writes = w.write(t, writtenScopes(s), func(sequencer.Scope, sequencer.Writer) sequencer.Writer { return me })
	w.share(t, writtenScopes(s))
	t.noteWrites(o.Writes, shardScopes(s))
	if t.past != nil {
		for i := range t.past.Writes {
			t.past.Writes[i].Op = opIn(s, t.past.Writes[i].Scope)
		}
	}
	t.phase = sequencer.PhaseCommitted
	t.gated = unique(gatedScopes(s))
	t.dropReadGrants()
	if len(t.gated) == 0 {
		t.phase, t.grants, o.Final = sequencer.PhaseFinalCommitted, nil, true
	}
	w.decided(t, o)
}

func (w *twin) abort(t *twinTx, f twinFinding) {
	t.waiting, t.code = nil, f.code
	t.dropReadGrants()
	if w.bounded() && t.phase == sequencer.PhaseSealed && len(t.grants) > 0 {
		t.sealed = writtenScopes(t.seal)
	}
	t.phase = sequencer.PhaseAborted
	o := f.outcome(sequencer.OutcomeAborted)
	o.Would, o.Approvals = t.would, t.words
	if len(t.grants) == 0 {
		t.phase, o.Final = sequencer.PhaseFinalAborted, true
	}
	w.decided(t, o)
}

func (t *twinTx) dropReadGrants() {
	t.grants = slices.DeleteFunc(t.grants, func(g sequencer.Hold) bool { return g.Access == sequencer.ReadAccess })
}

func (w *twin) decided(t *twinTx, o sequencer.Outcome) {
	t.decision = w.seq + 1
	if a, sealed := t.answers[sequencer.IntentSeal]; sealed {
		a.Seq = t.decision
		t.answers[sequencer.IntentSeal] = a
	}
	t.seal = nil
	w.emitTx(t, o)
}

func (w *twin) abortIntent(t *twinTx, in *sequencer.Intent) {
	if !t.undecided() {
		w.repeat(t, t.decision)
		return
	}
	code := sequencer.CodeAbortedByAgent
	known := []sequencer.Code{sequencer.CodeToolFailed, sequencer.CodeStaleRead, sequencer.CodeVersionMismatch,
		sequencer.CodeCascade, sequencer.CodeLostBranch, sequencer.CodeTooOld}
	why := twinFinding{code: code}
	if in.Abort != nil && slices.Contains(known, in.Abort.Code) {
		why = w.taken(t, in.Abort)
	}
	w.abort(t, why)
	w.answer(t, t.decision)
}

func (w *twin) giveVerdict(t *twinTx, in *sequencer.Intent) {
	switch {
	case t.phase == sequencer.PhaseOpen:
		w.refuseCode(t, sequencer.CodeNotSealed)
	case !t.undecided():
		w.repeat(t, t.decision)
	case !t.seal.Hook || in.Verdict.Footprint != t.footprint:
		w.refuseCode(t, sequencer.CodeWrongFootprint)
	default:
		w.answer(t, 0)
		if t.verdict == 0 {
			t.verdict = -1
			if in.Verdict.Yes {
				t.verdict = 1
			} else if in.Verdict.Unavailable {
				t.verdict = -2
			}
		}
	}
}

func (w *twin) settle(t *twinTx, in *sequencer.Intent) {
	switch {
	case t.undecided():
		w.refuseCode(t, sequencer.CodeNotDecided)
		return
	case t.phase == sequencer.PhaseRetracting:
		w.settleTurn(t, in)
		return
	case t.final():
		seq := max(t.decision, t.answers[sequencer.IntentSettle].Seq)
		if t.past != nil {
			seq = max(seq, t.past.Undone)
		}
		w.repeat(t, seq)
		return
	case t.owner != in.Incarnation:
		w.refuseCode(t, sequencer.CodeLeaseExpired)
		return
	}
	s, refused := w.owned(t, in.Settle)
	if refused != "" {
		w.refuse(t, twinFinding{code: sequencer.CodeWrongScopes, scope: refused})
		return
	}
	var scopes, dirty []sequencer.Scope
	o := sequencer.Outcome{Kind: sequencer.OutcomeSettled, Final: true}
	for _, e := range s.Effects {
		scopes = append(scopes, e.Scopes...)
		if e.Result != sequencer.ResultClean {
			dirty = append(dirty, e.Scopes...)
			o.Residue = []sequencer.TxID{t.id}
		}
	}
	committed := t.phase == sequencer.PhaseCommitted
	if committed {
		scopes = append(scopes, t.gated...)
	} else if !s.NoneElse {
		for _, g := range t.grants {
			scopes = append(scopes, g.Scope)
		}
	}
	slices.Sort(scopes)
	me := sequencer.Writer{Seq: w.seq + 1, Tx: t.id}
	o.Writes = w.write(t, slices.Compact(scopes), func(scope sequencer.Scope, former sequencer.Writer) sequencer.Writer {
		if slices.ContainsFunc(dirty, scope.Overlaps) {
			return sequencer.Writer{Seq: me.Seq, Tx: me.Tx, Residue: true}
		}
		if w.doubtful(t, scope) {
			o.Residue = []sequencer.TxID{t.id}
			return sequencer.Writer{Seq: me.Seq, Tx: me.Tx, Residue: true}
		}
		if committed {
			return me
		}
		return former
	})
	t.grants, t.gated, t.sealed, t.phase = nil, nil, nil, sequencer.PhaseFinalAborted
	if committed {
		t.phase = sequencer.PhaseFinalCommitted
		t.noteWrites(o.Writes, nil)
	}
	if t.coneOf != "" {
		t.phase, o.Final = sequencer.PhaseRetracting, false
	}
	w.answer(t, w.emitTx(t, o))
}

func (w *twin) join(in *sequencer.Intent) {
	for _, j := range w.joins {
		if j.ID == in.Join.ID {
			w.repeats = append(w.repeats, j.Seq)
			return
		}
	}
	if w.refusesJoin(in.Agent) {
		w.refuseCode(nil, sequencer.CodeLimit)
		return
	}
	for _, s := range slices.Clone(w.sidecars) {
		if s.agent == in.Agent {
			w.endLease(s)
		}
	}
	o := sequencer.Outcome{Kind: sequencer.OutcomeJoined, Agent: in.Agent, Incarnation: w.seq + 1}
	if w.seq == 0 && in.Join.Logic > 1 {
		w.rules.Logic = in.Join.Logic
		if w.bounded() {
			w.rules.MaxSidecars, w.rules.HorizonCommits, w.rules.HorizonTicks = 1024, 2000, 7*345_600
		}
		if w.rules.Logic > 3 {
			w.rules.ApprovalTicks = 14_400
		}
		rules := w.rules
		o.Rules = &rules
	}
	seq := w.emit(o)
	w.joins = append(w.joins, sequencer.JoinState{ID: in.Join.ID, Seq: seq})
	w.sidecars = append(w.sidecars, &twinSidecar{agent: in.Agent, incarnation: seq, watermark: seq, due: w.time +
		w.rules.LeaseTicks, servers: map[string]*sequencer.Register{}, gone: map[string]bool{},
		changed: map[string]sequencer.Seq{}})
	for _, t := range w.txs {
		if t.agent == in.Agent && !t.undecided() && !t.final() && t.owner == 0 {
			t.owner = seq
		}
	}
}

func (w *twin) endLease(s *twinSidecar) {
	w.sidecars = slices.DeleteFunc(w.sidecars, func(x *twinSidecar) bool { return x == s })
	w.emit(sequencer.Outcome{Kind: sequencer.OutcomeLeaseEnded, Agent: s.agent, Incarnation: s.incarnation})
	for _, t := range w.txs {
		if t.undecided() && t.incarnation == s.incarnation {
			w.abort(t, twinFinding{code: sequencer.CodeLeaseExpired})
		}
	}
	for _, t := range w.txs {
		if t.owner == s.incarnation {
			t.owner = 0
		}
	}
}

// tick moves time and ends what is due.
func (w *twin) tick(mark *sequencer.TickMark) {
	if mark.N != w.tickN+1 {
		return
	}
	w.tickN++
	weight := min(8, max(1, mark.Weight))
	if slices.ContainsFunc(w.txs, (*twinTx).undecided) {
		weight = 1
	}
	w.time += weight
	type expiry struct {
		due         sequencer.Tick
		rank        int
		incarnation sequencer.Seq
		begun       int
		end         func()
	}
	var list []expiry
	for _, s := range w.sidecars {
		list = append(list, expiry{s.due, 0, s.incarnation, 0, func() { w.endLease(s) }})
	}
	for i, t := range w.txs {
		if !t.undecided() {
			continue
		}
		list = append(list, expiry{t.due, 2, t.incarnation, i, func() { w.expire(t, sequencer.CodeDeadline) }})
		if t.unheard() {
			list = append(list, expiry{t.approvalDue, 1, t.incarnation, i, func() { w.expire(t, sequencer.CodeDenied) }})
		}
		if t.phase == sequencer.PhaseSealed && t.seal.Hook && t.verdict == 0 {
			list = append(list, expiry{t.verdictDue, 3, t.incarnation, i, func() { w.expire(t, w.silence()) }})
		}
		if t.waiting != nil {
			list = append(list, expiry{t.waiting.Due, 4, t.incarnation, i, func() { w.endBound(t) }})
		}
	}
	slices.SortFunc(list, func(a, b expiry) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.rank, b.rank), cmp.Compare(a.incarnation, b.incarnation),
			cmp.Compare(a.begun, b.begun))
	})
	for _, e := range list {
		if e.due <= w.time {
			e.end()
		}
	}
}

func (w *twin) expire(t *twinTx, code sequencer.Code) {
	if t.undecided() {
		w.abort(t, twinFinding{code: code})
	}
}

func (w *twin) endBound(t *twinTx) {
	if t.waiting == nil {
		return
	}
	n := t.waiting.N
	t.waiting = nil
	t.asked = slices.DeleteFunc(t.asked, func(x uint32) bool { return x == n })
	seq := w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeRefused, Code: sequencer.CodeTouchBound,
		Intent: idOf(sequencer.IntentTouch, t.id, n)})
	t.remember(sequencer.Answer{Kind: sequencer.IntentTouch, Incarnation: t.incarnation, N: n, Seq: seq})
}

func (w *twin) register(s *twinSidecar, in *sequencer.Intent) {
	r := in.Register
	if old := s.servers[r.Server]; old != nil && r.Generation <= old.Generation {
		return
	}
	s.servers[r.Server], s.gone[r.Server] = r, in.Kind == sequencer.IntentUnregister
	o := sequencer.Outcome{Kind: sequencer.OutcomeUnregistered, Agent: in.Agent, Incarnation: in.Incarnation,
		Server: r.Server}
	if in.Kind == sequencer.IntentRegister {
		o.Kind, o.Catalogue = sequencer.OutcomeRegistered, catalogueHash(r.Tools)
	}
	seq := w.emit(o)
	if !w.bounded() {
		seq = 0
	}
	s.changed[r.Server] = seq
}

// catalogueHash is over the tools by name, each name once.
func catalogueHash(tools []sequencer.Tool) sequencer.Hash {
	var text []byte
	for _, t := range distinctTools(tools) {
		for _, s := range []string{t.Name, t.Signature} {
			text = binary.AppendUvarint(text, uint64(len(s)))
			text = append(text, s...)
		}
	}
	return sha256.Sum256(text)
}

func distinctTools(tools []sequencer.Tool) []sequencer.Tool {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b sequencer.Tool) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Signature, b.Signature))
	})
	return slices.CompactFunc(tools, func(a, b sequencer.Tool) bool { return a.Name == b.Name })
}

func (s *twinSidecar) has(p sequencer.Pin) bool {
	r := s.servers[p.Server]
	return r != nil && !s.gone[p.Server] && slices.Contains(distinctTools(r.Tools), sequencer.Tool{Name: p.Name,
		Signature: p.Signature})
}

func (w *twin) choose(in *sequencer.Intent) {
	g := w.groups[in.Select.Group]
	switch {
	case g == nil && in.Base < w.floor:
		w.refuseCode(nil, sequencer.CodeTooOld)
		return
	case g == nil:
		g = &sequencer.GroupState{ID: in.Select.Group}
		w.groups[g.ID] = g
	case g.Winner != "":
		w.repeats = append(w.repeats, g.Seq)
		return
	}
	g.Winner = in.Select.Winner
	g.Seq = w.emit(sequencer.Outcome{Kind: sequencer.OutcomeSelected, Agent: in.Agent, Incarnation: in.Incarnation,
		Group: g.ID, Winner: g.Winner})
	for _, t := range w.txs {
		if t.begin.Group == g.ID && t.undecided() && t.id != g.Winner && !t.free {
			w.abort(t, twinFinding{code: sequencer.CodeLostBranch, moved: sequencer.Writer{Seq: g.Seq, Tx: g.Winner}})
		}
	}
}

func (w *twin) setRules(r *sequencer.Rules) {
	switch {
	case r.Version <= w.rules.Version:
		return
	case r.Version != w.rules.Version+1, r.CapSeqs == 0, r.LeaseTicks < 8, r.Logic < w.rules.Logic:
		w.refuseCode(nil, sequencer.CodeUnknownIntent)
		return
	}
	if code := w.refusesRules(r); code != "" {
		w.refuseCode(nil, code)
		return
	}
	if !w.retracts() {
		w.unversioned = w.seq
	}
	former, now := w.rules, *r
	w.fillRules(&now)
	w.rules = now
	w.emit(sequencer.Outcome{Kind: sequencer.OutcomeRules, Rules: &now})
	w.switched(former)
}
