package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Plot is lines over one axis.
type Plot struct {
	Title string `json:"title"`
	Lines []Line `json:"lines"`
}

// Line is the points of one system, as many in X as in Y.
type Line struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// WritePlots draws plots below each other, under a title.
func WritePlots(w io.Writer, about string, plots []Plot) error {
	var b strings.Builder
	y := 30
	for _, p := range plots {
		one := plot{title: p.Title}
		for _, l := range p.Lines {
			one.lines = append(one.lines, line{name: l.Name, x: l.X, y: l.Y})
		}
		y = one.draw(&b, y)
	}
	if _, err := fmt.Fprintf(w, svgPage, plotWidth, y+16, html.EscapeString(about), b.String()); err != nil {
		return fmt.Errorf("write the plots: %w", err)
	}
	return nil
}
