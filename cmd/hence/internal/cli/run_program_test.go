package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// playAgent is the test binary as an agent's program; it finds its sidecar as agents do.
func playAgent(part string) int {
	if part == "count" {
		return countInterrupts()
	}
	c := client.New(os.Getenv("HENCE_URL"), os.Getenv("HENCE_TOKEN"), client.WithWorkspace(os.Getenv("HENCE_WORKSPACE")))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), programBound)
	defer cancel()
	if part == "read" || part == "build" {
		return playAcross(ctx, c, part)
	}
	if part == "commit" {
		d, err := c.Put(ctx, "shard:/by/"+os.Getenv("HENCE_AGENT"), []byte("hello"), client.WriteOptions{})
		if err != nil || d.State != "committed" {
			fmt.Fprintln(os.Stderr, "not committed:", d.State, d.Code, d.Detail, err)
			return 1
		}
		return 0
	}
	if part == "offer" {
		return playOffer(ctx, c)
	}
	tx, err := c.Begin(ctx, client.BeginOptions{Mode: "locked"})
	if err == nil {
		_, err = tx.Read(ctx, "shard:/left/open")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "left open:", tx.ID())
	return 4
}

// playOffer makes a call that waits until a person has approved it.
func playOffer(ctx context.Context, c *client.Client) int {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err == nil {
		_, err = tx.Effect(ctx, "offer.send", map[string]any{"to": "eve"}, client.EffectOptions{})
	}
	var d client.Decision
	if err == nil {
		d, err = tx.Seal(ctx)
	}
	if err != nil || d.State != "committed" {
		fmt.Fprintln(os.Stderr, "not sent:", d.State, d.Code, err)
		return 1
	}
	return 0
}

// countInterrupts is an agent's program at a terminal: it counts SIGINT, and says how many there were at SIGQUIT.
func countInterrupts() int {
	seen := make(chan os.Signal, 16)
	signal.Notify(seen, syscall.SIGINT, syscall.SIGQUIT)
	fmt.Println("counting")
	for n := 0; ; n++ {
		if <-seen == syscall.SIGQUIT {
			fmt.Println("interrupts:", n)
			return 6
		}
		fmt.Println("interrupt", n+1)
	}
}

// onDev are the arguments of "hence run" for an agent in a cluster of this test.
func onDev(t *testing.T, dev Dev, agent string, more ...string) []string {
	return append([]string{"run", "--agent", agent, "--data-dir", t.TempDir(), "--brokers",
		strings.Join(dev.Brokers, ","), "--nats", dev.NATS}, more...)
}

// The exit code is the program's, as a shell would tell it, and it sees its sidecar and nothing else changed.
func TestRunExitCodes(t *testing.T) {
	dev := startDev(t)
	t.Setenv("NO_PROXY", "example.org")
	for script, want := range map[string]int{
		"exit 0":                           0,
		"exit 3":                           3,
		"kill -TERM $$":                    143,
		"kill -KILL $$":                    137,
		`test "$HENCE_AGENT" = a1`:         0,
		`test "$HENCE_WORKSPACE" = shop`:   0,
		`test "$NO_PROXY" = example.org`:   0,
		`test ${#HENCE_TOKEN} -ge 16`:      0,
		`test -z "$HENCE_URL"`:             1,
		`read line; test "$line" = "" `:    0,
		`echo to out; echo to err >&2`:     0,
		`kill -0 $PPID && echo $PPID >&2 `: 0,
	} {
		p := startProgram(t, onDev(t, dev, "a1", "--workspace", "shop", "--", "sh", "-c", script)...)
		if code := p.code(t); code != want {
			t.Errorf("%s: exit code %d, want %d", script, code, want)
		}
		if strings.Contains(script, "to out") && (p.out.text() != "to out" || p.errs.count("to err") != 1) {
			t.Errorf("it wrote %q and %q", p.out.text(), p.errs.text())
		}
	}
}

