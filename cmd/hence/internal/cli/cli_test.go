package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// What the test binary is when it is started with one of these: hence itself, or an agent's program.
const (
	asProgram = "TEST_AS_HENCE"
	asAgent   = "TEST_AS_AGENT"
)

// TestMain holds that no command leaves a goroutine behind, but for one that a library starts once for the process.
//
// As a child of a demo the test binary is the program itself.
func TestMain(m *testing.M) {
	if part := os.Getenv(asAgent); part != "" && len(os.Args) == 1 {
		os.Exit(playAgent(part))
	}
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
			Signals: true}))
	}
	state, err := os.MkdirTemp("", "hence-state-") // nothing is found in, or written to, the user's own
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	removed := goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(state)
		os.Exit(code)
	})
	// nats-server does not stop the store of a stream whose creation its own stop overtakes.
	goleak.VerifyTestMain(m, removed, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"))
}

// hence runs a command line and returns what it printed.
func hence(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// TestUsageErrors holds that every line that is not understood says what is wrong and where help is, with exit code
// 2.
func TestUsageErrors(t *testing.T) {
	for line, want := range map[string][]string{
		"":                           {"expected one of", "hence --help"},
		"dance":                      {"unexpected argument dance"},
		"demo --agnts 3":             {"unknown flag --agnts", "did you mean", "hence demo --help"},
		"demo --agents many":         {"--agents", `"many"`, "hence demo --help"},
		"demo --order fast":          {"--order", "optimistic", `"fast"`},
		"demo --mode strict":         {"--mode", "enforce", `"strict"`},
		"demo --think soon":          {"--think", `"soon"`},
		"dev extra":                  {"unexpected argument extra", "hence dev --help"},
		"tail -o yaml":               {"text", "json", `"yaml"`, "hence tail --help"},
		"topics":                     {"expected one of", "create", "verify", "print"},
		"topics print --copies 3":    {"unknown flag --copies", "hence topics print --help"},
		"explain":                    {"<tx>", "hence explain --help"},
		"sidecar --log-level loud":   {"debug", `"loud"`},
		"healthcheck --timeout long": {"--timeout", `"long"`},
	} {
		code, out, errs := hence(t, strings.Fields(line)...)
		if code != ExitUsage || out != "" {
			t.Errorf("hence %s: exit code %d and output %q, want %d and none", line, code, out, ExitUsage)
		}
		for _, w := range want {
			if !strings.Contains(errs, w) {
				t.Errorf("hence %s: %q does not say %q", line, errs, w)
			}
		}
	}
}

// TestBadValues holds that values which only the command can judge are refused before anything is started, with the
// exit code of a line that is not understood.
func TestBadValues(t *testing.T) {
	for line, want := range map[string]string{
		"dev --anomalies-window 5":                "add --anomalies, or leave it out",
		"streams --anomalies-window 5":            "add --anomalies, or leave it out",
		"up --anomalies-window 5":                 "add --anomalies, or leave it out",
		"run --agent a --anomalies-window 5 true": "add --anomalies, or leave it out",
		"demo --agents 0":                         "give 1 to 1000",
		"demo --tasks 20000":                      "give 0 to 10000",
		"demo --think 2h":                         "at most 1m",
		"demo --faults NaN":                       "give 0 to 0.5",
		"demo --brokers 127.0.0.1:9":              "belong together",
		"demo --nats nats://127.0.0.1:9":          "belong together",
		"demo --data . --tasks 3":                 "leave it out",
		"topics print --partitions 6":             "power of two",
		"topics print --replication 0":            "give 1",
		"tail --workspace Not.Good":               "--workspace",
		"tail --since tomorrow":                   "--since",
		"tail --since 1h --after 3":               "give one of them",
		"tail --kind nonsense":                    "--kind",
		"healthcheck --url somewhere":             "http://host:port",
		"dev --listen somewhere":                  "host:port",
		"dev --port 70000":                        "give 0 to 65535",
		"sidecar --tls-cert x":                    "--tls-key",
		"sidecar --token a --token-file b":        "given twice",
		"run --agent a --grace 0s -- true":        "more than 0",
		"run --agent a --hook-url x -- true":      "http://host",
		"console --sidecar http://a:1":            "--sidecar-token-file",
		"console --public-url a":                  "http://HOST:PORT",
		"residue ls --state gone":                 "accepted",
		"rules set":                               "no rule to change is given",
	} {
		code, out, errs := hence(t, strings.Fields(line)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("hence %s: exit code %d, output %q, error %q; want %d, none, %q",
				line, code, out, errs, ExitUsage, want)
		}
	}
	for line, want := range map[string]string{ // these may be right another time
		"demo --data /nowhere":             "load the data set",
		"healthcheck --url http://[::1]:1": "ask whether it is ready",
	} {
		if code, _, errs := hence(t, strings.Fields(line)...); code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("hence %s: exit code %d, %s", line, code, errs)
		}
	}
}

func TestHelpNamesFlagsAndEnvironment(t *testing.T) {
	code, out, _ := hence(t, "demo", "--help")
	for _, want := range []string{"--agents", "$HENCE_AGENTS", "--order", "Exit code"} {
		if code != ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, help without %q:\n%s", code, want, out)
		}
	}
}

// TestEnvironment holds that a setting comes from the environment and that a flag wins over it.
func TestEnvironment(t *testing.T) {
	partitions := func(args ...string) int {
		t.Helper()
		code, out, errs := hence(t, append([]string{"topics", "print", "-o", "json"}, args...)...)
		var topics []struct {
			Partitions int `json:"partitions"`
		}
		if err := json.Unmarshal([]byte(out), &topics); code != ExitOK || err != nil || len(topics) == 0 {
			t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
		}
		return topics[0].Partitions
	}
	t.Setenv("HENCE_PARTITIONS", "4")
	if got := partitions(); got != 4 {
		t.Errorf("with HENCE_PARTITIONS=4: %d partitions", got)
	}
	if got := partitions("--partitions", "16"); got != 16 {
		t.Errorf("with --partitions 16 over HENCE_PARTITIONS=4: %d partitions", got)
	}
	t.Setenv("HENCE_PARTITIONS", "four")
	if code, _, errs := hence(t, "topics", "print"); code != ExitUsage || !strings.Contains(errs, "HENCE_PARTITIONS") {
		t.Errorf("with HENCE_PARTITIONS=four: exit code %d, %q", code, errs)
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := hence(t, "version", "-o", "json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); code != ExitOK || err != nil || b.Go == "" {
		t.Errorf("exit code %d, %v, %q", code, err, out)
	}
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got, want := buildOf(info, true).String(), "hence v0.1.0 abc (modified) go1.26"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHealthcheck(t *testing.T) {
	ready := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" && !ready {
			http.Error(w, "nats: connection refused", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	code, _, errs := hence(t, "healthcheck", "--url", server.URL)
	if code != ExitFailed || !strings.Contains(errs, "nats") {
		t.Errorf("not ready: exit code %d, %q", code, errs)
	}
	if code, _, errs := hence(t, "healthcheck", "--url", server.URL, "--live"); code != ExitOK {
		t.Errorf("alive: exit code %d, %q", code, errs)
	}
	ready = true
	if code, _, errs := hence(t, "healthcheck", "--url", server.URL); code != ExitOK {
		t.Errorf("ready: exit code %d, %q", code, errs)
	}
}
