package policy

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// signed declares a tool of each adapter, one that is undone by another, and a glob.
const signed = `version: 1
server: s
hosts: ["a.example:443", "b.example:443"]
files: {root: /data}
mail: {server: "mail.example:587", from: shop@example.com, user: shop, password_secret: pass, tls: starttls}
databases: {db: {dsn_secret: dsn}}
secrets: {pass: {env: MAIL}, dsn: {env: DSN}, dsn2: {env: DSN2}}
tools:
  - tool: http
    class: known_outcome
    keyed: true
    scopes: ["item:/{id}"]
    http:
      {method: PUT, url: "https://a.example/{id}", headers: {X-A: one}, body: {id: "{id}"}, refused: [409],
       lookup: {url: "https://a.example/calls/{$key}", absent: [404]}}
  - {tool: mail, class: irreversible, key: "{id}", scopes: ["mail:/{id}"], smtp: {to: "{id}", subject: s, text: t}}
  - {tool: file, class: irreversible, scopes: ["file:/{id|path}"], file: {op: append, path: "{id}", content: c}}
  - {tool: exec, class: irreversible, scopes: ["run:/"], exec: {argv: [/bin/true, "{id}"], dir: /tmp, env: {A: b}}}
  - tool: sql
    class: bufferable
    key: "{id}"
    scopes: ["row:/{id}"]
    sql: {database: db, statement: "DELETE FROM t WHERE id = $1", params: ["{id}"], rows: 1}
  - {tool: "glob.*", class: irreversible, scopes: ["glob:/{id}"], exec: {argv: [/bin/false]}}
  - tool: undone
    class: reversible
    scopes: ["u:/{id}"]
    compensation: {tool: back, args: {id: "{args.id}"}}
    http: {method: POST, url: "https://a.example/u"}
  - tool: back
    class: known_outcome
    keyed: true
    undo_only: true
    scopes: ["u:/{id}"]
    http: {method: DELETE, url: "https://a.example/u"}
`

// Whatever changes the call that a tool makes, or that undoes it, changes its signature, wherever in the file it
// stands; how the sink is logged in to and what else is allowed does not.
func TestSignatureCoversTheCall(t *testing.T) {
	of := func(text string) map[string]gate.Tool {
		p, err := Load([]byte(text), Options{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		out := map[string]gate.Tool{}
		for _, name := range []string{"http", "mail", "file", "exec", "sql", "glob.x", "undone"} {
			if out[name], err = p.Find(name, []byte(`{"id":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	base := of(signed)
	for _, c := range []struct{ tool, was, is string }{
		{"http", "method: PUT", "method: POST"},
		{"http", `"https://a.example/{id}"`, `"https://b.example/{id}"`},
		{"http", "X-A: one", "X-A: two"},
		{"http", `body: {id: "{id}"}`, `body: {id: "{id}", more: 1}`},
		{"http", "refused: [409]", "refused: [422]"},
		{"http", "a.example/calls", "b.example/calls"},
		{"http", "absent: [404]", "absent: [410]"},
		{"http", "class: known_outcome\n    keyed: true", "class: irreversible\n    keyed: true\n    key: \"{id}\""},
		{"mail", "mail.example:587", "mail.example:588"},
		{"mail", "from: shop@example.com", "from: other@example.com"},
		{"mail", "subject: s", "subject: other"},
		{"mail", `key: "{id}", scopes: ["mail`, `key: "x-{id}", scopes: ["mail`},
		{"file", "root: /data", "root: /other"},
		{"file", "op: append", "op: write"},
		{"exec", "/bin/true", "/bin/echo"},
		{"exec", "dir: /tmp", "dir: /var"},
		{"exec", "env: {A: b}", "env: {A: c}"},
		{"sql", "DELETE FROM t ", "DELETE FROM u "},
		{"sql", "dsn_secret: dsn}", "dsn_secret: dsn2}"},
		{"sql", "rows: 1", "rows: 2"},
		{"sql", "row:/{id}", "rows:/{id}"},
		{"glob.x", "/bin/false", "/bin/echo"},
		{"glob.x", `"glob.*"`, "glob.x"},
		{"undone", `url: "https://a.example/u"}` + "\n  - tool: back", `url: "https://b.example/u"}` + "\n  - tool: back"},
		{"undone", "method: DELETE", "method: PUT"},
		{"undone", "args: {id: \"{args.id}\"}", "args: {id: \"{args.id}\", why: undo}"},
		{"", "user: shop, password_secret: pass, tls: starttls", "user: boss, password_secret: dsn2, tls: tls"},
		{"", "dsn: {env: DSN}", "dsn: {env: OTHER}"},
		{"", `hosts: ["a.example:443"`, `hosts: ["c.example:443", "a.example:443"`},
	} {
		if !strings.Contains(signed, c.was) {
			t.Fatalf("%q is not in the policy", c.was)
		}
		now := of(strings.Replace(signed, c.was, c.is, 1))
		for name, tool := range now {
			if changed := tool.Pin.Signature != base[name].Pin.Signature; changed != (name == c.tool) {
				t.Errorf("%s as %s: the signature of %s changed: %v", c.was, c.is, name, changed)
			}
		}
	}
	for name, former := range map[string]bool{"http": false, "exec": false, "mail": true, "file": true, "sql": true} {
		if (base[name].Former != "") != former || base[name].Former == base[name].Pin.Signature {
			t.Errorf("%s was signed %q before, and is signed %q", name, base[name].Former, base[name].Pin.Signature)
		}
	}
}
