package check

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/hence-dev/hence/sequencer/anomaly"
)

// pageStyle is the page's look: it has no script, and loads nothing.
const pageStyle = `body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;
color:#1c1f23;background:#fff}h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #dde1e6;
vertical-align:top}th{font-weight:600}.sides{display:grid;grid-template-columns:1fr 1fr;gap:1.5rem}
.sides h3{font-size:.9rem;margin:.4rem 0}.differs td{background:#fff1d6}.n{text-align:right;width:4rem}
.possible{color:#6b5b00}section{border-top:1px solid #b9c0c8;padding-top:.6rem;margin-top:1.2rem}
@media(max-width:48rem){.sides{grid-template-columns:1fr}}
@media(prefers-color-scheme:dark){body{color:#e4e7ea;background:#16191d}th,td{border-color:#343a41}
.differs td{background:#4a3a12}.possible{color:#e0c65a}}`

// WritePage writes results as an HTML page: for each finding its operations as they were recorded, and beside these as
// they would have been one after the other, each reading at its commit.
func WritePage(w io.Writer, results []*Result) error {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>hence check</title>\n" +
		"<meta name=\"viewport\" content=\"width=device-width\">\n<style>" + pageStyle + "</style>\n")
	for _, r := range results {
		r.page(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) page(b *strings.Builder) {
	text := html.EscapeString
	fmt.Fprintf(b, "<h1>%s</h1>\n<p>%d operations of %d agents on %d cells, %d of them aborted. %s. ", text(r.File),
		r.Operations, r.Agents, r.Cells, r.Aborted, text(upper(r.Level.words())))
	if r.Excerpt != "" {
		b.WriteString(text(upper(r.excerpt())) + " ")
	}
	if !r.Serializable {
		b.WriteString("Not serializable. ")
	} else if !r.SerializableKnown() {
		b.WriteString(text(upper(r.serial())) + ". ")
	}
	b.WriteString("</p>\n<table><tr><th>anomaly<th>meaning<th class=n>certain<th class=n>possible</tr>\n")
	for _, k := range r.Kinds {
		fmt.Fprintf(b, "<tr><td>%s<td>%s<td class=n>%d<td class=n>%d</tr>\n", text(k.Kind), text(k.Title), k.Certain,
			k.Possible)
	}
	b.WriteString("</table>\n")
	for i := range r.Findings {
		f := &r.Findings[i]
		class := ""
		if !f.Certain {
			class = ` class="possible"`
		}
		fmt.Fprintf(b, "<section><h2%s>%s", class, text(f.Kind))
		if !f.Certain {
			b.WriteString(" (possible)")
		}
		fmt.Fprintf(b, "</h2>\n<p>%s.</p>\n<div class=\"sides\">\n", text(upper(f.Sentence)))
		side(b, "as recorded", f.recorded)
		side(b, "one after the other, each reading at its commit", f.serial)
		b.WriteString("</div></section>\n")
	}
	for _, k := range r.Kinds {
		if k.LeftOut > 0 {
			fmt.Fprintf(b, "<p>%s: %d more are not shown.</p>\n", text(k.Kind), k.LeftOut)
		}
	}
	for _, u := range r.Undecided {
		fmt.Fprintf(b, "<p>Undecided %s: %s.</p>\n", text(u.Kind), text(counted(u.Count, u.Why)))
	}
}

func side(b *strings.Builder, title string, steps []anomaly.Step) {
	fmt.Fprintf(b, "<div><h3>%s</h3><table>", html.EscapeString(title))
	for _, s := range steps {
		class := ""
		if s.Differs {
			class = ` class="differs"`
		}
		fmt.Fprintf(b, "<tr%s><td class=n>%d<td>%s<td>%s</tr>\n", class, s.Time, html.EscapeString(s.Who.Label()),
			html.EscapeString(s.Text))
	}
	b.WriteString("</table></div>\n")
}

// upper begins a sentence.
func upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
