package policy

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// reader collects everything that is wrong, so that one run names all of it.
type reader struct {
	found []Finding
	tool  string // whose declaration is being read
	// strict: a declaration without a class is refused. Without it, its calls count as irreversible.
	strict bool

	mailAt, databasesAt place // where secrets are named outside of tools
}

func (r *reader) refuse(p place, rule, what, fix string) {
	f := findingAt(p, rule, what, fix)
	f.Tool = r.tool
	r.found = append(r.found, f)
}

// field is one key of a mapping and what reads its value.
type field struct {
	name string
	read func(*node)
}

// fields reads a mapping. Unknown keys are refused, with the key that was probably meant.
func (r *reader) fields(n *node, what string, known ...field) {
	if n.Kind != yamlfile.Map {
		r.wrong(n, what, yamlfile.Map)
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	n.Each(names, func(i int, v *node) { known[i].read(v) }, func(key yamlfile.Pair) {
		r.refuse(key.Place, "unknown-key", fmt.Sprintf("%s has no key %.40q", what, key.Name), keyFix(key.Name, names))
	})
}

func keyFix(name string, known []string) string {
	switch name {
	case "password", "token", "secret", "dsn", "api_key":
		return "secrets are never written into the policy: declare one under \"secrets\" and name it"
	case "idempotency_key":
		return "write \"key\" for a business key of a gated class, \"keyed: true\" for the others"
	}
	if near := spelling.Quoted(name, known); near != "" {
		return "write " + near
	}
	return "use one of " + strings.Join(known, ", ")
}

func (r *reader) wrong(n *node, what string, want yamlfile.Kind) {
	fix := "write " + want.String()
	if want == yamlfile.Text && n.Kind != yamlfile.Null {
		fix = "put it in quotes"
	}
	r.refuse(n.Place, "wrong-type", fmt.Sprintf("%s is %s", what, n.Kind), fix)
}

func (r *reader) text(n *node, what string) string {
	if n.Kind != yamlfile.Text {
		r.wrong(n, what, yamlfile.Text)
		return ""
	}
	if n.Text == "" {
		r.refuse(n.Place, "empty", what+" is empty", "write it or leave the key out")
	}
	return n.Text
}

// scalar takes numbers too: a version, an id, a header value.
func (r *reader) scalar(n *node, what string) string {
	if n.Kind == yamlfile.Number || n.Kind == yamlfile.Bool {
		return n.Text
	}
	return r.text(n, what)
}

func (r *reader) flag(n *node, what string) bool {
	if n.Kind != yamlfile.Bool {
		r.refuse(n.Place, "wrong-type", fmt.Sprintf("%s is %s", what, n.Kind), "write true or false")
		return false
	}
	return n.Value.(bool)
}

func (r *reader) number(n *node, what string, least, most int) int {
	var v int
	if _, err := fmt.Sscanf(n.Text, "%d", &v); n.Kind != yamlfile.Number || err != nil || fmt.Sprint(v) != n.Text {
		r.refuse(n.Place, "wrong-type", what+" is no whole number", fmt.Sprintf("write one of %d to %d", least, most))
		return least
	}
	if v < least || v > most {
		r.refuse(n.Place, "out-of-range", fmt.Sprintf("%s is %d", what, v), fmt.Sprintf("write %d to %d", least, most))
		return least
	}
	return v
}

func (r *reader) items(n *node, what string, most int) []*node {
	if n.Kind != yamlfile.List {
		r.wrong(n, what, yamlfile.List)
		return nil
	}
	if len(n.List) > most {
		r.refuse(n.Place, "out-of-range", fmt.Sprintf("%s has %d entries", what, len(n.List)),
			fmt.Sprintf("keep it to %d", most))
		return n.List[:most]
	}
	return n.List
}

func (r *reader) texts(n *node, what string, most int) []string {
	var out []string
	for _, item := range r.items(n, what, most) {
		out = append(out, r.scalar(item, "an entry of "+what))
	}
	return out
}

func (r *reader) numbers(n *node, what string, least, most int) []int {
	var out []int
	for _, item := range r.items(n, what, maxList) {
		out = append(out, r.number(item, "an entry of "+what, least, most))
	}
	return out
}

// template reads a template; the zero template when it cannot be parsed.
func (r *reader) template(n *node, what string) template.Template {
	return r.parseTemplate(n.Place, r.scalar(n, what), what)
}

func (r *reader) parseTemplate(p place, text, what string) template.Template {
	t, err := template.Parse(text)
	if err != nil {
		_, fix, found := strings.Cut(err.Error(), template.ErrSyntax.Error()+": ")
		if !found {
			fix = err.Error()
		}
		r.refuse(p, "template", what+" is no template", fix)
	}
	return t
}
