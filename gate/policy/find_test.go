package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

var _ gate.Tools = (*Policy)(nil)

func load(tb testing.TB, text string) *Policy {
	tb.Helper()
	p, err := Load([]byte(head+text), Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestNotServed holds that a name which nothing declares has no class, whatever "strict" says, and that the refusal
// names what may have been meant.
func TestNotServed(t *testing.T) {
	const tools = `tools:
  - {tool: note.write, class: irreversible, scopes: ["a:/"]}
  - {tool: "crm.*", class: irreversible, scopes: ["a:/"]}
  - {tool: note.wrote, class: known_outcome, keyed: true, undo_only: true, scopes: ["a:/"]}
`
	for _, strict := range []string{"", "strict: true\n", "strict: false\n"} {
		p := load(t, strict+tools)
		for name, want := range map[string]string{
			"note.wrtie": "write note.write, or declare it in the policy",
			"mail.send":  "declare it in the policy, which serves note.write, crm.*",
			"crm":        "which serves", "": "which serves", "..": "which serves", "a\x00": "which serves",
		} {
			_, err := p.Find(name, nil)
			if !errors.Is(err, gate.ErrNotServed) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s%q: %v; want %q", strict, name, err, want)
			}
			if may := p.MayCall(name); may == nil || may.Error() != err.Error() {
				t.Errorf("%s%q may be called: %v", strict, name, may)
			}
			if _, err := p.Adapter(name); !errors.Is(err, ErrNoAdapter) {
				t.Error(err)
			}
			if _, err := p.Undo(gate.Effect{Tool: gate.Tool{Name: name}}, gate.Answer{}); !errors.Is(err, ErrNoCompensation) {
				t.Error(err)
			}
		}
		if err := p.MayCall("crm.add"); err != nil {
			t.Errorf("%sby the glob: %v", strict, err)
		}
	}
	_, err := load(t, "tools: []\n").Find("x", nil)
	if err == nil || !strings.HasSuffix(err.Error(), "declare it in the policy") {
		t.Errorf("of an empty policy: %v", err)
	}
	many := "tools:\n"
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		many += "  - {tool: " + strings.Repeat(name, 9) + ", class: read, scopes: [\"a:/\"]}\n"
	}
	if _, err = load(t, many).Find("x", nil); err == nil || !strings.HasSuffix(err.Error(), "eeeeeeeee and 2 others") {
		t.Errorf("of a long policy: %v", err)
	}
}

