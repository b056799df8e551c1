package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completions maps what is typed to what the last word can become; more may be offered where the list ends with "...".
func completions() map[string]string {
	return map[string]string{
		"hence top":                    "topics topology",
		"hence tx ":                    "abort ls show",
		"hence shard ":                 "get ls put",
		"hence tx ls --state ":         "aborted committed open sealed",
		"hence env --shell ":           "fish sh",
		"hence topics ":                "create print verify",
		"hence topics v":               "verify",
		"hence run --agent a1 --emb":   "--embedded",
		"hence run --tok":              "--token --token-file",
		"hence run --order ":           "locked optimistic ordered",
		"hence run --order=o":          "--order=optimistic --order=ordered",
		"hence run --agent a1 -- pyth": "",
		"hence run --agent a1 pyth -":  "",
		"hence run --policy ":          "",
		"hence policy lint -o ":        "json text",
		"hence completion ":            "bash fish zsh",
		"hence completion z":           "zsh",
		"hence rules set --no-obs":     "--no-observe",
		"hence nonsense ":              "",
		"hence __comp":                 "",
		"hence config p":               "print",
	}
}

func TestComplete(t *testing.T) {
	for line, want := range completions() {
		words := strings.Split(line, " ")[1:]
		code, out, errs := hence(t, append([]string{"__complete", "--"}, words...)...)
		var got []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(line, "\t")
			got = append(got, word)
		}
		slices.Sort(got)
		if code != ExitOK || strings.Join(got, " ") != want || errs != "" {
			t.Errorf("%q: exit code %d, %q, want %q; %s", line, code, got, want, errs)
		}
	}
	code, _, errs := hence(t, "completion", "tcsh")
	if code != ExitUsage || !strings.Contains(errs, "fish") {
		t.Errorf("another shell: exit code %d, %s", code, errs)
	}
}

// named puts a program called hence into PATH: the test binary.
func named(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "hence")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(asProgram, "1")
}

// Each shell reads its script and offers what hence says.
func TestCompletionScripts(t *testing.T) {
	named(t)
	for _, c := range []struct{ shell, ask string }{
		{"bash", `source <(hence completion bash); COMP_LINE=$1 COMP_POINT=${#1}; COMP_WORDBREAKS=${2-}; _hence
			printf '%s\n' "${COMPREPLY[@]}"`},
		{"zsh", `compdef() { :; }; _files() { :; }; _describe() { print -l -- "${found[@]%%:*}" }
			source <(hence completion zsh); words=("${(@s: :)1}"); CURRENT=${#words}; _hence`},
		{"fish", `hence completion fish | source; complete -C "$argv[1]" | string replace -r '\t.*' ''; true`},
	} {
		t.Run(c.shell, func(t *testing.T) {
			shell, err := exec.LookPath(c.shell)
			if err != nil {
				t.Skipf("%s is not here: apt-get install %[1]s", c.shell)
			}
			for _, line := range []string{"hence topics ", "hence run --order=o"} {
				want := completions()[line]
				args := []string{"-c", c.ask, c.shell, line}
				if c.shell == "fish" {
					args = []string{"--no-config", "-c", c.ask, line}
				}
				out, err := exec.Command(shell, args...).CombinedOutput()
				got := strings.Fields(string(out))
				slices.Sort(got)
				if err != nil || strings.Join(got, " ") != want {
					t.Errorf("%q: %q, want %q; %v", line, got, want, err)
				}
			}
		})
	}
}

// In bash readline replaces what stands behind the last "=" only, so that is what it is given.
func TestCompletionBehindEquals(t *testing.T) {
	named(t)
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not here: apt-get install bash")
	}
	ask := `source <(hence completion bash); COMP_LINE='hence run --order=op' COMP_POINT=20; COMP_WORDBREAKS='=: '
		_hence; printf '%s\n' "${COMPREPLY[@]}"`
	out, err := exec.Command(shell, "-c", ask).CombinedOutput()
	if err != nil || string(out) != "optimistic\n" {
		t.Errorf("%q, %v", out, err)
	}
}
