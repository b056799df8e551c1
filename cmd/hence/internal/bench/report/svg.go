package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Measures of the plot, in pixels.
const (
	plotWidth  = 960
	labelWidth = 420
	valueWidth = 150
	barHeight  = 14
	rowHeight  = 19
	headHeight = 34
)

// WriteSVG draws each name of each subject as a panel of bars, one for each load and system, with the least and the
// most of the runs.
func (r *Report) WriteSVG(w io.Writer) error {
	var b strings.Builder
	y := 30
	for _, panel := range r.panels() {
		y += headHeight
		fmt.Fprintf(&b, `<text x="8" y="%d" class="head">%s</text>`+"\n", y-10, html.EscapeString(panel.title))
		most := 0.0
		for _, f := range panel.figures {
			most = max(most, f.Max)
		}
		scale := func(v float64) float64 {
			if most <= 0 {
				return 0
			}
			return max(0, v) / most * (plotWidth - labelWidth - valueWidth)
		}
		for _, f := range panel.figures {
			class := "bar"
			if !strings.HasPrefix(f.System, "Hence") {
				class = "other"
			}
			middle := y + barHeight/2
			fmt.Fprintf(&b, `<text x="%d" y="%d" class="label">%s</text>`, labelWidth-8, y+11,
				html.EscapeString(f.Case+" · "+f.System))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" class="%s"/>`, labelWidth, y, scale(f.Median),
				barHeight, class)
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" class="spread"/>`, labelWidth+scale(f.Min), middle,
				labelWidth+scale(f.Max), middle)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+scale(f.Max)+6, y+11,
				html.EscapeString(Number(f.Median)))
			y += rowHeight
		}
	}
	for _, c := range r.curves() {
		y = c.draw(&b, y)
	}
	if _, err := fmt.Fprintf(w, svgPage, plotWidth, y+16, html.EscapeString(r.about()), b.String()); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// svgPage is a plot of a width and a height, with a title above what is drawn.
const svgPage = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">
<style>
text{font:12px sans-serif}
text.head{font-weight:bold}
.label{text-anchor:end}
.bar{fill:#2f6f9f}
.other{fill:#b9b9b9}
.spread{stroke:#000}
.axis{stroke:#b9b9b9}
polyline{fill:none;stroke-width:1.5}
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="8" y="20">%s</text>
%s</svg>
`

// panel is the figures that one scale fits.
type panel struct {
	title   string
	figures []Figure
}

func (r *Report) panels() (all []panel) {
	at := map[string]int{}
	for _, f := range r.Figures {
		if f.Curve != "" {
			continue // drawn as a line
		}
		title := f.Subject + ": " + f.Name
		if _, ok := at[title]; !ok {
			at[title] = len(all)
			all = append(all, panel{title: title})
		}
		p := &all[at[title]]
		p.figures = append(p.figures, f)
	}
	return all
}
