package reference

import (
	"path"
	"strings"
)

// Events writes the reference of an AsyncAPI document; read gives the text of a schema that it names, by the path that
// is written there.
func Events(file string, text []byte, read func(path string) ([]byte, error)) (string, error) {
	doc, err := parse(text)
	if err != nil {
		return "", err
	}
	w := &strings.Builder{}
	w.WriteString("# Event reference\n\n" + banner(file) + cell(doc.at("info", "description").text()) + "\n\n")
	w.WriteString("Outside consumers read `hence.decisions` and `hence.residue`, which are JSON. " +
		"The other topics are MessagePack between Hence's own parts, and may change with a release.\n\n")
	for _, s := range doc.at("servers").members() {
		w.WriteString("- **" + s.name + "**: " + cell(s.at("description").text()) + "\n")
	}
	w.WriteString("\n## Channels\n\n")
	for _, c := range doc.at("channels").members() {
		channel(w, doc, c)
	}
	w.WriteString("## Messages\n\n")
	schemas := messages(w, doc)
	w.WriteString("## Shapes\n\n")
	for _, file := range schemas {
		schema, err := read(file)
		if err != nil {
			return "", err
		}
		if err := publicShape(w, file, schema); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(w.String(), "\n") + "\n", nil
}

func channel(w *strings.Builder, doc node, c member) {
	w.WriteString("### " + code(c.at("address").text()) + "\n\n")
	on := ""
	for _, s := range c.at("servers").list() {
		on = s.reference()
	}
	w.WriteString("On " + on + ". " + cell(c.at("description").text()) + "\n\n")
	for _, p := range c.at("parameters").members() {
		w.WriteString(code("{"+p.name+"}") + ": " + cell(p.at("description").text()) + "\n\n")
	}
	if all := c.at("messages").members(); len(all) > 1 {
		row(w, "kind", "says")
		row(w, "---", "---")
		for _, m := range all {
			message := doc.at("components", "messages", m.reference())
			row(w, code(m.name), cell(message.at("summary").text()))
		}
		w.WriteString("\n")
	} else if len(all) == 1 {
		title := doc.at("components", "messages", all[0].reference(), "title").text()
		w.WriteString("Message: [" + title + "](#" + anchor(title) + ")\n\n")
	}
}

// messages writes each message but the many kinds of decisions once, and returns the schemas of those in JSON.
func messages(w *strings.Builder, doc node) (schemas []string) {
	seen := map[string]bool{}
	for _, m := range doc.at("components", "messages").members() {
		message, title := m.node, m.at("title").text()
		for _, t := range m.at("traits").list() {
			message, title = doc.at("components", "messageTraits", t.reference()), "Decision"
		}
		if seen[title] {
			continue
		}
		seen[title] = true
		w.WriteString("### " + title + "\n\n")
		says := message.at("summary").text() + " " + message.at("description").text()
		if says = cell(says); says != "" {
			w.WriteString(says + "\n\n")
		}
		kind := message.at("contentType").text()
		w.WriteString("Content: " + code(kind))
		if file := m.at("payload", "$ref").text(); file != "" {
			w.WriteString(", schema [" + path.Base(file) + "](../topology/schemas/" + path.Base(file) + ")")
			if strings.Contains(kind, "json") {
				schemas = append(schemas, file)
			}
		}
		w.WriteString("\n\n")
		headers(w, message.at("headers"))
	}
	return schemas
}

func headers(w *strings.Builder, all node) {
	if !all.there() {
		return
	}
	row(w, "header", "always", "says")
	row(w, "---", "---", "---")
	for _, h := range all.at("properties").members() {
		always, says := "", cell(h.at("description").text())
		if all.at("required").has(h.name) {
			always = "yes"
		}
		if says == "" {
			says = kind(h.node)
		}
		row(w, code(h.name), always, says)
	}
	w.WriteString("\n")
}

// publicShape writes the shape of what other programs read.
func publicShape(w *strings.Builder, file string, text []byte) error {
	schema, err := parse(text)
	if err != nil {
		return err
	}
	w.WriteString("### " + path.Base(file) + "\n\n")
	shape(w, schema)
	for _, d := range schema.at("$defs").members() {
		w.WriteString("#### " + d.name + "\n\n")
		shape(w, d.node)
	}
	return nil
}
