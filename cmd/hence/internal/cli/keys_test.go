package cli

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// keyFile makes a key by the command, and returns its file and the item of the list.
func keyFile(t *testing.T, name, role string) (path, item string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name+".key")
	code, item, errs := hence(t, "keys", "new", name, "--role", role, "--out", path)
	if code != ExitOK {
		t.Fatal(errs)
	}
	return path, item
}

// A key that was made signs what commands ask of a sidecar that was told of it, in its role.
func TestKeys(t *testing.T) {
	ann, items := keyFile(t, "agent-1", "agent")
	olga, item := keyFile(t, "olga", "operator")
	list := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(list, []byte(items+item), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(ann); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the private key: %v, %v", info, err)
	}
	dev := startDev(t, "--keys", list, "--authority", "a.example,b.example")
	for _, one := range []struct {
		want int
		args []string
	}{
		{ExitOK, []string{"shard", "put", "s", "1", "--key-file", ann}},
		{ExitFailed, []string{"rules", "set", "--no-observe", "--key-file", ann}},
		{ExitOK, []string{"rules", "set", "--horizon-seqs", "900", "--key-file", olga}},
		{ExitFailed, []string{"shard", "ls", "--token", "a token that is not its own"}},
	} {
		if code, out, errs := hence(t, append(one.args, "--url", dev.URL)...); code != one.want {
			t.Errorf("%v: %d, %s%s", one.args, code, out, errs)
		}
	}
	stranger, _ := keyFile(t, "stranger", "agent")
	for path, want := range map[string]string{ann: "accepts the key", stranger: "rejects the key"} {
		_, d := diagnose(t, "--sidecar", dev.URL, "--key-file", path)
		holds(t, d, "key", map[bool]string{true: "ok", false: "problem"}[path == ann], want, "")
	}
	_, shown, _ := hence(t, "keys", "show", "agent-1", "--key-file", ann)
	if shown != items {
		t.Errorf("it is shown as %q, and was made as %q", shown, items)
	}
	url := dev.URL + "/v1/workspaces/" + dev.Workspace + "/shards?look=true"
	code, out, errs := hence(t, "keys", "sign", "get", url, "--key-file", ann, "-H", "Hence-Session: mine")
	if code != ExitOK {
		t.Fatal(errs)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} { // it counts once
		got, err := http.DefaultClient.Do(r.Clone(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("signed by hand: %d, want %d", got.StatusCode, want)
		}
	}
}

// A console signs what its operator asks of a sidecar, which knows it by its key.
func TestConsoleSigns(t *testing.T) {
	path, item := keyFile(t, "olga", "operator")
	list := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(list, []byte(item), 0o600); err != nil {
		t.Fatal(err)
	}
	dev := startDev(t, "--keys", list)
	c := consoleCmd{Sidecar: dev.URL, SidecarKeyFile: path, Workspace: dev.Workspace}
	sidecar, end, err := c.actions(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	_, err = sidecar.AcceptResidue(t.Context(), "agent-1.1.1", 0, "looked at") // an operator is told that there is none
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Code != api.CodeNotFound {
		t.Errorf("the sidecar says: %v", err)
	}
}

// What is wrong with a file of keys is said, and nothing is started or overwritten.
func TestKeysRefused(t *testing.T) {
	ann, item := keyFile(t, "ann", "agent")
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private, err := os.ReadFile(ann)
	if err != nil {
		t.Fatal(err)
	}
	open := write("open", string(private), 0o640)
	odd := write("odd", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600)
	king := write("king", strings.Replace(item, "role: agent", "role: king", 1), 0o600)
	for want, args := range map[string][]string{
		"run chmod 600 " + open: {"shard", "ls", "--key-file", open},
		"is there already":      {"keys", "new", "ann", "--out", ann},
		"no private key in PEM": {"keys", "show", "ann", "--key-file", write("none", "x", 0o600)},
		"read the key":          {"keys", "show", "ann", "--key-file", odd},
		"44 characters":         {"sidecar", "--keys", write("short", "- {name: a, key: AAAA, role: agent}\n", 0o600)},
		"has no role":           {"sidecar", "--keys", king},
		"run chmod 600":         {"sidecar", "--keys", write("all", item, 0o666)},
		"is no request":         {"keys", "sign", "GET", "nowhere", "--key-file", ann},
		`write "Name: value`:    {"keys", "sign", "GET", "http://a/", "--key-file", ann, "-H", "x"},
		"read the body": {"keys", "sign", "GET", "http://a/", "--key-file", ann, "-d",
			filepath.Join(dir, "nothing")},
	} {
		if code, out, errs := hence(t, args...); code == ExitOK || !strings.Contains(errs, want) {
			t.Errorf("hence %v: %d, %q, %q; want %q", args, code, out, errs, want)
		}
	}
}
