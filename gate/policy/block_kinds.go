package policy

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/yamlfile"
)

func (b blockReader) http(n *node) {
	s := &gate.HTTPSpec{}
	b.b.parsed = s
	b.fields(n, "http",
		field{"method", func(n *node) { s.Method = b.one(n, "http.method", methods()...) }},
		field{"url", func(n *node) { s.URL = b.url(n, "url") }},
		field{"headers", func(n *node) { s.Headers = b.mapping(n, "headers") }},
		field{"body", func(n *node) { s.Body = b.tree(n, "body", useValue) }},
		field{"refused", func(n *node) { s.Refused = b.numbers(n, "http.refused", 300, 599) }},
		field{"done", func(n *node) { s.Done = b.numbers(n, "http.done", 300, 599) }},
		field{"refused_when", func(n *node) { s.RefusedWhen = b.when(n, "http.refused_when") }},
		field{"done_when", func(n *node) { s.DoneWhen = b.when(n, "http.done_when") }},
		field{"replayed", func(n *node) { s.Replayed = b.literal(n, "http.replayed", "write the header's name") }},
		field{"lookup", func(n *node) {
			s.LookUp = &gate.HTTPLookUp{}
			b.fields(n, "http.lookup",
				field{"method", func(n *node) { s.LookUp.Method = b.one(n, "http.lookup.method", "GET", "HEAD", "POST") }},
				field{"url", func(n *node) { s.LookUp.URL = b.url(n, "lookup.url") }},
				field{"absent", func(n *node) { s.LookUp.Absent = b.numbers(n, "http.lookup.absent", 200, 599) }},
				field{"absent_when", func(n *node) { s.LookUp.AbsentWhen = b.when(n, "http.lookup.absent_when") }},
				field{"found_when", func(n *node) { s.LookUp.FoundWhen = b.when(n, "http.lookup.found_when") }})
			b.need(n, "url")
			if len(s.LookUp.AbsentWhen) == 0 && slices.ContainsFunc(s.LookUp.Absent, func(s int) bool { return s < 300 }) {
				b.refuse(n.Place, "wrong-value", "http.lookup.absent holds a 2xx, which says that it happened",
					"write \"absent_when\" beside it: what the body says then")
			}
		}})
	b.need(n, "method", "url")
}

func methods() []string { return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} }

// url reads an absolute URL whose host does not depend on the call.
func (b blockReader) url(n *node, key string) string {
	use := useNames
	if key != "url" {
		use = useValue // a look-up moves nothing
	}
	text := b.template(n, key, use)
	if text == "" {
		return text
	}
	u, problem := literalURL(text)
	switch {
	case problem != "":
		b.refuse(n.Place, "url", "http."+key+" "+problem, "write https://host/path with a literal scheme and host")
	case u.User != nil:
		b.refuse(n.Place, "inline-secret", "http."+key+" holds a user or password",
			"send it in a header as {$secret.NAME}")
	case u.Fragment != "":
		b.refuse(n.Place, "url", "http."+key+" has a fragment, which is never sent", "leave it out")
	}
	return text
}

// literalURL parses the URL with a stand-in for each placeholder.
func literalURL(text string) (*url.URL, string) {
	t, err := template.Parse(text)
	if err != nil {
		return nil, "is no template"
	}
	parts := t.Parts()
	if len(parts) == 0 || parts[0].Placeholder != nil {
		return nil, "has a host that depends on the call"
	}
	_, rest, found := strings.Cut(parts[0].Literal, "://")
	if !found {
		return nil, "is no absolute URL"
	}
	if len(parts) > 1 && !strings.ContainsAny(rest, "/?#") {
		return nil, "has a host that depends on the call"
	}
	var whole strings.Builder
	for _, part := range parts {
		if part.Placeholder != nil {
			whole.WriteString("x")
		} else {
			whole.WriteString(part.Literal)
		}
	}
	u, err := url.Parse(whole.String())
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, "is no absolute URL of http or https"
	}
	return u, ""
}

// urlHost is the host:port that a URL leads to.
func urlHost(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host, _ := hostPort(strings.ToLower(u.Hostname()) + ":" + port)
	if strings.Contains(u.Hostname(), ":") {
		host, _ = hostPort("[" + strings.ToLower(u.Hostname()) + "]:" + port)
	}
	return host
}

