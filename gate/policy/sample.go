package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
)

// sampleNames returns arguments with which every template of a declaration can be expanded. The same name has the same
// value for every tool, so that the scopes of two tools can be compared.
func (d *decl) sampleNames() map[string]any {
	out := map[string]any{}
	for _, a := range d.args {
		out[a.name] = sampleText(a.name, "")
	}
	add := func(uses []template.Placeholder) {
		for _, u := range uses {
			if u.Path[0][0] != '$' {
				put(out, u.Path, sampleText(u.Path.String(), u.Filter))
			}
		}
	}
	if d.block != nil {
		for _, b := range d.block.templates {
			add(b.uses)
		}
	}
	for _, l := range d.templates() {
		add(l.Placeholders())
	}
	return out
}

// templates returns the scopes, may and the key.
func (d *decl) templates() []located {
	out := slices.Concat(d.scopes, d.may)
	if d.key != nil {
		out = append(out, *d.key)
	}
	return out
}

func sampleText(name string, f template.Filter) string {
	plain := strings.ToLower(strings.NewReplacer(".", "-", "_", "-").Replace(name))
	switch f {
	case template.MailFilter:
		return plain + "@example.com"
	case template.HostFilter:
		return plain + ".example.com:8443"
	case template.URLFilter:
		return "https://" + plain + ".example.com:8443/" + plain
	}
	return "v-" + plain
}

// put sets the value at a path, making the objects on the way. List steps become lists.
func put(names map[string]any, path template.Path, value any) {
	names[path[0]] = putIn(names[path[0]], path[1:], value)
}

func putIn(at any, path template.Path, value any) any {
	if len(path) == 0 {
		if at != nil && at != value {
			if _, isText := at.(string); !isText {
				return at // something deeper stands here already
			}
		}
		return value
	}
	var n int
	if _, err := fmt.Sscanf(path[0], "%d", &n); err == nil && fmt.Sprint(n) == path[0] && n < maxList {
		list, _ := at.([]any)
		for len(list) <= n {
			list = append(list, nil)
		}
		list[n] = putIn(list[n], path[1:], value)
		return list
	}
	object, ok := at.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object[path[0]] = putIn(object[path[0]], path[1:], value)
	return object
}

// scopesFor returns the scopes of a declaration for given names, and may.
func (p *Policy) scopesFor(d *decl, names map[string]any) (scopes, may []sequencer.Scope, err error) {
	v := template.Values{Names: names}
	if scopes, err = p.expand(d.scopes, v); err != nil {
		return nil, nil, err
	}
	may, err = p.expand(d.may, v)
	return scopes, may, err
}

// names are the arguments that templates are made of, top level only, sorted.
func names(list []located) []string {
	var out []string
	for _, l := range list {
		for _, u := range l.Placeholders() {
			out = append(out, u.Path[0])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
