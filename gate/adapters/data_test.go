package adapters

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// TestURLValuesStayInPlace sends values that name their place in a path, and holds back those that a server which
// decodes before it routes takes for another one.
func TestURLValuesStayInPlace(t *testing.T) {
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	send := func(path, value string) (string, error) {
		before, _ := r.seen()
		a := build(t, gate.KindHTTP, r.env("s"), gate.HTTPSpec{Method: "POST", URL: r.URL + path})
		_, err := a.Call(t.Context(), call("", string(toJSON(map[string]string{"v": value}))))
		all, _ := r.seen()
		if len(all) == len(before) {
			return "", err
		}
		return all[len(all)-1].RequestURI, err
	}
	for _, c := range []struct{ path, value, want string }{
		{"/o/{v}/charge", "7", "/o/7/charge"},
		{"/o/{v}/charge", "a/b", "/o/a%2Fb/charge"},
		{"/o/{v}/charge", "50% off; v1.2..3", "/o/50%25%20off%3B%20v1.2..3/charge"},
		{"/o/{v}/charge", ".hidden", "/o/.hidden/charge"},
		{"/o/{v}.json", "größe", "/o/gr%C3%B6%C3%9Fe.json"},
		{"/files/{v|path}", "a//b/./c", "/files/a/b/c"},
		{"/o?q={v}", "../x;y\\z", "/o?q=..%2Fx%3By%5Cz"},
		{"/o?q={v}", "", "/o?q="},
		{"/list/", "x", "/list/"},
	} {
		if got, err := send(c.path, c.value); err != nil || got != c.want {
			t.Errorf("%s of %q leaves as %q, %v; want %q", c.path, c.value, got, err, c.want)
		}
	}
	for _, value := range []string{"", ".", "..", "...", " .. ", "../../admin/refund?x=", "a/../b", "a/..", "..%2Fadmin",
		"%2e%2e/admin", "..%5Cadmin", "%252e%252e%252fadmin", "%25252525252e", `..\..\admin`, `a\b`, "..;/admin", ";x",
		"..;a=b", "/admin", "a//b", "a/", "a\r\nHost: x", "a\x00b", "a%00b",
		"a%0d%0ab", "%c0%ae%c0%ae/", "\uff0e\uff0e\uff0fadmin",
		"\u2025/admin"} {
		for _, path := range []string{"/o/{v}/charge", "/o/{v}"} {
			if got, err := send(path, value); got != "" || !errors.Is(err, gate.ErrNotSent) {
				t.Errorf("%s of %q leaves as %q, %v; want it held back", path, value, got, err)
			}
		}
	}
	for _, value := range []string{"", "/", "..", "a/../../b", "a/..%2F..%2Fb", `a/..\b`, "a/..;/b"} {
		if got, err := send("/files/{v|path}", value); got != "" || !errors.Is(err, gate.ErrNotSent) {
			t.Errorf("the path %q leaves as %q, %v; want it held back", value, got, err)
		}
	}
	for _, path := range []string{"/orders/{none?}", "/orders/{none?}/x"} {
		if got, err := send(path, "x"); got != "" || !errors.Is(err, gate.ErrNotSent) {
			t.Errorf("%s without a value leaves as %q, %v; want it held back", path, got, err)
		}
	}
	if got, err := send("/o?q={v}", "a\nb"); got != "" || !errors.Is(err, gate.ErrNotSent) {
		t.Errorf("a line break in a query leaves as %q, %v", got, err)
	}
}

