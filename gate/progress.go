package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// String returns the step's name.
func (s Step) String() string {
	names := [...]string{
		"", "issued", "started", "answered", "given_up", "undoing", "undone", "undo_lost", "dropped", "not_sent",
	}
	if s == 0 || int(s) >= len(names) {
		return fmt.Sprintf("step %d", uint8(s))
	}
	return names[s]
}

// String returns the claim's name.
func (c Claim) String() string {
	switch c {
	case ClaimOwn:
		return "own"
	case ClaimSuccessor:
		return "successor"
	case ClaimStranger:
		return "stranger"
	}
	return fmt.Sprintf("claim %d", uint8(c))
}

// whole says that this claim knows every call that was ever begun.
func (c Claim) whole() bool { return c == ClaimOwn || c == ClaimSuccessor }

// Origin names where transactions come from, in few characters. Their ids alone do not: each workspace and each log
// counts its own, so two agents of one name may both have a first transaction.
func Origin(log, workspace string) string {
	sum := sha256.Sum256([]byte(log + "\x00" + workspace))
	return hex.EncodeToString(sum[:6])
}

// OwnKey is made of transaction and index, and belongs to no other call, of any workspace.
func OwnKey(origin string, tx sequencer.TxID, index uint32) string {
	return fmt.Sprintf("%s/%d@%s", tx, index, origin)
}

// Key is what a call's sink is given: for eager classes made of transaction and index, for held ones the policy's
// business key, else the one that the request came with. Empty: the sink takes none.
func Key(t Tool, origin string, tx sequencer.TxID, index uint32, requested string) string {
	switch {
	case t.Class.Eager() && t.Keyed:
		return OwnKey(origin, tx, index)
	case t.Class.Eager() || t.Class == sequencer.ClassRead:
		return ""
	case t.Key != "":
		return t.Key
	}
	return requested
}

// Known says that the effect's call may not be on its way: it never began, or its outcome is known, or it was
// given up. An eager effect that is not known, or was given up, keeps its transaction from being sealed.
func (p *Progress) Known() bool { return !p.Started || p.Answer != nil || p.GivenUp }

// InFlight says that a call of the effect, or its compensation, may be under way, as far as the marks say.
func (p *Progress) InFlight() bool {
	return !p.Known() || p.Undoing && p.UndoDone == nil && !p.UndoLost
}

// Ran says that the sink acted, as far as it is known.
func (p *Progress) Ran() bool { return p.Answer != nil && !p.Answer.Refused && !p.Answer.Absent }

// Apply replays a mark. Marks of one effect are applied in the order in which they were made; applying one twice in a
// row changes nothing.
func (p *Progress) Apply(m Mark) {
	if m.Tx != p.Tx || m.Index != p.Index {
		// Another effect's mark would make this one look as if it had begun, or ended.
		panic(fmt.Sprintf("gate: a mark of %s/%d is applied to %s/%d", m.Tx, m.Index, p.Tx, p.Index))
	}
	switch m.Step {
	case StepStarted:
		p.Started, p.Tries, p.Unsent = true, max(p.Tries, m.Try), ""
	case StepAnswered:
		p.Answer, p.GivenUp, p.Unsent = m.Answer, false, ""
	case StepGivenUp:
		p.GivenUp, p.Why, p.Unsent = true, m.Detail, ""
	case StepUndoing:
		p.Undoing, p.UndoTries = true, max(p.UndoTries, m.Try)
	case StepUndone:
		p.UndoDone, p.UndoLost = m.Answer, false
	case StepUndoLost:
		p.UndoDone, p.UndoLost, p.Why = m.Answer, true, m.Detail
	case StepDropped:
		p.Dropped = true
	case StepNotSent:
		if p.Undoing {
			// The newest announcement is meant: a compensation begins only after the call is over.
			p.Undoing = false
		} else {
			p.Started, p.Unsent = false, m.Detail
		}
	}
}
