package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// EnvRequireWatchers makes a viewer that is missing a failure.
const EnvRequireWatchers = "HENCE_REQUIRE_WATCHERS"

// HowToGet says where a viewer is had.
func HowToGet(program string) string {
	return map[string]string{
		"kcat":       "apt-get install kcat",
		"curl":       "apt-get install curl",
		"prometheus": "apt-get install prometheus",
		"promtool":   "apt-get install prometheus",
		"nats": "in a new folder: go mod init x; go get github.com/nats-io/natscli/nats@v0.3.0; " +
			"go build github.com/nats-io/natscli/nats; put it on the path or name it in " + EnvNATSCLI,
	}[program]
}

// NeedProgram skips a test without a program, or fails it where EnvRequireWatchers asks for all of them.
func NeedProgram(t *testing.T, program, how string) {
	t.Helper()
	if _, err := LookPath(program); err == nil {
		return
	}
	if os.Getenv(EnvRequireWatchers) != "" {
		t.Fatalf("the program %s is missing: %s", program, how)
	}
	t.Skipf("the program %s is missing: %s", program, how)
}

// NeedsProgram begins what missing says of a block whose program is not there.
const NeedsProgram = "needs the program "

// EnvNATSCLI is the path of the program "nats", where it is not on the path.
const EnvNATSCLI = "HENCE_TEST_NATS_CLI"

// LookPath says whether a program is there.
func LookPath(program string) (string, error) {
	if path := os.Getenv(EnvNATSCLI); program == "nats" && path != "" {
		return path, nil
	}
	return exec.LookPath(program)
}

// NewKey makes a key that signs an agent's requests: its file, and the list of it for a sidecar.
func NewKey(t *testing.T, agent string) (key, list string) {
	t.Helper()
	dir := t.TempDir()
	key, list = filepath.Join(dir, "key"), filepath.Join(dir, "keys.yaml")
	item, err := exec.Command(Binary(t), "keys", "new", agent, "--out", key).Output()
	if err == nil {
		err = os.WriteFile(list, item, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key, list
}
