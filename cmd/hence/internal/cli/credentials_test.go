package cli

import (
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The operator's token is the given one, that of a file, or one that is made once in the data folder, for its owner
// alone; without a folder there is none.
func TestOperatorToken(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	dir := filepath.Join(t.TempDir(), "not made yet")
	made, err := operators{}.obtainOperator(logger, dir)
	if err != nil || len(made) < 16 {
		t.Fatalf("%q, %v", made, err)
	}
	info, err := os.Stat(filepath.Join(dir, "operator-token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		given operators
		dir   string
		want  string
	}{
		{operators{}, dir, made},
		{operators{}, "", ""},
		{operators{OperatorToken: "given by its text"}, dir, "given by its text"},
		{operators{OperatorTokenFile: filepath.Join(dir, "operator-token")}, "", made},
	} {
		if got, err := c.given.obtainOperator(logger, c.dir); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v", c.given, got, err)
		}
	}
	if _, err := (operators{OperatorToken: "text", OperatorTokenFile: file}).obtainOperator(logger, dir); err == nil {
		t.Error("it may be given twice")
	}
	if err := os.Chmod(filepath.Join(dir, "operator-token"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (operators{}).obtainOperator(logger, dir); err == nil {
		t.Error("a file that is open to others is read")
	}
}

// What concerns others is asked for with the operator's token where there is one, all else with the agent's.
func TestOperatorCommands(t *testing.T) {
	shown := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown[r.Method+" "+r.URL.Path] = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"code":"operator_only","status":403,"detail":"send the operator's"}`))
	}))
	defer server.Close()
	t.Setenv("HENCE_TOKEN", "the-agent")
	file := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(file, []byte("the-operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		request, shows string
		args           []string
	}{
		{"POST /v1/tx/a.1.1/retract", "the-operator", []string{"retract", "a.1.1"}},
		{"POST /v1/residue/a.1.1/0/accept", "the-operator", []string{"residue", "accept", "a.1.1", "0", "--note", "n"}},
		{"POST /v1/residue/a.1.1/0/retry", "the-operator", []string{"residue", "retry", "a.1.1", "0"}},
		{"PUT /v1/workspaces/default/rules", "the-operator",
			[]string{"rules", "set", "--observe", "--if-version", "1"}},
		{"GET /v1/workspaces/default/rules", "the-agent", []string{"rules", "get"}},
		{"GET /v1/residue", "the-agent", []string{"residue", "ls"}},
	} {
		args := append(c.args, "--url", server.URL)
		if c.shows == "the-operator" {
			if hence(t, args...); shown[c.request] != "Bearer the-agent" {
				t.Errorf("%v without an operator's token shows %q", c.args, shown[c.request])
			}
			args = append(args, "--operator-token-file", file)
		}
		_, _, errs := hence(t, args...)
		if shown[c.request] != "Bearer "+c.shows || !strings.Contains(errs, "operator_only") {
			t.Errorf("%v shows %q, and says %s", c.args, shown[c.request], errs)
		}
	}
}

// What a redirect leads to is shown neither a token nor a signature.
func TestRedirectIsShownNothing(t *testing.T) {
	arrived := 0
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived++ }))
	defer to.Close()
	between := httptest.NewServer(http.RedirectHandler(to.URL, http.StatusTemporaryRedirect))
	defer between.Close()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for name, a := range map[string]asking{"a token": {Token: "secret"}, "a key": {key: key}} {
		c := &http.Client{Transport: a.carrier()}
		out, err := c.Post(between.URL, "text/plain", strings.NewReader("1"))
		if err == nil {
			_ = out.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), to.URL) || arrived > 0 {
			t.Errorf("%s: %v; %d requests have arrived", name, err, arrived)
		}
	}
}
