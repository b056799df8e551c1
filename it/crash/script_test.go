package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// crashCall is one tool call of a script.
type crashCall struct {
	tool, fault, undo string
	pad               int  // bytes of an argument that only makes it large
	never             bool // it is planned and does not come
}

// crashTx is one transaction of a script.
type crashTx struct {
	calls []crashCall
	end   string // commit, abort; stale: sealed after another one overwrote what it read; open: left so
	as    string // its calls are over scopes of their own
	rest  time.Duration
	leave bool // the next one begins before this one is settled
	plan  bool // its calls are planned and come side by side
	// retract: once it is final, the script's nth transaction, from 1, is retracted with all that follows from it.
	retract int
	// seals: instead, the nth transaction, which was left open, is sealed.
	seals int
}

func calls(tools ...string) (out []crashCall) {
	for _, text := range tools {
		tool, faults, _ := strings.Cut(text, " ")
		tool, never := strings.CutPrefix(tool, "-")
		c := crashCall{tool: tool, fault: faultNone, undo: faultNone, never: never}
		if undo, ok := strings.CutPrefix(faults, "undo "); ok {
			c.undo = undo
		} else if faults != "" {
			c.fault = faults
		}
		out = append(out, c)
	}
	return out
}

// crashScripts are what agents do when their sidecars are killed.
func crashScripts() map[string][]crashTx {
	large := crashTx{end: "commit", rest: 1500 * time.Millisecond, calls: calls("reserve")}
	for range 15 { // of them two transactions fill a journal
		large.calls = append(large.calls, crashCall{tool: "charge", fault: faultNone, undo: faultNone, pad: 250 << 10})
	}
	return map[string][]crashTx{
		"plain": {
			{end: "commit", calls: calls("reserve", "seat", "charge", "note")},
			{end: "abort", calls: calls("reserve", "seat", "charge", "reserve", "seat", "note")},
			{end: "stale", calls: calls("reserve", "note")},
			{end: "commit", calls: calls("charge", "note"), leave: true},
			{end: "commit", calls: calls("note", "charge")},
		},
		"faults": {
			{end: "commit", calls: calls("reserve "+faultLoseOnce, "charge "+faultDropOnce, "note")},
			{end: "commit", calls: calls("charge", "note "+faultLose, "charge")},
			{end: "abort", calls: calls("reserve", "seat "+faultLose)},
			{end: "commit", calls: calls("reserve "+faultDropOnce, "gone")},
			{end: "abort", calls: calls("seat undo "+faultLose, "reserve undo "+faultRefuse)},
			{end: "abort", calls: calls("away", "reserve undo "+faultLoseOnce)},
			{end: "abort", calls: calls("reserve", "seat", "seat undo "+faultDropOnce)},
		},
		"retract": {
			{end: "commit", calls: calls("reserve", "charge")},
			{end: "commit", calls: calls("seat", "reserve", "note"), retract: 1},
			{end: "commit", calls: calls("seat", "reserve", "seat"), retract: 3},
		},
		"plan": {
			{end: "commit", plan: true, calls: calls("reserve", "note", "seat", "charge", "-note")},
			{end: "abort", plan: true, calls: calls("charge", "-seat", "reserve", "seat", "note")},
			{end: "commit", plan: true, calls: calls("-reserve", "note", "charge", "seat", "note")},
		},
		"large": {{end: "commit", calls: large.calls}, large},
	}
}

// errGone is returned by play when the agent's sidecar has ended.
var errGone = errors.New("the sidecar has ended")

// crashAgent plays a script through a sidecar.
type crashAgent struct {
	name  string
	calls string // what its calls name it; empty: its name
	cl    *client.Client
	ended <-chan struct{} // of the sidecar; nil: it does not end
	n     int
	txs   []*client.Tx
	left  []sequencer.TxID // open
	last  []string         // what it was told last, for messages
}

