package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv makes the test binary play a child: "serve" listens, "stubborn" ignores the end of its input, "quit"
// ends once it was ready, "die" never becomes ready.
const childEnv = "HENCE_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		os.Exit(playChild(part, os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

func playChild(part, address string) int {
	if part == "die" {
		fmt.Fprintln(os.Stderr, "the port is taken")
		return 1
	}
	if address == "none" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	line, err := json.Marshal(Ready{Role: "echo", PID: os.Getpid(), Address: l.Addr().String()})
	if err != nil {
		return 1
	}
	fmt.Printf("%s\n", line)
	if part == "quit" {
		fmt.Fprintln(os.Stderr, "the topics are wrong")
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if part == "stubborn" {
		select {}
	}
	return 0
}

func echo(part string) Spec {
	return Spec{Role: "echo", Name: "echo-1", Env: append(os.Environ(), childEnv+"="+part),
		Args: func(address string) []string {
			if address == "" {
				address = "none"
			}
			return []string{"-test.run=^$", address}
		}}
}

// startEcho starts a supervised child and a reader of its announcements.
func startEcho(t *testing.T, part string) (*Supervisor, string, func() Announcement) {
	t.Helper()
	announced, out := io.Pipe()
	s := NewSupervisor(os.Args[0], t.TempDir(), out)
	s.grace = 200 * time.Millisecond
	t.Cleanup(func() { _ = announced.Close() })
	lines := bufio.NewScanner(announced)
	address, err := s.Start(t.Context(), echo(part))
	if err != nil {
		s.Close()
		t.Fatal(err)
	}
	return s, address, func() Announcement {
		t.Helper()
		var a Announcement
		if !lines.Scan() {
			t.Fatalf("no announcement: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// TestKilledChildComesBack kills a child five times: each time another process serves at the same address.
func TestKilledChildComesBack(t *testing.T) {
	s, address, next := startEcho(t, "serve")
	defer s.Close()
	last := next()
	for i := range 5 {
		if err := syscall.Kill(last.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		a := next()
		if a.PID == last.PID || a.Address != address || a.Role != "echo" || a.Starts != i+2 {
			t.Fatalf("after kill %d: %+v, want another process at %s", i+1, a, address)
		}
		if now := s.Running(); len(now) != 1 || now[0].PID != a.PID {
			t.Errorf("process %d serves, and %+v are said to run", a.PID, now)
		}
		conn, err := net.Dial("tcp", a.Address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		last = a
	}
}

// TestCloseEndsChildren closes supervisors of a child that ends by itself and of one that has to be killed.
func TestCloseEndsChildren(t *testing.T) {
	for _, part := range []string{"serve", "stubborn"} {
		s, address, next := startEcho(t, part)
		pid := next().PID
		s.Close()
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: process %d is still there: %v", part, pid, err)
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s: %s still answers", part, address)
		}
	}
}

// TestFailedStartSaysWhy starts a child that never serves: the error carries its last words, and it is not tried
// again.
func TestFailedStartSaysWhy(t *testing.T) {
	s := NewSupervisor(os.Args[0], t.TempDir(), io.Discard)
	defer s.Close()
	_, err := s.Start(t.Context(), echo("die"))
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Fatalf("got %v, want the child's last words", err)
	}
}

// TestQuitterIsReported starts a child that is ready and then gives up, every time: the supervisor ends that and
// says why.
func TestQuitterIsReported(t *testing.T) {
	s := NewSupervisor(os.Args[0], t.TempDir(), io.Discard)
	s.slowest = time.Millisecond
	defer s.Close()
	if _, err := s.Start(t.Context(), echo("quit")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.Failed():
		if !strings.Contains(err.Error(), "the topics are wrong") {
			t.Errorf("got %v, want the child's last words", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no error says that the child gives up again and again")
	}
}

// TestStartEndsWithItsContext gives up waiting for a child.
func TestStartEndsWithItsContext(t *testing.T) {
	s := NewSupervisor(os.Args[0], t.TempDir(), io.Discard)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Start(ctx, echo("serve")); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
}
