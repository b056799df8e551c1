package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
)

// besideDev starts "hence dev" with a policy, and drops what could name another one from the environment.
func besideDev(t *testing.T) (dev Dev, policy string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	policy = filepath.Join(t.TempDir(), "policy.yaml")
	const text = "version: 1\nserver: notes\nfiles: {root: ROOT}\ntools:\n  - tool: board.post\n" +
		"    class: irreversible\n    args: [line]\n    scopes: [\"file:/board\"]\n    key: \"board/{line}\"\n" +
		"    file: {path: board, op: append, content: \"{line}\"}\n"
	if err := os.WriteFile(policy, []byte(strings.Replace(text, "ROOT", t.TempDir(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return startDev(t, "--workspace", "shop", "--policy", policy), policy
}

// Every command finds the hence dev that runs, whatever its ports, token and workspace are.
func TestCommandsFindDev(t *testing.T) {
	dev, _ := besideDev(t)
	if !dev.Found {
		t.Error("it does not say that others find it")
	}
	for _, step := range []struct {
		line, says string
		code       int
	}{
		{"shard put orders/1 paid", "committed", ExitOK},
		{"shard get orders/1", "paid", ExitOK},
		{"shard get /orders/2", "does not exist", ExitFailed},
		{"shard put orders/1 again --if-version 0", "version_mismatch", ExitFailed},
		{"shard ls orders", "shard:/orders/1", ExitOK},
		{"tx ls", "agent-1.1.1", ExitOK},
		{"tx ls --state open", "no such transaction", ExitOK},
		{"tx show agent-1.1.1", "committed at seq", ExitOK},
		{"tx abort agent-1.1.1", "already_committed", ExitFailed},
		{"agents ls", "agent-1 (this sidecar)", ExitOK},
		{"tools ls", "after commit", ExitOK},
		{"effects ls", "no such tool call", ExitOK},
		{"explain agent-1.1.1", "committed", ExitOK},
		{"tail --limit 1", "joined", ExitOK},
		{"rules get", "version", ExitOK},
		{"healthcheck", "", ExitOK},
	} {
		code, out, errs := hence(t, strings.Fields(step.line)...)
		if code != step.code || !strings.Contains(out+errs, step.says) {
			t.Errorf("hence %s: exit code %d, %s%s", step.line, code, out, errs)
		}
		if code == ExitOK && step.line != "healthcheck" && !strings.HasPrefix(step.line, "tail") {
			_, out, _ := hence(t, append(strings.Fields(step.line), "-o", "json")...)
			if !json.Valid([]byte(out)) {
				t.Errorf("hence %s -o json: %q", step.line, out)
			}
		}
	}
}

// A flag wins over the environment, that over the context file, that over the default; and what is said of it.
func TestContextOrigins(t *testing.T) {
	dev, policy := besideDev(t)
	origin := func(name, want string, args ...string) {
		t.Helper()
		got, _ := settings(t, ExitOK, args...)
		if got[name].Origin != want {
			t.Errorf("%v: --%s is %+v, want it from %q", args, name, got[name], want)
		}
	}
	for _, name := range []string{"url", "token", "workspace"} {
		origin(name, fromContext, "tx", "ls")
	}
	got, _ := settings(t, ExitOK, "run")
	if got["policy"].Value != policy || got["brokers"].Value != strings.Join(dev.Brokers, ",") ||
		got["token"].Origin != fromDefault {
		t.Errorf("of run: %+v", got)
	}
	origin("policy", fromDefault, "run", "--embedded")
	origin("policy", fromDefault, "run", "--brokers", "127.0.0.1:1")
	origin("nats", fromDefault, "run", "--brokers", "127.0.0.1:1")
	origin("token", fromDefault, "tx", "ls", "--url", "http://127.0.0.1:1")
	origin("token", fromDefault, "tx", "ls", "--token-file", "f")
	origin("token", fromContext, "tx", "ls", "--url", dev.URL)
	origin("workspace", fromDefault, "dev")
	t.Setenv("HENCE_TOKEN", "theirs-of-the-environment")
	origin("token", fromEnvironment, "tx", "ls")
	origin("token", fromFlag, "tx", "ls", "--token", "mine")
	t.Setenv("HENCE_URL", dev.URL)
	code, _, errs := hence(t, "tx", "ls")
	for _, want := range []string{"401", "HENCE_TOKEN in the environment", `eval "$(hence env)"`} {
		if code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("with a wrong token: exit code %d, no %q in %s", code, want, errs)
		}
	}
	t.Setenv("HENCE_URL", "http://127.0.0.1:1")
	code, _, errs = hence(t, "tx", "ls")
	if code != ExitFailed || !strings.Contains(errs, "HENCE_URL in the environment") || !strings.Contains(errs, dev.URL) {
		t.Errorf("where nothing listens: exit code %d, %s", code, errs)
	}
}

// A token without an address may be that of another sidecar, at the default address: it is not sent to hence dev, and
// what the command would change is not in hence dev's workspace.
func TestTokenWithoutAnAddress(t *testing.T) {
	dev, _ := besideDev(t)
	commands := []string{"retract a.1.1", "shard put orders/1 paid", "rules set --observe"}
	check := func(how, want string, more ...string) {
		t.Helper()
		for _, command := range commands {
			got, _ := settings(t, ExitOK, append(strings.Fields(command), more...)...)
			for _, name := range []string{"url", "workspace"} {
				if s, has := got[name]; has && s.Origin != want {
					t.Errorf("hence %s with %s: --%s is %+v, want it from %q", command, how, name, s, want)
				}
			}
		}
	}
	check("nothing", fromContext)
	check("--token", fromDefault, "--token", "mine")
	check("--token-file", fromDefault, "--token-file", "f")
	t.Setenv("HENCE_TOKEN", "theirs-of-the-environment")
	check("HENCE_TOKEN", fromDefault)
	for _, command := range []string{"run", "sidecar", "doctor", "tail"} { // which show no token, or to whom is named
		if got, _ := settings(t, ExitOK, command); got["workspace"].Origin != fromContext ||
			got["brokers"].Origin != fromContext || command == "doctor" && got["sidecar"].Origin != fromDefault {
			t.Errorf("hence %s with HENCE_TOKEN: %+v", command, got)
		}
	}
	code, _, errs := hence(t, "tx", "ls")
	for _, want := range []string{"a token is given and no address", "hence dev runs at " + dev.URL} {
		if code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, no %q in %s", code, want, errs)
		}
	}
}

// A command that writes or serves says in one line that it works where hence dev does; one that reads, or that was
// told where, says nothing.
func TestBorrowedIsSaid(t *testing.T) {
	dev, _ := besideDev(t)
	cluster := fmt.Sprintf("the cluster is that of hence dev, process %d (%s)", dev.PID, dev.Brokers[0])
	address := fmt.Sprintf("the address is that of hence dev, process %d (%s)", dev.PID, dev.URL)
	for _, c := range []struct{ line, want string }{
		{"tail --limit 1", cluster},
		{"topics create", cluster},
		{"shard put orders/1 paid", address},
		{"retract agent-1.9.9", address},
		{"tx abort agent-1.9.9", address},
		{"tx ls", ""},
		{"topics verify", ""},
		{"tail --limit 1 --workspace shop --brokers " + dev.Brokers[0] + " --nats " + dev.NATS, ""},
		{"shard put orders/1 paid --url " + dev.URL, ""},
	} {
		_, out, errs := hence(t, strings.Fields(c.line)...)
		said := strings.Count(errs, "that of hence dev")
		if (said == 1) != (c.want != "") || said > 1 || !strings.Contains(errs, c.want) ||
			strings.Contains(out, "that of hence dev") {
			t.Errorf("hence %s says %q on standard error, want %q", c.line, errs, c.want)
		}
	}
}

// HENCE_EMBEDDED is read as the parser reads it: with a cluster of its own, nothing is taken from hence dev.
func TestEmbeddedInTheEnvironment(t *testing.T) {
	besideDev(t)
	for text, want := range map[string]string{"1": fromDefault, "yes": fromDefault, "TRUE": fromDefault,
		"true": fromDefault, "0": fromContext, "no": fromContext} {
		t.Setenv("HENCE_EMBEDDED", text)
		if got, _ := settings(t, ExitOK, "run"); got["brokers"].Origin != want || got["policy"].Origin != want {
			t.Errorf("HENCE_EMBEDDED=%s: %+v, %+v", text, got["brokers"], got["policy"])
		}
	}
}

// A secret of hence dev's policy that only its terminal has: the refusal says whose policy it is, and a way out works.
func TestSecretOfDevsPolicy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	secretive := filepath.Join(dir, "policy.yaml")
	const text = "version: 1\nserver: desk\nhosts: [\"127.0.0.1:1\"]\nsecrets: {desk: {env: DESK_KEY}}\n" +
		"tools:\n  - tool: mail.send\n" +
		"    class: irreversible\n    args: [to]\n    scopes: [\"mail:/{to}\"]\n    key: \"mail/{to}\"\n" +
		"    http: {method: POST, url: \"http://127.0.0.1:1/send\", headers: {Authorization: \"Bearer {$secret.desk}\"}}\n"
	if err := os.WriteFile(secretive, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DESK_KEY", "a-secret-of-terminal-1")
	dev := startDevHere(t, "--policy", secretive)
	t.Setenv("DESK_KEY", "")
	code, _, errs := hence(t, "run", "--agent", "bob", "--", "true")
	for _, want := range []string{"DESK_KEY", fmt.Sprintf("the policy comes from hence dev, process %d", dev.PID),
		"--policy="} {
		if code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("without the secret: exit code %d, no %q in %s", code, want, errs)
		}
	}
	if code, _, errs := hence(t, "run", "--agent", "bob", "--policy=", "--", "true"); code != ExitOK {
		t.Errorf("without a policy: exit code %d, %s", code, errs)
	}
}

// The command line wins over the environment also where two flags say the same; two that differ are one too many.
func TestListenOrPort(t *testing.T) {
	t.Setenv("HENCE_PORT", "7999")
	for _, c := range []struct{ line, want string }{
		{"dev", "127.0.0.1:7999"},
		{"dev --listen 127.0.0.1:7998", "127.0.0.1:7998"},
		{"dev --port 7997", "127.0.0.1:7997"},
		{"dev --listen 127.0.0.1:7996 --port 7996", "127.0.0.1:7996"},
		{"dev --listen 127.0.0.1:7995 --port 7994", ""},
	} {
		g, dev := &grammar{}, newDevContext()
		line, err := parse(newParser(g, Streams{}, kong.Resolvers(dev)), strings.Fields(c.line))
		if err != nil {
			t.Fatal(err)
		}
		if err = g.Dev.address(dev, line); (err != nil) != (c.want == "") || err == nil && g.Dev.Listen != c.want {
			t.Errorf("hence %s listens at %s, want %q: %v", c.line, g.Dev.Listen, c.want, err)
		}
	}
	if code, _, errs := hence(t, "dev", "--listen", "127.0.0.1:7995", "--port", "7994"); code != ExitUsage ||
		!strings.Contains(errs, "--listen") || !strings.Contains(errs, "--port") {
		t.Errorf("two addresses: exit code %d, %s", code, errs)
	}
}

// The context file is taken away while the sidecar still has its address.
func TestWithdrawnBeforeTheListener(t *testing.T) {
	dev, _ := besideDev(t)
	log, err := streams.Dial(t.Context(), streams.Config{Brokers: dev.Brokers, NATS: dev.NATS,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	side, err := sidecar.New(sidecar.Config{Agent: "bob", Workspace: "shop", Listen: "127.0.0.1:0", DataDir: t.TempDir(),
		Token: "a-token-of-the-sidecar-of-bob"}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	left := 0
	err = serve(ctx, side, func() error { stop(); return nil }, func() error {
		left++
		response, err := http.Get(side.URL() + "/healthz")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if err != nil || left != 1 {
		t.Errorf("left %d times: %v", left, err)
	}
}

// The words of hence env are the running one's, for both kinds of shells, and the token is the same after a restart.
func TestEnv(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	code, out, errs := hence(t, "env")
	if code != ExitFailed || out != "" || !strings.Contains(errs, "no hence dev runs") {
		t.Errorf("beside none: exit code %d, %q, %s", code, out, errs)
	}
	tokens := map[string]bool{}
	for range 2 {
		t.Run("", func(t *testing.T) {
			dev := startDevHere(t)
			code, out, _ := hence(t, "env")
			for _, want := range []string{"export HENCE_URL='" + dev.URL + "'", "export HENCE_TOKEN='" + dev.Token + "'"} {
				if code != ExitOK || !strings.Contains(out, want+"\n") {
					t.Errorf("exit code %d, no %s in %s", code, want, out)
				}
			}
			if _, out, _ := hence(t, "env", "--shell", "fish"); !strings.Contains(out, "set -gx HENCE_URL '"+dev.URL+"'\n") {
				t.Errorf("for fish: %s", out)
			}
			tokens[dev.Token] = true
		})
	}
	if len(tokens) != 1 {
		t.Errorf("two starts have the tokens %v", tokens)
	}
	if code, _, _ := hence(t, "env"); code != ExitFailed {
		t.Error("it is found after its end")
	}
}

// Of two the one that was started last is found, and it says that there is another.
func TestTwoDevs(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	first := startDevHere(t)
	t.Run("second", func(t *testing.T) {
		second := startDevHere(t)
		if _, out, _ := hence(t, "env"); !strings.Contains(out, second.URL) || second.Other != first.PID {
			t.Errorf("found is %s, of another it says %d", out, second.Other)
		}
	})
	if _, out, _ := hence(t, "env"); !strings.Contains(out, first.URL) {
		t.Errorf("after its end, found is %s", out)
	}
}

// hence run stands on the hence dev that runs, with its policy and workspace, and says so. As an agent that has a live
// sidecar it takes that one's lease, and warns.
func TestRunBesideDev(t *testing.T) {
	besideDev(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	p := startProgram(t, "run", "--agent", "bob", "--", os.Args[0], "tools", "ls")
	if code := p.code(t); code != 0 || !strings.Contains(p.out.text(), "board.post") ||
		p.errs.count("uses the policy of the running hence dev") != 1 || p.errs.count("warning") != 0 {
		t.Errorf("beside dev: exit code %d", code)
	}
	p = startProgram(t, "run", "--agent", "agent-1", "--", "true")
	if code := p.code(t); code != 0 || p.errs.count("another sidecar of agent-1 was live, incarnation 1") != 1 {
		t.Errorf("as the agent of dev: exit code %d, %s", code, p.errs.text())
	}
}

// A context file whose process was killed is not used, and that is said.
func TestContextOfAKilledDev(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	p, dev := devProgram(t, freePorts(t, 2))
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	code, _, errs := hence(t, "tx", "ls", "--token", "x")
	if code != ExitFailed || !strings.Contains(errs, "is not used") || strings.Contains(errs, dev.URL) {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if !regexp.MustCompile(`process \d+ has ended`).MatchString(errs) {
		t.Errorf("it says %s", errs)
	}
}

// Who has no home, as in a container, has no hence dev, and is not told so with every command.
func TestContextWithoutAHome(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	code, _, errs := hence(t, "rules", "get", "--url", "http://127.0.0.1:1")
	if code != ExitFailed || strings.Contains(errs, "note") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
