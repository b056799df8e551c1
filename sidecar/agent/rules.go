package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// rulesNow are the rules in force. A view that began after their last change has to ask for them.
func (s *Agent) rulesNow(ctx context.Context) (sequencer.Rules, error) {
	if err := s.view.Ready(); err != nil {
		return sequencer.Rules{}, view.NotReady(err)
	}
	s.learnRules(ctx)
	now := s.view.Settings()
	if !now.Exact {
		return now.Rules, api.Problemf(api.CodeNotReady, "the rules were set before this sidecar began, and no "+
			"processor says what they are: see that the processors run")
	}
	return now.Rules, nil
}

// Rules are those in force; with a change, those of its version are changed first.
func (s *Agent) Rules(ctx context.Context, change *api.ChangeOfRules) (*api.Rules, error) {
	return flow(s, func() (*api.Rules, error) {
		if change != nil {
			return s.changeRules(ctx, change.Was, change.To)
		}
		rules, err := s.rulesNow(ctx)
		if err != nil {
			return nil, err
		}
		return rulesOf(&rules), nil
	})
}

// changeRules changes the rules of a version under the next one. Of two changes of one version the log takes
// the first.
func (s *Agent) changeRules(ctx context.Context, was uint32, in *api.RulesChange) (*api.Rules, error) {
	if err := s.await(ctx); err != nil { // its first join sets the logic without a new version
		return nil, err
	}
	rules, err := s.rulesNow(ctx)
	if err != nil {
		return nil, err
	}
	if rules.Version != was {
		return nil, otherRules(rules.Version, was)
	}
	if err := changeRules(&rules, in); err != nil {
		return nil, err
	}
	rules.Version++
	got, err := s.setRules(ctx, rules)
	if err != nil {
		return nil, err
	}
	return rulesOf(&got), nil
}

func otherRules(now, was uint32) error {
	return api.Problemf(string(sequencer.CodeVersionMismatch), "the rules are at version %d, not at %d: read them again",
		now, was)
}

// boundsSidecars is the logic of the fold from which on it bounds a workspace's live sidecars, and asksApproval that
// from which on a seal can ask for approval.
const (
	boundsSidecars = 3
	asksApproval   = 4
)

// inForce reports whether rules are those that were asked for. The fold fills in a bound on sidecars, and an undo
// horizon, where none is given.
func inForce(now, asked sequencer.Rules) bool {
	if asked.MaxSidecars == 0 {
		asked.MaxSidecars = now.MaxSidecars
	}
	if asked.HorizonCommits == 0 {
		asked.HorizonCommits = now.HorizonCommits
	}
	if asked.HorizonTicks == 0 {
		asked.HorizonTicks = now.HorizonTicks
	}
	if asked.ApprovalTicks == 0 {
		asked.ApprovalTicks = now.ApprovalTicks
	}
	return now == asked
}

// setRules returns once the view shows the rules, or another change of the same version. All changes to one version
// have one id, so another agent's change may be refused in our place: then ours has still to be decided.
func (s *Agent) setRules(ctx context.Context, rules sequencer.Rules) (sequencer.Rules, error) {
	in := &sequencer.Intent{Kind: sequencer.IntentRules, Agent: s.agent, Rules: &rules}
	for {
		o, err := s.ask(ctx, in, func() bool { return s.view.Settings().Rules.Version >= rules.Version })
		if err != nil {
			return rules, err
		}
		now := s.view.Settings().Rules
		switch refused := o != nil && o.Kind == sequencer.OutcomeRefused; {
		case inForce(now, rules):
			return now, nil
		case o != nil && o.Rules != nil && inForce(*o.Rules, rules):
			return *o.Rules, nil
		case refused && o.Agent == s.agent && o.Code == sequencer.CodeNotWhileObserving:
			return rules, api.Problemf(string(o.Code), "the rules cannot be changed so: %s", o.Detail)
		case refused && o.Agent == s.agent:
			return rules, api.Problemf(api.CodeBadRequest, "the rules cannot be changed so: %s", o.Detail)
		case !refused || now.Version >= rules.Version:
			return rules, otherRules(now.Version, rules.Version-1)
		}
	}
}

