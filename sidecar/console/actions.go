package console

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// acting refuses what an operator asks for where no sidecar is configured.
func (c *Console) acting() error {
	if c.config.Actions == nil {
		return refusal(http.StatusConflict, codeNoSidecar, "%s", c.config.NoActions)
	}
	return nil
}

func (c *Console) retract(r *http.Request) (any, error) {
	if err := c.acting(); err != nil {
		return nil, err
	}
	var in struct {
		Reason string `json:"reason"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	return c.config.Actions.Retract(r.Context(), r.PathValue("tx"), in.Reason, false)
}

func (c *Console) retryResidue(r *http.Request) (any, error) {
	var in api.RetryResidue
	index, err := c.residueAction(r, &in)
	if err != nil {
		return nil, err
	}
	defer c.residues.stale()
	return c.config.Actions.RetryResidueWith(r.Context(), r.PathValue("tx"), index, in)
}

func (c *Console) acceptResidue(r *http.Request) (any, error) {
	var in struct {
		Note string `json:"note"`
	}
	index, err := c.residueAction(r, &in)
	if err != nil {
		return nil, err
	}
	if in.Note == "" {
		return nil, badRequest("say who accepts it, and why")
	}
	defer c.residues.stale()
	return c.config.Actions.AcceptResidue(r.Context(), r.PathValue("tx"), index, in.Note)
}

// residueAction reads which residue an operator, or which call an approver, means, and the body.
func (c *Console) residueAction(r *http.Request, into any) (uint32, error) {
	if err := c.acting(); err != nil {
		return 0, err
	}
	index, err := strconv.ParseUint(r.PathValue("index"), 10, 32)
	if err != nil {
		return 0, badRequest("%.20q is not the place of an effect", r.PathValue("index"))
	}
	return uint32(index), decode(r, into)
}

func (c *Console) approve(r *http.Request) (any, error) { return c.word(r, true) }

func (c *Console) deny(r *http.Request) (any, error) { return c.word(r, false) }

// word says yes or no to a call. Who logged in here need not be one who may: the token that comes with it says so, and
// is kept nowhere.
func (c *Console) word(r *http.Request, yes bool) (any, error) {
	var in struct {
		Token string `json:"token"`
		Args  string `json:"args_sha256"`
	}
	index, err := c.residueAction(r, &in)
	if err != nil {
		return nil, err
	}
	if in.Token == "" || in.Args == "" {
		return nil, badRequest("send an approver's token, and args_sha256 as the page shows it")
	}
	d, err := c.config.Actions.ApproveAs(r.Context(), in.Token, r.PathValue("tx"), index, yes, in.Args)
	if p := api.AsProblem(err); err != nil && p.Code == api.CodeUnauthorized {
		// Passed on as it is, it would end the session here.
		return nil, refusal(http.StatusForbidden, api.CodeApproverOnly, "the sidecar knows no such token of an approver")
	}
	return d, err
}

// told is a decision as its record has it, with the time at which it was seen.
func (c *Console) told(k kept) (told, error) {
	event, err := topology.EncodeCloudEvent(k.outcome, time.Time{}, "")
	return told{k.row.AtMs, event}, err
}
