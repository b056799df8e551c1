package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// argsOf is a command with what it requires.
func argsOf(leaf *kong.Node) []string {
	args := strings.Fields(commandPath(leaf))
	for _, flag := range leaf.Flags {
		if flag.Required {
			args = append(args, "--"+flag.Name+"=x")
		}
	}
	for _, arg := range leaf.Positional {
		if arg.Required {
			args = append(args, "1")
		}
	}
	return args
}

// Every command has a Run of a form that is called.
func TestEveryCommandRuns(t *testing.T) {
	seen := 0
	for _, leaf := range newParser(&grammar{}, Streams{}).Model.Leaves(false) {
		seen++
		if runOf(targetOf(leaf), nil, Streams{}, nil) == nil {
			t.Errorf("hence %s: runOf does not know its Run", commandPath(leaf))
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands", seen)
	}
}

// Every command that asks a sidecar reads each file that names a token or whom to trust, also where it has a token of
// an operator or an approver as well.
func TestEveryFileIsRead(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	seen := map[string]int{}
	for _, leaf := range newParser(&grammar{}, Streams{}).Model.Leaves(true) {
		if flagOf(leaf, "--url") == nil || flagOf(leaf, "--token") == nil {
			continue
		}
		for _, flag := range []string{"ca", "token-file", "operator-token-file", "approver-token-file"} {
			if flagOf(leaf, "--"+flag) == nil {
				continue
			}
			seen[flag]++
			args := append(argsOf(leaf), "--"+flag, none)
			if code, _, errs := hence(t, args...); code != ExitUsage || !strings.Contains(errs, none) {
				t.Errorf("hence %s: exit code %d, %s", strings.Join(args, " "), code, errs)
			}
		}
	}
	if seen["ca"] < 10 || seen["token-file"] < 10 || seen["operator-token-file"] < 3 || seen["approver-token-file"] < 3 {
		t.Errorf("tried %v", seen)
	}
}

// What is missing of a line, or is none of the choices, is said, the help of a command is shown without it, and a
// variable is held to the choices too.
func TestComplaints(t *testing.T) {
	for line, want := range map[string]string{
		"tx show":                         `expected "<tx>"`,
		"completion":                      `expected "<shell>"`,
		"residue retry a.1.1":             `expected "<index>"`,
		"run -- true":                     "missing flag: --agent=NAME",
		"tx":                              `expected one of "ls", "show", "abort"`,
		"tx ls --state=odd":               `--state must be one of "", "open",`,
		"completion csh":                  `<shell> must be one of "bash", "zsh", "fish" but got "csh"`,
		"bench measure latency odd":       `but got "odd"`,
		"bench measure --curves=log,odd":  `--curves must be one of`,
		"streams --replica=c":             `--replica must be one of "a", "b" but got "c"`,
		"sidecar --agent=ann --order=odd": `--order must be one of "optimistic", "ordered", "locked"`,
	} {
		_, err := parse(newParser(&grammar{}, Streams{}), strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("hence %s: %v; want %q", line, err, want)
		}
	}
	if code, out, errs := hence(t, "run", "--help"); code != ExitOK || !strings.Contains(out, "--agent=NAME") {
		t.Errorf("help: exit code %d, %q, %q", code, out, errs)
	}
	t.Setenv("HENCE_REPLICA", "c")
	_, err := parse(newParser(&grammar{}, Streams{}), []string{"topics", "print"})
	if err == nil || !strings.Contains(err.Error(), `but got "c"`) {
		t.Errorf("a variable: %v", err)
	}
}
