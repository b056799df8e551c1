package sidecar

import (
	"context"
	"errors"
	"net/http"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

const (
	maxResidue   = 10_000 // of one look at the list
	maxNoteBytes = 512
)

func (s *Sidecar) listResidue(c *call) (*reply, error) {
	query := c.request.URL.Query()
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return nil, err
	}
	list, cut, err := s.session.residue(c.ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ResidueList{Workspace: s.config.Workspace, Items: []api.Residue{}, Truncated: cut}
	for i := range list {
		one := residueOf(&list[i])
		wanted := func(name, have string) bool {
			return !query.Has(name) || topology.NormalName(query.Get(name)) == topology.NormalName(have)
		}
		if !wanted("tool", one.Tool) || !wanted("result", one.Result) || !wanted("state", one.State) {
			continue
		}
		if len(out.Items) == int(limit) {
			out.Truncated = true
			break
		}
		out.Items = append(out.Items, one)
	}
	return jsonReply(http.StatusOK, out), nil
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
func (s *session) residue(ctx context.Context) (list []topology.Residue, cut bool, err error) {
	list, err = s.events.Residue(ctx, s.workspace, maxResidue)
	if errors.Is(err, streams.ErrTruncated) {
		return list, true, nil
	}
	if err != nil {
		return nil, false, api.Problemf(api.CodeLog, "the list of residues cannot be read: %v", err)
	}
	return list, false, nil
}

// oneResidue is the residue that a route names; it must be open. told: it was tried again before, and only now does
// the list say what came of it.
func (s *Sidecar) oneResidue(c *call) (r *topology.Residue, told bool, err error) {
	index, ok := decimal(c.params["index"])
	if !ok {
		return nil, false, api.Problemf(api.CodeBadRequest, "index %.20q is not a whole number", c.params["index"])
	}
	list, _, err := s.session.residue(c.ctx)
	if err != nil {
		return nil, false, err
	}
	for i := range list {
		r := &list[i]
		if string(r.Tx) != c.params["tx"] || uint64(r.Index) != index {
			continue
		}
		if r.State != topology.ResidueOpen {
			if s.untold.forget(r) {
				return r, true, nil // the write that failed has come through
			}
			return nil, false, dealtWith(r)
		}
		told, err := s.session.listUntold(c.ctx, &s.untold, r)
		return r, told, err
	}
	return nil, false, api.Problemf(api.CodeNotFound, "effect %d of %.100q is not on the list of residues", index, c.params["tx"])
}

func dealtWith(r *topology.Residue) error {
	return api.Problemf(api.CodeNotResidue, "effect %d of %s is %s: nothing is left to do", r.Index, r.Tx, r.State)
}

func (s *Sidecar) acceptResidue(c *call) (*reply, error) {
	if err := c.operates("accepting a residue"); err != nil {
		return nil, err
	}
	var in api.AcceptResidue
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	if in.Note == "" || len(in.Note) > maxNoteBytes {
		return nil, api.Problemf(api.CodeBadRequest, "note is missing or has more than %d bytes: say who accepts it, and why",
			maxNoteBytes)
	}
	done, err := s.dealing.enter(c)
	if err != nil {
		return nil, err
	}
	defer done()
	r, _, err := s.oneResidue(c)
	if err != nil {
		return nil, err
	}
	if r.State != topology.ResidueOpen {
		return nil, dealtWith(r)
	}
	if err := s.session.acceptResidue(c.ctx, r, in.Note); err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, residueOf(r)), nil
}

func (s *Sidecar) retryResidue(c *call) (*reply, error) {
	if err := c.operates("trying a residue again"); err != nil {
		return nil, err
	}
	var in api.RetryResidue
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	done, err := s.dealing.enter(c)
	if err != nil {
		return nil, err
	}
	defer done()
	r, told, err := s.oneResidue(c)
	if err != nil {
		return nil, err
	}
	if told { // the call was made: it is not made again only because the list could not be written
		return jsonReply(http.StatusOK, residueOf(r)), nil
	}
	if err := s.session.tryResidue(c.ctx, &s.untold, r, &in, c.slot); err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, residueOf(r)), nil
}
