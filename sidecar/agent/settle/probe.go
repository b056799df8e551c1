package settle

import (
	"context"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// Probe looks into a settler, and brings about what else takes long or happens seldom: for the tests of the agent that
// owns it. Nothing else uses it.
type Probe struct{ *Settler }

// Alone lets the settler know that no former process is left; what it holds back for one it goes on with soon.
func (p Probe) Alone(soon time.Duration) {
	p.formers.strangersSince = time.Time{}
	for _, d := range p.unsettled {
		d.notBefore = p.clock.Steady().Add(soon)
	}
}

// StrangersUntil is when no former process has a lease any more. Held: a transaction is not settled before.
func (p Probe) StrangersUntil(id sequencer.TxID) (until time.Time, held bool) {
	until = p.formers.strangersUntil()
	d := p.unsettled[id]
	return until, d != nil && until.After(p.clock.Steady()) && d.notBefore.Equal(until)
}

// AgentUntil is how long an agent may still say what it did in a transaction; zero: it was not asked.
func (p Probe) AgentUntil(id sequencer.TxID) time.Time {
	if d := p.unsettled[id]; d != nil && d.agentAsked {
		return d.agentUntil
	}
	return time.Time{}
}

// Settle tries a settlement once.
func (p Probe) Settle(ctx context.Context, id sequencer.TxID) error {
	return p.settleOnce(ctx, p.unsettled[id], p.session.Incarnation())
}

// Append tells the log of a settlement.
func (p Probe) Append(ctx context.Context, id sequencer.TxID, made gate.Settlement) error {
	return p.appendSettlement(ctx, p.unsettled[id], made, p.session.Incarnation())
}

// Ended sets since when an incarnation is over, and has the settler look for what it left.
func (p Probe) Ended(inc sequencer.Seq, agent string, at time.Time) {
	left := &p.orphans.left
	left.ended[inc], left.last[agent], left.look = at, at, p.clock.Now()
}

// LooksAgain is when the settler looks for what others have left, once it has looked; zero: it looks now, or never.
func (p Probe) LooksAgain() time.Time {
	if p.orphans.left.looking {
		return time.Time{}
	}
	return p.orphans.left.look
}

// Look looks for what others have left, and again not for a while. It returns when else it had.
func (p Probe) Look(ctx context.Context, pause time.Duration) (again time.Duration) {
	again = p.lookForLeft(ctx, p.session.Incarnation())
	p.orphans.left.sweep = p.clock.Now().Add(pause)
	return again
}

// Adopt asks for an orphan.
func (p Probe) Adopt(ctx context.Context, id sequencer.TxID) {
	p.adoptOne(ctx, id, p.session.Incarnation())
}

// Surrender is how long an orphan is left to sidecars that have its tools.
func (p Probe) Surrender() time.Duration { return surrenderAfter * p.view.LeaseTime() }

// Asked notes that this sidecar has asked for a retraction.
func (p Probe) Asked(of sequencer.TxID) { p.askedToRetract(of) }

// NoWord is what a settlement goes by once an agent's time to say what it did is over.
func (p Probe) NoWord(id sequencer.TxID, own ...sequencer.Scope) (*sequencer.Settle, error) {
	return p.noWord(&unsettled{tx: id, agentAsked: true}, own, true)
}

// Logged are a transaction's calls as the log has them.
func (p Probe) Logged(ctx context.Context, id sequencer.TxID) ([]gate.Progress, error) {
	return p.logged(ctx, id)
}
