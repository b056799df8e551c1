package adapters

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
)

func TestExecArguments(t *testing.T) {
	t.Setenv("HENCE_TEST_NOT_INHERITED", "x")
	a := build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{
		Argv: []string{"sh", "-c", `printf '%s|' "$@" "$HENCE_KEY" "$COLOUR" "$HENCE_TEST_NOT_INHERITED"; cat`,
			"sh", "{a}", "{b}"}, Options: []string{"b"},
		Env: map[string]string{"COLOUR": "dark {b}"}, Stdin: []byte(`{"n":"{n}"}`)})
	got := must(t, a, call("key-1", `{"a":"$(touch /nowhere); 'x y'","b":"-rf *","n":7}`))
	want := `$(touch /nowhere); 'x y'|-rf *|key-1|dark -rf *||{"n":7}`
	if string(got.Result) != string(toJSON(want)) {
		t.Errorf("it saw %s, want %s", got.Result, toJSON(want))
	}
}

func TestExecExitCodes(t *testing.T) {
	a := build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{
		Argv: []string{"sh", "-c", `echo '{{"ok":true}}'; exit "$1"`, "sh", "{code}"}, Refused: []int{3},
		LookUp: &gate.ExecLookUp{Argv: []string{"sh", "-c", `exit "$1"`, "sh", "{code}"}}})
	for code, want := range map[string]string{"0": "done", "3": "refused", "4": "unknown"} {
		got, err := a.Call(t.Context(), call("", `{"code":`+code+`}`))
		is := map[bool]string{true: "refused", false: "done"}[got.Refused]
		if errors.Is(err, gate.ErrUnknown) {
			is = "unknown"
		}
		if is != want || want == "done" && string(got.Result) != `{"ok":true}` {
			t.Errorf("exit code %s: %s (%+v, %v), want %s", code, is, got, err, want)
		}
	}
	if got, err := a.LookUp(t.Context(), call("", `{"code":1}`)); err != nil || !got.Absent {
		t.Errorf("the look-up ends with 1: %+v, %v", got, err)
	}
	if got, err := a.LookUp(t.Context(), call("", `{"code":0}`)); err != nil || got.Absent {
		t.Errorf("the look-up ends with 0: %+v, %v", got, err)
	}
	if _, err := a.LookUp(t.Context(), call("", `{"code":9}`)); err == nil {
		t.Error("the look-up ends with 9 and says something")
	}
}

// TestExecKillsTheGroup has the program start another one, which must end with it.
func TestExecKillsTheGroup(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	a := build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{
		Argv: []string{"sh", "-c", `sleep 3600 & echo $! >"$1.new"; mv "$1.new" "$1"; wait`, "sh", "{note}"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := a.Call(ctx, call("", string(toJSON(map[string]string{"note": note}))))
		ended <- err
	}()
	var pid int
	until(t, "the child is there", func() bool {
		data, err := os.ReadFile(note)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("a program that was killed: %v", err)
	}
	until(t, "the child is gone", func() bool {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(data), ") Z ")
	})
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	turn := time.NewTicker(5 * time.Millisecond)
	defer turn.Stop()
	over := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-turn.C:
		case <-over:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestExecOutputIsBounded(t *testing.T) {
	a := build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{Argv: []string{"head", "-c", "3000000", "/dev/zero"}})
	if _, err := a.Call(t.Context(), call("", `{}`)); !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("an endless answer: %v", err)
	}
}
