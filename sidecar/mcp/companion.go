package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/words"
)

// companion is a tool of Hence's own. Its name has '_' where the docs write a dot, which not every model takes.
type companion struct {
	tool *sdk.Tool
	run  func(f *Face, ctx context.Context, v *visit, tx string, args json.RawMessage) (*sdk.CallToolResult, error)
}

// companionOf finds one by its name, also written with dots.
func companionOf(name string) (companion, bool) {
	for _, c := range companions() {
		if c.tool.Name == strings.ReplaceAll(name, ".", "_") {
			return c, true
		}
	}
	return companion{}, false
}

// companions are all of them. None has a name with "__", so no upstream's tool can have one of theirs.
func companions() []companion {
	const txText = "Transaction, as tx_begin answered it; absent: the one that the request names"
	text := func(about string) map[string]any { return map[string]any{"type": "string", "description": about} }
	tx := map[string]any{"tx": text(txText)}
	with := func(more map[string]any) map[string]any {
		more["tx"] = tx["tx"]
		return more
	}
	scope := text("Shard, such as shard:/orders/1")
	return []companion{
		{tool("effects_get", "What became of the tool calls of a transaction.", true, tx), effectsGet},
		{tool("shard_list", "The shards of the shared state below a prefix.", true, map[string]any{
			"prefix": text("Such as shard:/orders; absent: all"),
			"after":  text("The last scope of the page before")}), shardList},
		{tool("shard_read", "Read a shard of the shared state. In a transaction the read is checked at its commit.", true,
			with(map[string]any{"scope": scope}), "scope"), shardRead},
		{tool("shard_write", "Write a shard of the shared state: in a transaction at its commit, else at once.", false,
			with(map[string]any{"scope": scope, "content": text("The new content")}), "scope", "content"), shardWrite},
		{tool("tx_abort", "Drop a transaction: what is held is never made, what ran is undone.", false,
			with(map[string]any{"reason": text("Why")})), txAbort},
		{tool("tx_begin", "Begin a transaction. Give its id as tx to the tools of Hence, and as _meta \""+MetaTx+"\" or "+
			"header Hence-Tx to those of others; end it with tx_commit or tx_abort.", false, map[string]any{
			"mode": map[string]any{"type": "string", "enum": []string{"optimistic", "ordered", "locked"}}}), txBegin},
		{tool("tx_commit", "Commit a transaction: it answers whether all of it counts, or none, and why.", false, tx),
			txCommit},
		{tool("tx_status", "How a transaction stands.", true, tx), txStatus},
	}
}

func tool(name, about string, reads bool, properties map[string]any, required ...string) *sdk.Tool {
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	no := false
	return &sdk.Tool{Name: name, Description: about, InputSchema: schema,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: reads, DestructiveHint: &no, OpenWorldHint: &no}}
}

// arguments are those of all companions.
type arguments struct {
	Tx, Scope, Prefix, After, Mode, Reason string
	Content                                *string
}

// argumentsOf reads them; what a companion does not take is told, and not left out in silence.
func argumentsOf(data json.RawMessage, tx string) (a arguments, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil && err != io.EOF {
		return a, api.Problemf(api.CodeBadRequest, "the arguments are not taken: %v", err)
	}
	if a.Tx == "" {
		a.Tx = tx
	}
	return a, nil
}

// needsTx says how a transaction is named.
func (a arguments) needsTx() error {
	if a.Tx == "" {
		return api.Problemf(api.CodeBadRequest, "no transaction is named: give tx, as tx_begin answered it")
	}
	return nil
}

// said answers a companion's call.
func said(value any, err error) (*sdk.CallToolResult, error) {
	if err != nil {
		return refused(err), nil
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(mustJSON(value))}},
		StructuredContent: value}, nil
}

func txBegin(f *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err != nil {
		return said(nil, err)
	}
	d, err := v.guest.Begin(ctx, once.Call{Session: v.session}, &api.Begin{Mode: a.Mode})
	if err == nil {
		f.pins.begin(v.guest.Name, v.session, d.Tx)
	}
	return said(d, err)
}

// txCommit seals. The calls rely on their tools as they were when they were made.
func txCommit(f *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err == nil {
		err = a.needsTx()
	}
	if err != nil {
		return said(nil, err)
	}
	ctx, stop := context.WithTimeout(ctx, f.Decided)
	defer stop()
	d, err := v.guest.Seal(ctx, a.Tx, &api.Seal{Pins: f.pins.of(a.Tx)})
	if err == nil { // decided or not, it takes no further call
		f.pins.drop(a.Tx)
	}
	if err == nil && d.State == api.StateAborted {
		return refused(words.Refusal(d)), nil
	}
	return said(d, err)
}

func txAbort(f *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err == nil {
		err = a.needsTx()
	}
	if err != nil {
		return said(nil, err)
	}
	d, err := v.guest.Abort(ctx, a.Tx, a.Reason)
	if err == nil {
		f.pins.drop(a.Tx)
	}
	return said(d, err)
}

func txStatus(_ *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err == nil {
		err = a.needsTx()
	}
	if err != nil {
		return said(nil, err)
	}
	d, err := v.guest.Status(ctx, a.Tx)
	return said(d, err)
}

