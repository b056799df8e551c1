package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// grid is the figures of a subject: a row for each case and system, a column for each name.
type grid struct {
	subject string
	head    []string
	rows    [][]string
}

// grids lays the figures out, subject by subject, in the order in which they were measured.
func (r *Report) grids() (all []grid) {
	var subjects []string
	for _, f := range r.Figures {
		if f.Curve == "" && !slices.Contains(subjects, f.Subject) {
			subjects = append(subjects, f.Subject)
		}
	}
	for _, subject := range subjects {
		g := grid{subject: subject, head: []string{"load", "system"}}
		type row struct{ load, system string }
		var rows []row
		cells := map[row]map[string]string{}
		for _, f := range r.Figures {
			if f.Subject != subject || f.Curve != "" {
				continue
			}
			at := row{f.Case, f.System}
			if cells[at] == nil {
				cells[at] = map[string]string{}
				rows = append(rows, at)
			}
			if !slices.Contains(g.head, f.Name) {
				g.head = append(g.head, f.Name)
			}
			cells[at][f.Name] = f.text()
		}
		for _, at := range rows {
			line := []string{at.load, at.system}
			for _, name := range g.head[2:] {
				line = append(line, cells[at][name])
			}
			g.rows = append(g.rows, line)
		}
		all = append(all, g)
	}
	return all
}

// text is a figure as a cell: the median, the spread where there were several runs, and ! where every run was void.
func (f *Figure) text() string {
	text := Number(f.Median)
	if f.Min != f.Max {
		text += " (" + Number(f.Min) + ".." + Number(f.Max) + ")"
	}
	if f.Noisy {
		text += " !"
	}
	return text
}

// Number writes a value with three significant digits, and whole ones from 1,000 on with commas.
func Number(v float64) string {
	if math.Abs(v) < 1000 {
		digits := 2
		for at := 1.0; at < 100 && math.Abs(v) >= at*9.995; at *= 10 {
			digits--
		}
		if v != 0 && math.Abs(v) < 0.1 {
			return strconv.FormatFloat(v, 'g', 2, 64)
		}
		text := strconv.FormatFloat(v, 'f', digits, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintln(w, r.about())
	for _, g := range r.grids() {
		fmt.Fprintf(w, "\n%s\n", g.subject)
		if err := (&show.Table{Head: g.head, Rows: g.rows}).Write(w); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
	}
	for _, c := range r.curves() {
		fmt.Fprintf(w, "\n%s, by %s\n", c.subject, c.of)
		head, rows := c.table()
		if err := (&show.Table{Head: head, Rows: rows}).Write(w); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
	}
	if len(r.Goals) > 0 {
		fmt.Fprintln(w, "\ngoals")
		if err := (&show.Table{Head: goalHead(), Rows: r.goalRows()}).Write(w); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	return nil
}

// about says in a line where and how it was measured.
func (r *Report) about() string {
	text := fmt.Sprintf("%s on %s, %s, %d cores, %d MB, %s; %s; medians of %d runs of %s s (least..most)",
		r.Program, r.Machine.OS, r.Machine.CPU, r.Machine.Cores, r.Machine.MemoryMB, r.Began.UTC().Format("2006-01-02"),
		r.Servers, r.Settings.Runs, Number(r.Settings.Seconds))
	if slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.Noisy }) {
		text += "; ! every run was void: the machine was not quiet"
	}
	return text
}

// markdownTable writes rows under a head.
func markdownTable(w io.Writer, head []string, rows [][]string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}
