package policy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// seed is one mistake in the annotations of the example: a text of it and what is written instead.
type seed struct {
	name     string
	old, new string
	by       string // load, lint or fuzz
	rule     string // what it is named
	tool     string
}

// order is the declaration of order.cancel from its scopes on. A seed that changes nothing is one of added.
const order = `scopes: ["order:/{order_id|lower}/status"]
    keyed: true
    compensation:`

var seeds = []seed{
	// Scopes that are too narrow.
	{"scope without the order", order, strings.Replace(order, "{order_id|lower}", "{reason}", 1), "load",
		"missing-argument", "order.cancel"},
	{"no scope",
		order, strings.Replace(order, `"order:/{order_id|lower}/status"`, "", 1), "lint", "no-scope", "order.cancel"},
	{"read without scope", `    scopes: ["order:/{order_id|lower}"]
    http: {method: GET`, `    http: {method: GET`, "lint", "no-scope", "order.get"},
	{"other part of the order", order, strings.Replace(order, "/status", "/state", 1), "lint", "compensation-beyond",
		"order.cancel"},
	{"other type for the order",
		order, strings.Replace(order, `"order:`, `"orders:`, 1), "lint", "two-names", "order.cancel"},
	{"read of another resource",
		`scopes: ["order:/{order_id|lower}"]`, `scopes: ["customer:/{order_id|lower}"]`, "lint",
		"two-names", "order.cancel"},
	{"the recipient is not in the scopes", `"mail:/{to|mail}", "order`, `"order`, "lint", "narrow-scope", "mail.send"},
	{"the file is named by its content", `scopes: ["file:/{path|path}"]
    compensation`, `scopes: ["file:/{content}"]
    compensation`, "lint", "narrow-scope", "file.write"},
	{"the row is named by its value", `scopes: ["order:/{order_id|lower}/address"]
    may`, `scopes: ["order:/{address}/address"]
    may`, "lint", "narrow-scope", "order.change_address"},
	{"an id in the arguments only", `args: [order_id, cents]
    scopes: ["order:/{order_id|lower}/payment"]
    key`, `args: [order_id, cents, account_id]
    scopes: ["order:/{order_id|lower}/payment"]
    key`, "lint", "ignored-argument", "payment.charge"},
	{"may that does not hold the scope",
		`may: ["order:/{order_id|lower}"]`, `may: ["order:/{order_id|lower}/status"]`, "lint",
		"may", "order.change_address"},
	{"a charge in another type", `scopes: ["order:/{order_id|lower}/payment"]
    key`, `scopes: ["payment:/{order_id|lower}"]
    key`, "lint", "compensation-beyond", "payment.charge"},
	// Names that are spelled in more than one way.
	{"address as it is written", `mail:/{to|mail}`, `mail:/{to}`, "fuzz", "alias", "mail.send"},
	{"address in lower case only", `mail:/{to|mail}`, `mail:/{to|lower}`, "fuzz", "alias", "mail.send"},
	{"path as it is written", `scopes: ["file:/{path|path}"]
    compensation`, `scopes: ["file:/{path}"]
    compensation`, "fuzz", "alias", "file.write"},
	{"order as it is written", order, strings.Replace(order, "|lower", "", 1), "fuzz", "alias", "order.cancel"},
	{"order as it is written, in one tool of an exact type",
		"types:\n  order: {spellings: [case]} # W17 and w17 are one order\n",
		"", "fuzz", "", ""},
	{"key as it is written", `key: "charge/{order_id|lower}"`, `key: "charge/{order_id}"`, "fuzz", "alias-key",
		"payment.charge"},
	// Wrong classes.
	{"a mail that is a read",
		"tool: mail.send\n    class: irreversible", "tool: mail.send\n    class: read", "load", "key",
		"mail.send"},
	{"a mail that is eager", `tool: mail.send
    class: irreversible
    args: [order_id, kind, to, text]`, `tool: mail.send
    class: known_outcome
    keyed: true
    args: [order_id, kind, to, text]`, "load", "key", "mail.send"},
	{"a mail that is eager, without a business key", `key: "mail/{order_id|lower}/{kind|lower}/{to|mail}"
    smtp`, "keyed: true\n    smtp", "load", "key", "mail.send"},
	{"a charge that is reversible", "tool: payment.charge\n    class: irreversible",
		"tool: payment.charge\n    class: reversible", "load", "key", "payment.charge"},
	{"a POST that is a read", order, order, "lint", "read-that-writes", "order.close"},
	{"an UPDATE that is a read", order, order, "lint", "read-that-writes", "row.touch"},
	{"a file that is deleted by a read", order, order, "lint", "read-that-writes", "file.drop"},
	{"a program named send that is reversible", order, order, "lint", "eager-send", "fax.send"},
	{"a name that says delete and a read", order, order, "lint", "read-that-writes", "user.delete"},
	{"every unknown tool is a read", order, order, "lint", "broad-glob", "*"},
	{"a mail that is reversible", order, order, "lint", "eager-mail", "mail.now"},
	// Compensations.
	{"reversible without compensation",
		"    compensation: {tool: file.restore, args: {path: \"{args.path}\"}}\n", "", "load",
		"no-compensation", "file.write"},
	{"compensation that nobody declared", "tool: file.restore, args", "tool: file.putback, args", "load",
		"unknown-compensation", "file.write"},
	{"compensation that is held",
		"tool: payment.refund\n    class: known_outcome", "tool: payment.refund\n    class: irreversible",
		"load", "compensation-class", "payment.charge"},
	{"compensation that is not given the order", `args: {order_id: "{args.order_id}", cents: "{args.cents}"}`,
		`args: {cents: "{args.cents}"}`, "load", "missing-argument", "payment.charge"},
	{"compensation that writes the new value again",
		`address: "{saved.0.address}"`, `address: "{args.address}"`, "lint",
		"compensation-forgets", "order.change_address"},
	{"compensation of another order", `args: {order_id: "{args.order_id}", status: "{result.former_status}"}`,
		`args: {order_id: "{result.order_id}", status: "{result.former_status}"}`, "lint", "compensation-beyond",
		"order.cancel"},
	{"compensation without adapter",
		"    file: {op: restore}\n", "", "lint", "compensation-without-adapter", "file.write"},
	// Keys.
	{"one key for all", `key: "charge/{order_id|lower}"`, `key: "charge"`, "lint", "constant-key", "payment.charge"},
	{"key of the amount", `key: "charge/{order_id|lower}"`, `key: "charge/{cents}"`, "lint", "key-of-other-things",
		"payment.charge"},
}