func effectsGet(_ *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err == nil {
		err = a.needsTx()
	}
	if err != nil {
		return said(nil, err)
	}
	all, err := v.guest.Effects(ctx, a.Tx)
	return said(all, err)
}

// shardShown is a shard as the model reads it. What is no text it gets as base64: as text it would be another content.
type shardShown struct {
	Scope         string  `json:"scope"`
	Exists        bool    `json:"exists"`
	Version       uint64  `json:"version"`
	Content       *string `json:"content,omitempty"`
	ContentBase64 []byte  `json:"content_base64,omitempty"`
}

func shardRead(_ *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err != nil {
		return said(nil, err)
	}
	if a.Tx == "" { // the next write of the conversation is held against it
		c, err := v.guest.Get(ctx, once.Call{Session: v.session}, a.Scope, api.Look{Binds: true})
		if err != nil {
			return said(nil, err)
		}
		if c.Parts != nil {
			return said(nil, api.Problemf(api.CodeTooLarge, "%s has %d bytes: read it over HTTP", c.Scope, c.Size))
		}
		shown := shardShown{Scope: c.Scope, Exists: c.Version > 0, Version: c.Version}
		if text := string(c.Body); utf8.ValidString(text) {
			shown.Content = &text
		} else {
			shown.ContentBase64 = c.Body
		}
		return said(shown, nil)
	}
	if !strings.HasPrefix(a.Scope, "shard:/") { // the agent would announce a read of it, which nothing here makes
		return said(nil, api.Problemf(api.CodeBadScope, "scope %.80q is not a shard, and shard_read reads shards "+
			"(shard:/a/b) alone: take a tool of the server that has it", a.Scope))
	}
	s, _, err := v.guest.Read(ctx, a.Tx, &api.Read{Scope: a.Scope})
	if err != nil {
		return said(nil, err)
	}
	if s.Content == nil {
		return said(s, nil)
	}
	return said(shardShown{s.Scope, s.Exists, s.Version, s.Content, nil}, nil)
}

func shardWrite(_ *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err == nil && a.Content == nil { // the schema says so, and nobody holds a model to it
		err = api.Problemf(api.CodeBadRequest, "content is missing: give the whole new content of the shard")
	}
	if err != nil {
		return said(nil, err)
	}
	if a.Tx != "" {
		w, err := v.guest.Write(ctx, a.Tx, &api.Write{Scope: a.Scope, Content: a.Content})
		return said(w, err)
	}
	d, _, err := v.guest.Put(ctx, once.Call{Session: v.session}, &api.Put{Scope: a.Scope, Body: []byte(*a.Content),
		MediaType: "text/plain; charset=utf-8"})
	if err == nil && d.State == api.StateAborted {
		return refused(words.Refusal(d)), nil
	}
	return said(d, err)
}

func shardList(_ *Face, ctx context.Context, v *visit, tx string, data json.RawMessage) (*sdk.CallToolResult, error) {
	a, err := argumentsOf(data, tx)
	if err != nil {
		return said(nil, err)
	}
	page := api.Page{Limit: 100, After: a.After, Pick: map[string]string{}}
	if a.Prefix != "" {
		page.Pick["prefix"] = a.Prefix
	}
	list, err := v.guest.List(ctx, once.Call{Session: v.session}, page, false)
	return said(list, err)
}

// maxPinned is how many open transactions are remembered; of the oldest the calls are then not held against the
// registry.
const maxPinned = 10_000

// pins are the tools that the calls of open transactions rely on.
type pins struct {
	mu    sync.Mutex
	byTx  map[string][]api.Pin
	order []string

	open  map[[2]string]string // the transaction that an agent's conversation has begun here
	talks [][2]string
}

func newPins() *pins { return &pins{byTx: map[string][]api.Pin{}, open: map[[2]string]string{}} }

// begin remembers the transaction that a conversation's next calls are of. A client without a name of its conversation
// names the transaction in each call.
func (p *pins) begin(agent, session, tx string) {
	if session == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	talk := [2]string{agent, session}
	if _, known := p.open[talk]; !known {
		p.talks = append(p.talks, talk)
		if len(p.talks) > maxPinned {
			delete(p.open, p.talks[0])
			p.talks = p.talks[1:]
		}
	}
	p.open[talk] = tx
}

// begun is the transaction that a conversation has begun and not ended; empty: none.
func (p *pins) begun(agent, session string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[[2]string{agent, session}]
}

func (p *pins) add(tx string, one api.Pin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, known := p.byTx[tx]
	for _, has := range all {
		if has == one {
			return
		}
	}
	if !known {
		p.order = append(p.order, tx)
		if len(p.order) > maxPinned {
			delete(p.byTx, p.order[0])
			p.order = p.order[1:]
		}
	}
	p.byTx[tx] = append(all, one)
}

func (p *pins) of(tx string) []api.Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]api.Pin(nil), p.byTx[tx]...)
}

func (p *pins) drop(tx string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Those that are over leave no places: they would push out what is open.
	delete(p.byTx, tx)
	p.order = slices.DeleteFunc(p.order, func(one string) bool { return one == tx })
	p.talks = slices.DeleteFunc(p.talks, func(talk [2]string) bool { return p.open[talk] == tx })
	maps.DeleteFunc(p.open, func(_ [2]string, of string) bool { return of == tx })
}
