package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// Measures of a panel of lines, in pixels.
const (
	panelHeight = 150
	panelLeft   = 90
	panelRight  = 260 // where the names stand
	nameHeight  = 14
)

// plot is a panel of lines over one axis.
type plot struct {
	title string
	tens  bool // the axis is by powers
	unit  string
	lines []line
}

type line struct {
	name string
	x, y []float64 // of as many points
}

// colours of lines, one after the other.
func colours() []string {
	return []string{"#2f6f9f", "#c0572b", "#3d8b4b", "#7a4fa3", "#8a6d1a", "#b03a6a", "#4a4a4a", "#1a8a8a"}
}

// draw adds the panel below y and returns where it ends.
func (p *plot) draw(w io.Writer, y int) int {
	least, most, top := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range p.lines {
		if len(l.x) > 0 {
			least, most, top = min(least, slices.Min(l.x)), max(most, slices.Max(l.x)), max(top, slices.Max(l.y))
		}
	}
	if math.IsInf(least, 1) {
		return y // there is no point
	}
	scale := func(v float64) float64 {
		if p.tens {
			return math.Log(max(v, 1))
		}
		return v
	}
	y += headHeight
	bottom := y + panelHeight
	right := plotWidth - panelRight
	at := func(v float64) float64 {
		if most == least {
			return panelLeft
		}
		return panelLeft + (scale(v)-scale(least))/(scale(most)-scale(least))*float64(right-panelLeft)
	}
	up := func(v float64) float64 {
		if top <= 0 {
			return float64(bottom)
		}
		return float64(bottom) - max(v, 0)/top*panelHeight
	}
	fmt.Fprintf(w, `<text x="8" y="%d" class="head">%s</text>`+"\n", y-10, html.EscapeString(p.title))
	fmt.Fprintf(w, `<path class="axis" fill="none" d="M%d %dV%dH%d"/>`, panelLeft, y, bottom, right)
	fmt.Fprintf(w, `<text x="%d" y="%d" class="label">%s</text><text x="%d" y="%d" class="label">0</text>`,
		panelLeft-6, y+8, Number(top), panelLeft-6, bottom)
	fmt.Fprintf(w, `<text x="%d" y="%d">%s</text><text x="%d" y="%d" class="label">%s</text>`+"\n",
		panelLeft, bottom+14, Number(least), right, bottom+14, html.EscapeString(Number(most)+p.unit))
	for i, l := range p.lines {
		colour := colours()[i%len(colours())]
		var path strings.Builder
		for k := range l.x {
			fmt.Fprintf(&path, "%.1f,%.1f ", at(l.x[k]), up(l.y[k]))
		}
		fmt.Fprintf(w, `<polyline stroke="%s" points="%s"/>`, colour, strings.TrimSpace(path.String()))
		fmt.Fprintf(w, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", right+10, y+10+i*nameHeight, colour,
			html.EscapeString(l.name))
	}
	return max(bottom+20, y+len(p.lines)*nameHeight+10)
}
