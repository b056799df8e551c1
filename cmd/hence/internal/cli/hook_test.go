package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// badHooks are flags of a hook that cannot be asked, with what is said of them.
var badHooks = map[string]string{
	"--hook-url http://h --hook-command true": "give one of them",
	"--hook-url h":                          "give http://host/path",
	"--hook-url http://h --hook-timeout 2m": "at most 1m",
	"--hook-command= --hook-timeout 1s":     "name a program",
	"--hook-command no-such-program": "--hook-command: no-such-program: not found in PATH: name a program that is in " +
		"PATH, or its path",
	"--hook-command ./nowhere": "--hook-command: ./nowhere: not found: name a program that is in PATH, or its path",
}

// A hook that cannot be asked is refused before anything is started: there is no token and no data yet.
func TestBadHookFlags(t *testing.T) {
	for command, rest := range map[string][]string{
		"dev":     {"dev", "--random-ports"},
		"sidecar": {"sidecar", "--brokers", "127.0.0.1:9"},
		"run":     {"run", "--agent", "a", "--brokers", "127.0.0.1:9", "--", "true"},
	} {
		for flags, want := range badHooks {
			t.Run(command+" "+flags, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), programBound)
				defer cancel()
				dir := t.TempDir()
				args := append(strings.Fields(rest[0]+" "+flags), "--data-dir", filepath.Join(dir, "data"),
					"--token-file", filepath.Join(dir, "token"))
				var out, errs bytes.Buffer
				code := Main(ctx, append(args, rest[1:]...), Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
				made, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				if code != ExitUsage || out.Len() > 0 || strings.Count(errs.String(), "\n") > 2 ||
					!strings.Contains(errs.String(), want) || len(made) > 0 {
					t.Errorf("exit code %d, %s%s, made %v; want %q", code, &out, &errs, made, want)
				}
			})
		}
	}
}
