package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/words"
)

// Keys of _meta. A client that cannot set it sends the headers Hence-Tx and Hence-Session in place of the first.
const (
	MetaTx      = "hence/tx"      // in a request: the transaction that the call is of; in a result: that it was of
	MetaProblem = "hence/problem" // in a result: why it was refused, as /v1 says it
)

// call makes one call: of a companion, or of an upstream's tool by the policy. Only the aggregate has companions; a
// server's tool of such a name has another one there.
func (f *Face) call(ctx context.Context, v *visit, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	tx := v.tx
	if named, ok := r.Params.Meta[MetaTx].(string); ok {
		tx = named
	}
	if tx == "" {
		tx = f.pins.begun(v.guest.Name, v.session)
	}
	if v.server == "" {
		if c, found := companionOf(r.Params.Name); found {
			return c.run(f, ctx, v, tx, r.Params.Arguments)
		}
	}
	shown, clash := f.catalogue(v.server)
	t, found := shown[r.Params.Name]
	switch why, clashes := clash[r.Params.Name]; {
	case clashes:
		return nil, unknownTool("%.80q names two tools, and neither is called: %s", r.Params.Name, why)
	case !found:
		return nil, unknownTool("unknown tool %.80q", r.Params.Name)
	}
	class, served := v.guest.Class(t.Public)
	if !served {
		return refused(api.Problemf(api.CodeNoPolicy, "the policy has no tool %s: add it (hence policy init --from FILE "+
			"prints an entry for each), or a default such as {tool: \"%s__*\", class: irreversible, mcp: {server: %s}}",
			t.Public, t.Server, t.Server)), nil
	}
	in := made{t: t, class: class, args: r.Params.Arguments}
	if len(in.args) == 0 || string(in.args) == "null" { // as some clients write that there are none
		in.args = json.RawMessage("{}")
	}
	if tx != "" {
		return f.within(ctx, v, tx, in)
	}
	if t, place := f.claim(v, in); t != nil {
		return f.inTurn(ctx, v, t, place, in)
	}
	if class == sequencer.ClassRead {
		return f.look(ctx, v, in)
	}
	return f.alone(ctx, v, in)
}

