package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

const (
	maxResidue   = 10_000 // of one look at the list
	maxNoteBytes = 512
)

// Residue lists effects that could not be made clean, of the whole workspace, newest first. The page's Pick has tool,
// result and state; it has no After.
func (s *Agent) Residue(ctx context.Context, page api.Page) (*api.ResidueList, error) {
	list, cut, err := s.residue(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ResidueList{Workspace: s.workspace, Items: []api.Residue{}, Truncated: cut}
	for i := range list {
		one := residueOf(&list[i])
		if !page.Wants("tool", topology.NormalName(one.Tool)) || !page.Wants("result", one.Result) ||
			!page.Wants("state", one.State) {
			continue
		}
		if len(out.Items) == page.Limit {
			out.Truncated = true
			break
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}

func residueOf(r *topology.Residue) api.Residue {
	out := api.Residue{
		Tx: string(r.Tx), Index: r.Index, Agent: r.Agent, Tool: r.Tool, Class: r.Class.String(), Key: r.Key,
		Result: r.Result.String(), State: string(r.State), Detail: r.Detail, Note: r.Note, Tries: r.Tries, AtMs: r.AtMs,
		Code: r.Code, Args: r.Args, Call: r.Call,
	}
	for _, scope := range r.Scopes {
		out.Scopes = append(out.Scopes, string(scope))
	}
	return out
}

// residue is the workspace's list, newest first; cut: there are more.
func (s *Agent) residue(ctx context.Context) (list []topology.Residue, cut bool, err error) {
	list, err = s.events.Residue(ctx, s.workspace, maxResidue)
	if errors.Is(err, streams.ErrTruncated) {
		return list, true, nil
	}
	if err != nil {
		return nil, false, api.Problemf(api.CodeLog, "the list of residues cannot be read: %v", err)
	}
	return list, false, nil
}

// oneResidue is the residue that a request names; it must be open. told: it was tried again before, and only now does
// the list say what came of it.
func (s *Agent) oneResidue(ctx context.Context, tx, index string) (r *topology.Residue, told bool, err error) {
	n, ok := api.Decimal(index)
	if !ok {
		return nil, false, api.Problemf(api.CodeBadRequest, "index %.20q is not a whole number", index)
	}
	list, _, err := s.residue(ctx)
	if err != nil {
		return nil, false, err
	}
	at := slices.IndexFunc(list, func(r topology.Residue) bool {
		return r.Tx == sequencer.TxID(tx) && uint64(r.Index) == n
	})
	if at < 0 {
		return nil, false, api.Problemf(api.CodeNotFound, "effect %d of %.100q is not on the list of residues", n, tx)
	}
	r = &list[at]
	if r.State == topology.ResidueOpen {
		told, err = s.listUntold(ctx, &s.untold, r)
		return r, told, err
	}
	if s.untold.forget(r) {
		return r, true, nil // the write that failed has come through
	}
	return nil, false, dealtWith(r)
}

func dealtWith(r *topology.Residue) error {
	return api.Problemf(api.CodeNotResidue, "effect %d of %s is %s: nothing is left to do", r.Index, r.Tx, r.State)
}

// AcceptResidue takes a residue as it is: whoever asks has looked at the sink, and says so in the note.
func (s *Agent) AcceptResidue(ctx context.Context, tx, index string, in *api.AcceptResidue) (*api.Residue, error) {
	if in.Note == "" || len(in.Note) > maxNoteBytes {
		return nil, api.Problemf(api.CodeBadRequest, "note is missing or has more than %d bytes: say who accepts it, and why",
			maxNoteBytes)
	}
	done, err := s.dealing.enter(tx, index)
	if err != nil {
		return nil, err
	}
	defer done()
	r, _, err := s.oneResidue(ctx, tx, index)
	if err != nil {
		return nil, err
	}
	if r.State != topology.ResidueOpen {
		return nil, dealtWith(r)
	}
	if err := s.acceptResidue(ctx, r, in.Note); err != nil {
		return nil, err
	}
	out := residueOf(r)
	return &out, nil
}

// RetryResidue makes the call, or the compensation, that could not be made before.
func (s *Agent) RetryResidue(ctx context.Context, c once.Call, tx, index string,
	in *api.RetryResidue) (*api.Residue, error) {
	done, err := s.dealing.enter(tx, index)
	if err != nil {
		return nil, err
	}
	defer done()
	r, told, err := s.oneResidue(ctx, tx, index)
	if err != nil {
		return nil, err
	}
	if !told { // else the call was made: it is not made again only because the list could not be written
		if err := s.tryResidue(ctx, &s.untold, r, in, c.Slot); err != nil {
			return nil, err
		}
	}
	out := residueOf(r)
	return &out, nil
}
