package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

// The shapes of tool calls and of what could not be made clean.
type (
	// Receipt is one tool call as it stands.
	Receipt = api.Receipt
	// Planned are the places of planned calls.
	Planned = api.Planned
	// Done is a transaction of one call.
	Done = api.Done
	// Residue is one effect that could not be made clean, or whose outcome is unknown.
	Residue = api.Residue
)

// EffectOptions say more of a tool call; the zero value is what the policy says.
type EffectOptions struct {
	Key  string // idempotency key for the sink, where the policy leaves it to the agent
	Mode string // Client.Do: order mode of the transaction
	Call string // Tx.Effect: its id in a plan of the transaction
}

// Plan gives parallel calls of the transaction their order before any of them is made; a further plan appends. Each
// names its id in EffectOptions.Call, and comes whenever it does: those that move the same are made in this order.
func (t *Tx) Plan(ctx context.Context, calls ...string) (Planned, error) {
	var out Planned
	err := t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/plan"), nil, api.Plan{Calls: calls}, &out)
	return out, err
}

// Effect calls a tool in the transaction. args is anything that is a JSON object when marshalled. The answer is the
// result of a call that was made, or the receipt of one that waits for the commit: do not call that one again.
func (t *Tx) Effect(ctx context.Context, tool string, args any, o EffectOptions) (Receipt, error) {
	body, err := objectOf(args)
	if err != nil {
		return Receipt{}, err
	}
	var out Receipt
	in := api.Effect{Tool: tool, Args: body, Key: o.Key, Call: o.Call}
	err = t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/effects"), nil, in, &out)
	return out, err
}

// Effects lists the transaction's calls as they stand.
func (t *Tx) Effects(ctx context.Context) (api.Effects, error) {
	var out api.Effects
	err := t.client.json(ctx, http.MethodGet, txPath(t.ID(), "/effects"), nil, nil, &out)
	return out, err
}

// Do calls a tool in a transaction of its own and waits until it is decided or ctx ends. An aborted transaction is no
// error: see the decision's State and Code. One that is not decided in time is an *Undecided.
func (c *Client) Do(ctx context.Context, tool string, args any, o EffectOptions) (Done, error) {
	body, err := objectOf(args)
	if err != nil {
		return Done{}, err
	}
	var out Done
	in := api.OneShot{Tool: tool, Args: body, Key: o.Key, Mode: o.Mode}
	err = c.json(ctx, http.MethodPost, "/v1/effects", waitQuery(ctx), in, &out)
	var p *Problem
	if errors.As(err, &p) && p.Decision != nil && p.Decision.State == api.StateAborted {
		return Done{Tx: p.Decision.Tx, Decision: *p.Decision}, nil
	}
	if err != nil {
		return out, err
	}
	out.Decision, err = c.Tx(out.Tx).await(ctx, out.Decision)
	return out, err
}

// waitQuery asks for an answer before ctx ends: it names the transaction.
func waitQuery(ctx context.Context) url.Values {
	wait := longestWait
	if end, ok := ctx.Deadline(); ok {
		left := max(0, time.Until(end))
		wait = min(wait, left-min(left/4, time.Second))
	}
	return url.Values{"wait_ms": {strconv.FormatInt(wait.Milliseconds(), 10)}}
}

func objectOf(args any) (json.RawMessage, error) {
	if args == nil {
		return json.RawMessage("{}"), nil
	}
	body, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("write the arguments: %w", err)
	}
	return body, nil
}

// ResidueQuery selects residues; empty fields select all.
type ResidueQuery struct {
	Tool, Result, State string
	Limit               int // zero: the sidecar's bound
}

// Residue lists what could not be made clean in the workspace, newest first.
func (c *Client) Residue(ctx context.Context, q ResidueQuery) (api.ResidueList, error) {
	query := url.Values{}
	for name, value := range map[string]string{"tool": q.Tool, "result": q.Result, "state": q.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var out api.ResidueList
	err := c.json(ctx, http.MethodGet, "/v1/residue", query, nil, &out)
	return out, err
}

// Approve says yes to a call of a sealed transaction that needs it, or no, with an approver's token. args is the
// SHA-256 of the arguments that were looked at, hexadecimal; empty: those that were sealed.
func (c *Client) Approve(ctx context.Context, tx string, index uint32, yes bool, args string) (Decision, error) {
	var out Decision
	word := "deny"
	if yes {
		word = "approve"
	}
	path := fmt.Sprintf("/v1/effects/%s/%d/%s", url.PathEscape(tx), index, word)
	err := c.json(ctx, http.MethodPost, path, nil, api.Word{ArgsSHA256: args}, &out)
	return out, err
}

// ApproveAs is Approve with an approver's token in place of the client's own.
func (c *Client) ApproveAs(ctx context.Context, token, tx string, index uint32, yes bool,
	args string) (Decision, error) {
	other := *c
	other.token = token
	return other.Approve(ctx, tx, index, yes, args)
}

// AcceptResidue takes a residue as it is; note says who does and why.
func (c *Client) AcceptResidue(ctx context.Context, tx string, index uint32, note string) (Residue, error) {
	var out Residue
	err := c.json(ctx, http.MethodPost, residuePath(tx, index, "accept"), nil, api.AcceptResidue{Note: note}, &out)
	return out, err
}

// RetryResidue tries again to make a residue clean. One without a key may happen twice: that has to be forced.
func (c *Client) RetryResidue(ctx context.Context, tx string, index uint32, force bool) (Residue, error) {
	return c.RetryResidueWith(ctx, tx, index, api.RetryResidue{Force: force})
}

// RetryResidueWith tries again with all that has to be allowed: that it happens twice, or that a tool is called as it
// is declared now, although it was sealed otherwise.
func (c *Client) RetryResidueWith(ctx context.Context, tx string, index uint32,
	allowed api.RetryResidue) (Residue, error) {
	var out Residue
	err := c.json(ctx, http.MethodPost, residuePath(tx, index, "retry"), nil, allowed, &out)
	return out, err
}

func residuePath(tx string, index uint32, what string) string {
	return "/v1/residue/" + url.PathEscape(tx) + "/" + strconv.FormatUint(uint64(index), 10) + "/" + what
}