func unknownTool(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// made is a call of an upstream's tool.
type made struct {
	t     upstream.Tool
	class sequencer.Class
	args  json.RawMessage
}

// within makes a call in a transaction that the client has begun. What it relies on is held against the registry when
// the transaction is committed here.
func (f *Face) within(ctx context.Context, v *visit, tx string, in made) (*sdk.CallToolResult, error) {
	receipt, err := v.guest.Effect(ctx, once.Call{Session: v.session}, tx, &api.Effect{Tool: in.t.Public, Args: in.args})
	if err != nil {
		return f.failed(in, tx, err), nil
	}
	for _, pin := range pinOf(v, in) {
		f.pins.add(tx, pin)
	}
	return f.receipt(in, receipt)
}

// look makes a call that only reads. It decides nothing, so nothing is sealed.
func (f *Face) look(ctx context.Context, v *visit, in made) (*sdk.CallToolResult, error) {
	talk := once.Call{Session: "mcp-" + rand.Text()}
	d, err := v.guest.Begin(ctx, talk, &api.Begin{Mode: "optimistic"})
	if err != nil {
		return refused(err), nil
	}
	receipt, err := v.guest.Effect(ctx, talk, d.Tx, &api.Effect{Tool: in.t.Public, Args: in.args})
	// The client does not wait for the end of a transaction that only reads: nothing of what it is told depends on it.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), f.Decided)
	f.working.Go(func() {
		defer stop()
		if _, aborted := v.guest.Abort(end, d.Tx, "it only read"); aborted != nil {
			f.Log.Debug("a transaction that only read is left to its deadline", "tx", d.Tx, "error", aborted)
		}
	})
	if err != nil {
		return f.failed(in, d.Tx, err), nil
	}
	return f.receipt(in, receipt)
}

// alone makes a call in a transaction and a conversation of its own: another call of the client, which may run beside
// it, is waited for as a stranger's is. The work goes on when the client cuts its request: a call that was made is not
// left without its commit.
func (f *Face) alone(ctx context.Context, v *visit, in made) (*sdk.CallToolResult, error) {
	talk := once.Call{Session: "mcp-" + rand.Text()}
	if v.guest.Relies {
		talk.Session = v.session
	}
	d, err := v.guest.Begin(ctx, talk, &api.Begin{})
	if err != nil {
		return refused(err), nil
	}
	type answer struct {
		out *sdk.CallToolResult
		err error
	}
	answered := make(chan answer, 1)
	work, stop := context.WithTimeout(context.WithoutCancel(ctx), longest)
	f.working.Go(func() {
		defer stop()
		out, err := f.carryOut(work, v, talk, d.Tx, in)
		answered <- answer{out, err}
	})
	select {
	case a := <-answered:
		return a.out, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// longest bounds what goes on without its client; the deadline of its transaction ends what it leaves.
const longest = time.Minute

// carryOut makes the call and commits it.
func (f *Face) carryOut(ctx context.Context, v *visit, talk once.Call, tx string, in made,
) (*sdk.CallToolResult, error) {
	made, err := v.guest.Effect(ctx, talk, tx, &api.Effect{Tool: in.t.Public, Args: in.args})
	if err != nil {
		if p := api.AsProblem(err); p.Code != api.CodeUndecided { // else its outcome is still asked for
			_, _ = v.guest.Abort(ctx, tx, "its only call was refused")
		}
		return f.failed(in, tx, err), nil
	}
	bound, stop := context.WithTimeout(ctx, f.Decided)
	defer stop()
	d, err := v.guest.Seal(bound, tx, &api.Seal{Pins: pinOf(v, in)})
	switch {
	case err != nil && api.AsProblem(err).Code != api.CodeUndecided:
		return refused(err), nil
	case err == nil && d.State == api.StateAborted:
		return refused(words.Refusal(d)), nil
	case !in.class.Gated(): // it was made, and answered, whenever it is decided
		return f.receipt(in, made)
	case err == nil && d.State == api.StateCommitted:
		return f.receipt(in, f.released(ctx, v, made))
	}
	return heldResult(in, made), nil
}

// pinOf is what a call relies on, where the log knows the tool.
func pinOf(v *visit, in made) []api.Pin {
	if !v.guest.Registered(in.t.Server, in.t.Name, in.t.Hash) {
		return nil
	}
	return []api.Pin{{Server: in.t.Server, Name: in.t.Name, Signature: in.t.Hash}}
}

// released waits a little for what was committed to be made: most calls are then answered as without Hence.
func (f *Face) released(ctx context.Context, v *visit, held *api.Receipt) *api.Receipt {
	ctx, stop := context.WithTimeout(ctx, f.ReleaseWait)
	defer stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		all, err := v.guest.Effects(ctx, held.Tx)
		if err != nil || len(all.Effects) == 0 {
			return held
		}
		now := &all.Effects[0]
		switch now.State {
		case api.EffectHeld, api.EffectReleasing, api.EffectUnapproved:
			held = now
		default:
			return now
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return held
		}
	}
}

// receipt answers a call with what its tool said, or with how it stands.
func (f *Face) receipt(in made, r *api.Receipt) (*sdk.CallToolResult, error) {
	switch r.State {
	case api.EffectHeld, api.EffectReleasing, api.EffectUnapproved, api.EffectIssued, api.EffectRunning, api.EffectStaged:
		return heldResult(in, r), nil
	}
	var failure struct {
		Error                      *jsonrpc.Error
		Content, StructuredContent json.RawMessage
	}
	out := &sdk.CallToolResult{}
	switch {
	case len(r.Result) == 0:
	case json.Unmarshal(r.Result, &failure) == nil && failure.Error != nil && failure.Content == nil:
		return nil, failure.Error // beside content it would be a member of what a tool said, which was called
	case json.Unmarshal(r.Result, out) == nil && out.Content != nil:
		if len(failure.StructuredContent) > 0 { // as it was written: a number may be no float64
			out.StructuredContent = failure.StructuredContent
		}
		mark(out, r.Tx)
		return out, nil
	}
	text := r.Detail // such as a tool of another adapter, or a result that was too large to keep
	if len(r.Result) > 0 {
		text = string(r.Result)
	}
	if text == "" {
		text = r.Tool + ": " + r.State
	}
	done := r.State == api.EffectDone || r.State == api.EffectReleased
	if !done && r.Note != "" {
		text += ". " + r.Note
	}
	out = &sdk.CallToolResult{IsError: !done, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	mark(out, r.Tx)
	return out, nil
}

func mark(out *sdk.CallToolResult, tx string) {
	if tx == "" {
		return
	}
	if out.Meta == nil {
		out.Meta = sdk.Meta{}
	}
	out.Meta[MetaTx] = tx
}

// heldResult tells the model that the call is accepted.
func heldResult(in made, r *api.Receipt) *sdk.CallToolResult {
	note := r.Note
	if note == "" {
		note = "it is accepted; do not call it again"
	}
	say := map[string]any{"hence_held": true, "tx": r.Tx, "state": r.State, "note": note}
	text := fmt.Sprintf("HELD: %s. Transaction %s", note, r.Tx)
	if r.Index != nil {
		say["effect"] = *r.Index
		text = fmt.Sprintf("HELD: %s. Transaction %s, call %d", note, r.Tx, *r.Index)
	}
	out := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{
		Text: text + ". Do not call " + in.t.Name + " again for this: effects_get says what became of it."}},
		StructuredContent: say}
	mark(out, r.Tx)
	return out
}

// failed answers a call that has no receipt. One whose outcome is not known yet was made: it is not to be made again.
func (f *Face) failed(in made, tx string, err error) *sdk.CallToolResult {
	p := api.AsProblem(err)
	if p.Code != api.CodeUndecided {
		return refused(p)
	}
	return heldResult(in, &api.Receipt{Tx: tx, Tool: in.t.Public, State: api.EffectRunning, Note: p.Detail})
}

// refused answers with a problem in words for the model, and whole for programs.
func refused(err error) *sdk.CallToolResult {
	p := api.AsProblem(err)
	text := fmt.Sprintf("REFUSED (%s): %s", p.Code, p.Detail)
	if len(p.ReRead) > 0 {
		text += fmt.Sprintf(". Read again: %v", p.ReRead)
	}
	if p.Retryable {
		text += ". Then try again in a new transaction."
	}
	out := &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}},
		Meta: sdk.Meta{MetaProblem: json.RawMessage(mustJSON(p))}}
	if p.Decision != nil {
		mark(out, p.Decision.Tx)
	}
	return out
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte(`{}`)
	}
	return data
}
