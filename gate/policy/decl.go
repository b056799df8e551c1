package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
)

const defaultMaxTime = 5 * time.Second

func defaultRetry() gate.Retry {
	return gate.Retry{Attempts: 5, Backoff: 200 * time.Millisecond, Most: 10 * time.Second}
}

// decl is one entry of "tools".
type decl struct {
	place
	pattern   string
	about     string // what it does, for the model that calls it
	class     sequencer.Class
	unclassed bool // the policy is not strict and says no class: irreversible
	cost      uint32
	declared  bool // "args" is there: names beyond it are refused
	args      []argument
	scopes    []located
	may       []located
	key       *located
	keyed     bool
	keyedAt   place
	keyLife   time.Duration // zero: for good
	keyLifeAt place
	undoOnly  bool
	approve   bool // each call needs an approval
	approveAt place
	undo      *undo
	undoAt    place
	retry     gate.Retry
	retryAt   place
	maxTime   time.Duration
	block     *block

	signature string
	former    string // the signature by which older releases know it, if that differs
	adapter   gate.Adapter
}

// located is a template and where it stands.
type located struct {
	place
	template.Template
}

// undo is a declared compensation.
type undo struct {
	place
	toolAt  place
	tool    string
	args    *template.Tree // nil: the arguments of the call that it undoes
	names   []string       // top-level names of args, sorted
	uses    []template.Placeholder
	argsAt  place
	written any // args as decoded JSON, for the signature
	// forbids: its sink refuses a key from then on that a compensation named, and does nothing else for one that it
	// never saw.
	forbids   bool
	forbidsAt place
	sameKeys  bool // its adapter keeps the keys of both, and so forbids them without being told to
}

// use says for what a placeholder stands in an adapter's block.
type use string

// The uses that lint and the checks tell apart.
const (
	useNames  use = "names"  // it chooses what is moved: a path of a URL, a file, a recipient, a row
	useValue  use = "value"  // it is what is written there
	useSecret use = "secret" // as useValue, and secrets may stand here
)

// block is an adapter's declaration.
type block struct {
	place
	kind      string
	spec      json.RawMessage
	parsed    any // the gate.…Spec that spec is the JSON of
	templates []blockTemplate
}

type blockTemplate struct {
	place
	what string // such as http.url
	use  use
	uses []template.Placeholder
}

// argument returns the declaration of a name.
func (d *decl) argument(name string) (argument, bool) {
	for _, a := range d.args {
		if a.name == name {
			return a, true
		}
	}
	return argument{}, false
}

// object decodes a call's arguments.
func object(tool string, args json.RawMessage) (map[string]any, error) {
	if len(args) == 0 {
		return map[string]any{}, nil
	}
	names, err := template.Object(args)
	if err != nil {
		return nil, fmt.Errorf("tool %.80q: %w: %w", tool, ErrArguments, err)
	}
	for name := range names {
		if strings.HasPrefix(name, "$") {
			return nil, fmt.Errorf("tool %.80q: %w: %.80q starts with $, as the call's own values do: rename it",
				tool, ErrArguments, name)
		}
	}
	return names, nil
}

// values decodes a call's arguments and holds them against the declared names.
func (d *decl) values(tool string, args json.RawMessage) (template.Values, error) {
	names, err := object(tool, args)
	if err != nil {
		return template.Values{}, err
	}
	if !d.declared {
		return template.Values{Names: names}, nil
	}
	for _, a := range d.args {
		if v, ok := names[a.name]; !a.optional && (!ok || v == nil) {
			return template.Values{}, fmt.Errorf("tool %.80q: %w: %q is missing: the policy requires it",
				tool, ErrArguments, a.name)
		}
	}
	for _, name := range sortedKeys(names) {
		if _, ok := d.argument(name); !ok {
			return template.Values{}, fmt.Errorf("tool %.80q: %w: %.80q is not among its arguments: %s", tool, ErrArguments,
				name, instead(name, d.argumentNames()))
		}
	}
	return template.Values{Names: names}, nil
}

func (d *decl) argumentNames() []string {
	var out []string
	for _, a := range d.args {
		out = append(out, a.name)
	}
	return out
}

// uses are the arguments that something would come of, for the tool itself or for its compensation; ok is false where
// that may be any.
func (d *decl) uses(p *Policy) (names []string, ok bool) {
	names, ok = d.ownUses()
	switch undo := d.undo; {
	case !ok || d.declared || undo == nil:
	case undo.args == nil: // it is given the same arguments
		var more []string
		if c := p.find(undo.tool); c == nil { // the finding says so: how it would use them is not known
			ok = false
		} else {
			more, ok = c.ownUses()
		}
		names = append(names, more...)
	default:
		for _, u := range undo.uses {
			if u.Path[0] == "args" {
				ok = ok && len(u.Path) > 1 // {args} alone is all of them
				names = append(names, u.Path[min(1, len(u.Path)-1)])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), ok
}

// ownUses are the declared arguments, or those of the templates; ok is false where the adapter is given all of them,
// or is missing.
func (d *decl) ownUses() (names []string, ok bool) {
	if d.declared {
		return d.argumentNames(), true
	}
	if d.block == nil || d.block.whole() {
		return nil, false
	}
	for _, l := range append(slices.Clone(d.scopes), d.may...) {
		names = appendNames(names, l.Placeholders())
	}
	if d.key != nil {
		names = appendNames(names, d.key.Placeholders())
	}
	for _, b := range d.block.templates {
		names = appendNames(names, b.uses)
	}
	return names, true
}

func appendNames(to []string, uses []template.Placeholder) []string {
	for _, u := range uses {
		if u.Path[0][0] != '$' {
			to = append(to, u.Path[0])
		}
	}
	return to
}

// whole reports whether the adapter is given the arguments as a whole, and so may use any of them.
func (b *block) whole() bool {
	switch s := b.parsed.(type) {
	case *gate.HTTPSpec:
		return s.Body == nil && (s.Method == http.MethodPost || s.Method == http.MethodPut || s.Method == http.MethodPatch)
	case *gate.ExecSpec:
		return s.Stdin == nil
	case *gate.ShardSpec:
		return s.Op == gate.OpWrite && s.Content == nil
	case *gate.MCPSpec:
		return true
	}
	return false
}

// instead says which argument is probably meant.
func instead(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Sprintf("write %q", near)
	}
	if len(known) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(known, ", ")
}

// keep are the parts of the call's result that the compensation is made of.
func (u *undo) keep() [][]string {
	var out [][]string
	if u != nil {
		for _, use := range u.uses {
			if use.Path[0] == "result" {
				out = append(out, use.Path[1:])
			}
		}
	}
	return out
}

// arguments builds the compensation's arguments from the call that ran and what it answered.
func (u *undo) arguments(args json.RawMessage, a gate.Answer) (json.RawMessage, error) {
	if u.args == nil {
		if len(args) == 0 {
			return json.RawMessage("{}"), nil
		}
		return args, nil
	}
	names := map[string]any{}
	for name, data := range map[string]json.RawMessage{"args": args, "result": a.Result, "saved": a.Saved} {
		if len(data) == 0 {
			continue
		}
		v, err := template.Object([]byte(`{"V":` + string(data) + `}`))
		if err != nil {
			return nil, fmt.Errorf("%w: its %s: %w", ErrArguments, name, err)
		}
		names[name] = v["V"]
	}
	built, err := u.args.JSON(template.Values{Names: names})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArguments, err)
	}
	return built, nil
}
