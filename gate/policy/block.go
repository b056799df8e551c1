package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/yamlfile"
)

func kinds() []string {
	return []string{gate.KindHTTP, gate.KindSMTP, gate.KindFile, gate.KindExec, gate.KindSQL, gate.KindShard,
		gate.KindMCP}
}

// blockReader reads one adapter's block and remembers its templates.
type blockReader struct {
	*reader
	b *block
}

// block reads an adapter's declaration into the form in which adapters are given it.
func (r *reader) block(kind string, n *node) *block {
	b := blockReader{r, &block{place: n.Place, kind: kind}}
	if n.Kind != yamlfile.Map {
		fix := "write its keys below it"
		if kind == gate.KindExec {
			fix = "write \"argv: [program, argument]\": no shell reads it, each entry is one argument"
		}
		r.refuse(n.Place, "wrong-type", kind+" is "+n.Kind.String(), fix)
		return b.b
	}
	switch kind {
	case gate.KindHTTP:
		b.http(n)
	case gate.KindSMTP:
		b.smtp(n)
	case gate.KindFile:
		b.file(n)
	case gate.KindExec:
		b.exec(n)
	case gate.KindSQL:
		b.sql(n)
	case gate.KindShard:
		b.shard(n)
	case gate.KindMCP:
		b.mcp(n)
	}
	spec, err := json.Marshal(b.b.parsed)
	if err != nil {
		r.refuse(n.Place, "wrong-type", kind+" cannot be written as JSON", err.Error())
	}
	b.b.spec = spec
	return b.b
}

// template reads a template of the block; what names its key.
func (b blockReader) template(n *node, key string, u use) string {
	what := b.b.kind + "." + key
	t := b.reader.template(n, what)
	b.note(n.Place, what, u, t.Placeholders())
	return t.String()
}

func (b blockReader) note(p place, what string, u use, uses []template.Placeholder) {
	if len(uses) > 0 {
		b.b.templates = append(b.b.templates, blockTemplate{p, what, u, uses})
	}
}

func (b blockReader) templates(n *node, key string, u use, most int) []string {
	var out []string
	for _, item := range b.items(n, b.b.kind+"."+key, most) {
		out = append(out, b.template(item, key, u))
	}
	return out
}

// tree reads a JSON value whose strings are templates.
func (b blockReader) tree(n *node, key string, u use) json.RawMessage {
	what := b.b.kind + "." + key
	tree, ok := b.reader.tree(n, what)
	if !ok {
		return nil
	}
	b.note(n.Place, what, u, tree.Placeholders())
	data, err := json.Marshal(n.Plain())
	if err != nil {
		b.refuse(n.Place, "wrong-type", what+" cannot be written as JSON", "write text, numbers, lists and mappings")
	}
	return data
}

// mapping reads names with templates as values: headers, an environment.
func (b blockReader) mapping(n *node, key string) map[string]string {
	if n.Kind != yamlfile.Map {
		b.wrong(n, b.b.kind+"."+key, yamlfile.Map)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		text := b.template(f.Value, key, useSecret)
		if holdsSecret(f.Name) && text != "" && !strings.Contains(text, "{$secret.") {
			what := fmt.Sprintf("%s.%s %.40q is written into the policy", b.b.kind, key, f.Name)
			b.refuse(f.Value.Place, "inline-secret", what,
				"declare it under \"secrets\" and write {$secret.NAME}")
		}
		out[f.Name] = text
	}
	return out
}

// when reads what an answer's body must say: paths with a value, or with a list of values.
func (b blockReader) when(n *node, what string) gate.When {
	if n.Kind != yamlfile.Map {
		b.wrong(n, what, yamlfile.Map)
		return nil
	}
	if len(n.Fields) == 0 {
		b.refuse(n.Place, "empty", what+" asks for nothing", "write a path and its value, or leave it out")
	}
	out := gate.When{}
	for _, f := range n.Fields {
		t, err := template.Parse("{" + f.Name + "?}")
		if err != nil || len(t.Placeholders()) != 1 || strings.ContainsAny(f.Name, "$|?") {
			b.refuse(f.Value.Place, "wrong-value", fmt.Sprintf("%s has %.40q, which is no path", what, f.Name),
				"write the names on the way with dots between them: error.code")
			continue
		}
		data, err := json.Marshal(jsonNumbers(f.Value.Plain()))
		if err != nil {
			b.refuse(f.Value.Place, "wrong-type", what+" cannot be written as JSON", "write a value, or a list of values")
		}
		out[f.Name] = data
	}
	return out
}

// holdsSecret reports whether a header or variable of this name carries a secret.
func holdsSecret(name string) bool {
	lower := strings.ToLower(name)
	switch lower {
	case "authorization", "proxy-authorization", "cookie":
		return true
	}
	for _, part := range []string{"password", "passwd", "secret", "token", "api-key", "api_key", "apikey"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return false
}

func (b blockReader) need(n *node, names ...string) {
	for _, name := range names {
		if n.Get(name) == nil {
			b.refuse(n.Place, "missing-key", fmt.Sprintf("%s has no %q", b.b.kind, name), "add it")
		}
	}
}

// one reads a text that is one of a few.
func (b blockReader) one(n *node, what string, allowed ...string) string {
	text := b.text(n, what)
	for _, a := range allowed {
		if text == a {
			return text
		}
	}
	if text != "" {
		b.refuse(n.Place, "wrong-value", fmt.Sprintf("%s is %.40q", what, text), "use one of "+strings.Join(allowed, ", "))
	}
	return text
}

// literal refuses placeholders in a text that must not depend on the call.
func (b blockReader) literal(n *node, what, fix string) string {
	text := b.text(n, what)
	if t, err := template.Parse(text); err == nil && len(t.Placeholders()) > 0 {
		b.refuse(n.Place, "literal", what+" depends on the call", fix)
	}
	return text
}

// jsonNumbers gives numbers the type that decoded JSON has.
func jsonNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = jsonNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = jsonNumbers(v[i])
		}
	case int, int64, uint64, float64:
		return json.Number(fmt.Sprint(v))
	}
	return v
}
