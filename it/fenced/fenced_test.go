package fenced_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/fenced"
)

const bound = 20 * time.Second

func TestBlocks(t *testing.T) {
	text := "# A\n```sh serve new\none\ntwo\n```\n## B\n```yaml\n# C\n```\n````sh exit=3\n```\n````\n" +
		"1. C\n\n   ```sh\n   three\n     four\n   ```\n"
	blocks, err := fenced.Blocks("x.md", text)
	if err != nil || len(blocks) != 3 || blocks[2].Text != "three\n  four\n" {
		t.Fatalf("%v %+v", err, blocks)
	}
	a, b := blocks[0], blocks[1]
	if a.Text != "one\ntwo\n" || a.Section != "A" || a.Line != 3 || !a.Has("serve") || !a.Has("new") || a.Has("watch") {
		t.Errorf("the first block is %+v", a)
	}
	if code, err := b.Exit(); b.Text != "```\n" || b.Section != "B" || code != 3 || err != nil {
		t.Errorf("the second block is %+v, %d, %v", b, code, err)
	}
	for text, want := range map[string]string{
		"# A\n```sh\none\n": "not closed",
		"```bash\none\n```": "call it sh",
	} {
		if _, err := fenced.Blocks("x.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := (fenced.Block{Marks: []string{"exit=0"}}).Exit(); err == nil {
		t.Error("exit=0 passes")
	}
}

func shell(t *testing.T) *fenced.Shell {
	t.Helper()
	s, err := fenced.NewShell(t.TempDir(), []string{"PATH=" + os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func run(t *testing.T, s *fenced.Shell, text string, marks ...string) string {
	t.Helper()
	out, err := s.Run(fenced.Block{Text: text, Marks: marks}, bound)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What one block sets is there in the next one, and a block that must fail ends nothing.
func TestShellKeepsState(t *testing.T) {
	s := shell(t)
	run(t, s, "greet() { echo \"hello $1\"; }\nA=1\n")
	run(t, s, "A=2\nexit 3\n", "exit=3")
	if got := run(t, s, "greet $A\nread x || echo nothing to read\n"); got != "hello 1\nnothing to read\n" {
		t.Errorf("it prints %q", got)
	}
}

// A command that fails fails its block, also at the head of a pipe; so does one that should fail and does not.
func TestShellSeesFailures(t *testing.T) {
	for _, b := range []fenced.Block{
		{Text: "false\necho later\n"}, {Text: "false | cat\n"}, {Text: "echo $UNSET\n"},
		{Text: "true\n", Marks: []string{"exit=3"}}, {Text: "exit 4\n", Marks: []string{"exit=3"}},
	} {
		s := shell(t)
		if out, err := s.Run(b, bound); !errors.Is(err, fenced.ErrBlock) {
			t.Errorf("%q: %q, %v", b.Text, out, err)
		}
	}
	s := shell(t)
	if _, err := s.Run(fenced.Block{Text: "sleep 60\n"}, 50*time.Millisecond); err == nil {
		t.Error("a block that does not end passes")
	}
	if _, err := s.Run(fenced.Block{Text: "true\n"}, bound); err == nil {
		t.Error("a shell that was killed goes on")
	}
}

// What serves is interrupted in the end, and its export lines can be pasted.
func TestShellServes(t *testing.T) {
	s := shell(t)
	const serves = "trap 'echo bye; exit 0' INT\necho '  export B=7  # it'\nwhile :; do sleep 0.05; done\n"
	r, err := s.Start(fenced.Block{Text: serves})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(bound); !strings.Contains(r.Out(), "export"); {
		if time.Now().After(deadline) {
			t.Fatal("it prints nothing")
		}
		run(t, s, "sleep 0.02\n")
	}
	if err := s.Paste(r); err != nil {
		t.Fatal(err)
	}
	if got := run(t, s, "echo $B\n"); got != "7\n" {
		t.Errorf("pasted is %q", got)
	}
	if err := s.End(r); err != nil || !strings.HasSuffix(r.Out(), "bye\n") || r.Alive() {
		t.Errorf("%v, %q, alive %v", err, r.Out(), r.Alive())
	}
	bad, err := s.Start(fenced.Block{Text: "exit 5\n"})
	if err != nil {
		t.Fatal(err)
	}
	for bad.Alive() {
		run(t, s, "sleep 0.02\n")
	}
	if err := s.End(bad); !errors.Is(err, fenced.ErrBlock) {
		t.Errorf("what ended with 5 is %v", err)
	}
}
