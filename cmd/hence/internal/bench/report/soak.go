package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// SteepAbove is the slope of a series, as a share for ten minutes, from which on it does not stay as it is.
const SteepAbove = 0.01

// Soak is what became of one load that went on.
type Soak struct {
	Began   time.Time `json:"began"`
	Program string    `json:"program"` // version of the binary
	Machine Machine   `json:"machine"`
	Servers string    `json:"servers"`

	Ceiling float64 `json:"ceiling"` // commits a second that clients got one after the other
	Rate    float64 `json:"rate"`    // turns a second that were begun
	Seconds float64 `json:"seconds"`
	From    float64 `json:"from"`  // second from which on slopes are taken
	Drift   float64 `json:"drift"` // of the bare loop, as a share: before against after

	Whole   bool      `json:"whole"` // it was measured to its end
	Turns   int       `json:"turns"`
	Refused int       `json:"refused"`
	P50     float64   `json:"p50_ms"` // of the turns from then on, from when they were to begin
	P99     float64   `json:"p99_ms"`
	At      []float64 `json:"at"` // seconds since the beginning, of the samples
	Series  []*Series `json:"series"`
}

// Series is one value, sample by sample.
type Series struct {
	Of     string    `json:"of"`   // which processes; "" the load
	Name   string    `json:"name"` // with its unit
	Values []float64 `json:"values"`
	Slope  float64   `json:"slope"`  // for ten minutes, as a share of its mean, from Soak.From on
	Judged bool      `json:"judged"` // it is to stay as it is
}

// Add notes a value of the sample that is taken.
func (s *Soak) Add(of, name string, judged bool, value float64) {
	for _, series := range s.Series {
		if series.Of == of && series.Name == name {
			series.Values = append(series.Values, value)
			return
		}
	}
	s.Series = append(s.Series, &Series{Of: of, Name: name, Values: []float64{value}, Judged: judged})
}

// Judge takes the slopes.
func (s *Soak) Judge() {
	first := 0
	for first < len(s.At) && s.At[first] < s.From {
		first++
	}
	for _, series := range s.Series {
		x, y := s.At[first:], series.Values[min(first, len(series.Values)):]
		x = x[:len(y)]
		mean := 0.0
		for _, v := range y {
			mean += v / float64(len(y))
		}
		if mean > 0 {
			series.Slope = Slope(x, y) * 600 / mean
		}
	}
}

// Holds reports whether what is judged stays as it is. A run beside which the bare loop was not within its bound says
// nothing.
func (s *Soak) Holds() (holds, void bool) {
	holds = true
	for _, series := range s.Series {
		holds = holds && (!series.Judged || series.Slope < SteepAbove)
	}
	return holds, s.Drift > VoidAbove
}

// about says in a line what was done where.
func (s *Soak) about() string {
	return fmt.Sprintf("%s on %s, %s, %d cores; %s; %s; %s turns/s of %s commits/s for %s s", s.Program, s.Machine.OS,
		s.Machine.CPU, s.Machine.Cores, s.Began.UTC().Format("2006-01-02"), s.Servers, Number(s.Rate), Number(s.Ceiling),
		Number(s.Seconds))
}

// WriteTable prints the soak for people.
func (s *Soak) WriteTable(w io.Writer) error {
	fmt.Fprintln(w, s.about())
	fmt.Fprintf(w, "%d turns, %d refused; from second %s on p50 %s ms, p99 %s ms\n\n", s.Turns, s.Refused, Number(s.From),
		Number(s.P50), Number(s.P99))
	t := show.Table{Head: []string{"of", "what", "first", "last", "most", "% in ten minutes", ""}}
	for _, series := range s.Series {
		verdict := ""
		if series.Judged {
			verdict = "holds"
			if series.Slope >= SteepAbove {
				verdict = "grows"
			}
		}
		most := math.Inf(-1)
		for _, v := range series.Values {
			most = max(most, v)
		}
		t.Add(series.Of, series.Name, Number(series.Values[0]), Number(series.Values[len(series.Values)-1]),
			Number(most), Number(series.Slope*100), verdict)
	}
	if err := t.Write(w); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	holds, void := s.Holds()
	switch {
	case !s.Whole:
		fmt.Fprintln(w, "\nit was not measured to its end")
	case void:
		fmt.Fprintf(w, "\nvoid: the bare loop was %.0f %% away from itself, the machine was not quiet\n", s.Drift*100)
	case holds:
		fmt.Fprintln(w, "\nit holds: nothing that is judged grows by 1 % in ten minutes")
	default:
		fmt.Fprintln(w, "\nit does not hold")
	}
	return nil
}

// WriteSVG draws each series as a line over time.
func (s *Soak) WriteSVG(w io.Writer) error {
	var b strings.Builder
	y := 30
	drawn := map[string]bool{}
	for _, first := range s.Series {
		if drawn[first.Name] {
			continue
		}
		drawn[first.Name] = true
		p := plot{title: first.Name, unit: " s"}
		for _, series := range s.Series {
			if series.Name == first.Name {
				p.lines = append(p.lines, line{name: series.Of, x: s.At[:len(series.Values)], y: series.Values})
			}
		}
		y = p.draw(&b, y)
	}
	if _, err := fmt.Fprintf(w, svgPage, plotWidth, y+16, html.EscapeString(s.about()), b.String()); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}
