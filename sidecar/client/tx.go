package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/sidecar/api"
)

// BeginOptions say how a transaction is to be treated; the zero value is the sidecar's default.
type BeginOptions struct {
	Mode       string // optimistic, ordered, locked
	Observe    bool
	Levels     string // L0 to L4, or a list of anomalies
	DeadlineMs int
	Group      string // a further branch of this group
	// May and Tools are for mode ordered: what the transaction claims from its begin to its seal, where its footprint
	// must stay. No transaction that begins later is given it before.
	May   []Want
	Tools []PlannedCall // the policy says what they claim
}

// PlannedCall is a tool that a transaction will call.
type PlannedCall struct {
	Tool string
	Args any // those that are known, as a JSON object when marshalled; nil: none
}

// WriteOptions say more of a write; the zero value is an unconditional write of bytes.
type WriteOptions struct {
	MediaType string
	IfVersion *uint64 // zero: only if the shard does not exist
	Op        string  // append, add or union: the content is a delta, and no version is expected
}

// Shard is one shard as a read answers it.
type Shard struct {
	Scope     string
	Exists    bool
	Pending   bool   // the transaction's own write, not decided yet
	Version   uint64 // seq of its last write; zero: absent
	View      uint64 // the seq of the view that showed it
	Writer    string
	MediaType string
	Content   []byte
	Items     []Item // when a pattern was read
	Overtaken *Overtaken
}

// Tx is a transaction.
type Tx struct {
	client *Client
	opened Decision
}

// Begin opens a transaction.
func (c *Client) Begin(ctx context.Context, o BeginOptions) (*Tx, error) {
	in, err := beginOf(o)
	if err != nil {
		return nil, err
	}
	t := &Tx{client: c}
	if err := c.json(ctx, http.MethodPost, c.inWorkspace("/tx"), nil, in, &t.opened); err != nil {
		return nil, err
	}
	return t, nil
}

func beginOf(o BeginOptions) (api.Begin, error) {
	in := api.Begin{Mode: o.Mode, Observe: o.Observe, Levels: o.Levels, DeadlineMs: o.DeadlineMs, Group: o.Group,
		May: o.May}
	for _, call := range o.Tools {
		args, err := objectOf(call.Args)
		if err != nil {
			return in, fmt.Errorf("claim for %s: %w", call.Tool, err)
		}
		in.Tools = append(in.Tools, api.PlannedCall{Tool: call.Tool, Args: args})
	}
	return in, nil
}

// Tx takes up a transaction by its id, for example after the agent was restarted.
func (c *Client) Tx(id string) *Tx { return &Tx{client: c, opened: Decision{Tx: id}} }

// ID is the transaction's id.
func (t *Tx) ID() string { return t.opened.Tx }

// Opened is the transaction as it was when it was opened: its mode, base and attempt.
func (t *Tx) Opened() Decision { return t.opened }

// Read reads a shard, or lists what a pattern covers. An absent shard is no error.
func (t *Tx) Read(ctx context.Context, scope string) (Shard, error) {
	return t.read(ctx, api.Read{Scope: scope})
}

// ReadForUpdate is Read of a shard that is granted to the transaction for writing first, in any mode: no other one
// writes it until the transaction is decided. Those that ask for it wait, in the order of the log. A sidecar of a
// release before it refuses the request.
func (t *Tx) ReadForUpdate(ctx context.Context, scope string) (Shard, error) {
	return t.read(ctx, api.Read{Scope: scope, ForUpdate: true})
}

func (t *Tx) read(ctx context.Context, read api.Read) (Shard, error) {
	var got api.Shard
	err := t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/reads"), nil, read, &got)
	if err != nil {
		return Shard{}, err
	}
	return shardOf(&got)
}

func shardOf(got *api.Shard) (Shard, error) {
	out := Shard{Scope: got.Scope, Exists: got.Exists, Pending: got.Pending, Version: got.Version, View: got.View,
		Writer: got.Writer, MediaType: got.MediaType, Items: got.Items, Overtaken: got.Overtaken}
	switch {
	case got.Content != nil:
		out.Content = []byte(*got.Content)
	case got.ContentBase64 != nil:
		body, err := base64.StdEncoding.DecodeString(*got.ContentBase64)
		if err != nil {
			return out, fmt.Errorf("read the content of %s: %w", got.Scope, err)
		}
		out.Content = body
	case got.Value != nil:
		out.Content = got.Value
	}
	return out, nil
}

// Write adds a shard write to the transaction; the last write of a shard counts.
func (t *Tx) Write(ctx context.Context, scope string, content []byte, o WriteOptions) error {
	in := writeOf(Write{Scope: scope, Content: content, MediaType: o.MediaType, IfVersion: o.IfVersion,
		Op: o.Op})
	return t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/writes"), nil, in, &api.Written{})
}

