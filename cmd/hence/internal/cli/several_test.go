package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What names agents twice, or no agent, is refused before a file is written or a server is asked.
func TestAgentsNamed(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"a list beside a name", "--agent ann --agents-file team.yaml", "give one of them"},
		{"any agent beside names", "--agent ann,bob --any-agent", "give one of them"},
		{"a list beside any agent", "--agents-file team.yaml --any-agent", "give one of them"},
		{"a name that is a path", "--agent ann,../bob", "agent name"},
		{"one token for several", "--agent ann,bob --token 0123456789abcdef", "each of several agents has its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"sidecar", "--listen", "127.0.0.1:0", "--data-dir", dir}, strings.Fields(c.args)...)
			if !strings.Contains(c.args, "--token ") {
				args = append(args, "--token-file", filepath.Join(dir, "token"))
			}
			code, out, errs := hence(t, args...)
			if code != ExitUsage || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("%d, %s%s, want %q", code, out, errs, c.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
