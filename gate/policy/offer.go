package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// argument is one declared name.
type argument struct {
	name     string
	optional bool
	kind     string // one of argumentTypes; empty: any value
	about    string // for the model that fills it in
}

// argumentTypes are those of JSON Schema.
func argumentTypes() []string {
	return []string{"string", "number", "integer", "boolean", "object", "array"}
}

// typedArgs reads arguments that are declared as a mapping of names to what they are.
func (r *reader) typedArgs(n *node) []argument {
	var out []argument
	if len(n.Fields) > maxList {
		r.refuse(n.Place, "out-of-range", fmt.Sprintf("args has %d entries", len(n.Fields)), fmt.Sprintf("keep it "+
			"to %d", maxList))
		return nil
	}
	for _, f := range n.Fields {
		a := argument{name: f.Name}
		r.argumentName(f.Place, a.name, "use letters, digits, '_' and '-'; an optional one says \"required: false\"")
		r.fields(f.Value, "an argument",
			field{"type", func(n *node) {
				a.kind = r.text(n, "type")
				if a.kind != "" && !slices.Contains(argumentTypes(), a.kind) {
					r.refuse(n.Place, "argument", fmt.Sprintf("%.40q is no type of an argument", a.kind),
						"use one of "+strings.Join(argumentTypes(), ", "))
				}
			}},
			field{"description", func(n *node) { a.about = r.text(n, "description") }},
			field{"required", func(n *node) { a.optional = !r.flag(n, "required") }})
		out = append(out, a)
	}
	return out
}

// wrongType is what a value is where the argument takes another type; empty: it fits.
func (a argument) wrongType(v any) string {
	is := ""
	switch v := v.(type) {
	case nil:
		is = "null"
		if a.optional { // as if it were not there
			return ""
		}
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case json.Number:
		if is = "number"; a.kind == "integer" && wholeNumber(v) {
			is = "integer"
		}
	case []any:
		is = "array"
	case map[string]any:
		is = "object"
	}
	if a.kind == "" || a.kind == is {
		return ""
	}
	return is
}

// wholeNumber: 17, 17.0 and 1.7e1 are one number.
func wholeNumber(n json.Number) bool {
	if _, err := n.Int64(); err == nil {
		return true
	}
	f, err := n.Float64()
	return err == nil && f == math.Trunc(f)
}

// checkTypes refuses a call whose arguments are not of the declared types.
func (d *decl) checkTypes(tool string, given map[string]any) error {
	for _, a := range d.args {
		v, ok := given[a.name]
		if !ok {
			continue
		}
		if is := a.wrongType(v); is != "" {
			return fmt.Errorf("tool %.80q: %w: %q is of type %s: send %s", tool, ErrArguments, a.name, is,
				article(a.kind))
		}
	}
	return nil
}

func article(kind string) string {
	if strings.ContainsRune("aio", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

// Offers are the tools that agents may call by name, in the order of the policy: not those that only compensate, those
// without an adapter, and globs, whose names the policy does not know.
func (p *Policy) Offers() []gate.Offer {
	var out []gate.Offer
	for _, d := range p.tools {
		if d.undoOnly || d.block == nil || isGlob(d.pattern) {
			continue
		}
		out = append(out, gate.Offer{Name: d.pattern, Description: d.about, Class: d.class, Arguments: d.schema(p)})
	}
	return out
}

// schema is the JSON Schema of a call's arguments.
func (d *decl) schema(p *Policy) json.RawMessage {
	type property struct {
		Type        string `json:"type,omitempty"`
		Description string `json:"description,omitempty"`
	}
	out := struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required,omitempty"`
		Additional bool                `json:"additionalProperties"`
	}{Type: "object", Properties: map[string]property{}}
	known, all := d.uses(p)
	for _, name := range known {
		out.Properties[name] = property{}
	}
	for _, a := range d.args {
		if out.Properties[a.name] = (property{a.kind, a.about}); !a.optional {
			out.Required = append(out.Required, a.name)
		}
	}
	out.Additional = !all // the adapter is given all of them
	text, err := json.Marshal(&out)
	if err != nil {
		panic(fmt.Sprintf("policy: the schema of %q cannot be written: %v", d.pattern, err))
	}
	return text
}

// argumentSentence says what a tool takes; empty: the policy says no more than names.
func (d *decl) argumentSentence() string {
	if !slices.ContainsFunc(d.args, func(a argument) bool { return a.kind+a.about != "" }) {
		return ""
	}
	var list []string
	for _, a := range d.args {
		text := a.name
		if a.kind != "" {
			text += ", " + article(a.kind)
		}
		if a.optional {
			text += ", may be left out"
		}
		if a.about != "" {
			text += ": " + strings.TrimSuffix(a.about, ".")
		}
		list = append(list, text)
	}
	return "It takes " + strings.Join(list, "; ") + "."
}

// argumentName refuses what is no name of an argument.
func (r *reader) argumentName(at yamlfile.Place, name, fix string) {
	if name == "" || wellFormed(name) {
		return // an empty one is refused as such
	}
	r.refuse(at, "argument", fmt.Sprintf("%.40q is no argument's name", name), fix)
}
