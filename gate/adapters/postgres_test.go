package adapters

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// program finds one of the server's programs; Debian keeps them out of the path.
func program(name string) string {
	if found, err := exec.LookPath(name); err == nil {
		return found
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// startPostgres starts a server of its own and returns its DSN. It ends with the test.
func startPostgres(t *testing.T) string {
	t.Helper()
	initdb, server := program("initdb"), program("postgres")
	if initdb == "" || server == "" {
		const missing = "initdb and postgres are missing: apt-get install -y postgresql"
		if os.Getenv("HENCE_REQUIRE_POSTGRES") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	dir, err := os.MkdirTemp("", "hence-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	attr := unprivileged(t, dir)
	data := filepath.Join(dir, "data")
	initial := exec.CommandContext(t.Context(), initdb, "-D", data, "-U", "shop", "-A", "trust", "--no-sync", "-E",
		"UTF8", "--locale=C")
	initial.SysProcAttr, initial.Dir = attr, dir
	if out, err := initial.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	var said bytes.Buffer
	run := exec.Command(server, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
		"-c", "unix_socket_directories=", "-c", "max_connections=50")
	run.SysProcAttr, run.Dir, run.Stderr = attr, dir, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := waitFor(run)
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGINT) // fast shutdown; one that ended already says so below
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = run.Process.Kill() // it did not end by itself
			<-ended
		}
	})
	ready(t, "127.0.0.1:"+port, ended, &said)
	return "postgres://shop:pa55-w0rd@127.0.0.1:" + port + "/postgres?sslmode=disable"
}

// waitFor waits for the server's end in the one goroutine that the cleanup joins.
func waitFor(run *exec.Cmd) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run.Wait() // how it ended matters only while it starts, and then its words are shown
	}()
	return ended
}

// unprivileged hands a directory to a user that the server accepts: it refuses to run as root.
func unprivileged(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			t.Fatal(err)
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	t.Fatal("the test runs as root and there is neither a user postgres nor nobody: add one, or run it as another user")
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func ready(t *testing.T, addr string, ended <-chan struct{}, said *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	turn := time.NewTicker(20 * time.Millisecond)
	defer turn.Stop()
	dsn := fmt.Sprintf("postgres://shop@%s/postgres?sslmode=disable", addr)
	for {
		db, err := openPostgres(dsn, &secrets{})
		if err != nil {
			t.Fatal(err)
		}
		err = db.PingContext(ctx)
		_ = db.Close() // only asked whether it answers
		if err == nil {
			return
		}
		select {
		case <-turn.C:
		case <-ended:
			t.Fatalf("postgres ended: %s", said)
		case <-ctx.Done():
			t.Fatalf("postgres does not answer: %v", err)
		}
	}
}
