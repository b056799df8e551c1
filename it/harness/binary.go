package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/child"
)

// BuildBound is how long the build of the binary may take on a small machine.
const BuildBound = 10 * time.Minute

// runFolder is the folder of one "go test": it holds the test binaries of all packages, and go removes it at the end.
// A test binary that was compiled by hand has the package's own folder instead.
func runFolder() string {
	if own, err := os.Executable(); err == nil {
		if run := filepath.Dir(filepath.Dir(own)); strings.HasPrefix(filepath.Base(run), "go-build") {
			return run
		}
	}
	return os.Getenv(EnvDir)
}

// buildOnce compiles the hence binary, with build tags if any are given, once for all packages of a run, and returns
// its path.
func buildOnce(tags []string) (string, error) {
	path := filepath.Join(runFolder(), strings.Join(append([]string{"hence"}, tags...), "-"))
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	// Two packages run at once: the second waits for the first one's build instead of linking the same binary again.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("wait for another package's build of the hence binary: %w", err)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), BuildBound)
	defer cancel()
	part := path + ".part" // a build that is cut short leaves no binary behind
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", part,
		"github.com/hence-dev/hence/cmd/hence").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the hence binary: %w\n%s", err, out)
	}
	return path, os.Rename(part, path)
}

// plainEnv is the environment without settings of the binary, which are not this test's.
func plainEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HENCE_") {
			env = append(env, e)
		}
	}
	return env
}

// Process is one started command of the binary.
type Process struct {
	*child.Process
	stdout bytes.Buffer

	mu     sync.Mutex
	recent []string
	panics []string
}

// maxRecent bounds the lines of a process that are kept for messages.
const maxRecent = 60

// Spawn starts the binary. Lines of its standard error go to each, from one goroutine; it may be nil. The process is
// killed with the test.
func Spawn(tb testing.TB, binary string, each func(line string), args ...string) *Process {
	tb.Helper()
	return SpawnCommand(tb, each, exec.Command(binary, args...))
}

// SpawnCommand is Spawn for a command whose Env is set besides the rest.
func SpawnCommand(tb testing.TB, each func(line string), cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{}
	p.start(tb, &p.stdout, each, cmd)
	return p
}

// SpawnServing is Spawn for a command that prints one line on its standard output once it serves, and waits for it.
func SpawnServing(tb testing.TB, bound time.Duration, binary string, args ...string) (*Process, []byte) {
	tb.Helper()
	p, line, err := Launch(tb, bound, exec.Command(binary, args...))
	if err != nil {
		tb.Fatal(err)
	}
	return p, line
}

// ErrEnded is returned by Launch when the process ended before it served.
var ErrEnded = errors.New("it ended before it served")

// Launch is SpawnServing for a command that may end before it serves; what its Env names is set besides the rest.
func Launch(tb testing.TB, bound time.Duration, cmd *exec.Cmd) (*Process, []byte, error) {
	tb.Helper()
	p, out := &Process{}, &firstLine{seen: make(chan []byte, 1)}
	p.start(tb, out, nil, cmd)
	select {
	case line := <-out.seen:
		return p, line, nil
	case <-p.Ended():
		return p, nil, fmt.Errorf("%v: %w: %w\n%s", cmd.Args, ErrEnded, p.failure(), p.Words())
	case <-time.After(bound):
		return p, nil, fmt.Errorf("%v does not serve after %v\n%s", cmd.Args, bound, p.Words())
	}
}

// firstLine passes the first line that is written on, and drops the rest.
type firstLine struct {
	seen chan []byte
	text []byte
	done bool
}

func (f *firstLine) Write(b []byte) (int, error) {
	if !f.done {
		f.text = append(f.text, b...)
		if line, _, whole := bytes.Cut(f.text, []byte("\n")); whole {
			f.done = true
			f.seen <- line
		}
	}
	return len(b), nil
}

func (p *Process) start(tb testing.TB, stdout io.Writer, each func(string), cmd *exec.Cmd) {
	tb.Helper()
	// A "hence dev" of another test is not to be found, and the user's own is left alone.
	own := append(plainEnv(), "XDG_STATE_HOME="+tb.TempDir())
	cmd.Env, cmd.WaitDelay = append(own, cmd.Env...), 10*time.Second
	cmd.Stdout = stdout
	stderr, err := cmd.StderrPipe()
	if err == nil {
		p.Process, err = child.Start(cmd, func() { p.readLines(stderr, each) })
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Kill() }) // it may have ended
}

// Interrupt asks the process to end, as Ctrl-C does.
func (p *Process) Interrupt() error { return p.Signal(os.Interrupt) }

// Terminate asks the process to end, also one that was started to ignore Ctrl-C.
func (p *Process) Terminate() error { return p.Signal(syscall.SIGTERM) }

// Kill ends the process without a farewell and waits for that.
func (p *Process) Kill() error {
	err := p.Signal(os.Kill)
	<-p.Ended()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (p *Process) readLines(from io.Reader, each func(string)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.recent = append(p.recent, lines.Text())
		p.recent = p.recent[max(0, len(p.recent)-maxRecent):]
		if tellsPanic(lines.Text()) {
			p.panics = append(p.panics, lines.Text())
		}
		p.mu.Unlock()
		if each != nil {
			each(lines.Text())
		}
	}
}

func tellsPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.Contains(line, "panic serving")
}

// Panics are the lines of its standard error that tell of one.
func (p *Process) Panics() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.panics)
}

// Words are the last lines of its standard error.
func (p *Process) Words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.recent, "\n")
}

// failure is what waiting for a process that has ended returned.
func (p *Process) failure() error {
	_, err := p.Result()
	return err
}

// Wait waits for the end and returns the standard output and the exit code.
func (p *Process) Wait(bound time.Duration) (stdout []byte, code int, err error) {
	select {
	case <-p.Ended():
	case <-time.After(bound):
		return nil, 0, fmt.Errorf("it still runs after %v; its last words:\n%s", bound, p.Words())
	}
	var exit *exec.ExitError
	if err := p.failure(); err != nil && !errors.As(err, &exit) {
		return nil, 0, err
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return p.stdout.Bytes(), code, nil
}
