package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pseudoTerminal is a terminal whose keys a test presses.
type pseudoTerminal struct {
	keys  *os.File // and the screen
	slave *os.File
	*transcript
}

func newTerminal(t *testing.T) *pseudoTerminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal can be had (%v): mount devpts at /dev/pts", err)
	}
	raw, err := keys.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	control := func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}
	if failed := raw.Control(control); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pseudoTerminal{keys: keys, slave: slave, transcript: newTranscript()}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		p.read(keys)
	}()
	t.Cleanup(func() {
		_ = slave.Close()
		_ = keys.Close() // who is left at the terminal is hung up on
		<-shown
	})
	return p
}

func (p *pseudoTerminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(p.keys, keys); err != nil {
		t.Fatal(err)
	}
}

// leaves waits until a group is not in the foreground any more.
func (p *pseudoTerminal) leaves(t *testing.T, group int) {
	t.Helper()
	raw, err := p.keys.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(programBound); ; {
		front := group
		err := raw.Control(func(fd uintptr) { front, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
		if err == nil && front > 0 && front != group {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("group %d keeps the terminal", group)
		}
	}
}

// at starts a command in a session of its own at the terminal. Its output goes there, too, unless it has one.
func (p *pseudoTerminal) at(t *testing.T, cmd *exec.Cmd, more ...string) (code func() int) {
	t.Helper()
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), more...)
	cmd.Stdin, cmd.Stderr = p.slave, p.slave
	if cmd.Stdout == nil {
		cmd.Stdout = p.slave
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its code is looked at
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", p.text())
		}
	})
	return func() int {
		<-ended
		return cmd.ProcessState.ExitCode()
	}
}

const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// Ctrl-C at the terminal reaches the program once, and not the sidecar.
func TestRunCtrlC(t *testing.T) {
	term := newTerminal(t)
	code := term.at(t, exec.Command(os.Args[0], "run", "--agent", "a1", "--embedded", "--", "/proc/self/exe"),
		asAgent+"=count")
	term.await(t, "counting")
	for n := 1; n <= 3; n++ {
		term.press(t, ctrlC)
		term.await(t, fmt.Sprint("interrupt ", n))
	}
	term.press(t, ctrlBackslash)
	term.await(t, "interrupts: 3")
	if got := code(); got != 6 {
		t.Errorf("exit code %d", got)
	}
}

// With its output in a pipe the program does not take the terminal from others, until it asks for it: Ctrl-C reaches
// it once before and after.
func TestRunCtrlCInPipe(t *testing.T) {
	term := newTerminal(t)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, read := newTranscript(), make(chan struct{})
	cmd := exec.Command(os.Args[0], "run", "--agent", "a1", "--embedded", "--", "bash", "-c", `
		trap 'echo INT' INT; trap 'echo bye; exit 7' QUIT; echo ready
		until read -t 60 line; do :; done; echo "got $line"
		while :; do sleep 0.01; done`)
	cmd.Stdout = w
	code := term.at(t, cmd)
	_ = w.Close()
	go func() {
		defer close(read)
		said.read(out)
	}()
	said.await(t, "ready")
	term.press(t, "hello\n")
	said.await(t, "got hello") // it had to be given the terminal
	term.press(t, ctrlC)
	said.await(t, "INT")
	term.press(t, ctrlBackslash)
	said.await(t, "bye")
	if got := code(); got != 7 || said.count("INT") != 1 {
		t.Errorf("exit code %d, %q", got, said.text())
	}
	<-read
	_ = out.Close()
}

// Ctrl-Z stops the program and hence with it, so that the shell has the terminal again; fg goes on with both.
func TestRunJobControl(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no shell with job control is here: install bash")
	}
	term := newTerminal(t)
	cmd := exec.Command(bash, "--norc", "--noprofile", "-i")
	code := term.at(t, cmd, asAgent+"=count", "PS1=shell> ", "HENCE="+os.Args[0])
	term.press(t, `"$HENCE" run --agent a1 --embedded -- /proc/self/exe`+"\n")
	term.await(t, "counting")
	term.press(t, ctrlC)
	term.await(t, "interrupt 1")
	term.press(t, ctrlZ)
	term.await(t, "Stopped")
	term.press(t, "echo the shell is\\ here\n")
	term.await(t, "the shell is here")
	term.press(t, "fg\n")
	term.leaves(t, cmd.Process.Pid)
	term.press(t, ctrlC)
	term.await(t, "interrupt 2")
	term.press(t, ctrlBackslash)
	term.await(t, "interrupts: 2")
	term.press(t, "echo code=$?\n")
	term.await(t, "code=6")
	term.press(t, "exit 0\n")
	if got := code(); got != 0 {
		t.Errorf("the shell ends with %d", got)
	}
}

// At a terminal each agent has a colour, unless plain text is asked for.
func TestUpColours(t *testing.T) {
	path := agentsFile(t, "  - {name: one, command: echo here}\n  - {name: two, command: echo there}\n")
	for _, plain := range []string{"", "1"} {
		term := newTerminal(t)
		code := term.at(t, exec.Command(os.Args[0], "up", "-f", path), "NO_COLOR="+plain)
		if got := code(); got != 0 {
			t.Errorf("exit code %d", got)
		}
		term.await(t, "AGENT")
		one, two := term.count("\x1b[36mone | \x1b[0mhere"), term.count("\x1b[33mtwo | \x1b[0mthere")
		if plain == "" && (one != 1 || two != 1) || plain != "" && term.count("\x1b") > 0 {
			t.Errorf("NO_COLOR=%q:\n%q", plain, term.text())
		}
	}
}