func (a *crashAgent) play(ctx context.Context, script []crashTx) error {
	for _, tx := range script {
		err := a.step(ctx, tx)
		if err == nil && tx.retract > 0 && len(a.txs) >= tx.retract {
			err = a.retract(ctx, a.txs[tx.retract-1].ID())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step plays one line of a script.
func (a *crashAgent) step(ctx context.Context, s crashTx) error {
	if s.seals == 0 || len(a.txs) < s.seals {
		return a.transact(ctx, s)
	}
	_, err := a.txs[s.seals-1].Seal(ctx)
	return a.over(ctx, "seal", err)
}

// retract asks for a retraction, again and again until it is done.
func (a *crashAgent) retract(ctx context.Context, tx string) error {
	for {
		r, err := a.cl.Retract(ctx, tx, "it was a mistake", false)
		if gone := a.over(ctx, "retract", err); gone != nil || err != nil || r.State == "retracted" {
			return gone
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-a.ended:
			return errGone
		}
	}
}

// over: the sidecar has ended, or the context has. Whatever else a request came to is part of the script.
func (a *crashAgent) over(ctx context.Context, what string, err error) error {
	if err != nil {
		a.last = append(a.last, what+": "+err.Error())
	}
	select {
	case <-a.ended:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
	}
	var p *client.Problem
	if err == nil || errors.As(err, &p) {
		return nil
	}
	select { // the connection broke: it is just dying
	case <-a.ended:
		return errGone
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, err)
	}
}

func (a *crashAgent) transact(ctx context.Context, s crashTx) error {
	shard := "shard:/" + a.name
	tx, err := a.cl.Begin(ctx, client.BeginOptions{})
	if gone := a.over(ctx, "begin", err); gone != nil || err != nil {
		return gone
	}
	a.txs = append(a.txs, tx)
	if s.end == "stale" {
		_, err := tx.Read(ctx, shard)
		if gone := a.over(ctx, "read", err); gone != nil {
			return gone
		}
	}
	if gone := a.call(ctx, s, tx); gone != nil {
		return gone
	}
	if s.rest > 0 {
		select {
		case <-time.After(s.rest): // the sidecar rewrites its journal once a second
		case <-a.ended:
			return errGone
		}
	}
	return a.end(ctx, s, tx, shard)
}

// call makes the calls of a transaction: one after the other, or those of a plan side by side.
func (a *crashAgent) call(ctx context.Context, s crashTx, tx *client.Tx) error {
	var ids []string
	for i := range s.calls {
		ids = append(ids, fmt.Sprint("call", i))
	}
	if s.plan {
		_, err := tx.Plan(ctx, ids...)
		if gone := a.over(ctx, "plan", err); gone != nil {
			return gone
		}
	}
	var side sync.WaitGroup
	failed := make([]error, len(s.calls))
	for i, c := range s.calls {
		a.n++
		args := map[string]any{"agent": cmp.Or(a.calls, a.name) + s.as, "n": a.n, "fault": c.fault, "undo": c.undo}
		if c.pad > 0 {
			args["pad"] = strings.Repeat("x", c.pad)
		}
		switch {
		case c.never:
		case s.plan:
			side.Go(func() { _, failed[i] = tx.Effect(ctx, c.tool, args, client.EffectOptions{Call: ids[i]}) })
		default:
			_, err := tx.Effect(ctx, c.tool, args, client.EffectOptions{})
			if gone := a.over(ctx, c.tool, err); gone != nil {
				return gone
			}
		}
	}
	side.Wait()
	for i, err := range failed {
		if gone := a.over(ctx, s.calls[i].tool, err); gone != nil {
			return gone
		}
	}
	return nil
}

func (a *crashAgent) end(ctx context.Context, s crashTx, tx *client.Tx, shard string) error {
	if s.end == "open" {
		a.left = append(a.left, sequencer.TxID(tx.ID()))
		return nil
	}
	if s.end == "abort" {
		err := tx.Abort(ctx, "the plan has changed")
		return a.over(ctx, "abort", err)
	}
	if s.end == "stale" {
		_, err := a.cl.Put(ctx, shard, []byte(tx.ID()), client.WriteOptions{})
		if gone := a.over(ctx, "put", err); gone != nil {
			return gone
		}
	}
	d, err := tx.Seal(ctx)
	if gone := a.over(ctx, "seal", err); gone != nil || s.leave || err != nil {
		return gone
	}
	for !d.Final {
		d, err = tx.Status(ctx, time.Second)
		if gone := a.over(ctx, "status", err); gone != nil || err != nil {
			return gone
		}
		if d.Final || d.State == "aborted" {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-a.ended:
			return errGone
		}
	}
	return nil
}

// probe is a transaction over everything that the agent moved: it commits only once all of that is settled.
func (a *crashAgent) probe(ctx context.Context, scopes []string) error {
	for {
		err := a.probeOnce(ctx, scopes)
		if err == nil {
			return nil
		}
		a.last = append(a.last, "probe: "+err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing that was moved can be moved again: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *crashAgent) probeOnce(ctx context.Context, scopes []string) error {
	tx, err := a.cl.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	wants := make([]client.Want, 0, len(scopes))
	for _, s := range scopes {
		wants = append(wants, client.Want{Scope: s, Access: "write"})
	}
	for {
		got, err := tx.Touch(ctx, wants, client.TouchOptions{})
		if err != nil {
			return err
		}
		if got.State == "granted" {
			break
		}
	}
	d, err := tx.Seal(ctx)
	if err == nil && d.State != "committed" {
		err = fmt.Errorf("%s is %s (%s)", tx.ID(), d.State, d.Code)
	}
	return err
}

// clientOf is an agent's client that tries each request once.
func clientOf(tb testing.TB, url, token, workspace string) *client.Client {
	tb.Helper()
	cl := client.New(url, token, client.WithWorkspace(workspace), client.WithTries(1))
	tb.Cleanup(cl.Close)
	return cl
}