func (b blockReader) smtp(n *node) {
	s := &gate.SMTPSpec{}
	b.b.parsed = s
	addresses := func(key string) func(*node) []string {
		return func(n *node) []string {
			if n.Kind == yamlfile.Text {
				return []string{b.template(n, key, useNames)}
			}
			return b.templates(n, key, useNames, 50)
		}
	}
	b.fields(n, "smtp",
		field{"to", func(n *node) { s.To = addresses("to")(n) }},
		field{"cc", func(n *node) { s.Cc = addresses("cc")(n) }},
		field{"from", func(n *node) { s.From = b.template(n, "from", useValue) }},
		field{"subject", func(n *node) { s.Subject = b.template(n, "subject", useValue) }},
		field{"text", func(n *node) { s.Text = b.template(n, "text", useValue) }})
	b.need(n, "to", "subject", "text")
	if to := n.Get("to"); to != nil && len(s.To) == 0 {
		b.refuse(to.Place, "empty", "smtp.to names no recipient", "write at least one address")
	}
}

func (b blockReader) file(n *node) {
	s := &gate.FileSpec{}
	b.b.parsed = s
	b.fields(n, "file",
		field{"op", func(n *node) {
			s.Op = b.one(n, "file.op", gate.OpRead, gate.OpWrite, gate.OpAppend, gate.OpMove, gate.OpDelete, gate.OpRestore)
		}},
		field{"path", func(n *node) { s.Path = b.path(n, "path") }},
		field{"to", func(n *node) { s.To = b.path(n, "to") }},
		field{"content", func(n *node) { s.Content = b.template(n, "content", useValue) }})
	takes := map[string][]string{
		gate.OpRead: {"path"}, gate.OpWrite: {"path", "content"}, gate.OpAppend: {"path", "content"},
		gate.OpMove: {"path", "to"}, gate.OpDelete: {"path"}, gate.OpRestore: {},
	}
	b.exactly(n, s.Op, takes[s.Op], []string{"path", "to", "content"})
}

// exactly holds a block against what its operation takes.
func (b blockReader) exactly(n *node, op string, takes, known []string) {
	b.need(n, "op")
	if op == "" {
		return
	}
	b.need(n, takes...)
	for _, name := range known {
		if v := n.Get(name); v != nil && !slices.Contains(takes, name) {
			b.refuse(v.Place, "unknown-key", fmt.Sprintf("%s with op %.20s takes no %q", b.b.kind, op, name), "leave it out")
		}
	}
}

// path reads a path below the root.
func (b blockReader) path(n *node, key string) string {
	text := b.template(n, key, useNames)
	if strings.HasPrefix(text, "/") || slices.Contains(strings.Split(text, "/"), "..") {
		b.refuse(n.Place, "path", fmt.Sprintf("file.%s %.80q leads out of the root", key, text),
			"write it relative to files.root, without '..'")
	}
	return text
}

func (b blockReader) exec(n *node) {
	s := &gate.ExecSpec{}
	b.b.parsed = s
	b.fields(n, "exec",
		field{"argv", func(n *node) { s.Argv = b.argv(n, "argv", useNames) }},
		field{"options", func(n *node) {
			for _, item := range b.items(n, "exec.options", maxList) {
				s.Options = append(s.Options, b.text(item, "an option"))
			}
		}},
		field{"dir", func(n *node) { s.Dir = b.literal(n, "exec.dir", "write a directory") }},
		field{"env", func(n *node) { s.Env = b.mapping(n, "env") }},
		field{"stdin", func(n *node) { s.Stdin = b.tree(n, "stdin", useSecret) }},
		field{"refused", func(n *node) { s.Refused = b.numbers(n, "exec.refused", 1, 255) }},
		field{"lookup", func(n *node) {
			s.LookUp = &gate.ExecLookUp{}
			b.fields(n, "exec.lookup",
				field{"argv", func(n *node) { s.LookUp.Argv = b.argv(n, "lookup.argv", useValue) }},
				field{"absent", func(n *node) { s.LookUp.Absent = b.numbers(n, "exec.lookup.absent", 1, 255) }})
			b.need(n, "argv")
		}})
	b.need(n, "argv")
	if at := n.Get("options"); at != nil {
		for _, name := range s.Options {
			if !slices.Contains(starting(s), name) {
				b.refuse(at.Place, "option", fmt.Sprintf("the option %.40q begins no entry of argv", name),
					"name an argument that stands at the start of an entry, with no \"--\" before it")
			}
		}
	}
}

// starting are the arguments with which an entry of the argument lists begins, where a program may look for options.
func starting(s *gate.ExecSpec) []string {
	var out []string
	lists := [][]string{s.Argv}
	if s.LookUp != nil {
		lists = append(lists, s.LookUp.Argv)
	}
	for _, argv := range lists {
		behind := false // a "--", with no literal entry since
		for _, entry := range argv {
			t, err := template.Parse(entry)
			if err == nil && len(t.Placeholders()) == 0 {
				behind = entry == "--"
			}
			if err != nil || behind {
				continue
			}
			for _, part := range t.Parts() {
				if part.Placeholder == nil {
					break
				}
				if name := part.Placeholder.Path[0]; !slices.Contains(out, name) {
					out = append(out, name)
				}
				if !part.Placeholder.Optional {
					break // what comes behind it begins the entry only where it is empty
				}
			}
		}
	}
	return out
}

