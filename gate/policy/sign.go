package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hence-dev/hence/gate"
)

// declared is the canonical form of a declaration: everything that changes what a call does or what it moves, and
// nothing of how the file is laid out.
type declared struct {
	Tool     string          `json:"tool"`
	Class    string          `json:"class"`
	Cost     uint32          `json:"cost"`
	Args     []string        `json:"args"`
	Scopes   []string        `json:"scopes"`
	May      []string        `json:"may"`
	Key      string          `json:"key"`
	Keyed    bool            `json:"keyed"`
	KeyLife  int64           `json:"key_life_ns,omitempty"`
	UndoOnly bool            `json:"undo_only"`
	Approve  bool            `json:"approve,omitempty"`
	Undo     *declaredUndo   `json:"undo,omitempty"`
	Retry    gate.Retry      `json:"retry"`
	MaxTime  int64           `json:"max_time_ns"`
	Kind     string          `json:"kind"`
	Spec     json.RawMessage `json:"spec,omitempty"`
	Sink     []string        `json:"sink,omitempty"` // what the rest of the file says of where the call goes
}

type declaredUndo struct {
	Tool    string    `json:"tool"`
	Args    any       `json:"args"`
	Forbids bool      `json:"forbids,omitempty"`
	By      *declared `json:"by,omitempty"`
}

// sign gives each declaration its signature: the SHA-256 of its canonical form, that of its compensation included. A
// plan that relied on a tool is refused once its signature is another one, and a call that was sealed with it is not
// made. Values of secrets and where they are kept are not part of it: they are rotated.
func (p *Policy) sign() {
	for _, d := range p.tools {
		d.signature = p.signature(d, p.sink)
		if d.former = p.signature(d, func(*decl) []string { return nil }); d.former == d.signature {
			d.former = ""
		}
	}
}

func (p *Policy) signature(d *decl, sink func(*decl) []string) string {
	form := d.canonical(sink)
	if d.undo != nil {
		form.Undo = &declaredUndo{Tool: d.undo.tool, Args: d.undo.written, Forbids: d.undo.forbids}
		if by := p.find(d.undo.tool); by != nil {
			form.Undo.By = by.canonical(sink)
		}
	}
	data, err := json.Marshal(form)
	if err != nil {
		panic(fmt.Sprintf("policy: the declaration of %q cannot be written: %v", d.pattern, err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// sink is what a declaration rests on outside of its own entry. The hosts that are allowed are not: an URL holds its
// own.
func (p *Policy) sink(d *decl) []string {
	if d.block == nil {
		return nil
	}
	switch spec := d.block.parsed.(type) {
	case *gate.FileSpec:
		return []string{"root", p.env.Root}
	case *gate.SMTPSpec:
		if p.env.Mail == nil {
			return nil
		}
		return []string{"server", p.env.Mail.Server, "from", cmp.Or(spec.From, p.env.Mail.From)}
	case *gate.SQLSpec:
		return []string{"dsn_secret", p.env.Databases[spec.Database].DSNSecret}
	}
	return nil
}

func (d *decl) canonical(sink func(*decl) []string) *declared {
	out := &declared{
		Tool: d.pattern, Class: d.class.String(), Cost: d.cost, Keyed: d.keyed, UndoOnly: d.undoOnly,
		KeyLife: int64(d.keyLife), Approve: d.approve,
		Scopes: texts(d.scopes), May: texts(d.may), Retry: d.retry, MaxTime: int64(d.maxTime), Sink: sink(d),
	}
	for _, a := range d.args {
		text := fmt.Sprintf("%s %t", a.name, a.optional)
		if a.kind != "" { // one without a type is signed as before there were types
			text += " " + a.kind
		}
		out.Args = append(out.Args, text)
	}
	slices.Sort(out.Args)
	if d.key != nil {
		out.Key = d.key.String()
	}
	if d.block != nil {
		out.Kind, out.Spec = d.block.kind, d.block.spec
	}
	return out
}

func texts(list []located) []string {
	out := make([]string, 0, len(list))
	for _, l := range list {
		out = append(out, l.String())
	}
	slices.Sort(out)
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
