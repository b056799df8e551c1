package docs

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/fenced"
	"github.com/hence-dev/hence/it/harness"
)

// The marks behind "sh" in the info string of a block in a document.
const (
	markNew    = "new"    // a fresh shell in a fresh folder
	markServe  = "serve"  // goes on in the background; once it is ready its export lines are pasted
	markWatch  = "watch"  // goes on in the background and prints something before the document ends
	markSuite  = "suite"  // the tests themselves, or run by a test of its own
	markDocker = "docker" // needs an engine with images; run when HENCE_TEST_CONTAINERS is 1
	markReal   = "servers"
)

// Bounds of what a block may take.
const (
	blockBound = 3 * time.Minute
	serveBound = time.Minute
	watchBound = 5 * time.Second
)

// TestDocs runs every block of shell commands in the documents as it is printed, one shell for each document.
// "go run ./cmd/hence" is the built binary, and HENCE_RANDOM_PORTS is set, so that documents do not meet.
func TestDocs(t *testing.T) {
	t.Parallel() // it waits for programs of its own
	root := harness.Root(t)
	unread(t, root)
	ran, found, left := 0, 0, map[string]int{}
	for _, path := range documents(t, root) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := fenced.Blocks(name, string(text))
		if err != nil {
			t.Error(err)
		}
		if found += len(blocks); len(blocks) == 0 {
			continue
		}
		for _, b := range blocks {
			if line := commented(b.Text); line != "" {
				t.Errorf("%s: zsh would not take the comment for one, say it in the text: %s", b.Where(), line)
			}
		}
		t.Run(name, func(t *testing.T) {
			r := &reader{t: t, root: root, left: left}
			defer r.close()
			for _, b := range blocks {
				r.read(b)
			}
			ran += r.ran
		})
	}
	t.Logf("%d blocks of %d ran; left out: %v", ran, found, left)
	if found < 20 {
		t.Errorf("the documents have only %d blocks", found)
	}
}