func (b blockReader) argv(n *node, key string, u use) []string {
	if n.Kind == yamlfile.Text {
		b.refuse(n.Place, "shell", "exec."+key+" is one text, which only a shell could take apart",
			"write a list: [program, argument, argument]")
		return nil
	}
	argv := b.templates(n, key, u, maxList)
	if len(argv) == 0 {
		b.refuse(n.Place, "empty", "exec."+key+" names no program", "write [program, argument]")
		return nil
	}
	first := n.List[0]
	switch {
	case strings.Contains(argv[0], "{"):
		b.refuse(first.Place, "literal", "the program depends on the call",
			"write the program itself, and declare one tool for each")
	case strings.ContainsAny(argv[0], " \t;|&<>$"):
		b.refuse(first.Place, "shell", fmt.Sprintf("the program %.80q is a line for a shell", argv[0]),
			"write each argument as an entry of its own")
	case isShell(argv):
		b.refuse(first.Place, "shell", "exec."+key+" hands a line to a shell", "run the program itself, or a script file")
	}
	return argv
}

// isShell reports whether argv is a shell that is given its commands as an argument.
func isShell(argv []string) bool {
	switch path.Base(argv[0]) {
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "cmd", "cmd.exe", "powershell", "pwsh":
		return slices.ContainsFunc(argv[1:], func(a string) bool {
			return a == "/c" || a == "-Command" || strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c")
		})
	}
	return false
}

func (b blockReader) sql(n *node) {
	s := &gate.SQLSpec{}
	b.b.parsed = s
	b.fields(n, "sql",
		field{"database", func(n *node) { s.Database = b.literal(n, "sql.database", "write a declared database") }},
		field{"statement", func(n *node) { s.Statement = b.statement(n, "statement") }},
		field{"params", func(n *node) {}}, // read below, once the statement is known
		field{"save", func(n *node) { s.Save = b.query(n, "save") }},
		field{"rows", func(n *node) { rows := b.number(n, "sql.rows", 0, 1_000_000); s.Rows = &rows }},
		field{"lookup", func(n *node) { s.LookUp = b.query(n, "lookup") }})
	s.Params = b.params(n, "", s.Statement)
	b.need(n, "database", "statement")
}

func (b blockReader) query(n *node, key string) *gate.SQLQuery {
	q := &gate.SQLQuery{}
	b.fields(n, "sql."+key,
		field{"statement", func(n *node) { q.Statement = b.statement(n, key+".statement") }},
		field{"params", func(n *node) {}})
	q.Params = b.params(n, key+".", q.Statement)
	b.need(n, "statement")
	return q
}

func (b blockReader) statement(n *node, key string) string {
	return b.literal(n, "sql."+key, "write $1, $2, … and give the values under \"params\": text is never put together")
}

// params reads the values and counts them against the statement's placeholders. Those of the part after WHERE choose
// rows, the others are written.
func (b blockReader) params(n *node, prefix, statement string) []string {
	used := sqlNumbers(statement)
	most := 0
	for _, i := range used {
		most = max(most, i)
	}
	list := n.Get("params")
	if list == nil {
		if most > 0 {
			what := fmt.Sprintf("sql.%sstatement wants %d values and has none", prefix, most)
			b.refuse(n.Place, "params", what, "write \"params\"")
		}
		return nil
	}
	choosing := sqlNumbers(wherePart(statement))
	var out []string
	for i, item := range b.items(list, "sql."+prefix+"params", maxList) {
		u := useValue
		if prefix == "" && slices.Contains(choosing, i+1) {
			u = useNames
		}
		out = append(out, b.template(item, prefix+"params", u))
	}
	if most != len(list.List) {
		what := fmt.Sprintf("sql.%sstatement wants %d values and has %d", prefix, most, len(list.List))
		b.refuse(list.Place, "params", what, "give one for each of $1, $2, …")
	}
	return out
}

func sqlNumbers(statement string) []int {
	var out []int
	for _, m := range regexp.MustCompile(`\$([0-9]{1,4})`).FindAllStringSubmatch(statement, maxList) {
		i, err := strconv.Atoi(m[1])
		if err == nil {
			out = append(out, i)
		}
	}
	return out
}

// wherePart is the part of a statement that chooses rows; of an INSERT, whose rows have no other name, its values.
func wherePart(statement string) string {
	upper := strings.ToUpper(statement)
	if i := strings.Index(upper, "WHERE"); i >= 0 {
		end := len(statement)
		if j := strings.Index(upper[i:], "RETURNING"); j >= 0 {
			end = i + j
		}
		return statement[i:end]
	}
	return ""
}
