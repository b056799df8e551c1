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

// act calls the tools of a task: it reserves the goods at once, and charges the card and sends the confirmation, which
// both wait for the commit.
func (a *agent) act(ctx context.Context, tx *client.Tx, at *Attempt) error {
	customer := a.run.tasks[at.Task].UserID
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{toolReserve, map[string]any{"task": at.Task, "items": len(at.Writes)}},
		{toolCharge, map[string]any{"task": at.Task, "customer": customer, "cents": 100 * (1 + at.Task%90)}},
		{toolMail, map[string]any{"task": at.Task, "customer": customer, "to": customer + "@example.com"}},
	} {
		if err := a.step(ctx); err != nil {
			return err
		}
		if err := a.call(ctx, tx, at, c.tool, c.args); err != nil {
			return fmt.Errorf("call %s: %w", c.tool, err)
		}
	}
	return nil
}

func (a *agent) call(ctx context.Context, tx *client.Tx, at *Attempt, tool string, args map[string]any) error {
	var receipt client.Receipt
	err := insistProblem(ctx, func() (err error) {
		receipt, err = tx.Effect(ctx, tool, args, client.EffectOptions{})
		return err
	})
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Code == "tool_unreachable" {
		return errToolFailed
	}
	if err != nil {
		return err
	}
	if receipt.Index == nil {
		return fmt.Errorf("the receipt of %s has no index", tool)
	}
	e := EffectRecord{Index: int(*receipt.Index), Tool: tool, State: receipt.State, Key: receipt.Key}
	if len(receipt.Scopes) > 0 {
		e.Scope = receipt.Scopes[0]
	}
	at.Effects = append(at.Effects, e)
	if receipt.State == "failed" {
		return errToolFailed
	}
	return nil
}

// toolFailed aborts an attempt whose tool refused, and tries the task again.
func (a *agent) toolFailed(ctx context.Context, tx *client.Tx, at *Attempt) (further, error) {
	err := insist(ctx, func() error { return tx.Abort(ctx, "a tool refused a call") })
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusConflict {
		return a.refused(ctx, tx, at, p)
	}
	return a.resolve(ctx, tx, at)
}
