package reference

import "strings"

// generated is the second line of each reference.
const generated = "Written from `%s` by `go generate ./it/reference`; do not edit it here.\n\n"

func banner(file string) string { return strings.Replace(generated, "%s", file, 1) }

// HTTP writes the reference of an OpenAPI document; file is its path, for the reader.
func HTTP(file string, text []byte) (string, error) {
	doc, err := parse(text)
	if err != nil {
		return "", err
	}
	var w strings.Builder
	w.WriteString("# HTTP reference\n\n" + banner(file) + cell(doc.at("info", "description").text()) + "\n\n")
	w.WriteString("Each route but those under *operations* needs `Authorization: Bearer TOKEN`. A refusal is a " +
		"[Problem](#problem), as `application/problem+json`; its codes are in [codes/](codes/README.md).\n\n")
	for _, tag := range doc.at("tags").list() {
		section(&w, doc, tag)
	}
	w.WriteString("## Shapes\n\n")
	for _, s := range doc.at("components", "schemas").members() {
		w.WriteString("### " + s.name + "\n\n")
		shape(&w, s.node)
	}
	return strings.TrimRight(w.String(), "\n") + "\n", nil
}

func section(w *strings.Builder, doc, tag node) {
	name := tag.at("name").text()
	w.WriteString("## " + strings.ToUpper(name[:1]) + name[1:] + "\n\n" + cell(tag.at("description").text()) + ".\n\n")
	for _, path := range doc.at("paths").members() {
		for _, op := range path.members() {
			if op.at("tags").has(name) {
				operation(w, doc, path, op)
			}
		}
	}
}

func operation(w *strings.Builder, doc node, path, op member) {
	w.WriteString("### " + strings.ToUpper(op.name) + " " + code(path.name) + "\n\n")
	w.WriteString(cell(op.at("summary").text()) + ".")
	if text := op.at("description").text(); text != "" {
		w.WriteString(" " + cell(text))
	}
	w.WriteString("\n\n")
	parameters(w, doc, append(path.at("parameters").list(), op.at("parameters").list()...))
	if body := op.at("requestBody"); body.there() {
		w.WriteString("Body: " + content(body))
		if body.at("required").text() != "true" {
			w.WriteString(", may be left out")
		}
		w.WriteString("\n\n")
	}
	row(w, "status", "says", "body")
	row(w, "---", "---", "---")
	for _, r := range op.at("responses").members() {
		answer := r.node
		if name := r.reference(); name != "" {
			answer = doc.at("components", "responses", name)
		}
		says := cell(answer.at("description").text())
		for _, h := range answer.at("headers").members() {
			says += "; header " + code(h.name)
			if text := h.at("description").text(); text != "" {
				says += ": " + cell(text)
			}
		}
		row(w, strings.Replace(r.name, "default", "other", 1), says, content(answer))
	}
	w.WriteString("\n")
}

func parameters(w *strings.Builder, doc node, all []node) {
	if len(all) == 0 {
		return
	}
	row(w, "parameter", "in", "type", "says")
	row(w, "---", "---", "---", "---")
	for _, p := range all {
		if name := p.reference(); name != "" {
			p = doc.at("components", "parameters", name)
		}
		text, held := p.at("description").text(), bounds(p.at("schema"))
		if text != "" && held != "" {
			text += "; "
		}
		if p.at("in").text() != "path" && p.at("required").text() == "true" {
			text = strings.TrimSpace("needed. " + text)
		}
		row(w, code(p.at("name").text()), p.at("in").text(), kind(p.at("schema")), cell(text+held))
	}
	w.WriteString("\n")
}

// content says what a body is: its shape, or its media type.
func content(body node) string {
	all := body.at("content").members()
	if len(all) == 0 {
		return ""
	}
	c := all[0]
	if properties := c.at("schema", "properties").members(); len(properties) > 0 {
		names := make([]string, len(properties))
		for i, p := range properties {
			names[i] = p.name
		}
		return "object with " + codes(names)
	}
	switch {
	case strings.HasSuffix(c.name, "json"):
		return kind(c.at("schema"))
	case c.name == "*/*":
		return "the content itself"
	}
	return code(c.name)
}