// documents are all Markdown files that people read first.
func documents(tb testing.TB, root string) []string {
	tb.Helper()
	all := []string{filepath.Join(root, "README.md"), filepath.Join(root, "compose", "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// unread holds that no other Markdown file has commands: they would not be run.
func unread(t *testing.T, root string) {
	t.Helper()
	known := documents(t, root)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" { // what "npm ci" has put beside a client
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" || slices.Contains(known, path) {
			return err
		}
		text, err := os.ReadFile(path)
		if blocks, wrong := fenced.Blocks(path, string(text)); len(blocks) > 0 || wrong != nil {
			t.Errorf("%s has commands and is no document that is run: %d blocks, %v", path, len(blocks), wrong)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commented is the first line of a block with a comment: pasted into zsh, it would be words of the command.
func commented(block string) string {
	end, comment := "", regexp.MustCompile(`(^|\s)#(\s|$)`)
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		switch m := regexp.MustCompile(`<<'?(\w+)'?$`).FindStringSubmatch(line); {
		case end != "": // in a file that is written
			if line == end {
				end = ""
			}
		case m != nil:
			end = m[1]
		case comment.MatchString(line):
			return line
		}
	}
	return ""
}

// reader does what a document says.
type reader struct {
	t       *testing.T
	root    string
	shell   *fenced.Shell
	watched []*fenced.Running
	ran     int
	left    map[string]int // blocks left out, by why
}

// read runs one block, or says why not.
func (r *reader) read(b fenced.Block) {
	r.t.Helper()
	if why := missing(b); why != "" {
		if os.Getenv(harness.EnvRequireWatchers) != "" && strings.HasPrefix(why, harness.NeedsProgram) {
			r.t.Errorf("%s: it %s", b.Where(), why)
		}
		r.left[why]++
		r.t.Logf("left out: %s: %s", b.Where(), why)
		return
	}
	if r.shell == nil || b.Has(markNew) {
		r.close()
		r.shell = readersShell(r.t, r.root, dockerEnv(r.t, b)...)
	}
	r.ran++
	b.Text = strings.ReplaceAll(b.Text, "go run ./cmd/hence", "hence")
	switch {
	case b.Has(markServe):
		r.serve(b)
	case b.Has(markWatch):
		w, err := r.shell.Start(b)
		if err != nil {
			r.t.Fatal(err)
		}
		r.watched = append(r.watched, w)
		waitWhile(watchBound, func() bool { return w.Out()+w.Words() == "" && w.Alive() })
	default:
		began, bound := time.Now(), blockBound
		if b.Has(markDocker) {
			bound = harness.UpBound
		}
		out, err := r.shell.Run(b, bound)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Logf("%s, %v:\n%s%s", b.Where(), time.Since(began).Round(time.Millisecond), b.Text, out)
	}
}

func (r *reader) serve(b fenced.Block) {
	r.t.Helper()
	running, err := r.shell.Start(b)
	if err != nil {
		r.t.Fatal(err)
	}
	ready := func() bool { return strings.Contains(running.Out()+running.Words(), "ready") }
	waitWhile(serveBound, func() bool { return !ready() && running.Alive() })
	if !ready() {
		r.t.Fatalf("%s: it is not ready:\n%s%s", b.Where(), running.Out(), running.Words())
	}
	if err := r.shell.Paste(running); err != nil {
		r.t.Fatal(err)
	}
}

// close ends what still runs; what watched must have seen something.
func (r *reader) close() {
	r.t.Helper()
	began := time.Now()
	defer func() { r.t.Logf("ending what runs took %v", time.Since(began).Round(time.Millisecond)) }()
	for _, w := range r.watched {
		waitWhile(watchBound, func() bool { return w.Out() == "" && w.Alive() })
		if w.Block.Has(markDocker) { // it ends when its containers are removed; at Ctrl-C it would say 1
			waitWhile(watchBound, w.Alive)
		}
		if w.Out() == "" {
			r.t.Errorf("%s: it shows nothing; it said: %s", w.Block.Where(), w.Words())
		}
	}
	r.watched = nil
	if r.shell != nil {
		if err := r.shell.Close(); err != nil {
			r.t.Error(err)
		}
		r.shell = nil
	}
}

// waitWhile waits until cond no longer holds, or for the bound; the caller looks which.
func waitWhile(bound time.Duration, cond func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(bound); cond(); {
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// missing says what a block needs and is not there.
func missing(b fenced.Block) string {
	switch {
	case b.Has(markSuite):
		return "run by a test of its own, or the suite itself"
	case b.Has(markDocker) && (!harness.Containers() || exec.Command("docker", "version").Run() != nil):
		return "needs docker and " + harness.EnvContainers + "=1"
	case b.Has(markReal) && !harness.Real():
		return "needs " + harness.EnvKafka + " and " + harness.EnvNATS
	}
	for _, mark := range b.Marks {
		if strings.HasPrefix(mark, "exit=") ||
			slices.Contains([]string{markNew, markServe, markWatch, markSuite, markDocker, markReal}, mark) {
			continue
		}
		if _, err := harness.LookPath(mark); err != nil { // any other mark names a program that it needs
			return harness.NeedsProgram + mark
		}
	}
	return ""
}

// readersShell is a shell as a reader has one: hence on the path, the clone's files in the folder, and a curl that
// fails when it is answered with an error.
func readersShell(t *testing.T, root string, more ...string) *fenced.Shell {
	t.Helper()
	dir, env := readersDesk(t, root)
	shell, err := fenced.NewShell(dir, append(env, more...))
	if err != nil {
		t.Fatal(err)
	}
	return shell
}

// readersDesk is the folder and the environment of a reader's terminals.
func readersDesk(t *testing.T, root string) (dir string, env []string) {
	t.Helper()
	home := t.TempDir()
	dir = t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		err = errors.Join(err, os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(home, ".curlrc"), []byte("fail-with-body\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	env = []string{
		"PATH=" + filepath.Dir(harness.Binary(t)) + ":" + natsFolder() + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home,
		"HENCE_RANDOM_PORTS=true", "LANG=C.UTF-8", "PROMETHEUS=" + freeAddress(t), "TEAM=" + freeAddress(t),
	}
	env = append(env, goEnv()...)
	if harness.Real() {
		servers := harness.Start(t)
		env = append(env, "KAFKA="+strings.Join(servers.Brokers, ","), "NATS="+servers.NATS)
	}
	return dir, env
}

// goEnv are Go's settings and caches, which lie in the home that a reader's shell does not have.
func goEnv() (env []string) {
	names := []string{"GOCACHE", "GOPATH", "GOMODCACHE", "GOFLAGS", "GOPROXY"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	values := strings.Split(string(out), "\n")
	if err != nil || len(values) < len(names) {
		return nil // a block that needs go is left out, or shows what is wrong
	}
	for i, name := range names {
		env = append(env, name+"="+values[i])
	}
	return env
}

// dockerEnv gives a shell that works with compose a project, images and ports of its own, for the file that its first
// block names.
func dockerEnv(t *testing.T, first fenced.Block) []string {
	t.Helper()
	if !first.Has(markDocker) {
		return nil
	}
	file := "compose.yaml"
	if strings.Contains(first.Text, "compose/cluster.yaml") {
		file = "cluster.yaml"
	}
	s := harness.NewStack(t, file)
	t.Cleanup(func() {
		left, err := harness.Docker(harness.CommandBound, nil, "ps", "--all", "--quiet", "--filter",
			"label=com.docker.compose.project="+s.Project)
		if err != nil || left != "" && !t.Failed() {
			t.Errorf("who follows %s to its end leaves containers: %v\n%s", first.Where(), err, left)
		}
	})
	home, err := os.UserHomeDir() // compose may be a plugin there, and the shell has another home
	if err != nil {
		t.Fatal(err)
	}
	env := append(s.Env, "COMPOSE_PROJECT_NAME="+s.Project, "DOCKER_CONFIG="+filepath.Join(home, ".docker"))
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "DOCKER_") {
			env = append(env, e)
		}
	}
	return env
}

// freeAddress is one on which no process listened just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func natsFolder() string {
	if path := os.Getenv(harness.EnvNATSCLI); path != "" {
		return filepath.Dir(path) + ":"
	}
	return ""
}
