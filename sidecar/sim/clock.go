package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// checkLease: a join is answered once while it is remembered, and a lease that its holder has renewed, as far as the
// holder knows, does not end by itself.
func (t *truth) checkLease(o *sequencer.Outcome, in *sequencer.Intent) {
	if o.Kind == sequencer.OutcomeJoined {
		if seq := t.joins[o.Intent]; seq > t.floor {
			t.r.fail("%s is answered at %d and at %d", o.Intent, seq, o.Seq)
		}
		t.joins[o.Intent] = o.Seq
		return
	}
	if o.Kind != sequencer.OutcomeLeaseEnded || in.Kind != sequencer.IntentTick {
		return
	}
	for _, c := range t.r.cars {
		if c.incarnation == o.Incarnation && t.r.now <= c.renewed+c.lease() {
			t.r.fail("the lease of %s ends at step %d; renewed at step %d it lasts %d on its clock", c.agent, t.r.now,
				c.renewed, c.lease())
		}
	}
}

// checkAbort: time has really passed, and what is said to be the agent's wish was.
func (t *truth) checkAbort(info *txInfo, o *sequencer.Outcome) {
	no, silent := o.Code == sequencer.CodeVetoed, o.Code == sequencer.CodeHookUnavailable
	if t.rules.Logic >= 3 && (no && !info.denied || silent && info.denied) {
		t.r.fail("%s is aborted as %s; its hook said no: %t", info.id, o.Code, info.denied)
	}
	a := t.r.attempts[info.id]
	if a == nil {
		return
	}
	switch o.Code {
	case sequencer.CodeAbortedByAgent, sequencer.CodeToolFailed:
		if !a.aborting {
			t.r.fail("%s is aborted as %s, and its agent did not ask for it", info.id, o.Code)
		}
	case sequencer.CodeDeadline:
		ticks := int(a.begin.DeadlineTicks)
		if ticks > 0 && t.r.now < info.opened+(ticks-1)*tickSteps {
			t.r.fail("%s is aborted after %d steps; its deadline is %d ticks of %d", info.id, t.r.now-info.opened, ticks,
				tickSteps)
		}
	}
}

// checkBranch: a transaction that begins in a remembered group that has chosen another one has lost.
func (t *truth) checkBranch(info *txInfo, o *sequencer.Outcome) {
	w := t.winners[o.Group]
	if w != nil && w.Seq > t.floor && w.Winner != o.Tx && !info.free && o.Code != sequencer.CodeLostBranch {
		t.r.fail("%s begins in group %s, which has chosen %s", o.Tx, o.Group, w.Winner)
	}
}

// toolServer is a tool server as one sidecar sees it.
type toolServer struct {
	incarnation sequencer.Seq
	server      string
}

// checkPins: the plan's tools were those of the registry.
func (t *truth) checkPins(info *txInfo, a *attempt) {
	if info.checks(a)&sequencer.A2 == 0 {
		return
	}
	for _, p := range info.seal.Pins {
		tool := sequencer.Tool{Name: p.Name, Signature: p.Signature}
		if !slices.Contains(t.tools[toolServer{a.incarnation, p.Server}], tool) {
			t.r.fail("%s commits with the tool %s/%s, which its registry has not", info.id, p.Server, p.Name)
		}
	}
}

// checkMoved: a settlement counts as a write of all that may have changed.
func (t *truth) checkMoved(info *txInfo, s *sequencer.Settle, o *sequencer.Outcome) {
	if t.r.opts.Harm {
		return
	}
	var scopes []sequencer.Scope
	for _, e := range s.Effects {
		scopes = append(scopes, e.Scopes...)
	}
	if !info.committed && !s.NoneElse {
		scopes = append(scopes, info.grants...)
	}
	for _, x := range scopes {
		if !slices.ContainsFunc(o.Writes, func(w sequencer.Write) bool { return w.Scope == x }) {
			t.r.fail("%s is settled at %d, which is no write of %s", info.id, o.Seq, x)
			return
		}
	}
}
