// Package policy reads the file that says what an agent's tools are: their effect class, the scopes that a call moves,
// its idempotency key, how it is undone, and which adapter makes it.
//
// A policy is data: it is checked as a whole when it is loaded, and everything that is wrong with it is named at once,
// with line, column and what to write instead. What it cannot see is whether a declaration is true. Lint, Fuzz and the
// cases of the file are there for that.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

var (
	// ErrArguments is returned by Find, May and Undo when the arguments are no JSON object, or lack or do not fit what a
	// scope or the key is made of.
	ErrArguments = errors.New("the arguments do not fit the policy")
	// ErrOutsideMay is returned by Find when a call's scopes lie outside of what the tool may touch.
	ErrOutsideMay = errors.New("the call reaches beyond what the tool may touch")
	// ErrUndoOnly is returned by MayCall and May when an agent calls a tool that only compensates.
	ErrUndoOnly = errors.New("the tool only undoes others: agents do not call it")
	// ErrNoCompensation is returned by Undo when none is declared.
	ErrNoCompensation = errors.New("the policy declares no compensation for the tool")
	// ErrNoAdapter is returned by Adapter when the policy declares none, or was loaded without a builder of adapters.
	ErrNoAdapter = errors.New("the policy declares no adapter for the tool")
)

// The bounds of a policy; a file beyond one of them is refused.
const (
	maxTools     = 500
	maxCases     = 2_000
	maxList      = 200
	maxScopes    = 16 // templates in scopes, and in may
	maxName      = 200
	maxRetries   = 100
	maxTimeMs    = int(gate.MostTime / time.Millisecond)
	maxKeyLifeMs = 315_360_000_000 // ten years
	maxBackoffMs = 600_000
)

// Options are what a policy is loaded with.
type Options struct {
	File string // its name, for messages; "policy" when empty
	Dir  string // relative paths in the file start here; the working directory when empty
	// Build makes the adapters; nil: the policy classifies, and Adapter answers ErrNoAdapter.
	Build func(gate.Decl) (gate.Adapter, error)
}

// Policy is a loaded policy. It does not change and is safe for concurrent use.
type Policy struct {
	file    string
	server  string
	env     gate.Env
	secrets map[string]Secret
	types   map[string]naming
	tools   []*decl          // in the order of the file
	exact   map[string]*decl // those without a wildcard
	cases   []Case
	// vocabulary is how texts name shards; nil: they are not looked for.
	vocabulary *gate.Vocabulary
	uses       []secretUse
}

// Load reads a policy. An error matches ErrPolicy and is a *Refusal that lists every problem.
func Load(data []byte, o Options) (*Policy, error) {
	if o.File == "" {
		o.File = "policy"
	}
	root, problem := parse(data)
	if problem != nil {
		return nil, &Refusal{File: o.File, Findings: []Finding{*problem}}
	}
	r := &reader{}
	p := r.document(root, o)
	if len(r.found) == 0 {
		r.check(p)
	}
	if len(r.found) == 0 {
		p.sign()
		r.build(p, o)
	}
	if len(r.found) == 0 {
		return p, nil
	}
	sortFindings(r.found)
	refusal := &Refusal{File: o.File, Findings: r.found}
	if len(r.found) > maxFindings {
		refusal.Findings, refusal.More = r.found[:maxFindings], true
	}
	return nil, refusal
}

// build makes the adapters, so that what they refuse is refused at load.
func (r *reader) build(p *Policy, o Options) {
	if o.Build == nil {
		return
	}
	for _, d := range p.tools {
		if d.block == nil {
			continue
		}
		r.tool = d.pattern
		adapter, err := o.Build(gate.Decl{Tool: d.pattern, Kind: d.block.kind, Spec: d.block.spec, Env: p.env,
			Class: d.class, Keep: d.undo.keep()})
		if err != nil {
			r.refuse(d.block.place, "adapter", "its "+d.block.kind+" adapter refuses the declaration", err.Error())
			continue
		}
		d.adapter = adapter
	}
	r.tool = ""
}

// File returns the file's name as it is in messages.
func (p *Policy) File() string { return p.file }

// Catalogue returns what a sidecar registers at its start: one entry per declaration, under the server's name. A glob
// is registered as it is written, and calls that it matches rely on that entry.
func (p *Policy) Catalogue() (server string, tools []sequencer.Tool) {
	for _, d := range p.tools {
		tools = append(tools, sequencer.Tool{Name: d.pattern, Signature: d.signature})
	}
	return p.server, tools
}

