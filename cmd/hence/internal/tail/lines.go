package tail

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/words"
)

// lines prints decisions for people, one a line.
type lines struct {
	w      io.Writer
	colour bool
	now    func() time.Time
}

// The widths of the columns; what is longer moves the rest of its own line.
const widths = "%-8s %6s  %-10s %-16s %-11s"

func (t *lines) head() error {
	return t.put("2", "", "TIME", "SEQ", "AGENT", "TRANSACTION", "WHAT")
}

func (t *lines) write(o *sequencer.Outcome, at time.Time) error {
	what, more := words.Happened(o)
	return t.put(colourOf(o), more, t.clock(at), fmt.Sprint(o.Seq), o.Agent, string(o.Tx), what)
}

// put prints a line whose last column, or in grey the whole of it, has a colour. Texts may come from a log: none of
// them adds a row, moves the cursor or brings a colour of its own.
func (t *lines) put(colour, more string, columns ...any) error {
	for i, c := range columns {
		columns[i] = gate.Plain(c.(string))
	}
	line := fmt.Sprintf(widths, columns...)
	if t.colour && colour != "" {
		begin := strings.LastIndex(line, columns[len(columns)-1].(string))
		if colour == "2" {
			begin = 0
		}
		line = line[:begin] + "\x1b[" + colour + "m" + line[begin:] + "\x1b[0m"
	}
	line = strings.TrimRight(line+" "+gate.Plain(more), " ")
	_, err := io.WriteString(t.w, line+"\n")
	return err
}

// clock is a time of day; of another day with its date.
func (t *lines) clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	at, now := at.Local(), t.now().Local()
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		return at.Format(time.DateTime)
	}
	return at.Format(time.TimeOnly)
}

// colourOf is the colour of a kind: what was made, what was not, what asks for attention, and what only leads there.
func colourOf(o *sequencer.Outcome) string {
	switch {
	case o.Kind == sequencer.OutcomeAborted:
		return "31"
	case o.Kind == sequencer.OutcomeCommitted && o.Would == "":
		return "32"
	case o.Kind == sequencer.OutcomeRefused, o.Kind == sequencer.OutcomeLeaseEnded, o.Would != "", len(o.Residue) > 0,
		o.Kind == sequencer.OutcomeRetracting, o.Kind == sequencer.OutcomeSettled && o.Retraction != "":
		return "33"
	case !outcome(o):
		return "2"
	}
	return ""
}
