package replays

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/hence-dev/hence/sequencer/replay"
)

// Measures of the plot, in pixels.
const (
	plotWidth   = 960
	plotHeight  = 220
	plotLeft    = 70
	plotRight   = 200
	plotTop     = 60
	panelHeight = plotHeight + 60
)

// line is one line of a panel.
type line struct {
	name, class string
	of          func(*replay.Point) int
}

// WriteSVG draws how both runs went on over the log: what has committed, what has aborted, and the differences.
func (v *View) WriteSVG(w io.Writer) error {
	panels := []struct {
		title string
		lines []line
	}{
		{"transactions that have committed", []line{
			{"recorded", "then", func(p *replay.Point) int { return p.ThenCommitted }},
			{"replayed", "now", func(p *replay.Point) int { return p.NowCommitted }},
		}},
		{"transactions that have aborted", []line{
			{"recorded", "then", func(p *replay.Point) int { return p.ThenEnded }},
			{"replayed", "now", func(p *replay.Point) int { return p.NowEnded }},
		}},
		{"differences", []line{{"so far", "now", func(p *replay.Point) int { return p.Differences }}}},
	}
	var b strings.Builder
	for i, p := range panels {
		v.panel(&b, plotTop+i*panelHeight, p.title, p.lines)
	}
	title := v.Workspace + ", decided again under its own rules"
	if len(v.Changed) > 0 {
		title = v.Workspace + ", decided again with " + strings.Join(v.Changed, ", ")
	}
	_, err := fmt.Fprintf(w, svgPage, plotWidth, plotTop+len(panels)*panelHeight, html.EscapeString(title), b.String())
	if err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

const svgPage = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">
<style>
text{font:12px sans-serif}
text.head{font-weight:bold}
.axis{stroke:#b9b9b9}
polyline{fill:none;stroke-width:1.5}
.then{stroke:#b9b9b9}
.now{stroke:#2f6f9f}
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="8" y="20">%s</text>
%s</svg>
`

// panel draws lines over the records of the log, below y.
func (v *View) panel(b *strings.Builder, y int, title string, lines []line) {
	points := v.result.Points
	most := 1
	for i := range points {
		for _, l := range lines {
			most = max(most, l.of(&points[i]))
		}
	}
	bottom, width := y+plotHeight, plotWidth-plotLeft-plotRight
	fmt.Fprintf(b, `<text x="8" y="%d" class="head">%s</text>`+"\n", y-10, html.EscapeString(title))
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="axis"/>`, plotLeft, bottom, plotLeft+width, bottom)
	fmt.Fprintf(b, `<text x="8" y="%d">%d</text><text x="8" y="%d">0</text>`, y+8, most, bottom)
	fmt.Fprintf(b, `<text x="%d" y="%d">%d records</text>`+"\n", plotLeft+width-80, bottom+16, v.Records)
	for i, l := range lines {
		fmt.Fprintf(b, `<polyline class="%s" points="%d,%d`, l.class, plotLeft, bottom)
		last := bottom
		for j := range points {
			p := &points[j]
			last = bottom - l.of(p)*plotHeight/most
			fmt.Fprintf(b, " %d,%d", plotLeft+p.Record*width/max(1, v.Records), last)
		}
		// Names of lines that end at one place stand below each other.
		fmt.Fprintf(b, `"/><text x="%d" y="%d">%s</text>`+"\n", plotLeft+width+8, last+4+14*i, html.EscapeString(l.name))
	}
}