// ScopeTypes lists the types of the scopes that the policy names, sorted.
func (p *Policy) ScopeTypes() []string {
	var out []string
	for _, d := range p.tools {
		for _, t := range append(slices.Clone(d.scopes), d.may...) {
			kind, _, _ := strings.Cut(t.String(), ":")
			out = append(out, strings.ToLower(kind))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Declared lists the declarations in the order of the file.
func (p *Policy) Declared() []gate.Declared {
	var list []gate.Declared
	for _, d := range p.tools {
		one := gate.Declared{Name: d.pattern, Class: d.class, UndoOnly: d.undoOnly, Signature: d.signature}
		if d.block != nil {
			one.Adapter = d.block.kind
		}
		if d.undo != nil {
			one.Compensation = d.undo.tool
		}
		list = append(list, one)
	}
	return list
}

// Treats says what the policy makes of the calls of a tool, whatever their arguments. False: it declares none of the
// name.
func (p *Policy) Treats(tool string) (class sequencer.Class, approve, declared bool) {
	d := p.find(tool)
	if d == nil {
		return 0, false, false
	}
	return d.class, d.approve, true
}

// find returns the declaration for a tool: the one with exactly this name, else the glob that matches it (no two do).
// A name is compared in its one spelling.
func (p *Policy) find(tool string) *decl {
	tool = topology.NormalName(tool)
	if d := p.exact[tool]; d != nil {
		return d
	}
	for _, d := range p.tools {
		if isGlob(d.pattern) && match(d.pattern, tool) {
			return d
		}
	}
	return nil
}

// Find says what a call is. A name that nothing serves has no class, however the policy is written: nothing could make
// its call.
func (p *Policy) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	d := p.find(tool)
	if d == nil {
		return gate.Tool{}, p.notServed(tool)
	}
	return p.tool(d, tool, args)
}

// MayCall says whether agents may call a tool: all that are declared but those that only compensate. Find does not
// refuse those, because the gate asks it about compensations too.
func (p *Policy) MayCall(tool string) error {
	switch d := p.find(tool); {
	case d == nil:
		return p.notServed(tool)
	case d.undoOnly:
		return fmt.Errorf("tool %.80q: %w", tool, ErrUndoOnly)
	}
	return nil
}

// CheckArguments refuses a call with an argument that nothing would come of: none of the tool's templates uses it, and
// its adapter is not given all of them; and one whose type is not the declared one. It is for agents' calls; a
// compensation may be given more than it uses, and what a sink answered is not held against types.
func (p *Policy) CheckArguments(tool string, args json.RawMessage) error {
	d := p.find(tool)
	if d == nil {
		return nil
	}
	known, ok := d.uses(p)
	if !ok {
		return nil // then none is declared, and none has a type
	}
	given, err := object(tool, args)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(given) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("tool %.80q: %w: %.80q is not among its arguments: %s", tool, ErrArguments, name,
				instead(name, known))
		}
	}
	return d.checkTypes(tool, given)
}

// maxServed bounds how many names a refusal lists when none is near.
const maxServed = 5

// notServed is the error for a name that nothing serves, with what it should perhaps be.
func (p *Policy) notServed(tool string) error {
	var exact, all []string
	for _, d := range p.tools {
		if d.undoOnly {
			continue // agents do not call it
		}
		if all = append(all, d.pattern); !isGlob(d.pattern) {
			exact = append(exact, d.pattern)
		}
	}
	instead := "declare it in the policy"
	switch near := spelling.Near(tool, exact, 3); {
	case len(near) > 0:
		instead = fmt.Sprintf("write %s, or declare it in the policy", strings.Join(near, " or "))
	case len(all) > maxServed:
		instead += fmt.Sprintf(", which serves %s and %d others", strings.Join(all[:maxServed], ", "), len(all)-maxServed)
	case len(all) > 0:
		instead += ", which serves " + strings.Join(all, ", ")
	}
	return fmt.Errorf("tool %.80q: %w: %s", tool, gate.ErrNotServed, instead)
}