// added are the wrong declarations that are not a change of one that is there.
const added = `
  - {tool: order.close, class: read, args: [order_id], scopes: ["order:/{order_id|lower}"], http: {method: POST,
     url: "http://127.0.0.1:7480/orders/{order_id|lower}/close"}}
  - {tool: row.touch, class: read, args: [id], scopes: ["order:/{id|lower}"], sql: {database: shop,
     statement: "WITH x AS (UPDATE orders SET n = n + 1 WHERE id = $1 RETURNING n) SELECT n FROM x", params: ["{id}"]}}
  - {tool: file.drop, class: read, args: [path], scopes: ["file:/{path|path}"], file: {op: delete, path: "{path}"}}
  - {tool: fax.send, class: reversible, args: [number], scopes: ["fax:/{number}"], compensation: {tool: fax.recall,
     args: {number: "{result.number}"}}}
  - {tool: fax.recall, class: known_outcome, keyed: true, undo_only: true, args: [number], scopes: ["fax:/{number}"]}
  - {tool: user.delete, class: read, args: [user_id], scopes: ["user:/{user_id}"]}
  - {tool: "*", class: read, scopes: ["all:/"]}
  - {tool: mail.now, class: reversible, args: [to], scopes: ["mail:/{to|mail}"], compensation: {tool: mail.recall,
     args: {to: "{result.to}"}}, smtp: {to: "{to}", subject: s, text: t}}
  - {tool: mail.recall, class: known_outcome, keyed: true, undo_only: true, args: [to], scopes: ["mail:/{to|mail}"]}
`

// TestSeededMistakes: each wrong annotation is named, at load, by lint or by the fuzzer.
func TestSeededMistakes(t *testing.T) {
	data, err := os.ReadFile("../../docs/examples/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seeds {
		t.Run(s.name, func(t *testing.T) {
			text := string(data)
			if s.old != s.new {
				if !strings.Contains(text, s.old) {
					t.Fatalf("the example does not have %q", s.old)
				}
				text = strings.Replace(text, s.old, s.new, 1)
			} else {
				text = strings.Replace(text, "\ncases:", added+"\ncases:", 1)
			}
			found := findings(t, text, s.by == "fuzz")[s.by]
			if s.rule == "" {
				if len(found) > 0 {
					t.Fatalf("found %v in a policy that is consistent", found)
				}
				return
			}
			if !slices.ContainsFunc(found, func(f Finding) bool {
				return f.Rule == s.rule && f.Tool == s.tool && f.Severity == Mistake && f.Line > 0
			}) {
				t.Fatalf("%s does not name it %s of %s; it found %v", s.by, s.rule, s.tool, found)
			}
		})
	}
	if n := len(seeds); n < 24 {
		t.Fatalf("only %d seeds", n)
	}
}

func findings(t *testing.T, text string, fuzz bool) map[string][]Finding {
	t.Helper()
	p, err := Load([]byte(text), Options{})
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return map[string][]Finding{"load": refusal.Findings}
	}
	if err != nil {
		t.Fatal(err)
	}
	if !fuzz {
		return map[string][]Finding{"lint": p.Lint()}
	}
	_, fuzzed := p.Fuzz(7, 600)
	return map[string][]Finding{"lint": p.Lint(), "fuzz": fuzzed}
}

// TestTooBroadIsSafe: scopes that hold more than the call moves are not called mistakes.
func TestTooBroadIsSafe(t *testing.T) {
	data, err := os.ReadFile("../../docs/examples/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`/status"]`, `"]`}, {`"order:/{order_id|lower}/address"`, `"order:/{order_id|lower}"`},
		{`"order:/{order_id|lower}`, `"order:/*`},
		{`"mail:/{to|mail}", "order`, `"mail:/**", "order`}, {`"file:/{path|path}"`, `"file:/"`},
		{`may: ["order:/{order_id|lower}"]`, `may: ["order:/"]`}, {`scopes: ["order:/{order_id|lower}/payment"]`,
			`scopes: ["order:/{order_id|lower}"]`},
	} {
		text := strings.ReplaceAll(string(data), change[0], change[1])
		if text == string(data) {
			t.Fatalf("the example does not have %q", change[0])
		}
		for by, found := range findings(t, text, true) {
			for _, f := range found {
				if f.Severity == Mistake {
					t.Errorf("%s in place of %s: %s: %s", change[1], change[0], by, f.Text("policy"))
				}
			}
		}
	}
}