// TestLookUpByAnyKey holds that a look-up asks for a key whatever it looks like, but for one that leads elsewhere.
func TestLookUpByAnyKey(t *testing.T) {
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	a := build(t, gate.KindHTTP, r.env("s"), gate.HTTPSpec{Method: "POST", URL: r.URL + "/o",
		LookUp: &gate.HTTPLookUp{URL: r.URL + "/keys/{$key}"}})
	for key, want := range map[string]string{
		"crawl/https%3A%2F%2Fx": "/keys/crawl%2Fhttps%253A%252F%252Fx", "crawl/https://x/": "/keys/crawl%2Fhttps:%2F%2Fx%2F",
		`a\b`: "/keys/a%5Cb", ";x": "/keys/%3Bx",
	} {
		before, _ := r.seen()
		got, err := a.LookUp(t.Context(), call(key, `{}`))
		all, _ := r.seen()
		if err != nil || got.Absent || len(all) != len(before)+1 || all[len(all)-1].RequestURI != want {
			t.Errorf("the key %q is looked up as %+v, %v, want %s", key, all[len(before):], err, want)
		}
	}
	for _, key := range []string{".", "..", "a/../b", "a\nb"} {
		if err := a.(gate.Checker).Check(call(key, `{}`)); err == nil {
			t.Errorf("the key %q is fit for the look-up's URL", key)
		}
		if _, err := a.LookUp(t.Context(), call(key, `{}`)); err == nil {
			t.Errorf("the key %q is looked up", key)
		}
	}
}

// TestExecOptions holds that an argument becomes an option of a program only where that is declared.
func TestExecOptions(t *testing.T) {
	proof := filepath.Join(t.TempDir(), "proof")
	value := string(toJSON(map[string]string{"v": "--output=" + proof}))
	for _, c := range []struct {
		name string
		spec gate.ExecSpec
		args string
		sent bool
	}{
		{"at the start", gate.ExecSpec{Argv: []string{"sort", "{v}", "/dev/null"}}, value, false},
		{"a lone dash", gate.ExecSpec{Argv: []string{"sort", "{v}"}}, `{"v":"-"}`, false},
		{"behind one that is left out", gate.ExecSpec{Argv: []string{"echo", "{none?}{v}"}}, value, false},
		{"in a look-up's place", gate.ExecSpec{Argv: []string{"echo"}, LookUp: &gate.ExecLookUp{
			Argv: []string{"sort", "{v}"}}}, value, true},
		{"behind --", gate.ExecSpec{Argv: []string{"echo", "--", "{v}"}}, value, true},
		{"behind the -- of a wrapper", gate.ExecSpec{Argv: []string{"env", "--", "sort", "{v}", "/dev/null"}}, value, false},
		{"behind its own --, too", gate.ExecSpec{Argv: []string{"env", "--", "echo", "--", "{w?}", "{v}"}}, value, true},
		{"behind text", gate.ExecSpec{Argv: []string{"echo", "x{v}"}}, value, true},
		{"declared", gate.ExecSpec{Argv: []string{"echo", "{v}"}, Options: []string{"v"}}, value, true},
		{"another is declared", gate.ExecSpec{Argv: []string{"echo", "{w?}", "{v}"}, Options: []string{"w"}}, value, false},
		{"behind a declared one that is left out", gate.ExecSpec{Argv: []string{"echo", "{w?}{v}"},
			Options: []string{"w"}}, value, false},
		{"behind a declared one", gate.ExecSpec{Argv: []string{"echo", "{w}{v}"}, Options: []string{"w"}},
			`{"v":"-x","w":"-y"}`, true},
		{"a number", gate.ExecSpec{Argv: []string{"echo", "{v}"}}, `{"v":-1}`, false},
	} {
		a := build(t, gate.KindExec, gate.Env{}, c.spec)
		_, err := a.Call(t.Context(), call("k", c.args))
		if c.sent && err != nil || !c.sent && (!errors.Is(err, gate.ErrNotSent) || !strings.Contains(err.Error(), `"--"`)) {
			t.Errorf("%s: %v; want it sent: %v", c.name, err, c.sent)
		}
		if c.spec.LookUp != nil {
			if _, err := a.LookUp(t.Context(), call("k", c.args)); !errors.Is(err, gate.ErrNotSent) {
				t.Errorf("%s: the look-up runs: %v", c.name, err)
			}
		}
	}
	if _, err := os.Stat(proof); err == nil {
		t.Error("an argument made a program write a file")
	}
}

