package tables

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// WriteTable prints the rows for people, and how many have which verdict; one row alone, whole.
func (r *Report) WriteTable(w io.Writer) error {
	if len(r.Rows) == 1 {
		o := &r.Rows[0]
		const whole = "%s: %s\n\n  paper     %s\n  ours      %s\n  baseline  %s\n  verdict   %s\n  note      %s\n"
		_, err := fmt.Fprintf(w, whole,
			o.ID, o.Claim, o.Value, orDash(o.Ours), orDash(o.Baseline), o.Verdict, orDash(o.Note))
		return err
	}
	for _, paper := range Papers() {
		t := show.Table{Head: []string{"ROW", "VERDICT", "PAPER", "OURS", "BASELINE", "CLAIM"}}
		for _, o := range r.of(paper) {
			t.Add(o.ID, string(o.Verdict), o.Value, orDash(o.Ours), orDash(o.Baseline), o.Claim)
		}
		if len(t.Rows) == 0 {
			continue
		}
		if _, err := fmt.Fprintln(w, paper); err != nil {
			return err
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, r.tally())
	return err
}

// tally is how many rows have which verdict.
func (r *Report) tally() string {
	var parts []string
	for _, v := range Verdicts() {
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return show.Several(len(r.Rows), "row") + ": " + strings.Join(parts, ", ")
}

func (r *Report) of(paper string) (rows []Outcome) {
	for i := range r.Rows {
		if r.Rows[i].Paper == paper {
			rows = append(rows, r.Rows[i])
		}
	}
	return rows
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// titles are the papers as documents name them.
func titles() map[string]string {
	return map[string]string{
		"light-cone": "Light Cone Consistency",
		"detector":   "Verified detection of anomalies between agents",
		"s-bus":      "S-Bus",
		"atomix":     "Atomix",
	}
}

// WriteMarkdown writes the document docs/proof.md.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, intro, r.Program, r.Size, r.Began.UTC().Format("2006-01-02"), r.Machine, r.Seed,
		report.Number(r.Seconds), r.tally())
	for _, paper := range Papers() {
		rows := r.of(paper)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| row | claim | paper | ours | baseline | verdict |\n|---|---|---|---|---|---|\n",
			titles()[paper])
		notes := ""
		for i := range rows {
			o := &rows[i]
			b.WriteString(o.line() + "\n")
			if o.Note != "" && o.Verdict != NotRun && o.Verdict != NotHere {
				notes += fmt.Sprintf("- %s: %s.\n", o.ID, o.Note)
			}
		}
		if notes != "" {
			b.WriteString("\n" + notes)
		}
		b.WriteString(r.absent(rows))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// absent lists what was not run, and what cannot be had.
func (r *Report) absent(rows []Outcome) (text string) {
	for _, part := range []struct {
		v    Verdict
		head string
	}{{NotRun, "Not run"}, {NotHere, "Not to be had here"}} {
		var list []string
		for i := range rows {
			if o := &rows[i]; o.Verdict == part.v {
				list = append(list, fmt.Sprintf("- %s: %s.", o.ID, o.Note))
			}
		}
		if len(list) > 0 {
			text += "\n" + part.head + ":\n\n" + strings.Join(list, "\n") + "\n"
		}
	}
	return text
}

// line is the row in a table of Markdown.
func (o *Outcome) line() string {
	cells := []string{o.ID, o.Claim, o.Value, orDash(o.Ours), orDash(o.Baseline), string(o.Verdict)}
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// Shape is the row without its figures: what two machines, or two sizes, must agree in.
func (o *Outcome) Shape() string {
	cells := []string{o.ID, o.Claim, o.Value, figures(orDash(o.Ours)), figures(orDash(o.Baseline)), string(o.Verdict)}
	return strings.Join(cells, " | ")
}

// ShapeOf is the shape of a row as a document has it; false: the line is no row of a table.
func ShapeOf(line string) (shape string, is bool) {
	const escaped = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, escaped)
	cells := strings.Split(strings.Trim(line, "|"), " | ")
	if !strings.HasPrefix(line, "| ") || len(cells) < 6 {
		return "", false
	}
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(c), escaped, "|")
	}
	cells[3], cells[4] = figures(cells[3]), figures(cells[4])
	return strings.Join(cells, " | "), true
}

// figures replaces each number by a sign.
func figures(text string) string {
	return regexp.MustCompile(`-?\d[\d.,]*(e[-+]?\d+)?`).ReplaceAllString(text, "#")
}

// WriteSVG draws what the rows have plotted.
func (r *Report) WriteSVG(w io.Writer) error {
	var all []report.Plot
	for i := range r.Rows {
		for _, p := range r.Rows[i].Plots {
			p.Title = r.Rows[i].ID + ": " + p.Title
			all = append(all, p)
		}
	}
	return report.WritePlots(w, "hence bench tables, "+r.Size, all)
}

const intro = `# The papers' claims, measured again

What ` + "`hence bench tables --doc FILE`" + ` has written: for each claim of the four papers that Hence rests on the
paper's value, ours, and that of a baseline which was run in the same invocation. A verdict is computed from these by
the row's own rule: *reproduced*; *beaten*, where ours is better than the paper's own; *not reproduced*; *not run*,
where nothing was run; *not here*, where model keys, data or proofs would be needed that nobody here has.

Each row is run alone by ` + "`hence bench tables --row ID --size small`" + ` or with ` + "`--size full`" + `. CI runs
a small cut of them and holds it against this page: the verdicts, and what the cells say, whatever their figures are.

%s, size %s, %s, on %s, seed %d, in %s s. %s.
`
