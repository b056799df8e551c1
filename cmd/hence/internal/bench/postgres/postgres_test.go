package postgres

import (
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

	"github.com/jackc/pgx/v5"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
)

// serve starts a database of its own for the test and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian keeps the programs out of the path
	if len(found) == 0 {
		const missing = "there is no /usr/lib/postgresql/*/bin: apt-get install -y postgresql"
		if os.Getenv("HENCE_REQUIRE_POSTGRES") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	dir, err := os.MkdirTemp("", "hence-bench-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	_ = listener.Close()
	as := ordinary(t, dir)
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(found[len(found)-1], name), append([]string{"-D", dir + "/data"}, args...)...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	if out, err := run("initdb", "-U", "bench", "-A", "trust", "--no-sync", "--locale=C").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := run("postgres", "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	})
	return "postgres://bench@127.0.0.1:" + port + "/postgres?sslmode=disable"
}

// ordinary is a user that the server accepts, who gets the folder: it refuses to run as root.
func ordinary(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// Turns that meet on one row are all made, each after the one before it, and the table is gone at the end.
func TestTurns(t *testing.T) {
	url := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const workers = 8
	open := func() (*Table, error) {
		return Open(ctx, url, "hence-bench-1", workers, 1, "text", func(int) int { return 0 })
	}
	turn := time.NewTicker(50 * time.Millisecond)
	defer turn.Stop()
	table, err := open()
	for ; err != nil && ctx.Err() == nil; table, err = open() { // until the server answers
		<-turn.C
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err := table.Settings(ctx); err != nil || text == "" {
		t.Errorf("settings %q, %v", text, err)
	}
	got, err := load.Run(ctx, load.Spec{Workers: workers, For: time.Second}, table.Turn)
	if err != nil || got.Turns == 0 {
		t.Fatalf("%d turns, %v", got.Turns, err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	version := 0
	err = conn.QueryRow(ctx, `SELECT version FROM "hence-bench-1"`).Scan(&version)
	if err != nil || version != got.Turns+1 || got.Refused == 0 {
		t.Errorf("%d turns, %d refused, and the row has version %d, %v", got.Turns, got.Refused, version, err)
	}
	table.Close()
	if err := conn.QueryRow(ctx, `SELECT version FROM "hence-bench-1"`).Scan(&version); err == nil {
		t.Error("the table is still there")
	}
	if at, err := Address(url); err != nil || fmt.Sprintf("postgres://bench@%s/postgres?sslmode=disable", at) != url {
		t.Errorf("it listens on %s, %v", at, err)
	}
}
