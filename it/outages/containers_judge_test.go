package outages

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/sequencer"
)

// boxRest is how long it may take after the last fault until nothing is left open and every effect has arrived.
const boxRest = 90 * time.Second

// judge waits until everything has come to rest and runs every check.
func (l *boxLab) judge(t *testing.T) {
	t.Helper()
	var found *check.Effects
	var outcomes []*sequencer.Outcome
	harness.Eventually(t, boxRest, func() error {
		outcomes = harness.DecisionsOf(t, l.Servers, l.Workspace, l.load.attempts)
		found = l.effects(t, outcomes)
		if open := append(found.Unresolved(), found.Lost()...); len(open) > 0 {
			return fmt.Errorf("%d things are left, among them: %s", len(open), open[0])
		}
		return nil
	})
	harness.Holds(t, l.load.attempts, outcomes)
	for _, violations := range [][]check.Violation{found.Leaks(), found.Duplicates(), found.Lost(), found.Orders()} {
		harness.NoViolations(t, violations)
	}
	recorded.Agrees(t, l.Brokers, l.Workspace, outcomes, 97)
	commits := 0
	for _, o := range outcomes {
		if o.Kind == sequencer.OutcomeCommitted {
			commits++
		}
	}
	t.Logf("%d decisions, %d commits; %d effects issued, %d at their sinks, %d residues", len(outcomes), commits,
		len(found.Issued), len(found.Sent), len(found.Residue))
	if len(found.Sent) == 0 {
		t.Error("no effect arrived: nothing was put to the test")
	}
}

// effects is what agents issued beside what the log, the sinks and the residue have.
func (l *boxLab) effects(t *testing.T, outcomes []*sequencer.Outcome) *check.Effects {
	t.Helper()
	mails, _ := l.shop.Mails(t)
	all := &check.Effects{Issued: l.load.Issued, Sent: append(mails, l.shop.Charges(t)...)}
	all.Attempts, all.Decisions = l.load.attempts, harness.Checked(outcomes)
	all.Residue = harness.Residue(t, l.residents[0])
	return all
}
