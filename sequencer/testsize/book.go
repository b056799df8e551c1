package testsize

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// EnvBook names the folder of the book: tests add to it what they came to, and "hence torture report" adds that up.
const EnvBook = "HENCE_TRUST_BOOK"

// Entry is what every line of the book begins with.
type Entry struct {
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Seconds int       `json:"seconds"`
}

// NewEntry is one of what ran since a moment.
func NewEntry(kind string, began time.Time) Entry {
	commit, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // without it the kernel has no name
	machine := fmt.Sprintf("%d CPUs, %s/%s %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, release)
	return Entry{Kind: kind, At: began.UTC(), Commit: strings.TrimSpace(string(commit)),
		Machine: strings.TrimSpace(machine), Seconds: int(time.Since(began).Seconds())}
}

// Figure adds one number to the book, if there is one: what a test that has passed has counted. Of is zero where it is
// no part of anything. The command repeats it.
func Figure(tb testing.TB, began time.Time, name string, n, of int, command string) {
	tb.Helper()
	if tb.Failed() {
		return
	}
	Add(tb, "figures.jsonl", struct {
		Entry
		Name    string `json:"name"`
		N       int    `json:"n"`
		Of      int    `json:"of,omitempty"`
		Command string `json:"command"`
	}{NewEntry("figure", began), name, n, of, command})
}

// Add appends a line to a file of the book, if there is one.
func Add(tb testing.TB, file string, line any) {
	tb.Helper()
	dir := os.Getenv(EnvBook)
	if dir == "" {
		return
	}
	text, err := json.Marshal(line)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		tb.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(append(text, '\n')) // in one write: two packages add at once
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
}
