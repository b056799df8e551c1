// Package tenlines holds how much of an agent changes when it is given Hence: for each framework a small agent in the
// form that its own first pages have, without Hence and with it.
package tenlines

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// most is how many lines may be taken away or added.
const most = 10

// Hold holds that an example changes by few lines, and that both of its forms run, say the same and post the same, in
// order. example is a folder of examples; run runs a file in a folder with further variables and returns what it says;
// board is the file that the sidecar's posts are in.
func Hold(t *testing.T, example, ending, board string,
	run func(t *testing.T, dir, file string, env ...string) string) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join("..", "tenlines", "examples", example)
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	bare, ours := read(t, filepath.Join(dir, "bare"+ending)), read(t, filepath.Join(dir, "ours"+ending))
	n := Changed(bare, ours)
	if t.Logf("%s: %d lines of %d are taken away or added", example, n, len(bare)); n == 0 || n > most {
		t.Errorf("%s: %d lines are taken away or added, at most %d may be", example, n, most)
	}
	own := filepath.Join(dir, "board")
	before := read(t, board)
	said := run(t, dir, "bare"+ending, "BOARD="+own)
	if got := run(t, dir, "ours"+ending, "BOARD="+own); got != said || !strings.Contains(said, "done") {
		t.Errorf("%s says %q, and with Hence %q", example, said, got)
	}
	want := slices.Sorted(slices.Values(read(t, own))) // the two are made side by side
	if len(want) != 2 {
		t.Errorf("%s posts %q", example, want)
	}
	var got []string
	for began := time.Now(); len(got) < len(want) && time.Since(began) < 10*time.Second; { // held calls leave after it
		got = read(t, board)[len(before):]
		select {
		case <-t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s posts %q with Hence", example, got)
	}
}

// read is a file's lines; it may be missing.
func read(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// Changed is how many lines a shortest difference between two texts takes away and adds.
func Changed(before, after []string) int {
	same := make([]int, len(after)+1) // the longest common part of what is before here, by place in after
	for _, line := range before {
		last := 0
		for i, other := range after {
			above := same[i+1]
			switch {
			case line == other:
				same[i+1] = last + 1
			case same[i] > above:
				same[i+1] = same[i]
			}
			last = above
		}
	}
	return len(before) + len(after) - 2*same[len(after)]
}
