package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// argsSum is how an approval names the arguments of a call: their SHA-256, as the agent sent them.
func argsSum(args []byte) sequencer.Hash { return sha256.Sum256(args) }

// Approve puts a word on a held call of a sealed transaction into the log, anybody's: who says it, and whether that
// person may, is for the face to know. It returns the transaction as it stands once the log has taken the word.
func (s *Agent) Approve(ctx context.Context, tx, index string, in *api.Word) (*api.Decision, error) {
	return flow(s, func() (*api.Decision, error) {
		id := sequencer.TxID(tx)
		if _, _, _, ok := api.OwnerOf(id); !ok {
			return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", tx)
		}
		at, err := strconv.ParseUint(index, 10, 32)
		if err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "the index is %.40q: give the call's number in its transaction", index)
		}
		word := sequencer.Approval{Index: uint32(at), Yes: in.Yes, By: in.By}
		if in.ArgsSHA256 != "" {
			sum, err := hex.DecodeString(in.ArgsSHA256)
			if err != nil || len(sum) != len(word.Args) {
				return nil, api.Problemf(api.CodeBadRequest, "args_sha256 is no SHA-256: give 64 hexadecimal digits")
			}
			copy(word.Args[:], sum)
		}
		return s.approve(ctx, id, word)
	})
}

func (s *Agent) approve(ctx context.Context, id sequencer.TxID, word sequencer.Approval) (*api.Decision, error) {
	if err := s.view.Ready(); err != nil {
		return nil, view.NotReady(err)
	}
	if _, decided := s.decided(id); !decided {
		list, err := s.needed(ctx, id)
		if _, decided = s.decided(id); decided { // while the fold was asked
			return s.standsFor(id, word)
		}
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(a sequencer.Approval) bool { return a.Index == word.Index })
		if i < 0 {
			return nil, api.Problemf(string(sequencer.CodeWrongFootprint), "call %d of %s needs no approval", word.Index, id)
		}
		if word.Args == (sequencer.Hash{}) {
			word.Args = list[i].Args // of the call that would leave, as the log has it
		}
		// One that says nothing new would have no answer of its own, unless it is about other arguments.
		if !said(&list[i], word) || word.Yes && word.Args != list[i].Args {
			if err := s.tellApproval(ctx, id, word); err != nil {
				return nil, err
			}
		}
	}
	return s.standsFor(id, word)
}

// decided is how the view shows that a transaction was decided, also where it did not see how.
func (s *Agent) decided(id sequencer.TxID) (view.TxState, bool) {
	seen, _ := s.view.Transaction(id)
	return seen, seen.Decision != nil || seen.Before()
}

