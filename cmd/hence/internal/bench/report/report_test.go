package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
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
	for _, c := range []struct{ before, after, want float64 }{{100, 100, 0}, {100, 125, 0.25}, {125, 100, 0.25},
		{1, 3, 2}} {
		if got := Drift(c.before, c.after); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("from %v to %v it drifts by %v, want %v", c.before, c.after, got, c.want)
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
	for i, size := range []float64{10, 1000} {
		for _, line := range []struct {
			system string
			values []float64
		}{{"sidecars", []float64{100, 110 + 20*float64(i)}},
			{"Kafka", []float64{100 + 20*float64(i), 101 + 20*float64(i)}}} {
			k := Key{Growth, ByPast + ", " + Number(size), line.system, CPUCommit}
			r.Add(k, line.values, 0, false)
			r.Place(k, ByPast, size)
		}
	}
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
			"<some>", "past transactions", "105 (100..110)", "flat", "grows"} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s has no %q:\n%s", name, text, out.String())
			}
		}
	}
	var svg bytes.Buffer
	if err := r.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	bars, points := 0, 0
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
		} else if ok && e.Name.Local == "polyline" {
			points += len(strings.Fields(e.Attr[1].Value))
		}
	}
	if bars+points != len(r.Figures) || points != 4 {
		t.Errorf("the plot has %d bars and %d points of %d figures", bars, points, len(r.Figures))
	}
}

// A line is flat as long as its highest point is not far above the first, or the runs of both overlap; a rate that
// rises gets no verdict.
func TestFlat(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second []float64
		third         float64
		want          string
	}{
		{CPUCommit, []float64{100}, []float64{114}, 100, "flat"},
		{CPUCommit, []float64{100}, []float64{116}, 100, "grows"},
		{CPUCommit, []float64{100}, []float64{90}, 120, "grows"},
		{CPUCommit, []float64{90, 130}, []float64{128, 150}, 100, "flat"},
		{CPUCommit, []float64{100}, []float64{50}, 40, "flat"},
		{Rate, []float64{100}, []float64{150}, 200, ""},
	} {
		r := new(Report)
		for i, values := range [][]float64{c.first, c.second, {c.third}} {
			k := Key{Growth, Number(float64(i)), All, c.name}
			r.Add(k, values, 0, false)
			r.Place(k, ByPast, float64(i))
		}
		all := r.curves()
		if len(all) != 1 || len(all[0].lines) != 1 {
			t.Fatalf("%d curves", len(all))
		}
		if _, got := all[0].lines[0].shape(); got != c.want {
			t.Errorf("%v, %v, %v is %q, want %q", c.first, c.second, c.third, got, c.want)
		}
	}
}

func TestSlope(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{{nil, nil, 0}, {[]float64{1}, []float64{1}, 0}, {[]float64{1, 1}, []float64{1, 2}, 0},
		{[]float64{0, 10, 20}, []float64{5, 10, 15}, 0.5}, {[]float64{0, 1, 2, 3}, []float64{1, 3, 1, 3}, 0.4}} {
		if got := Slope(c.x, c.y); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("the slope of %v over %v is %v, want %v", c.y, c.x, got, c.want)
		}
	}
}

// What grows by 1 % in ten minutes after the beginning is found; before it, and where it is not judged, it may.
func TestSoak(t *testing.T) {
	soak := func(grows float64, judged bool) *Soak {
		s := &Soak{From: 600, Whole: true}
		for at := 10.0; at <= 1800; at += 10 {
			s.At = append(s.At, at)
			value := 100.0
			if at < 600 {
				value = at / 6
			}
			s.Add("sidecars", MB, judged, value+max(0, at-600)*grows/600)
			s.Add("load", P99, true, 5)
		}
		s.Judge()
		return s
	}
	for _, c := range []struct {
		grows  float64
		judged bool
		holds  bool
		says   string
	}{{0, true, true, "it holds"}, {0.5, true, true, "it holds"}, {-3, true, true, "it holds"},
		{1.2, true, false, "it does not hold"}, {5, false, true, "it holds"}} {
		s := soak(c.grows, c.judged)
		if holds, _ := s.Holds(); holds != c.holds {
			t.Errorf("%v %% in ten minutes, judged %v: holds %v, slope %v", c.grows, c.judged, holds, s.Series[0].Slope)
		}
		var table, plot bytes.Buffer
		if err := errors.Join(s.WriteTable(&table), s.WriteSVG(&plot)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table.String(), c.says) || strings.Count(plot.String(), "<polyline") != 2 {
			t.Errorf("%v %%: %s%s", c.grows, table.String(), plot.String())
		}
	}
	void := soak(0, true)
	if void.Drift = 0.2; !strings.Contains(written(t, void), "void") {
		t.Error("a machine that was not quiet is not said")
	}
	if void.Whole = false; !strings.Contains(written(t, void), "not measured to its end") {
		t.Error("a run that was broken off is not said")
	}
}

