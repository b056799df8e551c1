package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
)

// speculate opens the branches of a group: transactions of which one will be chosen. When one cannot be opened none
// is.
func (s *Agent) speculate(ctx context.Context, group string, begin sequencer.Begin, branches int) ([]*tx, error) {
	begin.Group = group
	var out []*tx
	for range branches {
		t, err := s.start(ctx, begin, nil)
		if err != nil {
			for _, t := range out {
				s.dropBranch(t, &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Mode: t.begin.Mode,
					Code: sequencer.CodeAbortedByAgent, Detail: "not every branch of its group could be opened"})
			}
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// dropBranch ends an open branch before the log has said so.
func (s *Agent) dropBranch(t *tx, o *sequencer.Outcome) {
	if t.decided() || t.phase != phaseOpen {
		return
	}
	s.giveUp(t, o)
	s.abortInLog(t, o, "")
}

// choose makes one branch of a group the winner. The first choice stands; every other branch is over with it.
func (s *Agent) choose(ctx context.Context, group string, winner *tx) error {
	inc, err := s.current()
	var ended *api.Decision
	if winner.decided() {
		ended = s.decision(winner)
	}
	if err == nil && winner.gone() {
		err = s.lost(winner)
	}
	if err != nil {
		return err
	}
	if was, known := s.view.Choice(group); known {
		return s.chosen(group, winner, was)
	}
	if ended != nil && ended.State == api.StateAborted {
		return words.Refusal(ended)
	}
	// One that has committed may have done so by observing, without a choice; if it was chosen before this sidecar began,
	// the log says so again.
	in := &sequencer.Intent{Kind: sequencer.IntentSelect, Agent: s.agent, Incarnation: inc, Base: s.view.At(),
		Select: &sequencer.Select{Group: group, Winner: winner.id}}
	o, err := s.ask(ctx, in, func() bool { _, known := s.view.Winner(group); return known || s.liveIncarnation() != inc })
	if err != nil {
		return err
	}
	was, known := s.view.Choice(group)
	switch {
	case known:
		return s.chosen(group, winner, was)
	case o != nil && o.Kind == sequencer.OutcomeRefused:
		return words.NotTaken(o, "%s is not chosen in group %s", winner.id, group)
	}
	return api.Problemf(api.CodeNotReady, "the session ended before the choice was in the log: begin the group again")
}

// chosen ends the branches that lost, also those that the log has never heard of.
func (s *Agent) chosen(group string, winner *tx, was sequencer.Writer) error {
	if was.Tx != winner.id {
		p := api.Problemf(string(sequencer.CodeLostBranch), "%s was chosen in group %s already, not %s", was.Tx, group,
			winner.id)
		p.MovedSeq, p.MovedBy = uint64(was.Seq), string(was.Tx)
		return p
	}
	for _, t := range s.branches(group) {
		if t != winner {
			s.dropBranch(t, lostTo(t, was))
		}
	}
	return nil
}

// branches are the transactions of a group that this sidecar remembers, in the order of their begin.
func (s *Agent) branches(group string) (out []*tx) {
	for _, t := range s.txs {
		if t.begin.Group == group {
			out = append(out, t)
		}
	}
	sortByBegin(out)
	return out
}

func (s *Agent) groupOf(group string, list []*tx) *api.Group {
	out := &api.Group{Group: group, Tx: []string{}}
	if winner, known := s.view.Winner(group); known {
		out.Winner = string(winner)
	}
	for _, t := range list {
		out.Tx = append(out.Tx, string(t.id))
		out.Branches = append(out.Branches, *s.decision(t))
	}
	return out
}

// inGroup checks the group that a begin names.
func (s *Agent) inGroup(group string) error {
	switch {
	case group == "":
		return nil
	case len(group) > maxNameBytes:
		return api.Problemf(api.CodeBadRequest, "group has more than %d bytes", maxNameBytes)
	}
	if winner, known := s.view.Winner(group); known {
		p := api.Problemf(string(sequencer.CodeLostBranch), "%s was chosen in group %s: begin outside of it", winner, group)
		p.MovedBy = string(winner)
		return p
	}
	if list := s.branches(group); len(list) >= 4*s.limits.Branches {
		return api.Problemf(api.CodeLimit, "group %s has had %d branches", group, len(list))
	} else if len(list) == 0 {
		return api.Problemf(api.CodeNotFound, "there is no group %s in this session: make one first", group)
	}
	return nil
}
