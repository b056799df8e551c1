package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// strikes is what became of one kind of fault in a slice.
type strikes struct {
	Landed     int     `json:"landed"`
	Void       int     `json:"void,omitempty"`
	RecoveryMs []int64 `json:"recovery_ms,omitempty"` // from when all was well until every agent had committed again
}

// slice is one line of the book: a run of a lab, and what it came to. "hence torture report" reads it.
type slice struct {
	testsize.Entry
	Seed    uint64              `json:"seed"`
	Brokers int                 `json:"brokers"`
	Faults  map[string]*strikes `json:"faults"`
	Crashes []string            `json:"crashes,omitempty"`  // kinds of fault that are the table's kills
	LeftOut map[string]string   `json:"left_out,omitempty"` // kinds that could not be injected, and why
	Points  map[string]int      `json:"points,omitempty"`   // failpoints at which sidecars died
	verdict
}

// of is what became of a kind.
func (s *slice) of(name string) *strikes {
	if s.Faults[name] == nil {
		s.Faults[name] = &strikes{}
	}
	return s.Faults[name]
}

// bookName is the file in the folder that the environment names.
const bookName = "torture.jsonl"

// readBook reads what former slices have put down; there need not be any.
func readBook(tb testing.TB, dir string) (all []slice) {
	tb.Helper()
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, bookName))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var s slice
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			tb.Fatalf("%s of %s: %v", bookName, dir, err)
		}
		all = append(all, s)
	}
	return all
}
