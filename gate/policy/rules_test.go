package policy

import (
	"slices"
	"strings"
	"testing"
)

// ruleCases are small policies that a rule must name, and their neighbours without the fault, which it must not.
var ruleCases = []struct {
	rule, wrong, right string
	severity           Severity
}{
	{"alias", `{tool: a, class: read, scopes: ["host:/{h}"]}`, `{tool: a, class: read, scopes: ["host:/{h|host}"]}`,
		Mistake},
	{"alias", `{tool: a, class: read, scopes: ["url:/{u|host}/{u|path}"]}`,
		`{tool: a, class: read, scopes: ["url:/{u|url}"]}`,
		Mistake},
	{"alias", `{tool: a, class: read, scopes: ["name:/{n|nfc}"]}`,
		`{tool: a, class: read, scopes: ["name:/{n|fold}"]}`,
		Mistake},
	{"alias", `{tool: a, class: read, scopes: ["branch:/{n|lower}"]}`,
		`{tool: a, class: read, scopes: ["branch:/{n}"]}`,
		Mistake},
	{"filters-differ", `{tool: a, class: read, scopes: ["x:/{n|lower}"]}
  - {tool: b, class: read, scopes: ["x:/{n}"]}`, `{tool: a, class: read, scopes: ["x:/{n|lower}"]}
  - {tool: b, class: read, scopes: ["x:/{n|lower}"]}`, Mistake},
	{"clear-text", `{tool: a, class: read, scopes: ["x:/"], http: {method: GET, url: "http://far.example/x",
     headers: {Authorization: "{$secret.s}"}}}`, `{tool: a, class: read, scopes: ["x:/"], http: {method: GET,
     url: "http://127.0.0.1:80/x", headers: {Authorization: "{$secret.s}"}}}`, Mistake},
	{"two-names", `{tool: a, class: read, scopes: ["order:/{order_id}"]}
  - {tool: b, class: read, scopes: ["orders:/{order_id}"]}`, `{tool: a, class: read, scopes: ["order:/{order_id}"]}
  - {tool: b, class: read, scopes: ["parcel:/{order_id}"]}`, Mistake},
	{"two-names", `{tool: a, class: read, scopes: ["x:/{p}"], file: {op: read, path: "{p|path}"}}
  - {tool: b, class: irreversible, scopes: ["y:/{p}"], file: {op: delete, path: "{p}"}}`,
		`{tool: a, class: read, scopes: ["x:/{p}"], file: {op: read, path: "{p|path}"}}
  - {tool: b, class: irreversible, scopes: ["x:/{p}"], file: {op: delete, path: "{p}"}}`, Mistake},
	{"narrow-scope", `{tool: a, class: read, scopes: ["shard:/x/{p}"], shard: {op: read, scope: "shard:/{p}"}}`,
		`{tool: a, class: read, scopes: ["shard:/{p}"], shard: {op: read, scope: "shard:/{p}"}}`, Mistake},
	{"narrow-scope", `{tool: a, class: irreversible, scopes: ["row:/{x}"], sql: {database: db,
     statement: INSERT INTO t VALUES ($1), params: ["{id}"]}}`,
		`{tool: a, class: irreversible, scopes: ["row:/{id}"],
     sql: {database: db, statement: INSERT INTO t VALUES ($1), params: ["{id}"]}}`, Mistake},
	{"narrow-scope", `{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [/bin/rm, "{q}"]}}`,
		`{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [/bin/rm, "{p}"]}}`, Note},
	{"max-time", `{tool: a, class: irreversible, scopes: ["x:/"], max_time_ms: 60001}`,
		`{tool: a, class: irreversible, scopes: ["x:/"], max_time_ms: 60000}`, Note},
	{"retry", `{tool: a, class: irreversible, scopes: ["x:/"], retry: {attempts: 9}}`,
		`{tool: a, class: irreversible, scopes: ["x:/{k}"], key: "{k}", retry: {attempts: 9}}`, Note},
	{"no-key", `{tool: a, class: irreversible, scopes: ["x:/"]}`,
		`{tool: a, class: irreversible, scopes: ["x:/{k}"], key: "{k}"}`,
		Note},
	{"key-lacks-argument", `{tool: a, class: irreversible, scopes: ["x:/{k}/{m}"], key: "{k}"}`,
		`{tool: a, class: irreversible, scopes: ["x:/{k}/{m}"], key: "{k}/{m}"}`, Note},
	{"write-that-reads",
		`{tool: a, class: irreversible, scopes: ["x:/"], http: {method: GET, url: "https://far.example/"}}`,
		`{tool: a, class: irreversible, scopes: ["x:/"], http: {method: POST, url: "https://far.example/"}}`, Note},
	{"write-that-reads", `{tool: order.find, class: irreversible, scopes: ["x:/"]}`,
		`{tool: order.find, class: read, scopes: ["x:/"]}`, Note},
	{"read-that-writes", `{tool: a, class: read, scopes: ["x:/"], http: {method: POST, url: "https://far.example/"}}`,
		`{tool: a.search, class: read, scopes: ["x:/"], http: {method: POST, url: "https://far.example/"}}`, Mistake},
	{"compensation-without-key", `{tool: a, class: irreversible, scopes: ["x:/"], compensation: {tool: b, args: {}}}
  - {tool: b, class: reversible, scopes: ["x:/"], compensation: {tool: a2, args: {}}}
  - {tool: a2, class: known_outcome, keyed: true, scopes: ["x:/"]}`,
		`{tool: a, class: irreversible, scopes: ["x:/"], compensation: {tool: b, args: {}}}
  - {tool: b, class: known_outcome, keyed: true, scopes: ["x:/"]}`, Note},
	{"compensation-forbids-nothing", `{tool: a, class: reversible, keyed: true, scopes: ["x:/"], compensation: b}
  - {tool: b, class: known_outcome, keyed: true, scopes: ["x:/"]}`,
		`{tool: a, class: reversible, keyed: true, scopes: ["x:/"], compensation: {tool: b, forbids: true}}
  - {tool: b, class: known_outcome, keyed: true, scopes: ["x:/"]}`, Note},
	{"lookup-of-any-call", `{tool: a, class: known_outcome, keyed: true, scopes: ["x:/{id}"], http: {method: POST,
     url: "https://far.example/{id}", lookup: {url: "https://far.example/{id}"}}}`,
		`{tool: a, class: known_outcome, keyed: true, scopes: ["x:/{id}"], http: {method: POST,
     url: "https://far.example/{id}", lookup: {url: "https://far.example/{$key}"}}}`, Mistake},
	{"option", `{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [/bin/rm, "{p}"]}}`,
		`{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [/bin/rm, "--", "{p}"]}}`, Note},
	{"option", `{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [env, "--", /bin/rm, "{p}"]}}`,
		`{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [env, "--", /bin/rm, "--", "{p}"]}}`, Note},
	{"option", `{tool: a, class: irreversible, scopes: ["x:/{p}"], exec: {argv: [/bin/rm, "{p}"], options: [p]}}`, "",
		Note},
	{"eager-send", `{tool: card.charge, class: reversible, scopes: ["x:/"], compensation: u, http: {method: POST,
     url: "https://far.example/x"}}` + undoing,
		`{tool: card.charge, class: irreversible, scopes: ["x:/"], key: k, http:
     {method: POST, url: "https://far.example/x"}}` + undoing, Mistake},
	{"eager-payment", `{tool: card.charge, class: known_outcome, keyed: true, scopes: ["x:/"]}`,
		`{tool: charge.list, class: known_outcome, keyed: true, scopes: ["x:/"]}`, Note},
	{"eager-payment", `{tool: createPayment, class: reversible, scopes: ["x:/"], compensation: u}` + undoing,
		`{tool: draftPayment, class: reversible, scopes: ["x:/"], compensation: u}` + undoing, Note},
	{"eager-payment", `{tool: orders.place, class: reversible, scopes: ["x:/"], compensation: u}` + undoing,
		`{tool: order.cancel, class: reversible, scopes: ["order:/"], compensation: u}` + undoing, Note},
	{"eager-payment", `{tool: a, class: known_outcome, keyed: true, scopes: ["x:/"], http: {method: POST,
     url: "https://far.example/v1/refunds"}}`, `{tool: a, class: known_outcome, keyed: true, scopes: ["x:/"], http:
     {method: POST, url: "https://far.example/orders/{id}/address"}}`, Note},
	{"eager-payment", `{tool: a, class: reversible, scopes: ["order:/{id}/payment"], compensation: u}` + undoing,
		`{tool: a, class: read, scopes: ["order:/{id}/payment"]}`, Note},
	{"eager-payment", `{tool: pay, class: read, scopes: ["x:/"], http: {method: GET, url: "https://far.example/x"}}`,
		`{tool: payments, class: read, scopes: ["x:/"], http: {method: GET, url: "https://far.example/payments"}}`, Note},
	{"untried-compensation", `{tool: a, class: reversible, scopes: ["x:/"], compensation: u}` + undoing,
		`{tool: a, class: reversible, scopes: ["x:/"], compensation: u}` + undoing + `
cases:
  - {tool: u, args: {}, expect: {class: known_outcome}}`, Note},
	{"untried-compensation", `{tool: a, class: reversible, scopes: ["x:/"], compensation: u}` + undoing + `
cases:
  - {tool: u, args: {}, expect: {class: irreversible}}`,
		`{tool: a, class: irreversible, scopes: ["x:/"], compensation: u}` + undoing, Note},
	{"eager-payment", `{tool: a, class: irreversible, scopes: ["x:/"], compensation: refund}
  - {tool: refund, class: known_outcome, keyed: true, scopes: ["x:/"]}`,
		`{tool: a, class: irreversible, scopes: ["x:/"], compensation: refund}
  - {tool: refund, class: known_outcome, keyed: true, scopes: ["x:/"], undo_only: true}`, Note},
	{"no-compensation", `{tool: a, class: known_outcome, keyed: true, scopes: ["x:/"]}`,
		`{tool: a, class: known_outcome, keyed: true, scopes: ["x:/"], undo_only: true}`, Note},
	{"unused", `{tool: a, class: read, scopes: ["x:/"], file: {op: read, path: x}}`, "", Note},
}

