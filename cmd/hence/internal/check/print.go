package check

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// Write prints a result for people: a table of what was looked for, the level, and a sentence for each finding.
func (r *Result) Write(w io.Writer) error {
	aborted := ""
	if r.Aborted > 0 {
		aborted = fmt.Sprintf(", %d of them aborted", r.Aborted)
	}
	if err := show.Plainly(w, "%s: %s%s; %s, %s\n\n", r.File, show.Several(r.Operations, "operation"), aborted,
		show.Several(r.Agents, "agent"), show.Several(r.Cells, "cell")); err != nil {
		return err
	}
	open := map[string]int{}
	for _, u := range r.Undecided {
		open[u.Kind] += u.Count
	}
	if r.Excerpt != "" {
		if err := show.Plainly(w, "%s\n\n", r.excerpt()); err != nil {
			return err
		}
	}
	t := show.Table{Head: []string{"ANOMALY", "MEANING", "CERTAIN", "POSSIBLE", "UNDECIDED"}}
	for _, k := range r.Kinds {
		t.Add(k.Kind, k.Title, strconv.Itoa(k.Certain), strconv.Itoa(k.Possible), strconv.Itoa(open[k.Kind]))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	var b strings.Builder // takes all
	b.WriteString("\n" + r.Level.words() + "\n")
	b.WriteString(r.serial() + "\n")
	r.findings(&b)
	r.notes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// excerpt says what a part of a history is worth.
func (r *Result) excerpt() string {
	return "an excerpt: it has " + r.Excerpt + " and what met it (hence export --tx). What it shows is so; what it " +
		"does not show may still be in the whole."
}

// SerializableKnown reports whether Serializable is more than that no cycle was seen: no is certain, and yes is where
// every dependency is known.
func (r *Result) SerializableKnown() bool {
	return !r.Serializable || r.Windows <= 1 && r.Excerpt == "" && r.open(anomaly.Cycle) == 0
}

// open is how much of a kind is undecided.
func (r *Result) open(kind anomaly.Kind) (n int) {
	for _, u := range r.Undecided {
		if u.Kind == kind.String() {
			n += u.Count
		}
	}
	return n
}

// MarshalJSON adds serializable_known.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		*plain
		SerializableKnown bool `json:"serializable_known"`
	}{(*plain)(r), r.SerializableKnown()})
}

// serial is the other verdict.
func (r *Result) serial() string {
	switch {
	case !r.Serializable:
		return "not serializable: operations depend on each other in a cycle"
	case r.SerializableKnown():
		return "serializable: no cycle of dependencies; this and the level are two verdicts, none follows from the other"
	}
	text := "serializable or not: no cycle among what is known"
	if n := r.open(anomaly.Cycle); n > 0 {
		text += "; " + show.Several(n, "read") + " undecided"
	}
	if r.Excerpt != "" {
		text += "; what the excerpt leaves out is not looked at"
	}
	if r.Windows > 1 {
		text += "; windows are not compared with each other"
	}
	return text
}

// counted is a number and what it is of; why is a sentence of several.
func counted(n int, why string) string {
	if n == 1 {
		why = strings.NewReplacer("reads were", "read was", "reads", "read", "operations", "operation",
			"predecessors are", "predecessor is", " do not ", " does not ", " they are ", " it is ", " they were ",
			" it was ", " they ", " it ", " their ", " its ", "say neither", "says neither", "differ ", "differs ",
			"from them", "from it", "after them", "after it", "on them", "on it").Replace(why)
	}
	return fmt.Sprintf("%d %s", n, why)
}

func (l Level) words() string {
	const none = "{}" // of the four is excluded
	if l.PointMost == none {
		return "level L0: the history has each of A1, A2, A3 and A6"
	}
	if l.Least == l.Most && l.PointLeast == l.PointMost {
		return fmt.Sprintf("level L%d: the history has none of %s", l.Most, l.PointMost)
	}
	level := fmt.Sprintf("L%d", l.Least)
	if l.Most > l.Least {
		level += fmt.Sprintf(" to L%d", l.Most)
	}
	if l.PointLeast == none {
		return fmt.Sprintf("level %s: nothing is excluded for certain, and what is possible or undecided leaves %s", level,
			l.PointMost)
	}
	return fmt.Sprintf("level %s: the history has none of %s for certain, and what is possible or undecided leaves %s",
		level, l.PointLeast, l.PointMost)
}

func (r *Result) findings(b *strings.Builder) {
	kind := ""
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Kind != kind {
			kind = f.Kind
			b.WriteByte('\n')
		}
		certain := ""
		if !f.Certain {
			certain = " (possible)"
		}
		_ = show.Plainly(b, "%s%s: %s.\n", f.Kind, certain, f.Sentence)
		if m := f.Materiality; m != nil {
			_ = show.Plainly(b, "    such a finding changed the decision of a reader in the role %s in %d of %d cases: "+
				"%.3f, 95 %% interval %.3f to %.3f (%s)\n", m.Role, m.Changed, m.Asked, m.P, m.Low, m.High, m.Measured)
		}
	}
	for _, k := range r.Kinds {
		if k.LeftOut > 0 {
			fmt.Fprintf(b, "%s: %d more; --limit 0 shows all.\n", k.Kind, k.LeftOut)
		}
	}
}

// notes say what the file cannot show, and what the check took.
func (r *Result) notes(b *strings.Builder) {
	b.WriteByte('\n')
	for _, u := range r.Undecided {
		fmt.Fprintf(b, "undecided %s: %s\n", u.Kind, counted(u.Count, u.Why))
	}
	if r.Missing > 0 {
		fmt.Fprintf(b, "values of cells, read or written, that are not recorded: %d; predicates that compare them do "+
			"not fire\n", r.Missing)
	}
	if r.OwnOverlaps > 0 {
		fmt.Fprintf(b, "%s of one agent's operations with its own, which are not A1\n",
			show.Several(r.OwnOverlaps, "overlap"))
	}
	if len(r.Unknown) > 0 {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(r.Unknown)) {
			names = append(names, fmt.Sprintf("%s (%d)", name, r.Unknown[name]))
		}
		_ = show.Plainly(b, "fields that no detector knows: %s\n", strings.Join(names, ", "))
	}
	if r.Windows > 1 {
		fmt.Fprintf(b, "judged in %d windows: %s spanned a cut, and what they have to do with operations before it is "+
			"not known\n", r.Windows, show.Several(r.Spanning, "operation"))
	}
	fmt.Fprintf(b, "memory: %d bytes an operation, and %d for its cells\n", r.RecordBytes, r.CellBytes)
}
