package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var sorted []float64
	for i := range 100 {
		sorted = append(sorted, float64(i+1))
	}
	for q, want := range map[float64]float64{0: 1, 0.01: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		if got := Quantile(sorted, q); got != want {
			t.Errorf("quantile %v of 1 to 100 is %v, want %v", q, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing is not 0")
	}
}

// A run is void when the bare loop is more than 15 % away from itself, whichever of the two was faster.
func TestDrift(t *testing.T) {
	for _, c := range []struct {
		before, after float64
		void          bool
	}{{100, 100, false}, {100, 114, false}, {100, 116, true}, {116, 100, true}, {100, 0, true}, {0, 100, true}} {
		if got := Drift(c.before, c.after) > VoidAbove; got != c.void {
			t.Errorf("%v, then %v: void %v, want %v", c.before, c.after, got, c.void)
		}
	}
	if !math.IsInf(Drift(0, 0), 1) {
		t.Error("a loop that did nothing is taken for an undisturbed one")
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123: "0.012", 0.5: "0.5", 1.234: "1.23", 9.996: "10",
		12.34: "12.3", 123.4: "123", 999.6: "1000", 1234: "1,234", 1234567: "1,234,567", -1234: "-1,234", 100: "100"} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

// sampleOf is a report with figures of two runs each.
func sampleOf(rate, p50 float64) *Report {
	r := &Report{Version: Version, Program: "hence test",
		Settings: Settings{Runs: 2, Seconds: 1, Postgres: "PostgreSQL 15"}}
	r.Add(Key{Throughput, Load(8, 64), OneCar, Rate}, []float64{rate, rate * 1.1}, 1, false)
	r.Add(Key{Throughput, Load(8, 64), OneCar, OfPostgres}, []float64{0.8}, 0, false)
	r.Add(Key{Latency, InFlight(1), OneCar, P50}, []float64{p50}, 0, true)
	r.Add(Key{Latency, InFlight(1), OneCar, OfFloor50}, []float64{1.5}, 0, false)
	r.Add(Key{Size, "on disk", "binary", MB}, []float64{50}, 0, false)
	r.Note("the processor time of <some> servers is not counted")
	return r
}

// A figure that is more than 10 % worse is found, whether it is to be large or small; one that is better is not.
func TestCompare(t *testing.T) {
	before := sampleOf(1000, 1)
	for _, c := range []struct {
		rate, p50 float64
		worse     int
	}{{1000, 1, 0}, {910, 1.09, 0}, {890, 1, 1}, {1000, 1.2, 1}, {800, 2, 2}, {2000, 0.1, 0}} {
		got := Compare(before, sampleOf(c.rate, c.p50))
		if got.Worse != c.worse || len(got.Rows) != len(before.Figures) || len(got.Only) != 0 {
			t.Errorf("%+v: %d are worse, %d rows, only %v", c, got.Worse, len(got.Rows), got.Only)
		}
	}
	other := sampleOf(1000, 1)
	if other.Settings.Runs++; Compare(before, before).Other || !Compare(before, other).Other {
		t.Error("other settings are not said, or the same ones are")
	}
	more := sampleOf(1000, 1)
	more.Add(Key{Read, "x", OneCar, "reads/s"}, []float64{1}, 0, false)
	if got := Compare(before, more); len(got.Only) != 1 || len(Compare(more, before).Only) != 1 {
		t.Errorf("a figure that one of them has alone: %v", got.Only)
	}
}

// Each goal is held against its figure, in the direction that is better.
func TestJudge(t *testing.T) {
	r := sampleOf(1000, 1)
	r.Add(Key{Latency, InFlight(64), OneCar, OfFloor50}, []float64{1}, 0, true)
	r.Judge()
	want := map[string]string{"decision p50 / floor p50, 1 in flight": MustMet, "MB of the binary": Missed,
		"commits/s of PostgreSQL's, 8 × 64, one sidecar": MustMet, "Kafka records a commit": NotMeasured,
		"decision p50 / floor p50, 64 in flight": Void}
	for _, g := range r.Goals {
		if w, ok := want[g.What]; ok && g.State != w {
			t.Errorf("%s is %s, want %s", g.What, g.State, w)
		}
		delete(want, g.What)
	}
	if len(want) > 0 {
		t.Errorf("there are no goals %v", want)
	}
	for _, g := range r.Goals {
		if met := g.State == GoalMet || g.State == MustMet; met && g.Value == nil {
			t.Errorf("%s is %s without a value", g.What, g.State)
		}
	}
}

// A report keeps its figures as JSON; one of another version is refused.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	write := func(r *Report) {
		t.Helper()
		text, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := sampleOf(1000, 1)
	write(r)
	got, err := ReadFile(path)
	if err != nil || len(got.Figures) != len(r.Figures) || got.Figures[0] != r.Figures[0] {
		t.Fatalf("%v, %+v, want %+v", err, got, r)
	}
	r.Version++
	write(r)
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "measure again") {
		t.Errorf("another version: %v", err)
	}
}

// Each way to write a report has all figures, the spread of several runs, and which runs were void.
func TestWritten(t *testing.T) {
	r := sampleOf(1000, 1)
	r.Judge()
	for name, write := range map[string]func(io.Writer) error{"table": r.WriteTable, "markdown": r.WriteMarkdown} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"1,050 (1,000..1,100)", "1 !", "8 × 64", "every run was void", "goal", "PostgreSQL",
			"<some>"} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s has no %q:\n%s", name, text, out.String())
			}
		}
	}
	var svg bytes.Buffer
	if err := r.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	bars := 0
	for d := xml.NewDecoder(&svg); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "line" {
			bars++
		}
	}
	if bars != len(r.Figures) {
		t.Errorf("the plot has %d bars of %d figures", bars, len(r.Figures))
	}
}
