package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const argumentsPolicy = `version: 1
server: shop
hosts: ["api.example.com:443"]
mail: {server: "m.example.com:587", from: a@example.com, user: u, password_secret: mail}
databases: {db: {dsn_secret: dsn}}
secrets: {token: {env: ARGUMENTS_TOKEN}, mail: {file: mail.txt}, dsn: {env: ARGUMENTS_DSN}, idle: {env: IDLE}}
tools:
  - tool: listed
    class: read
    args: [order_id, note?]
    scopes: ["order:/{order_id}"]
    http: {method: GET, url: "https://api.example.com/{order_id}", headers: {Authorization: "Bearer {$secret.token}"}}
  - tool: unlisted
    class: read
    scopes: ["order:/{order_id}"]
    http: {method: GET, url: "https://api.example.com/{order_id}?page={page?}"}
  - tool: whole
    class: irreversible
    scopes: ["order:/{order_id}"]
    http: {method: POST, url: "https://api.example.com/{order_id}"}
  - tool: reserve
    class: reversible
    scopes: ["order:/{order_id}"]
    keyed: true
    http: {method: DELETE, url: "https://api.example.com/{order_id}"}
    compensation: {tool: release, args: {order_id: "{args.order_id}", why: "{args.why}"}}
  - tool: release
    class: known_outcome
    undo_only: true
    args: [order_id, why]
    scopes: ["order:/{order_id}"]
    keyed: true
    http: {method: POST, url: "https://api.example.com/{order_id}"}
  - tool: swap
    class: reversible
    scopes: ["order:/{order_id}"]
    keyed: true
    http: {method: DELETE, url: "https://api.example.com/{order_id}"}
    compensation: {tool: release}
  - tool: book
    class: reversible
    scopes: ["order:/{order_id}"]
    keyed: true
    http: {method: DELETE, url: "https://api.example.com/{order_id}"}
    compensation: {tool: cancel_seat}
  - tool: cancel_*
    class: known_outcome
    undo_only: true
    args: [order_id, why]
    scopes: ["order:/{order_id}"]
    keyed: true
    http: {method: POST, url: "https://api.example.com/{order_id}"}
  - {tool: classified, class: irreversible, scopes: ["order:/{order_id}"]}
  - tool: tell
    class: irreversible
    args: [to]
    scopes: ["mail:/{to|mail}"]
    smtp: {to: "{to}", subject: s, text: t}
`

// An argument of which nothing would come is refused, with the one that is probably meant. Where an adapter is given
// all of them, and where there is none, each may be used.
func TestUnknownArguments(t *testing.T) {
	p, err := Load([]byte(argumentsPolicy), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, args, want string }{
		{"listed", `{"order_id":1,"note":"x"}`, ""},
		{"listed", `{"order_id":1,"notes":"x"}`, `"notes" is not among its arguments: write "note"`},
		{"listed", `{"order_id":1,"zzzzzz":"x"}`, `"zzzzzz" is not among its arguments: it takes note, order_id`},
		{"unlisted", `{"order_id":1,"page":2}`, ""},
		{"unlisted", `{"order_id":1,"pages":2}`, `"pages" is not among its arguments: write "page"`},
		{"whole", `{"order_id":1,"anything":2}`, ""},
		{"reserve", `{"order_id":1,"why":"x"}`, ""},
		{"reserve", `{"order_id":1,"whi":"x"}`, `"whi" is not among its arguments: write "why"`},
		{"swap", `{"order_id":1,"why":"x"}`, ""},
		{"swap", `{"order_id":1,"whi":"x"}`, `"whi" is not among its arguments: write "why"`},
		{"book", `{"order_id":1,"why":"x"}`, ""},
		{"book", `{"order_id":1,"whi":"x"}`, `"whi" is not among its arguments: write "why"`},
		{"classified", `{"order_id":1,"anything":2}`, ""},
		{"other", `{"anything":2}`, ""},
	} {
		err := p.CheckArguments(c.tool, []byte(c.args))
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrArguments) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.tool, c.args, err, c.want)
		}
	}
}

// A secret that a tool needs and that is not there is found before anything is called, with the tool and its line.
// What no tool needs may be absent; an empty one is no secret.
func TestMissingSecrets(t *testing.T) {
	dir := t.TempDir()
	missing := func() (out []string) {
		p, err := Load([]byte(argumentsPolicy), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.MissingSecrets() {
			out = append(out, f.Text("shop.yaml"))
		}
		return out
	}
	t.Setenv("ARGUMENTS_TOKEN", "")
	got := missing()
	if len(got) != 2 || !strings.Contains(got[0], "shop.yaml:4:8: tool tell: mail needs a secret that is not there") ||
		!strings.Contains(got[0], "mail.txt: no such file") || !strings.Contains(got[1],
		"shop.yaml:12:93: tool listed: http.headers needs a secret that is not there") ||
		!strings.Contains(got[1], `"token": the environment variable ARGUMENTS_TOKEN is empty`) {
		t.Errorf("missing are\n%s", strings.Join(got, "\n"))
	}
	t.Setenv("ARGUMENTS_TOKEN", "x")
	if err := os.WriteFile(filepath.Join(dir, "mail.txt"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := missing(); len(got) != 0 {
		t.Errorf("all are there, and missing are\n%s", strings.Join(got, "\n"))
	}
}