// TestMessageIDs holds that a mail has one name however often it is sent, and that no other mail has it.
func TestMessageIDs(t *testing.T) {
	const from = "shop@example.com"
	seen := map[string]gate.Call{}
	for _, c := range []gate.Call{
		{Tool: "mail", Tx: "a.1.1", Origin: gate.Origin("log", "x")},
		{Tool: "mail", Tx: "a.1.1", Origin: gate.Origin("log", "y")},
		{Tool: "mail", Tx: "a.1.1", Origin: gate.Origin("log anew", "x")},
		{Tool: "mail", Tx: "a.1.1", Origin: gate.Origin("log", "x"), Index: 1},
		{Tool: "sorry", Tx: "a.1.1", Origin: gate.Origin("log", "x")}, // compensates the first, without a key
		{Tool: "mail", Tx: "a.1.1", Origin: gate.Origin("log", "x"), Key: "order/7"},
		{Tool: "mail", Tx: "a.1.1", Origin: gate.Origin("log", "y"), Key: "order/7"},
	} {
		id := MessageID(c, from)
		if other, ok := seen[id]; ok {
			t.Errorf("%+v and %+v are both %s", c, other, id)
		}
		seen[id] = c
		if again := MessageID(c, from); again != id {
			t.Errorf("%+v is %s and then %s", c, id, again)
		}
	}
	one := MessageID(gate.Call{Tx: "a.1.1", Key: "order/7", Origin: "o"}, from)
	if other := MessageID(gate.Call{Tx: sequencer.TxID("a.1.2"), Key: "order/7", Origin: "o"}, from); one != other {
		t.Errorf("the next attempt under one key is %s, and was %s", other, one)
	}
}

// TestSecretsInAnswers takes secrets out of what a sink says, and leaves alone what the compensation is made of.
func TestSecretsInAnswers(t *testing.T) {
	const answer = `{"former_owner":"shopkeep","n":12345678,"rows":[{"by":"shopkeep","id":9}],` +
		`"echo":{"shopkeep":"user shopkeep"},"shopkeep":1}`
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	spec := gate.HTTPSpec{Method: "POST", URL: r.URL + "/o", Headers: map[string]string{"X-User": "{$secret.user}"},
		LookUp: &gate.HTTPLookUp{URL: r.URL + "/keys/{$key}"}}
	for _, c := range []struct {
		name, secret string
		keep         [][]string
		want         string
	}{
		{"nothing is kept", "shopkeep", nil, `{"[secret]":1,"echo":{"[secret]":"user [secret]"},` +
			`"former_owner":"[secret]","n":12345678,"rows":[{"by":"[secret]","id":9}]}`},
		{"what the compensation names is kept", "shopkeep", [][]string{{"former_owner"}, {"rows", "0", "by"}},
			`{"[secret]":1,"echo":{"[secret]":"user [secret]"},"former_owner":"shopkeep","n":12345678,` +
				`"rows":[{"by":"shopkeep","id":9}]}`},
		{"all of it is kept", "shopkeep", [][]string{{}}, `{"echo":{"shopkeep":"user shopkeep"},` +
			`"former_owner":"shopkeep","n":12345678,` +
			`"rows":[{"by":"shopkeep","id":9}],"shopkeep":1}`},
		{"a number", "12345678", nil, `{"echo":{"shopkeep":"user shopkeep"},"former_owner":"shopkeep","n":"[secret]",` +
			`"rows":[{"by":"shopkeep","id":9}],"shopkeep":1}`},
		{"none is in it", "s3cret-s3cret", nil, answer},
		{"a short one is a word", "user", nil, answer},
	} {
		a, err := Build(gate.Decl{Tool: "t", Kind: gate.KindHTTP, Spec: toJSON(spec), Env: r.env(c.secret), Keep: c.keep})
		if err != nil {
			t.Fatal(err)
		}
		if got := must(t, a, call("k", `{}`)); string(got.Result) != c.want {
			t.Errorf("%s: kept is %s\nwant %s", c.name, got.Result, c.want)
		}
		if got, err := a.LookUp(t.Context(), call("k", `{}`)); err != nil || string(got.Result) != c.want {
			t.Errorf("%s: looked up, kept is %s, %v\nwant %s", c.name, got.Result, err, c.want)
		}
	}
}

