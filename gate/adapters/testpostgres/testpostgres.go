// Package testpostgres starts PostgreSQL servers for tests.
package testpostgres

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// Serve starts a server of its own for a test and returns its address. It ends with the test.
func Serve(t *testing.T) string {
	t.Helper()
	c := New(t)
	port := FreePort(t)
	c.Start(t, "data", port)
	return "postgres://shop:pa55-w0rd@127.0.0.1:" + port + "/postgres?sslmode=disable"
}

// Cluster is a directory of data directories, of which the first, "data", is new.
type Cluster struct {
	Dir  string
	attr *syscall.SysProcAttr
}

// New makes a cluster. Without PostgreSQL the test is skipped, or fails where HENCE_REQUIRE_POSTGRES is set.
func New(t *testing.T) *Cluster {
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
	c := &Cluster{dir, unprivileged(t, dir)}
	initial := exec.CommandContext(t.Context(), initdb, "-D", filepath.Join(dir, "data"), "-U", "shop", "-A", "trust",
		"--no-sync", "-E", "UTF8", "--locale=C")
	initial.SysProcAttr, initial.Dir = c.attr, dir
	if out, err := initial.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	return c
}

// Server is one that was started.
type Server struct {
	run   *exec.Cmd
	ended <-chan struct{}
}

// Start runs a server on one of the data directories until the test ends.
func (c *Cluster) Start(t *testing.T, data, port string, settings ...string) *Server {
	t.Helper()
	args := []string{"-D", filepath.Join(c.Dir, data), "-p", port}
	for _, s := range append([]string{"listen_addresses=127.0.0.1", "fsync=off", "unix_socket_directories=",
		"max_connections=50"}, settings...) {
		args = append(args, "-c", s)
	}
	var said bytes.Buffer
	run := exec.Command(program("postgres"), args...)
	run.SysProcAttr, run.Dir, run.Stderr = c.attr, c.Dir, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	r := &Server{run, waitFor(run)}
	t.Cleanup(r.Stop)
	ready(t, "127.0.0.1:"+port, r.ended, &said)
	return r
}

// Stop is a fast shutdown; one that ended already has said so before.
func (r *Server) Stop() {
	_ = r.run.Process.Signal(syscall.SIGINT)
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.Kill() // it did not end by itself
	}
}

// Kill ends it as a machine ends that loses its power.
func (r *Server) Kill() {
	r.Signal(syscall.SIGKILL)
	<-r.ended
}

// Signal reaches the server and its children, each of which leads a group of its own.
func (r *Server) Signal(s syscall.Signal) {
	pid := r.run.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // none once it has ended
	_ = syscall.Kill(pid, s)
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, s)
		}
	}
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

// FreePort is one of the loopback address that has no listener now.
func FreePort(t *testing.T) string {
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
	for {
		conn, err := pgx.Connect(ctx, "postgres://shop@"+addr+"/postgres?sslmode=disable")
		if err == nil {
			_ = conn.Close(ctx) // only asked whether it answers
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
