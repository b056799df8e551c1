package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// settings runs "hence config print -o json" and returns the settings of its only command.
func settings(t *testing.T, want int, args ...string) (map[string]Setting, []string) {
	t.Helper()
	code, out, errs := hence(t, append([]string{"config", "print", "-o", "json"}, args...)...)
	var got Settings
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != want || len(got.Commands) != 1 || errs != "" {
		t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	byName := map[string]Setting{}
	for _, s := range got.Commands[0].Settings {
		byName[s.Name] = s
	}
	return byName, got.Warnings
}

// Each setting says where it comes from; a flag wins over the environment, that over the default; secrets are hidden.
func TestConfigPrint(t *testing.T) {
	t.Setenv("HENCE_TOKEN", "not to be seen")
	t.Setenv("HENCE_AGENT", "by-environment")
	t.Setenv("HENCE_NATS", "nats://me:hidden@host:4222")
	t.Setenv("HENCE_WORKSPACE", "shop")
	got, _ := settings(t, ExitOK, "run", "--agent", "by-flag", "--brokers", "a:1,b:2", "--embedded", "--grace=5s", "--",
		"program", "--settle", "1s")
	for name, want := range map[string][3]string{
		"agent": {"by-flag", "flag", "HENCE_AGENT"}, "brokers": {"a:1,b:2", "flag", "HENCE_BROKERS"},
		"grace": {"5s", "flag", "HENCE_GRACE"}, "settle": {"10s", "default", "HENCE_SETTLE"},
		"embedded": {"true", "flag", "HENCE_EMBEDDED"}, "kafka-tls": {"false", "default", "HENCE_KAFKA_TLS"},
		"token": {"********", "environment", "HENCE_TOKEN"}, "token-file": {"", "default", "HENCE_TOKEN_FILE"},
		"nats":      {"nats://********@host:4222", "environment", "HENCE_NATS"},
		"workspace": {"shop", "environment", "HENCE_WORKSPACE"}, "order": {"optimistic", "default", "HENCE_ORDER"},
	} {
		if s := got[name]; s.Value != want[0] || s.Origin != want[1] || s.Env != want[2] || s.Problem != "" {
			t.Errorf("--%s: %+v, want %v", name, s, want)
		}
	}
	code, out, errs := hence(t, "config", "print")
	if code != ExitOK || strings.Contains(out, "not to be seen") || strings.Contains(out, "hidden") || errs != "" ||
		!strings.Contains(out, "\nhence policy lint\n") || !strings.Contains(out, "********") {
		t.Errorf("of all: exit code %d, %s%s", code, out, errs)
	}
	code, _, errs = hence(t, "config", "print", "runn")
	if code != ExitUsage || !strings.Contains(errs, "runn") {
		t.Errorf("of nothing: exit code %d, %s", code, errs)
	}
}

// A variable that is set to nothing is one that is not set: compose files pass optional ones on that way.
func TestEmptyVariables(t *testing.T) {
	for _, name := range []string{"HENCE_BROKERS", "HENCE_GRACE", "HENCE_DATA_DIR", "HENCE_EMBEDDED"} {
		t.Setenv(name, "")
	}
	got, _ := settings(t, ExitOK, "run", "--agent", "a", "--", "program")
	for name, want := range map[string]string{"brokers": "127.0.0.1:9092", "grace": "10s", "data-dir": "",
		"embedded": "false"} {
		if s := got[name]; s.Value != want || s.Origin != "default" || s.Problem != "" {
			t.Errorf("--%s: %+v, want %q", name, s, want)
		}
	}
}

// Every flag whose name says that it is a secret is hidden.
func TestSecretsAreHidden(t *testing.T) {
	for name, value := range map[string]string{"token": "x", "kafka-password": "x", "client-secret": "x"} {
		if got := masked(name, value); got != mask {
			t.Errorf("--%s is shown as %q", name, got)
		}
	}
	for name, value := range map[string]string{"token": "", "token-file": "/run/token", "nats": "nats://host:1/a@b"} {
		if got := masked(name, value); got != value {
			t.Errorf("--%s %s is shown as %q", name, value, got)
		}
	}
}

// A variable that no command reads is named; one that is probably misspelt is also named by every other command.
func TestStrangeVariables(t *testing.T) {
	t.Setenv("HENCE_BROKRES", "a:1")
	t.Setenv("HENCE_OF_THE_AGENT", "its own")
	t.Setenv("HENCE_TEST_SOMETHING", "1")
	t.Setenv(testsize.EnvBook, "") // as good as not set
	_, warnings := settings(t, ExitOK, "run")
	want := "HENCE_BROKRES is read by no command: did you mean HENCE_BROKERS?; HENCE_OF_THE_AGENT is read by no command"
	if got := strings.Join(warnings, "; "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	code, out, errs := hence(t, "version")
	if code != ExitOK || strings.Count(out, "\n") != 1 || errs != "hence: warning: "+warnings[0]+"\n" {
		t.Errorf("version: exit code %d, %q, %q", code, out, errs)
	}
	t.Setenv("HENCE_PARTITIONS", "four")
	t.Setenv("HENCE_ORDER", "fast")
	got, _ := settings(t, ExitCheck, "run")
	if !strings.Contains(got["partitions"].Problem, "four") || !strings.Contains(got["order"].Problem, "locked") {
		t.Errorf("%+v, %+v", got["partitions"], got["order"])
	}
}
