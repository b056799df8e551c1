package replays

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
)

// Write prints the view for people: totals, a line for each difference, and what the log does not say.
func (v *View) Write(w io.Writer) error {
	var b strings.Builder // takes all
	_ = show.Plainly(&b, "%s: %s, %s", v.Workspace, show.Several(v.Records, "record"),
		show.Several(int(v.Decisions), "decision"))
	fmt.Fprintf(&b, "; %d of them checked by their chain hash\n", v.Checked)
	if len(v.Changed) == 0 {
		b.WriteString("decided again under its own rules\n\n")
	} else {
		_ = show.Plainly(&b, "decided again with %s\n\n", strings.Join(v.Changed, ", "))
	}
	t := v.totals()
	if err := t.WriteIn(&b, 0); err != nil {
		return err
	}
	b.WriteByte('\n')
	if len(v.Differences) == 0 && v.LeftOut == 0 {
		b.WriteString("Nothing differs.\n")
	} else {
		fmt.Fprintf(&b, "%s in %s; caused by the change alone: %d, following from an earlier one: %d\n\n",
			show.Several(len(v.Differences)+v.LeftOut, "difference"), show.Several(v.Transactions, "transaction"),
			v.Direct, v.Follow)
		for i := range v.Differences {
			_ = show.Plainly(&b, "%d. %s.\n", v.Differences[i].Number, v.Differences[i].Sentence)
		}
		if v.LeftOut > 0 {
			fmt.Fprintf(&b, "%d more; --limit 0 shows all.\n", v.LeftOut)
		}
	}
	v.notKnown(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// totals is the table of both runs.
func (v *View) totals() *show.Table {
	t := &show.Table{Head: []string{"TRANSACTIONS", "RECORDED", "REPLAYED"}}
	row := func(name string, a, b int) { t.Add(name, strconv.Itoa(a), strconv.Itoa(b)) }
	row("committed", v.Recorded.Committed, v.Replayed.Committed)
	row("aborted", v.Recorded.Aborted, v.Replayed.Aborted)
	for _, code := range both(v.Recorded.Codes, v.Replayed.Codes) {
		row("  "+code, v.Recorded.Codes[code], v.Replayed.Codes[code])
	}
	rare := func(name string, a, b int) {
		if a+b > 0 {
			row(name, a, b)
		}
	}
	rare("undecided", v.Recorded.Undecided, v.Replayed.Undecided)
	rare("waited", v.Recorded.Waited, v.Replayed.Waited)
	rare("with an intent refused", v.Recorded.Refused, v.Replayed.Refused)
	for _, code := range both(v.Recorded.Would, v.Replayed.Would) {
		row("would be "+code, v.Recorded.Would[code], v.Replayed.Would[code])
	}
	return t
}

func both(a, b map[string]int) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// notKnown prints what was supposed, and what cannot be known.
func (v *View) notKnown(b *strings.Builder) {
	if len(v.Supposed) > 0 {
		b.WriteString("\nSupposed, because the log does not have it:\n")
	}
	for _, s := range v.Supposed {
		fmt.Fprintf(b, "  %d times %s\n", s.Times, s.What)
	}
	if len(v.Unknown)+v.UnknownOut+len(v.Agents) > 0 {
		b.WriteString("\nNot known:\n")
	}
	for _, u := range v.Unknown {
		_ = show.Plainly(b, "  %s: %s\n", u.Tx, strings.Join(u.What, "; "))
	}
	if v.UnknownOut > 0 {
		fmt.Fprintf(b, "  %d more transactions; --limit 0 shows all\n", v.UnknownOut)
	}
	if len(v.Agents) > 0 {
		_ = show.Plainly(b, "  what %s would have begun next, after a decision that is another one now\n",
			strings.Join(v.Agents, ", "))
	}
}

// fates says what became of a transaction in both runs.
func fates(d *replay.Difference) string {
	if d.What == replay.DiffersOrder {
		return fmt.Sprintf("committed at seq %d, now at seq %d, in another order", d.Then.Seq, d.Now.Seq)
	}
	return words(d, &d.Then) + ", now " + words(d, &d.Now)
}

func words(d *replay.Difference, f *replay.Fate) string {
	out := f.Kind
	switch {
	case f.Kind == "undecided" && d.What != replay.DiffersDecision && d.What != replay.DiffersReason:
		return "nothing"
	case f.Kind == "waiting" && len(f.Behind) > 0:
		out = "waiting for " + names(f.Behind)
	case f.Code != "":
		out += " (" + string(f.Code)
		if f.Scope != "" {
			out += " at " + string(f.Scope)
		}
		if f.By != "" {
			out += ", moved by " + string(f.By)
		}
		out += ")"
	case f.Seq > 0:
		out += " at seq " + strconv.FormatUint(uint64(f.Seq), 10)
	}
	if f.Would != "" {
		out += ", would be " + string(f.Would)
	}
	return out
}

// maxNames is how many transactions a sentence names.
const maxNames = 3

func names(ids []sequencer.TxID) string {
	var out []string
	for _, id := range ids[:min(len(ids), maxNames)] {
		if !slices.Contains(out, string(id)) {
			out = append(out, string(id))
		}
	}
	text := strings.Join(out, ", ")
	if more := len(ids) - maxNames; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// because says what a difference follows from.
func because(d *replay.Difference) string {
	c := &d.Cause
	from := fmt.Sprintf(": follows from %d", c.Of+1)
	if c.First != c.Of {
		from += fmt.Sprintf(", and so from %d", c.First+1)
	}
	switch c.Why {
	case replay.CauseWriter:
		return fmt.Sprintf("because of %s, which moves it in one run and not, or later, in the other%s", c.Tx, from)
	case replay.CauseBlocker:
		return fmt.Sprintf("because of %s, which it waits for or waited for%s", c.Tx, from)
	case replay.CauseItself:
		return "because it fared otherwise before" + from
	case replay.CauseUnnamed:
		return fmt.Sprintf("its outcomes name no cause; what came before differs first at %d", c.Of+1)
	}
	return "caused by the change alone"
}