// TestUnclassed holds what "strict: false" means: what is served and says no class is irreversible, under its
// declaration's own scope.
func TestUnclassed(t *testing.T) {
	const tools = "tools:\n  - {tool: \"crm.*\", http: {method: GET, url: \"https://h.example/\"}}\n" +
		"  - {tool: a, args: [x], scopes: [\"x:/{x}\"], http: {method: POST, url: \"https://h.example/\"}}\n" +
		"hosts: [\"h.example:443\"]\n"
	p := load(t, "strict: false\n"+tools)
	for name, scope := range map[string]sequencer.Scope{"crm.add": "tool:/crm.%2A", "a": "x:/1"} {
		tool, err := p.Find(name, json.RawMessage(`{"x":1}`))
		if err != nil || tool.Class != sequencer.ClassIrreversible || !slices.Equal(tool.Scopes, []sequencer.Scope{scope}) ||
			tool.Pin == nil {
			t.Errorf("%s: %+v, %v", name, tool, err)
		}
	}
	e := p.Explain("crm.add", nil)
	if want := `crm.add is irreversible, by the glob "crm.*" (line 5, which says no class).`; e.Sentences[0] != want {
		t.Errorf("it is explained by %q, want %q", e.Sentences[0], want)
	}
	for _, text := range []string{tools, "strict: true\n" + tools} {
		_, err := Load([]byte(head+text), Options{})
		if err == nil || strings.Count(err.Error(), `has no "class": add it, or write "strict: false"`) != 2 {
			t.Errorf("with strict as the default: %v", err)
		}
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	p := load(t, "tools:\n  - {tool: a, class: irreversible, scopes: [\"a:/{x}\"]}\n")
	for _, args := range []string{
		"", "[]", "null", `"x"`, "{", `{"x":1} {}`, `{"x":1,"x":2}`, `{"y":{"x":1,"x":2},"x":1}`, `{"x":{}}`,
		`{"x":1e999999999}`, `{"x":1,"$key":"mine"}`,
		`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", `{"x":"` + strings.Repeat("x", 2000) + `"}`,
	} {
		if _, err := p.Find("a", json.RawMessage(args)); !errors.Is(err, ErrArguments) {
			t.Errorf("%.60s: %v", args, err)
		}
	}
}

func TestMay(t *testing.T) {
	p := load(t, `tools:
  - {tool: a, class: irreversible, scopes: ["a:/{x}/{y}"], may: ["a:/{z}"]}
  - {tool: r, class: read, scopes: ["a:/{x}"]}
  - {tool: u, class: known_outcome, keyed: true, undo_only: true, scopes: ["a:/{x}"]}
`)
	wants, err := p.May("a", json.RawMessage(`{"x":"1","y":"2","z":"1"}`))
	if err != nil || !slices.Equal(wants, []sequencer.Want{{Scope: "a:/1", Access: sequencer.WriteAccess}}) {
		t.Errorf("%v, %v", wants, err)
	}
	if _, err := p.Find("a", json.RawMessage(`{"x":"1","y":"2","z":"2"}`)); !errors.Is(err, ErrOutsideMay) {
		t.Error(err)
	}
	wants, err = p.May("r", json.RawMessage(`{"x":"1"}`))
	if err != nil || !slices.Equal(wants, []sequencer.Want{{Scope: "a:/1", Access: sequencer.ReadAccess}}) {
		t.Errorf("%v, %v", wants, err)
	}
	if _, err := p.May("u", json.RawMessage(`{"x":"1"}`)); !errors.Is(err, ErrUndoOnly) {
		t.Error(err)
	}
	if _, err := p.Find("u", json.RawMessage(`{"x":"1"}`)); err != nil {
		t.Error("the gate cannot ask about a compensation:", err)
	}
}

func TestUndoBuildsItsArguments(t *testing.T) {
	p := load(t, `tools:
  - {tool: a, class: reversible, scopes: ["a:/{x}"], compensation: {tool: b, args: {x: "{args.x}",
     n: "{result.rows.0.n}", text: "was {saved}", deep: [{k: "{result.k?}"}, 1.5], none: "{result.none?}"}}}
  - {tool: b, class: known_outcome, keyed: true, scopes: ["a:/{x}"]}
  - {tool: c, class: reversible, scopes: ["a:/{x}"], compensation: d}
  - {tool: d, class: reversible, scopes: ["a:/{x}"], max_time_ms: 70, compensation: c,
     sql: {database: db, statement: SELECT 1}}
databases: {db: {dsn_secret: s}}
secrets: {s: {env: NO}}
`)
	e := gate.Effect{Tx: "t", Index: 2, Tool: gate.Tool{Name: "a"}, Key: "t/2", Traceparent: "tp",
		Args: json.RawMessage(`{"x":17}`)}
	a := gate.Answer{Result: json.RawMessage(`{"rows":[{"n":12345678901234567890}]}`), Saved: json.RawMessage(`"blue"`)}
	c, err := p.Undo(e, a)
	if err != nil || string(c.Args) != `{"deep":[{},1.5],"n":12345678901234567890,"text":"was blue","x":17}` {
		t.Fatalf("%s, %v", c.Args, err)
	}
	if c.Key == "" || c.Compensates != "t/2" || string(c.Saved) != `"blue"` || c.Traceparent != "tp" ||
		c.Index != 2 {
		t.Fatalf("%+v", c)
	}
	if _, err := p.Undo(e, gate.Answer{}); !errors.Is(err, ErrArguments) {
		t.Fatalf("a compensation without the answer that it is made of: %v", err)
	}
	e.Tool.Name = "c"
	if c, err = p.Undo(e, gate.Answer{}); err != nil || string(c.Args) != `{"x":17}` || c.Key != "" {
		t.Fatalf("%+v, %v", c, err)
	}
	if tool, err := p.Find("d", e.Args); err != nil || tool.MaxTime != 70*time.Millisecond {
		t.Fatalf("%+v, %v", tool, err)
	}
}

// TestShape: no value changes the shape of a scope, and two values that differ never give one scope or one key.
func TestShape(t *testing.T) {
	p := load(t, "tools:\n  - {tool: a, class: irreversible, scopes: [\"a:/x/{v}/{w}/y\"], key: \"{v}/{w}\"}\n")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom(hostile()))
		find := func(v, w string) (gate.Tool, error) {
			return p.Find("a", asJSON(map[string]any{"v": v, "w": w}))
		}
		v, w, v2, w2 := text.Draw(t, "v"), text.Draw(t, "w"), text.Draw(t, "v2"), text.Draw(t, "w2")
		one, err := find(v, w)
		if err != nil {
			return
		}
		s := one.Scopes[0]
		if segments := s.Segments(); len(segments) != 4 || segments[0] != "x" || segments[3] != "y" || s.HasStar() {
			t.Fatalf("%q and %q give %s", v, w, s)
		}
		other, err := find(v2, w2)
		if err == nil && (v != v2 || w != w2) && (other.Scopes[0].Overlaps(s) || other.Key == one.Key) {
			t.Fatalf("%q, %q and %q, %q give %s and %s, %s and %s", v, w, v2, w2, s, other.Scopes[0], one.Key, other.Key)
		}
	})
}

func TestSignatures(t *testing.T) {
	base := "tools:\n  - {tool: a, class: reversible, args: [x, y], scopes: [\"a:/{x}\", \"b:/\"], compensation: b, " +
		"max_time_ms: 5}\n" +
		"  - {tool: b, class: known_outcome, keyed: true, scopes: [\"a:/{x}\"]}\n"
	of := func(text string) string {
		server, tools := load(t, text).Catalogue()
		if server != "s" || len(tools) != 2 || tools[0].Name != "a" || len(tools[0].Signature) != 64 {
			t.Fatalf("%s, %v", server, tools)
		}
		return tools[0].Signature
	}
	want := of(base)
	for _, same := range []string{"# a comment\n" + base, strings.Replace(base, "[x, y]", "[y, x]", 1),
		strings.Replace(base, `"a:/{x}", "b:/"`, `"b:/", 'a:/{x}'`, 1)} {
		if of(same) != want {
			t.Errorf("another signature for\n%s", same)
		}
	}
	for _, change := range [][2]string{{"max_time_ms: 5", "max_time_ms: 6"}, {"[x, y]", "[x, y?]"}, {`"b:/"`, `"b:/c"`},
		{"keyed: true", "keyed: true, undo_only: true"}, {", max_time_ms: 5", ", cost: 1, max_time_ms: 5"}} {
		if of(strings.Replace(base, change[0], change[1], 1)) == want {
			t.Errorf("%v does not change the signature", change)
		}
	}
}

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.txt"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HENCE_TEST_SECRET", "hunter3")
	p, err := Load([]byte(head+"tools: []\n"+
		"secrets: {a: {file: s.txt}, b: {env: HENCE_TEST_SECRET}, c: {env: HENCE_TEST_NONE}, d: {file: no}}\n"),
		Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "hunter2", "b": "hunter3"} {
		if got, err := p.env.Secret(name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"c", "d", "e"} {
		if _, err := p.env.Secret(name); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %s", p, p.secrets, p.secrets["a"]); strings.Contains(text, "hunter") {
		t.Errorf("a secret is printed: %s", text)
	}
}

func TestGlobs(t *testing.T) {
	alphabet := []rune("ab*?")
	names := allNames()
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 5, -1)
		name := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 6, -1)
		a, b, n := glob.Draw(t, "a"), glob.Draw(t, "b"), name.Draw(t, "n")
		if match(a, n) && match(b, n) && !overlap(a, b) {
			t.Fatalf("%q and %q both match %q and do not overlap", a, b, n)
		}
		if overlap(a, b) != overlap(b, a) {
			t.Fatalf("overlap of %q and %q depends on the order", a, b)
		}
		if overlap(a, b) && !slices.ContainsFunc(names, func(n string) bool { return match(a, n) && match(b, n) }) {
			t.Fatalf("%q and %q overlap, and no name is matched by both", a, b)
		}
	})
}

// allNames are the names of up to 10 letters a and b: longer ones match no two globs of 5 characters that no shorter
// one does.
func allNames() []string {
	out := []string{""}
	for from := 0; len(out[len(out)-1]) < 10; {
		to := len(out)
		for _, n := range out[from:to] {
			out = append(out, n+"a", n+"b")
		}
		from = to
	}
	return out
}

func BenchmarkFind(b *testing.B) {
	p := example(b)
	args := json.RawMessage(`{"order_id":"W17","kind":"confirmation","to":"a@example.com","text":"Thank you."}`)
	for b.Loop() {
		if _, err := p.Find("mail.send", args); err != nil {
			b.Fatal(err)
		}
	}
}

func asJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// TestUndoForbidsAndKeeps holds which sinks are taken to forbid a key, and which parts of an answer an adapter is told
// to leave as they are.
func TestUndoForbidsAndKeeps(t *testing.T) {
	kept := map[string]string{}
	p, err := Load([]byte(`version: 1
server: shop
hosts: ["h.example:443"]
databases: {db: {dsn_secret: s}, other: {dsn_secret: s}}
secrets: {s: {env: DSN}}
tools:
  - {tool: foreign, class: reversible, keyed: true, scopes: ["a:/"], http: {method: POST, url: "https://h.example/x"},
     compensation: {tool: back, args: {owner: "{result.former.owner}", n: "{result.rows.0?}", x: "{saved.y?}"}}}
  - {tool: ours, class: reversible, keyed: true, scopes: ["a:/"], http: {method: POST, url: "https://h.example/x"},
     compensation: {tool: back, args: {owner: "{result}"}, forbids: true}}
  - {tool: row, class: reversible, keyed: true, scopes: ["a:/"], sql: {database: db, statement: DELETE FROM t},
     compensation: {tool: row.back, args: {}}}
  - {tool: unkeyed, class: reversible, scopes: ["a:/"], sql: {database: db, statement: DELETE FROM t},
     compensation: {tool: row.back, args: {}}}
  - {tool: elsewhere, class: reversible, keyed: true, scopes: ["a:/"], compensation: {tool: row.back, args: {}},
     sql: {database: other, statement: DELETE FROM t}}
  - {tool: back, class: known_outcome, keyed: true, scopes: ["a:/"], http: {method: POST, url: "https://h.example/y"}}
  - {tool: row.back, class: known_outcome, keyed: true, scopes: ["a:/"],
     sql: {database: db, statement: INSERT INTO t VALUES (1)}}
`), Options{Build: func(d gate.Decl) (gate.Adapter, error) {
		kept[d.Tool] = fmt.Sprint(d.Keep)
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]bool{"foreign": false, "ours": true, "row": true, "unkeyed": false,
		"elsewhere": false, "back": false} {
		if got, err := p.Find(tool, nil); err != nil || got.Forbids != want {
			t.Errorf("%s forbids: %v, %v; want %v", tool, got.Forbids, err, want)
		}
	}
	for tool, want := range map[string]string{"foreign": "[[rows 0] [former owner]]", "ours": "[[]]", "row": "[]",
		"back": "[]"} {
		if kept[tool] != want {
			t.Errorf("of what %s answers %s is kept, want %s", tool, kept[tool], want)
		}
	}
}