// changeRules takes over what a request gives.
func changeRules(r *sequencer.Rules, in *api.RulesChange) error {
	if in.Levels != nil {
		levels, err := levelsOf(*in.Levels)
		if err != nil {
			return api.Problemf(api.CodeBadRequest, "%v", err)
		}
		if levels == nil {
			return api.Problemf(api.CodeBadRequest, "levels is empty: use L0 to L4, or a list of A1, A2, A3, A6")
		}
		r.Levels = *levels
	}
	if in.Observe != nil {
		r.Observe = *in.Observe
	}
	take(&r.Logic, in.Logic)
	take(&r.HorizonSeqs, in.HorizonSeqs)
	take(&r.CapSeqs, in.CapSeqs)
	take(&r.LeaseTicks, in.LeaseTicks)
	take(&r.DeadlineTicks, in.DeadlineTicks)
	take(&r.BoundTicks, in.BoundTicks)
	take(&r.VerdictTicks, in.VerdictTicks)
	take(&r.MaxOpen, in.MaxOpen)
	take(&r.MaxScopes, in.MaxScopes)
	take(&r.MaxBytes, in.MaxBytes)
	take(&r.MaxInline, in.MaxInline)
	take(&r.MaxContent, in.MaxContent)
	take(&r.MaxInlineTotal, in.MaxInlineTotal)
	take(&r.MaxKept, in.MaxKept)
	take(&r.MaxSidecars, in.MaxSidecars)
	take(&r.HorizonCommits, in.HorizonCommits)
	take(&r.HorizonTicks, in.HorizonTicks)
	take(&r.ApprovalTicks, in.ApprovalTicks)
	if r.Logic == 0 || r.Logic > sequencer.Logic {
		return api.Problemf(api.CodeBadRequest, "logic is %d: this version implements 1 to %d, and a processor that "+
			"does not know one stops there", r.Logic, sequencer.Logic)
	}
	for name, rule := range map[string]struct {
		given *uint32
		since uint32
	}{"max_sidecars": {in.MaxSidecars, boundsSidecars}, "horizon_commits": {in.HorizonCommits, boundsSidecars},
		"horizon_ticks": {in.HorizonTicks, boundsSidecars}, "approval_ticks": {in.ApprovalTicks, asksApproval}} {
		if rule.given != nil && r.Logic < rule.since { // older logics would take the rule without a word and not follow it
			return api.Problemf(api.CodeBadRequest, "%s is a rule of logic %d, and the workspace has logic %d: raise logic "+
				"with it", name, rule.since, r.Logic)
		}
	}
	if r.Logic < boundsSidecars {
		r.MaxSidecars, r.HorizonCommits, r.HorizonTicks = 0, 0, 0
	}
	if r.Logic < asksApproval {
		r.ApprovalTicks = 0
	}
	return nil
}

func take[T ~uint32 | ~uint64](to *T, from *uint32) {
	if from != nil {
		*to = T(*from)
	}
}

func rulesOf(r *sequencer.Rules) *api.Rules {
	return &api.Rules{Version: r.Version, Logic: r.Logic, Observe: r.Observe, Levels: levelNames(r.Levels),
		HorizonSeqs: uint64(r.HorizonSeqs), CapSeqs: uint64(r.CapSeqs), LeaseTicks: uint64(r.LeaseTicks),
		DeadlineTicks: uint64(r.DeadlineTicks), BoundTicks: uint64(r.BoundTicks), VerdictTicks: uint64(r.VerdictTicks),
		MaxOpen: r.MaxOpen, MaxScopes: r.MaxScopes, MaxBytes: r.MaxBytes, MaxInline: r.MaxInline,
		MaxContent: r.MaxContent, MaxInlineTotal: r.MaxInlineTotal, MaxKept: r.MaxKept, MaxSidecars: r.MaxSidecars,
		HorizonCommits: r.HorizonCommits, HorizonTicks: uint64(r.HorizonTicks), ApprovalTicks: uint64(r.ApprovalTicks)}
}

// levelNames is a set of anomalies as a request may write it.
func levelNames(l sequencer.Levels) string {
	for i, named := range []sequencer.Levels{sequencer.L0, sequencer.L1, sequencer.L2, sequencer.L3, sequencer.L4} {
		if l == named {
			return fmt.Sprintf("L%d", i)
		}
	}
	var out []string
	for _, one := range []struct {
		level sequencer.Levels
		name  string
	}{{sequencer.A1, "A1"}, {sequencer.A2, "A2"}, {sequencer.A3, "A3"}, {sequencer.A6, "A6"}} {
		if l&one.level != 0 {
			out = append(out, one.name)
		}
	}
	return strings.Join(out, ",")
}