func writeOf(w Write) api.Write {
	in := api.Write{Scope: w.Scope, MediaType: w.MediaType, IfVersion: w.IfVersion, Op: w.Op}
	if utf8.Valid(w.Content) {
		text := string(w.Content)
		in.Content = &text
	} else {
		text := base64.StdEncoding.EncodeToString(w.Content)
		in.ContentBase64 = &text
	}
	return in
}

// Undecided is the error of a call that sealed a transaction and was not told its decision. It may still commit: ask
// Client.Tx(u.Tx).Ended.
type Undecided struct {
	Tx  string
	Err error // what ended the waiting
}

// Error names the transaction.
func (u *Undecided) Error() string {
	return fmt.Sprintf("wait for the decision of %s: %v", u.Tx, u.Err)
}

// Unwrap is what ended the waiting.
func (u *Undecided) Unwrap() error { return u.Err }

// Seal freezes the transaction and waits until it is decided or ctx ends. An aborted transaction is no error: see the
// decision's State and Code. An *Undecided was sealed; after other errors it may have been, see Ended.
func (t *Tx) Seal(ctx context.Context) (Decision, error) {
	return t.sealWith(ctx, struct{}{})
}

func (t *Tx) sealWith(ctx context.Context, in any) (Decision, error) {
	d, err := t.decided(ctx, http.MethodPost, "/seal", longestWait, in)
	if err != nil {
		return d, err
	}
	return t.await(ctx, d)
}

// await waits for the decision of what is sealed.
func (t *Tx) await(ctx context.Context, sealed Decision) (Decision, error) {
	d, err := sealed, error(nil)
	for d.State == api.StateSealed && err == nil {
		if err = context.Cause(ctx); err == nil {
			d, err = t.Status(ctx, longestWait)
		}
	}
	if err == nil && d.State == api.StateOpen {
		err = errors.New("the sidecar did not accept its seal")
	}
	if err != nil {
		return sealed, &Undecided{t.ID(), err}
	}
	return d, nil
}

// Ended is how the transaction ended when Seal came back with an error; it waits for the decision until ctx ends. Of
// a transaction that the sidecar has lost the log's own table says it, and where that knows of no decision, the error
// is the sidecar's: it did not commit. State open: the seal was not taken. After other errors, ask again.
func (t *Tx) Ended(ctx context.Context) (Decision, error) {
	d, err := t.Status(ctx, 0)
	for err == nil && d.State == api.StateSealed {
		d, err = t.Status(ctx, longestWait)
	}
	var lost *Problem
	if !errors.As(err, &lost) || lost.Code != "session_lost" && lost.Code != "forgotten" {
		return d, err
	}
	for range tableLooks {
		found, err := t.client.Closure(ctx, t.ID(), 1)
		var p *Problem
		switch {
		case err == nil && len(found.Rows) > 0 && found.Rows[0].Seq > 0:
			return decidedAs(&found.Rows[0]), nil
		case err != nil && !(errors.As(err, &p) && p.Code == "unknown_tx"):
			return Decision{}, err
		}
		if !sleep(ctx, t.client.lag/tableLooks) {
			return Decision{}, fmt.Errorf("get the outcome of %s: %w", t.ID(), context.Cause(ctx))
		}
	}
	return Decision{}, lost
}

func decidedAs(row *api.ClosureRow) Decision {
	d := Decision{Tx: row.Tx, State: api.StateCommitted, Seq: row.Seq, Code: row.Code}
	if row.Code != "" {
		d.State = api.StateAborted
	}
	return d
}

// Abort ends the transaction. One that is committed already is a *Problem.
func (t *Tx) Abort(ctx context.Context, reason string) error {
	return t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/abort"), nil, api.Abort{Reason: reason}, &Decision{})
}

// Retry opens the successor of an aborted or lost transaction.
func (t *Tx) Retry(ctx context.Context) (*Tx, error) {
	next := &Tx{client: t.client}
	err := t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/retry"), nil, struct{}{}, &next.opened)
	if err != nil {
		return nil, err
	}
	return next, nil
}

// Status is how the transaction stands; with a wait the answer comes when there is something new, or after it.
func (t *Tx) Status(ctx context.Context, wait time.Duration) (Decision, error) {
	return t.decided(ctx, http.MethodGet, "", wait, nil)
}

// decided makes a call whose problem may carry a decision, which then is the answer.
func (t *Tx) decided(ctx context.Context, method, rest string, wait time.Duration, in any) (Decision, error) {
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, max(0, time.Until(end)))
	}
	wait = min(wait, longestWait)
	query := url.Values{"wait_ms": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	var d Decision
	err := t.client.json(ctx, method, txPath(t.ID(), rest), query, in, &d)
	var p *Problem
	if errors.As(err, &p) && p.Decision != nil && p.Decision.State == api.StateAborted {
		return *p.Decision, nil
	}
	return d, err
}
