package reference

import (
	"fmt"
	"strings"
)

// maxDepth bounds how deep the members of a shape are written out.
const maxDepth = 4

// kind says in a few words what a schema takes; a reference is a link.
func kind(schema node) string {
	if name := schema.reference(); name != "" {
		return "[" + name + "](#" + anchor(name) + ")"
	}
	if all := schema.at("anyOf").list(); len(all) > 0 {
		kinds := make([]string, len(all))
		for i, one := range all {
			kinds[i] = kind(one)
		}
		return strings.Join(kinds, " or ")
	}
	if values := schema.at("enum"); values.there() {
		return codes(values.texts())
	}
	if value := schema.at("const"); value.there() {
		return code(value.text())
	}
	switch name := schema.at("type").text(); name {
	case "array":
		return "list of " + kind(schema.at("items"))
	case "":
		return "any"
	default:
		return name
	}
}

// bounds says what a schema's value is held to.
func bounds(schema node) string {
	var all []string
	low, high := schema.at("minimum").text(), schema.at("maximum").text()
	switch {
	case low != "" && high != "":
		all = append(all, low+" to "+high)
	case low != "" && low != "0":
		all = append(all, "from "+low)
	case high != "":
		all = append(all, "to "+high)
	}
	for _, b := range []struct{ key, format string }{
		{"maxLength", "at most %s characters"}, {"minItems", "at least %s"}, {"maxItems", "at most %s"},
		{"default", "default `%s`"}, {"pattern", "pattern `%s`"},
	} {
		if v := schema.at(b.key).text(); v != "" {
			all = append(all, fmt.Sprintf(b.format, v))
		}
	}
	return strings.Join(all, ", ")
}

// says is the description of a schema and its bounds.
func says(schema node) string {
	text, held := schema.at("description").text(), bounds(schema)
	if text != "" && held != "" {
		return cell(text + "; " + held)
	}
	return cell(text + held)
}

// shape writes the members of an object as a table, those of objects inside it with a path.
func shape(w *strings.Builder, schema node) {
	if text := schema.at("description").text(); text != "" {
		w.WriteString(cell(text) + "\n\n")
	}
	if len(schema.at("properties").members()) == 0 {
		what := kind(schema)
		if held := bounds(schema); held != "" {
			what += ", " + held
		}
		w.WriteString(strings.ToUpper(what[:1]) + what[1:] + ".\n\n")
		return
	}
	row(w, "member", "type", "always", "says")
	row(w, "---", "---", "---", "---")
	properties(w, schema, "", 0)
	w.WriteString("\n")
}

func properties(w *strings.Builder, schema node, path string, depth int) {
	for _, p := range schema.at("properties").members() {
		always := ""
		if schema.at("required").has(p.name) {
			always = "yes"
		}
		row(w, code(path+p.name), kind(p.node), always, says(p.node))
		if depth == maxDepth {
			continue
		}
		if items := p.at("items"); items.at("properties").there() {
			properties(w, items, path+p.name+"[].", depth+1)
		} else if p.at("properties").there() {
			properties(w, p.node, path+p.name+".", depth+1)
		} else if each := p.at("additionalProperties"); each.at("properties").there() {
			properties(w, each, path+p.name+".*.", depth+1)
		}
	}
}