// The slope of a series is what it grows by in ten minutes, as a share of its mean, from From on.
func TestSoakSlope(t *testing.T) {
	s := &Soak{From: 600}
	for at := 10.0; at <= 1800; at += 10 {
		up, down := 100+(at-600)/100, 200-(at-600)/50
		if at < s.From { // while it begins it may do as it likes
			up, down = 1000-at, 7*at
		}
		s.At = append(s.At, at)
		s.Add("sidecars", "up", true, up)
		s.Add("sidecars", "down", true, down)
		s.Add("processors", "up", true, 5)
	}
	s.Judge()
	for i, want := range []float64{6.0 / 106, -12.0 / 188, 0} { // the means are those of the middle
		if series := s.Series[i]; math.Abs(series.Slope-want) > 1e-9 {
			t.Errorf("%s, %s: the slope is %v, want %v", series.Of, series.Name, series.Slope, want)
		}
	}
}

// Without two samples after From, and where nothing is used at all, there is a slope of 0 and no NaN, which no JSON
// has; a load that was broken off then says that, and neither that it holds nor that it does not.
func TestSoakOfFewSamples(t *testing.T) {
	for name, c := range map[string]struct {
		at     []float64
		values []float64
	}{"none at all": {}, "one": {[]float64{10}, []float64{5}}, "none after From": {[]float64{10, 20}, []float64{5, 9}},
		"one after From": {[]float64{10, 700}, []float64{5, 9}}, "two at once": {[]float64{700, 700}, []float64{5, 9}},
		"nothing used": {[]float64{600, 700, 800}, []float64{0, 0, 0}}} {
		s := &Soak{From: 600, At: c.at}
		for _, v := range c.values {
			s.Add("sidecars", MB, true, v)
		}
		s.Judge()
		for _, series := range s.Series {
			if series.Slope != 0 {
				t.Errorf("%s: the slope is %v", name, series.Slope)
			}
		}
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := written(t, s)
		if !strings.Contains(text, "not measured to its end") ||
			strings.Contains(text, "it holds") || strings.Contains(text, "it does not hold") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// What grows is named, and only that; at the bound it grows.
func TestSoakNamesWhatGrows(t *testing.T) {
	s := &Soak{Whole: true, At: []float64{10}}
	for _, c := range []struct {
		of, name string
		judged   bool
		slope    float64
	}{{"sidecars", "resident MB", true, SteepAbove}, {"sidecars", "goroutines", true, math.Nextafter(SteepAbove, 0)},
		{"processors", "resident MB", true, -1}, {"load", Rate, false, 1}} {
		s.Add(c.of, c.name, c.judged, 1)
		s.Series[len(s.Series)-1].Slope = c.slope
	}
	said := map[string]string{}
	for row := range strings.Lines(written(t, s)) {
		for _, series := range s.Series {
			if strings.HasPrefix(row, series.Of+" ") && strings.Contains(row, series.Name) {
				words := strings.Fields(row)
				said[series.Of+", "+series.Name] = words[len(words)-1]
			}
		}
	}
	want := map[string]string{"sidecars, resident MB": "grows", "sidecars, goroutines": "holds",
		"processors, resident MB": "holds", "load, " + Rate: "100"}
	if !maps.Equal(said, want) {
		t.Errorf("said is %v, want %v", said, want)
	}
	if holds, void := s.Holds(); holds || void {
		t.Errorf("holds %v, void %v", holds, void)
	}
	s.Series = s.Series[1:]
	if holds, void := s.Holds(); !holds || void {
		t.Errorf("without what grows: holds %v, void %v", holds, void)
	}
}

func written(t *testing.T, s *Soak) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