// needed are the approvals that a sealed transaction waits for, with what was said. The view knows them unless it
// began later, or has forgotten the transaction over many others: then the fold is asked.
func (s *Agent) needed(ctx context.Context, id sequencer.TxID) ([]sequencer.Approval, error) {
	seen, known := s.view.Transaction(id)
	if seen.Waiting != nil && len(seen.Waiting.Approvals) > 0 {
		return seen.Waiting.Approvals, nil
	}
	live, err := s.underWay(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(live.Transactions, func(t topology.LiveTx) bool { return t.Tx == id })
	if i >= 0 && len(live.Transactions[i].Approvals) > 0 {
		return live.Transactions[i].Approvals, nil
	}
	// The fold may have decided it by now, and the view is on its way there.
	_, err = loop.Do(s.loop, func() (any, error) { return nil, s.view.ReachWithin(ctx, live.Seq, view.TableWait) })
	switch {
	case err != nil:
		return nil, err
	case i < 0 && !known:
		return nil, api.Problemf(api.CodeUnknownTx, "no transaction %s is under way", id)
	}
	// Before the seal it is not known what would leave; a call that needs no approval takes none.
	return nil, api.Problemf(string(sequencer.CodeNotSealed), "%s is not sealed with a call that needs approval", id)
}

// unapproved are the calls of a transaction that are neither approved nor denied yet.
func unapproved(d *api.Decision) (out []uint32) {
	if d.State != api.StateSealed {
		return nil
	}
	for _, a := range d.Approvals {
		if a.By == "" {
			out = append(out, a.Index)
		}
	}
	return out
}

// Unapproved lists the calls of all agents that wait for approval, with their arguments, the oldest transaction first.
// The page's Pick has tool, state and tx.
func (s *Agent) Unapproved(ctx context.Context, page api.Page) (*api.EffectList, error) {
	return flow(s, func() (*api.EffectList, error) {
		live, err := s.underWay(ctx)
		if err != nil {
			return nil, err
		}
		ctx, cancel := s.clock.Within(ctx, view.TableWait) // of all looks into the log together
		defer cancel()
		var list []api.Receipt
		for i := range live.Transactions {
			t := &live.Transactions[i]
			missing := slices.DeleteFunc(slices.Clone(t.Approvals), func(a sequencer.Approval) bool { return a.By != "" })
			if page.After == "" && len(list) > page.Limit { // the rest is another page's
				break
			}
			if len(missing) == 0 || !page.Wants("tx", string(t.Tx)) || !page.Wants("state", api.EffectUnapproved) {
				continue
			}
			for _, one := range s.shown(ctx, t, missing) {
				if page.Wants("tool", one.Tool) {
					list = append(list, one)
				}
			}
		}
		out := &api.EffectList{Workspace: s.workspace, Agent: s.agent}
		if out.Items, out.Next, err = api.Cut(page, list, placeOf); err != nil {
			return nil, err
		}
		return out, nil
	})
}

// shown are calls as an approver sees them, with arguments only when they are those that were sealed.
func (s *Agent) shown(ctx context.Context, t *topology.LiveTx, missing []sequencer.Approval) (out []api.Receipt) {
	events, err := s.settle.Effects(ctx, t.Tx)
	calls := []gate.Progress{}
	if err == nil {
		calls, err = s.settle.FromLog(t.Tx, events)
	}
	for _, a := range missing {
		one := api.Receipt{Tx: string(t.Tx), Index: &a.Index, Agent: t.Agent, State: api.EffectUnapproved,
			ArgsSHA256: hex.EncodeToString(a.Args[:])}
		i := slices.IndexFunc(calls, func(p gate.Progress) bool { return p.Index == a.Index })
		switch {
		case err != nil:
			one.Note = "the log cannot be read now, so its arguments are not shown: " + err.Error()
		case i < 0:
			one.Note = "the log does not say what it is: deny it"
		default:
			was := settle.Receipt(calls[i], settle.Standing{})
			one.Tool, one.Class, one.Scopes, one.Key = was.Tool, was.Class, was.Scopes, was.Key
			if one.Args = calls[i].Args; argsSum(one.Args) != a.Args {
				one.Args, one.Note = nil, "the arguments in the log are not those that were sealed: deny it"
			}
		}
		out = append(out, one)
	}
	return out
}

// underWay is what goes on in the workspace, as the fold has it.
func (s *Agent) underWay(ctx context.Context) (topology.Live, error) {
	ctx, cancel := s.clock.Within(ctx, view.TableWait)
	defer cancel()
	live, err := loop.Do(s.loop, func() (topology.Live, error) { return s.events.Live(ctx, s.workspace) })
	if err != nil {
		return live, api.Problemf(api.CodeLog, "what waits for approval cannot be asked for: %v", err)
	}
	return live, nil
}

// said: the word would say nothing new.
func said(a *sequencer.Approval, word sequencer.Approval) bool {
	return a.By != "" && (word.Yes || !a.Yes)
}

// heard: the view shows that the word was said, or that the transaction is over.
func (s *Agent) heard(id sequencer.TxID, word sequencer.Approval) bool {
	seen, decided := s.decided(id)
	return decided || seen.Waiting != nil && slices.ContainsFunc(seen.Waiting.Approvals, func(a sequencer.Approval) bool {
		return a.Index == word.Index && said(&a, word)
	})
}

// standsFor is how a transaction stands once a word on it was said. Who is late learns what stands instead: who has
// denied a call must not believe that it will not leave, nor who has agreed to other arguments that those left.
func (s *Agent) standsFor(id sequencer.TxID, word sequencer.Approval) (*api.Decision, error) {
	seen, decided := s.decided(id)
	d := seen.Describe()
	switch {
	case decided && seen.Decision == nil:
		return nil, api.Problemf(api.CodeApprovalLate, "%s was decided before this sidecar began to look: hence explain "+
			"says how", id)
	case d.State == api.StateAborted && word.Yes, d.State == api.StateCommitted && (!word.Yes || otherArgs(d, word)):
		p := api.Problemf(api.CodeApprovalLate, "%s", words.Sentence(d))
		if p.Decision = d; word.Yes && d.State == api.StateCommitted {
			p.Detail += " Its arguments have another args_sha256 than this yes."
		}
		return nil, p
	}
	return d, nil
}

// otherArgs: the call was approved with other arguments than those that the word is about.
func otherArgs(d *api.Decision, word sequencer.Approval) bool {
	return word.Args != (sequencer.Hash{}) && slices.ContainsFunc(d.Approvals, func(a api.Approval) bool {
		return a.Index == word.Index && a.ArgsSHA256 != hex.EncodeToString(word.Args[:])
	})
}

// tellApproval returns once the view shows that the log has taken the word, or that the transaction is over.
func (s *Agent) tellApproval(ctx context.Context, id sequencer.TxID, word sequencer.Approval) error {
	if err := s.await(ctx); err != nil {
		return err
	}
	s.words++
	inc := s.liveIncarnation()
	in := &sequencer.Intent{Kind: sequencer.IntentVerdict, Tx: id, N: s.words, Agent: s.agent, Incarnation: inc,
		Verdict: &sequencer.Verdict{Approvals: []sequencer.Approval{word}}}
	o, err := s.ask(ctx, in, func() bool {
		seen, decided := s.decided(id)
		if decided || s.liveIncarnation() != inc {
			return true
		}
		// What others say of it meanwhile is no answer to one about other arguments: that one is refused.
		return seen.Waiting != nil && slices.ContainsFunc(seen.Waiting.Approvals, func(a sequencer.Approval) bool {
			return a.Index == word.Index && said(&a, word) && (!word.Yes || a.Args == word.Args)
		})
	})
	if err != nil {
		return err
	}
	if o != nil && o.Kind == sequencer.OutcomeRefused {
		return words.NotTaken(o, "call %d of %s is as it was", word.Index, id)
	}
	if o == nil && !s.heard(id, word) {
		return api.Problemf(api.CodeNotReady, "the session ended before the log answered: send it again")
	}
	return nil
}