func (p *Policy) tool(d *decl, name string, args json.RawMessage) (gate.Tool, error) {
	v, err := d.values(name, args)
	if err != nil {
		return gate.Tool{}, err
	}
	out := gate.Tool{
		Name: name, Class: d.class, Cost: d.cost, Keyed: d.keyed, KeyLife: d.keyLife,
		Pin:    &sequencer.Pin{Server: p.server, Name: d.pattern, Signature: d.signature},
		Former: d.former, MaxTime: d.maxTime, Retry: d.retry, Undo: d.undo != nil,
		Forbids: d.undo != nil && (d.undo.forbids || d.undo.sameKeys), Approve: d.approve,
	}
	if out.Scopes, err = p.expand(d.scopes, v); err != nil {
		return gate.Tool{}, fmt.Errorf("tool %.80q: %w", name, err)
	}
	if out.May, err = p.expand(d.may, v); err != nil {
		return gate.Tool{}, fmt.Errorf("tool %.80q: %w", name, err)
	}
	if outside := outside(out.Scopes, out.May); outside != "" {
		return gate.Tool{}, fmt.Errorf("tool %.80q: %w: %s lies in none of %v: widen \"may\" or send other arguments",
			name, ErrOutsideMay, outside, out.May)
	}
	if d.key != nil {
		if out.Key, err = expandKey(d.key.Template, v); err != nil {
			return gate.Tool{}, fmt.Errorf("tool %.80q: %w", name, err)
		}
	}
	return out, nil
}

// May returns what a transaction that will call this tool claims at its begin: the conservative scopes where they are
// declared, made of the arguments that are known by then; else the refined ones, which take all of them.
func (p *Policy) May(tool string, args json.RawMessage) ([]sequencer.Want, error) {
	if err := p.MayCall(tool); err != nil {
		return nil, err
	}
	class, scopes, err := p.claims(tool, args)
	if err != nil {
		return nil, err
	}
	access := sequencer.WriteAccess
	if class == sequencer.ClassRead {
		access = sequencer.ReadAccess
	}
	wants := make([]sequencer.Want, 0, len(scopes))
	for _, s := range scopes {
		wants = append(wants, sequencer.Want{Scope: s, Access: access})
	}
	return wants, nil
}

func (p *Policy) claims(tool string, args json.RawMessage) (sequencer.Class, []sequencer.Scope, error) {
	d := p.find(tool)
	if d == nil || len(d.may) == 0 {
		t, err := p.Find(tool, args)
		return t.Class, t.Scopes, err
	}
	names, err := object(tool, args)
	if err != nil {
		return d.class, nil, err
	}
	for _, name := range sortedKeys(names) {
		if _, ok := d.argument(name); d.declared && !ok {
			return d.class, nil, fmt.Errorf("tool %.80q: %w: %.80q is not among the tool's declared arguments",
				tool, ErrArguments, name)
		}
	}
	scopes, err := p.expand(d.may, template.Values{Names: names})
	if err != nil {
		err = fmt.Errorf("tool %.80q: %w", tool, err)
	}
	return d.class, scopes, err
}

// Undo is the call that compensates one that ran; it tells the sink which key it undoes. That it has a key says only
// that the compensation's sink takes one: the gate makes it.
func (p *Policy) Undo(e gate.Effect, a gate.Answer) (gate.Call, error) {
	d := p.find(e.Tool.Name)
	if d == nil || d.undo == nil {
		return gate.Call{}, fmt.Errorf("tool %.80q: %w", e.Tool.Name, ErrNoCompensation)
	}
	args, err := d.undo.arguments(e.Args, a)
	if err != nil {
		return gate.Call{}, fmt.Errorf("compensate %.80q by %.80q: %w", e.Tool.Name, d.undo.tool, err)
	}
	c := gate.Call{
		Tool: d.undo.tool, Tx: e.Tx, Index: e.Index, Compensates: e.Key,
		Args: args, Saved: a.Saved, Traceparent: e.Traceparent,
	}
	if by := p.find(d.undo.tool); by != nil && by.keyed {
		c.Key = "undo"
	}
	return c, nil
}

// Adapter returns what makes a tool's calls.
func (p *Policy) Adapter(tool string) (gate.Adapter, error) {
	d := p.find(tool)
	if d == nil || d.adapter == nil {
		return nil, fmt.Errorf("tool %.80q: %w", tool, ErrNoAdapter)
	}
	return d.adapter, nil
}