// undoing is a further tool, which undoes others.
const undoing = `
  - {tool: u, class: known_outcome, keyed: true, undo_only: true, scopes: ["x:/"]}`

func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		if found := rulesOf(t, c.wrong); !slices.ContainsFunc(found, func(f Finding) bool {
			return f.Rule == c.rule && f.Severity == c.severity
		}) {
			t.Errorf("%s is not found in\n%s\nbut %v", c.rule, c.wrong, found)
		}
		if c.right == "" {
			continue
		}
		for _, f := range rulesOf(t, c.right) {
			if f.Rule == c.rule {
				t.Errorf("found in\n%s\n%s", c.right, f.Text("policy"))
			}
		}
	}
}

// A file honours keys: with one there is nothing to note about it.
func TestKeyedFile(t *testing.T) {
	for _, f := range rulesOf(t, `{tool: a, class: irreversible, scopes: ["x:/{id}"], key: "{id}",
     file: {op: append, path: x, content: "{id}"}}`) {
		if strings.Contains(f.Rule, "key") {
			t.Error(f.Text("policy"))
		}
	}
}

func rulesOf(t *testing.T, tools string) []Finding {
	t.Helper()
	p := load(t, `hosts: ["far.example:443", "far.example:80", "127.0.0.1:80"]
files: {root: .}
databases: {db: {dsn_secret: s}}
secrets: {s: {env: S}}
types:
  name: {spellings: [case, unicode]}
  glyph: {spellings: [unicode]}
  branch: {aliases: [[Main, Trunk]]}
tools:
  - `+tools+"\n")
	_, found := p.Fuzz(3, 400)
	return append(found, p.Lint()...)
}