// TestSecretsAtTheCut holds that a secret where a sink's words are cut off is taken out as a whole.
func TestSecretsAtTheCut(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	env := gate.Env{Secret: func(string) (string, error) { return secret, nil }}
	said := string(toJSON(map[string]string{"said": strings.Repeat("x", MaxDetail-len("exit code 3: ")-len(secret)/2)}))
	for _, code := range []string{"3", "4"} {
		got, err := build(t, gate.KindExec, env, gate.ExecSpec{Refused: []int{3},
			Env:  map[string]string{"PASSWORD": "{$secret.password}"},
			Argv: []string{"sh", "-c", `printf '%s%s' "$1" "$PASSWORD" >&2; exit "$2"`, "--", "{said}", code}}).
			Call(t.Context(), call("k", said))
		if text := got.Detail + fmt.Sprint(err); !strings.Contains(text, "xxx") || strings.Contains(text, "hunter") {
			t.Errorf("it is shown as %q", text)
		}
	}
	status := http.StatusBadRequest
	r := record(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, strings.Repeat("x", MaxDetail-len("127.0.0.1:12345 answered 400: ")-len(secret)/2))
		fmt.Fprint(w, req.Header.Get("X-Key"))
	})
	post := build(t, gate.KindHTTP, r.env(secret), gate.HTTPSpec{Method: "POST", URL: r.URL + "/o",
		Headers: map[string]string{"X-Key": "{$secret.key}"}})
	for _, status = range []int{http.StatusBadRequest, http.StatusBadGateway} {
		got, err := post.Call(t.Context(), call("k", `{}`))
		if text := got.Detail + fmt.Sprint(err); !strings.Contains(text, "xxx") || strings.Contains(text, "hunter") {
			t.Errorf("%d is shown as %q", status, text)
		}
	}
}

// TestSinksSayPlainText holds that nothing of what a sink says can move a cursor, add a row or hide itself: in the
// details of refusals and in errors.
func TestSinksSayPlainText(t *testing.T) {
	const forged = "no\x1b[1A\x1b[2Kforged\nrow \u202egnp \u009b2K"
	status := http.StatusBadRequest
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, forged) })
	post := build(t, gate.KindHTTP, r.env("s"), gate.HTTPSpec{Method: "POST", URL: r.URL + "/o"})
	refused, err := post.Call(t.Context(), call("k", `{}`))
	if err != nil || !refused.Refused {
		t.Fatalf("%+v, %v", refused, err)
	}
	status = http.StatusBadGateway
	_, unknown := post.Call(t.Context(), call("k", `{}`))
	program := func(code string) gate.Adapter {
		return build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{Refused: []int{3},
			Argv: []string{"sh", "-c", `printf '%s' "$1" >&2; exit "$2"`, "--", "{said}", code}})
	}
	said := string(toJSON(map[string]string{"said": forged}))
	no, err := program("3").Call(t.Context(), call("k", said))
	if err != nil || !no.Refused {
		t.Fatalf("%+v, %v", no, err)
	}
	_, failed := program("4").Call(t.Context(), call("k", said))
	file, err := build(t, gate.KindFile, gate.Env{Root: t.TempDir()}, gate.FileSpec{Op: gate.OpDelete, Path: "{said}"}).
		Call(t.Context(), call("k", said))
	if err != nil || !file.Refused {
		t.Fatalf("%+v, %v", file, err)
	}
	for what, text := range map[string]string{"a refusal": refused.Detail, "an error": fmt.Sprint(unknown),
		"an exit code": no.Detail, "a failure": fmt.Sprint(failed), "a file": file.Detail} {
		if !strings.Contains(text, "forged row") || text != gate.Plain(text) {
			t.Errorf("%s is shown as %q", what, text)
		}
	}
}

// A secret with a slash is known again in JSON as PHP writes it.
func TestSecretWithASlash(t *testing.T) {
	var s secrets
	s.hide("ab/cdefgh")
	if got := s.clean(`refused: "ab\/cdefgh"`); strings.Contains(got, "cdefgh") {
		t.Errorf("it is shown: %s", got)
	}
}
