package report

import (
	"fmt"
	"io"
	"slices"
)

// GrowsAbove is how far a point of a curve may lie above its first one, as a share, before the curve is not flat.
const GrowsAbove = 0.15

// curve is what figures come to while one thing grows.
type curve struct {
	subject, of string
	sizes       []float64
	lines       []points
}

// points are one figure of a curve, of one system.
type points struct {
	system, name string
	at           []*Figure // by size; nil: it was not measured there
}

// curves collects the figures that are points, in the order in which they were measured.
func (r *Report) curves() (all []*curve) {
	for i := range r.Figures {
		f := &r.Figures[i]
		if f.Curve == "" {
			continue
		}
		at := slices.IndexFunc(all, func(c *curve) bool { return c.subject == f.Subject && c.of == f.Curve })
		if at < 0 {
			at, all = len(all), append(all, &curve{subject: f.Subject, of: f.Curve})
		}
		all[at].add(f)
	}
	return all
}

func (c *curve) add(f *Figure) {
	size := slices.Index(c.sizes, f.At)
	if size < 0 {
		size, c.sizes = len(c.sizes), append(c.sizes, f.At)
	}
	at := slices.IndexFunc(c.lines, func(l points) bool { return l.system == f.System && l.name == f.Name })
	if at < 0 {
		at, c.lines = len(c.lines), append(c.lines, points{system: f.System, name: f.Name})
	}
	l := &c.lines[at]
	for len(l.at) <= size {
		l.at = append(l.at, nil)
	}
	l.at[size] = f
}

// table has a row for each figure and system, a column for each size.
func (c *curve) table() (head []string, rows [][]string) {
	head = []string{"figure", "system"}
	for _, size := range c.sizes {
		head = append(head, Number(size))
	}
	head = append(head, "most / first", "")
	for _, l := range c.lines {
		row := []string{l.name, l.system}
		for i := range c.sizes {
			cell := ""
			if i < len(l.at) && l.at[i] != nil {
				cell = l.at[i].text()
			}
			row = append(row, cell)
		}
		ratio, verdict := l.shape()
		rows = append(rows, append(row, ratio, verdict))
	}
	return head, rows
}

// shape holds the highest point of a line against its first. It is not flat if that is too far above, by the medians,
// and no run of it was as low as one of the first.
func (l *points) shape() (ratio, verdict string) {
	first := l.at[0]
	if first == nil || first.Median <= 0 || len(l.at) < 2 {
		return "", ""
	}
	most := first
	for _, f := range l.at {
		if f != nil && f.Median > most.Median {
			most = f
		}
	}
	if first.MoreIsBetter() {
		return Number(most.Median / first.Median), ""
	}
	verdict = "flat"
	if most.Median > first.Median*(1+GrowsAbove) && most.Min > first.Max {
		verdict = "grows"
	}
	return Number(most.Median / first.Median), verdict
}

// draw adds a panel for each figure of the curve below y, a line for each system, and returns where it ends.
func (c *curve) draw(w io.Writer, y int) int {
	var names []string
	for _, l := range c.lines {
		if !slices.Contains(names, l.name) {
			names = append(names, l.name)
		}
	}
	for _, name := range names {
		p := plot{title: fmt.Sprintf("%s by %s: %s", c.subject, c.of, name), tens: true}
		for _, l := range c.lines {
			if l.name != name {
				continue
			}
			line := line{name: l.system}
			for i, f := range l.at {
				if f != nil {
					line.x, line.y = append(line.x, c.sizes[i]), append(line.y, f.Median)
				}
			}
			p.lines = append(p.lines, line)
		}
		y = p.draw(w, y)
	}
	return y
}