// What cannot be run is said at once, whether or not a cluster is there.
func TestRunOfNothing(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	away := []string{"run", "--agent", "a1", "--brokers", "127.0.0.1:1", "--nats", "nats://127.0.0.1:1"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--", "no-such-program"}, 127, "not found in PATH"},
		{[]string{"--", plain}, 126, "chmod +x"},
		{[]string{"--grace", "0s", "--", "true"}, ExitUsage, "--grace"},
		{[]string{"--policy", "/nowhere.yaml", "--", "true"}, ExitFailed, "read the policy"},
		{[]string{"--token", "short", "--", "true"}, ExitFailed, "at least 16"},
		{nil, ExitUsage, "<command>"},
		{[]string{"--"}, ExitUsage, "no program is given"},
	} {
		code, out, errs := hence(t, append(away, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %q, %q; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	if code, _, errs := hence(t, "run", "--", "true"); code != ExitUsage || !strings.Contains(errs, "--agent") {
		t.Errorf("without an agent: %d, %s", code, errs)
	}
}

// A program commits; one that leaves a transaction open has it aborted, and the next run of the agent does not wait
// for it.
func TestRunSettlesWhatIsLeft(t *testing.T) {
	dev := startDev(t)
	t.Setenv(asAgent, "leave")
	line := onDev(t, dev, "a1", "--", os.Args[0])
	p := startProgram(t, line...)
	if code := p.code(t); code != 4 {
		t.Fatalf("exit code %d", code)
	}
	_, tx, _ := strings.Cut(p.errs.await(t, "left open: "), ": ")
	code, out, errs := hence(t, "tail", "--all", "-o", "json", "--limit", strconv.Itoa(decided(t, dev)), "--brokers",
		strings.Join(dev.Brokers, ","), "--nats", dev.NATS)
	if code != ExitOK || !strings.Contains(out, `"tx":"`+tx+`"`) || !strings.Contains(out, "aborted_by_agent") {
		t.Errorf("%s is not aborted: %d, %s%s", tx, code, out, errs)
	}
	t.Setenv(asAgent, "commit")
	p = startProgram(t, line...)
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// decided is how many decisions the workspace has, as far as the sidecar of hence dev has seen.
func decided(t *testing.T, dev Dev) int {
	t.Helper()
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	d, err := c.Put(t.Context(), "shard:/last", []byte("x"), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return int(d.Seq)
}

// Brokers that come late are waited for; the program is not started before.
func TestRunWaitsForBrokers(t *testing.T) {
	ports := freePorts(t, 2)
	kafka, nats := strconv.Itoa(ports[0]), strconv.Itoa(ports[1])
	mark := filepath.Join(t.TempDir(), "started")
	p := startProgram(t, "run", "--agent", "late", "--data-dir", t.TempDir(), "--brokers", "127.0.0.1:"+kafka,
		"--nats", "nats://127.0.0.1:"+nats, "--", "sh", "-c", `: > "$0"; exit 3`, mark)
	p.errs.await(t, "waits for kafka: ")
	p.errs.await(t, "waits for nats: ")
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started without a cluster")
	}
	servers := startProgram(t, "dev", "--kafka-port", kafka, "--nats-port", nats, "--port", "0",
		"--console-port", "0", "-o", "json")
	if code := p.code(t); code != 3 {
		t.Errorf("exit code %d", code)
	}
	p.errs.await(t, "is ready at")
	if n := p.errs.count("no snapshot yet"); n > 0 {
		t.Errorf("%d log lines beside what it says itself", n)
	}
	servers.signal(t, syscall.SIGTERM)
	if code := servers.code(t); code != ExitOK {
		t.Errorf("hence dev ends with exit code %d", code)
	}
}

// While it waits, a signal ends it, and the program was never started.
func TestRunInterruptedWhileWaiting(t *testing.T) {
	for s, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		p := startProgram(t, "run", "--agent", "late", "--data-dir", t.TempDir(), "--brokers", "127.0.0.1:1", "--nats",
			"nats://127.0.0.1:1", "--", "echo", "started")
		p.errs.await(t, "waits for kafka: ")
		p.signal(t, s)
		if code := p.code(t); code != want || p.out.text() != "" {
			t.Errorf("%v: exit code %d, %q", s, code, p.out.text())
		}
	}
}

// A port in use is an error that says what to do, before the program is started.
func TestRunPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := startProgram(t, "run", "--agent", "a1", "--embedded", "--listen", taken.Addr().String(), "--", "echo", "started")
	if code := p.code(t); code != ExitFailed || p.out.text() != "" || p.errs.count("--listen") != 1 {
		t.Errorf("exit code %d, %q, %q", code, p.out.text(), p.errs.text())
	}
}

// Signals reach the program once; one that does not end in time is killed with all that it has started.
func TestRunSignals(t *testing.T) {
	p := startProgram(t, "run", "--agent", "a1", "--embedded", "--", "sh", "-c", `
		trap 'echo INT' INT; trap 'echo TERM; exit 9' TERM; trap 'echo USR1' USR1; echo ready
		while :; do sleep 0.01; done`)
	p.out.await(t, "ready")
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{{syscall.SIGUSR1, "USR1"}, {syscall.SIGINT, "INT"}, {syscall.SIGTERM, "TERM"}} {
		p.signal(t, s.signal)
		p.out.await(t, s.name)
	}
	if code := p.code(t); code != 9 || p.out.text() != "ready\nUSR1\nINT\nTERM" {
		t.Errorf("exit code %d, %q", code, p.out.text())
	}
	p = startProgram(t, "run", "--agent", "a1", "--embedded", "--grace", "100ms", "--", "sh", "-c", `
		trap "" TERM; sh -c 'trap "" TERM; echo $$; sleep 1000' & sleep 1000`)
	pid, err := strconv.Atoi(p.out.await(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 137 || p.errs.count("was killed: it did not end within 100ms") != 1 {
		t.Errorf("exit code %d", code)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("what it started is still there: %v", err)
	}
}

// When what the sidecar stands on ends, the program is told; when the sidecar's process is killed, too.
func TestRunTellsTheProgram(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "told")
	script := `trap 'echo told > "$0"; exit 5' TERM; echo ready; while :; do sleep 0.01; done`
	ctx, cancel := context.WithCancelCause(t.Context())
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said := newTranscript()
	var errs strings.Builder
	ended := make(chan int, 1)
	go func() {
		defer w.Close()
		ended <- Main(ctx, []string{"run", "--agent", "a1", "--embedded", "--", "sh", "-c", script, mark},
			Streams{Out: w, Err: &errs})
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		said.read(out)
	}()
	said.await(t, "ready")
	cancel(errors.New("the processors ended: for a test"))
	if code := <-ended; code != ExitFailed || !strings.Contains(errs.String(), "for a test") {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
	<-read
	_ = out.Close()
	if _, err := os.Stat(mark); err != nil {
		t.Error("the program was not told")
	}
	if killed := killedParent(t, script); !killed {
		t.Error("the program was not told that its sidecar's process is gone")
	}
}

// killedParent kills hence itself and says whether the program heard of it.
func killedParent(t *testing.T, script string) bool {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "told")
	p := startProgram(t, "run", "--agent", "a1", "--embedded", "--", "sh", "-c", script, mark)
	p.out.await(t, "ready")
	p.signal(t, syscall.SIGKILL)
	<-p.ended // once the program has closed its output as well
	_, err := os.Stat(mark)
	return err == nil
}

// freePorts are ports that no process listened on a moment ago.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
