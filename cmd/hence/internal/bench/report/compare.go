package report

import (
	"io"
	"slices"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// WorseAbove is how much worse a figure may become before a comparison says so, as a share.
const WorseAbove = 0.10

// Comparison is two reports, figure by figure.
type Comparison struct {
	Rows  []Change `json:"rows"`
	Worse int      `json:"worse"`           // figures that are more than 10 % worse
	Only  []Key    `json:"only,omitempty"`  // figures that one of the reports does not have
	Other bool     `json:"other,omitempty"` // another machine, other servers or settings: the ratios say little
}

// Change is what became of a figure.
type Change struct {
	Key
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Ratio  float64 `json:"ratio"` // after / before
	Worse  bool    `json:"worse"` // by more than 10 %
}

// Compare sets two reports against each other.
func Compare(before, after *Report) Comparison {
	c := Comparison{Other: before.Machine != after.Machine || before.Servers != after.Servers ||
		before.Settings != after.Settings}
	for _, f := range before.Figures {
		now, ok := after.Find(f.Key)
		if !ok {
			c.Only = append(c.Only, f.Key)
			continue
		}
		row := Change{Key: f.Key, Before: f.Median, After: now.Median}
		if f.Median != 0 {
			row.Ratio = now.Median / f.Median
		}
		if f.MoreIsBetter() {
			row.Worse = now.Median < f.Median*(1-WorseAbove)
		} else {
			row.Worse = now.Median > f.Median*(1+WorseAbove)
		}
		if row.Worse {
			c.Worse++
		}
		c.Rows = append(c.Rows, row)
	}
	for _, f := range after.Figures {
		if _, ok := before.Find(f.Key); !ok && !slices.Contains(c.Only, f.Key) {
			c.Only = append(c.Only, f.Key)
		}
	}
	return c
}

// WriteTable prints the comparison for people.
func (c *Comparison) WriteTable(w io.Writer) error {
	t := show.Table{Head: []string{"figure", "before", "after", "ratio", ""}}
	for _, row := range c.Rows {
		verdict := ""
		if row.Worse {
			verdict = "worse"
		}
		t.Add(row.Key.String(), Number(row.Before), Number(row.After), Number(row.Ratio), verdict)
	}
	if c.Other {
		t.Add("another machine, other servers or other settings: the ratios say little")
	}
	for _, k := range c.Only {
		t.Add(k.String(), "", "", "", "in one of them only")
	}
	return t.Write(w)
}
