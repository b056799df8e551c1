package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
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

// TestReport holds that the command reads what slices and other tests write.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(testsize.EnvBook, dir)
	s := &slice{Entry: testsize.NewEntry("torture", time.Now()), Brokers: 3, Points: map[string]int{"join.after": 4},
		Faults:  map[string]*strikes{"kill NATS": {Landed: 7, Void: 2, RecoveryMs: []int64{250}}},
		Crashes: []string{"kill NATS"},
		LeftOut: map[string]string{"clock": "none"}, verdict: verdict{Committed: 4321, Linearizable: 1234, Hashes: 55}}
	testsize.Add(t, bookName, s)
	testsize.Figure(t, time.Now(), "schedules", 77, 0, "make sim")
	former := readBook(t, dir)
	if len(former) != 1 || former[0].Committed != 4321 || former[0].Faults["kill NATS"].Landed != 7 {
		t.Fatalf("read again: %+v", former)
	}
	doc := filepath.Join(dir, "trust.md")
	report := exec.Command(harness.Binary(t), "torture", "report", "--book", dir, "--doc", doc)
	if out, err := report.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0 of 4,321", "| kill NATS | 7 | 2 | 250ms |",
		"(1 of them with three brokers, 0 beside", "1,234",
		"| state hashes that both replicas published | 55 |", "| failpoints at which sidecars died | 1, 4 times",
		"| clock | could not be injected here: none", "| schedules | 77 | 1 |", "`make sim`"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the document has no %q\n%s", want, text)
		}
	}
}