func TestCasesThatDoNotHold(t *testing.T) {
	p := load(t, `tools:
  - {tool: a, class: irreversible, scopes: ["x:/{k}"], may: ["x:/"], key: "{k}"}
cases:
  - {tool: a, args: {k: 1}, expect: {class: read}}
  - {tool: a, args: {k: 1}, expect: {scopes: ["x:/2"]}}
  - {tool: a, args: {k: 1}, expect: {may: []}}
  - {tool: a, args: {k: 1}, expect: {key: "2"}}
  - {tool: a, args: {k: 1}, expect: {refused: anything}}
  - {tool: a, args: {}, expect: {refused: something else}}
  - {tool: a, args: {}, expect: {class: irreversible}}
  - {tool: a, args: {k: 1}, expect: {class: irreversible, scopes: ["X:/./1/"], may: ["x:/**"], key: 1}}
`)
	found := p.Test(p.Cases())
	if len(found) != 7 {
		t.Fatalf("%d of 7 are found: %v", len(found), found)
	}
	for i, f := range found {
		if f.Line != i+6 || f.Tool != "a" || f.Severity != Mistake {
			t.Errorf("case %d: %+v", i, f)
		}
	}
	for file, want := range map[string]string{
		"cases:\n  - {tool: a}\n": `has no "expect"`, "case: []\n": `write "cases"`, "": "empty", "cases: [\n": "YAML",
	} {
		if _, err := p.LoadCases([]byte(file), "more.yaml"); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "more.yaml:") {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestFuzzIsRepeatable(t *testing.T) {
	p := load(t, "tools:\n  - {tool: a, class: read, scopes: [\"mail:/{m}\", \"file:/{f}/x\"]}\n")
	n, one := p.Fuzz(5, 300)
	m, two := p.Fuzz(5, 300)
	if n != m || len(one) != 2 || !slices.Equal(one, two) {
		t.Fatalf("%d and %d rewrites found %v and %v", n, m, one, two)
	}
	if n, found := load(t, "tools: []\n").Fuzz(1, 100); n != 0 || len(found) != 0 {
		t.Fatalf("%d rewrites of nothing", n)
	}
}

func TestExplainEachClass(t *testing.T) {
	p := load(t, `tools:
  - {tool: r, class: read, scopes: ["x:/"], exec: {argv: [/bin/true]}}
  - {tool: v, class: reversible, scopes: ["x:/", "y:/"], keyed: true, compensation: {tool: k, args: {}},
     exec: {argv: [/bin/true]}}
  - {tool: b, class: bufferable, scopes: ["x:/a"], may: ["x:/"], exec: {argv: [/bin/true]}}
  - {tool: "i*", class: irreversible, key: k, exec: {argv: [/bin/true]}}
  - {tool: k, class: known_outcome, scopes: ["x:/"], keyed: true, compensation: {tool: k, args: {n: "{saved}"}},
     exec: {argv: [/bin/true]}}
  - {tool: none, class: bufferable, scopes: ["x:/"]}
`)
	for tool, want := range map[string][]string{
		"r":  {"is read (line 4)", "reads x:/", "called at once", "The exec adapter makes the call"},
		"v":  {"moves x:/ and y:/", "granted", "On abort k undoes it", "under the key <transaction>/<index>"},
		"b":  {"asks for x:/", "staged receipt", "dropped", "lists it as leaked", "at most once"},
		"ix": {`by the glob "i*" (line 8)`, "nothing that has a scope", "held receipt", "under the key k"},
		"k":  {"looked up", "and k undoes it"},
		"q":  {`refused: tool "q": no declaration serves this name`},

		"none": {"none is bufferable (line 11)", `refused: tool "none": the policy declares no adapter`},
	} {
		e := p.Explain(tool, nil)
		text := strings.Join(e.Sentences, "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in\n%s", tool, w, text)
			}
		}
	}
}
