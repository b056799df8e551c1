package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hence-dev/hence/sidecar/client"
)

// Tools of the demo's policy.
const (
	toolReserve = "stock.reserve"
	toolRelease = "stock.release"
	toolCharge  = "card.charge"
	toolMail    = "mail.confirm"
)

// errToolFailed is returned by act when a tool refused a call: the attempt is aborted, and the task tried again.
var errToolFailed = errors.New("a tool refused the call")

// EffectRecord is one tool call as its agent made it and was answered.
type EffectRecord struct {
	Index int    `json:"index"` // issuance order in its transaction
	Tool  string `json:"tool"`
	State string `json:"state"`           // what the agent was told at once
	Scope string `json:"scope,omitempty"` // what it moves
	Key   string `json:"key,omitempty"`   // idempotency key; empty: the sink takes none
}

// toolCall is one call that a task asks for.
type toolCall struct {
	id, tool string
	args     map[string]any
}

// errand lists the calls of a task: goods are reserved at once, in so many parts; the card is charged and the
// confirmation sent with the commit, which both wait for.
func (a *agent) errand(at *Attempt, parts int) (calls []toolCall) {
	task, customer, left := at.Task, a.run.tasks[at.Task].UserID, len(at.Writes)
	for part := range parts {
		items := left / (parts - part)
		left -= items
		calls = append(calls, toolCall{fmt.Sprintf("reserve_%d", part+1), toolReserve,
			map[string]any{"task": task, "items": items}})
	}
	return append(calls,
		toolCall{"charge", toolCharge, map[string]any{"task": task, "customer": customer, "cents": 100 * (1 + task%90)}},
		toolCall{"mail", toolMail, map[string]any{"task": task, "customer": customer, "to": customer + "@example.com"}})
}

// act calls the tools of a task, one after the other, or as a planned turn.
func (a *agent) act(ctx context.Context, tx *client.Tx, at *Attempt) error {
	if a.plans {
		return a.actPlanned(ctx, tx, at)
	}
	for _, c := range a.errand(at, 1) {
		if err := a.step(ctx); err != nil {
			return err
		}
		e, err := a.call(ctx, tx, c, "")
		at.took(e)
		if err != nil {
			return fmt.Errorf("call %s: %w", c.tool, err)
		}
	}
	return nil
}

// took notes a call that was answered.
func (at *Attempt) took(e *EffectRecord) {
	if e != nil {
		at.Effects = append(at.Effects, *e)
	}
}

// call makes a call, under its id where a plan names it. A call that its tool refused is answered, too.
func (a *agent) call(ctx context.Context, tx *client.Tx, c toolCall, planned string) (*EffectRecord, error) {
	var receipt client.Receipt
	err := insistProblem(ctx, func() (err error) {
		receipt, err = tx.Effect(ctx, c.tool, c.args, client.EffectOptions{Call: planned})
		return err
	})
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Code == "tool_unreachable" {
		return nil, errToolFailed
	}
	if err != nil {
		return nil, err
	}
	if receipt.Index == nil {
		return nil, fmt.Errorf("the receipt of %s has no index", c.tool)
	}
	e := &EffectRecord{Index: int(*receipt.Index), Tool: c.tool, State: receipt.State, Key: receipt.Key}
	if len(receipt.Scopes) > 0 {
		e.Scope = receipt.Scopes[0]
	}
	if receipt.State == "failed" {
		return e, errToolFailed
	}
	return e, nil
}

// toolFailed aborts an attempt whose tool refused, and tries the task again.
func (a *agent) toolFailed(ctx context.Context, tx *client.Tx, at *Attempt) (further, error) {
	err := insist(ctx, func() error { return tx.Abort(ctx, "a tool refused a call") })
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusConflict {
		return a.refused(ctx, tx, at, p)
	}
	return a.resolve(ctx, tx, at)
}
