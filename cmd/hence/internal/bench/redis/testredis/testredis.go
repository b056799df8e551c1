// Package testredis starts Redis servers for tests.
package testredis

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// Serve starts a server of its own for a test and returns its address. It ends with the test. Without Redis the test
// is skipped, or fails where HENCE_REQUIRE_REDIS is set.
func Serve(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		const missing = "redis-server is missing: apt-get install -y redis-server"
		if os.Getenv("HENCE_REQUIRE_REDIS") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, port := free.Addr().String(), strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait() // it was killed
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close() // only asked whether it listens
			return "redis://" + at
		}
		if pause.Sleep(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("redis does not answer: %v", err)
		}
	}
}
