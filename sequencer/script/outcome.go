package script

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// FormatOutcome writes an outcome as one line: its seq and kind, whom it concerns, why, who is in the way, and what it
// changed. It is for people; hashes, texts and the position in the log are left out.
func FormatOutcome(o *sequencer.Outcome) string {
	var l line
	l.add("%d", o.Seq)
	l.word(strings.ReplaceAll(o.Kind.String(), "_", "-"))
	if o.Tx != "" {
		l.word(name(string(o.Tx)))
	} else if o.Agent != "" {
		l.word(name(o.Agent))
	}
	l.whenf(o.Epoch != 0, "e%d", o.Epoch)
	l.whenf(o.Group != "" && o.Tx == "", "group=%s", name(o.Group))
	l.whenf(o.Winner != "", "winner=%s", name(string(o.Winner)))
	l.whenf(o.Kind == sequencer.OutcomeAdopted, "by=%s", name(o.Agent))
	l.whenf(o.Server != "", "server=%s", name(o.Server))
	l.whenf(o.Rules != nil, "version=%d", o.RulesVersion)
	if o.Rules != nil && o.Rules.Logic > 1 {
		l.add("logic=%d", o.Rules.Logic)
	}
	l.why(o)
	l.whenf(len(o.May) > 0, "may=%s", join(o.May, want))
	l.whenf(o.Retraction != "" && o.Retraction != o.Tx, "of=%s", txName(o.Retraction))
	l.whenf(len(o.Cone) > 0, "cone=%s", join(o.Cone, txName))
	l.whenf(o.Kind == sequencer.OutcomeTurn && o.Incarnation == 0, "orphan")
	for _, h := range o.Added {
		l.word("+" + hold(h))
	}
	for _, h := range o.Ended {
		l.word("-" + hold(h))
	}
	for _, w := range o.Writes {
		l.word(write(w, o))
	}
	if o.Retraction != "" {
		for _, w := range o.Shards {
			l.word("restored=" + shard(w))
		}
	} else if len(o.Shards) == 1 && o.Shards[0].Absent {
		l.add("reset=%s", scope(o.Shards[0].Scope))
	}
	l.whenf(len(o.RestsOn) > 0, "rests-on=%s", join(o.RestsOn, txName))
	l.whenf(len(o.Residue) > 0, "residue=%s", join(o.Residue, txName))
	for _, a := range o.Approvals {
		switch {
		case a.By == "":
			l.add("unapproved=%d", a.Index)
		case a.Yes:
			l.add("approved=%d:%s", a.Index, name(a.By))
		default:
			l.add("denied=%d:%s", a.Index, name(a.By))
		}
	}
	l.whenf(o.Signer != "", "signer=%s", name(o.Signer))
	l.flag("final", o.Final)
	return strings.Join(l, " ")
}

// why writes the reason, where it was found, who moved it and who is in the way.
func (l *line) why(o *sequencer.Outcome) {
	l.whenf(o.Code != "", "%s", o.Code)
	l.whenf(o.Would != "", "would=%s", o.Would)
	l.whenf(o.Scope != "", "at=%s", scope(o.Scope))
	l.whenf(o.Moved != sequencer.Writer{}, "moved-by=%s", writer(o.Moved))
	l.whenf(o.Tool != "", "tool=%s", name(o.Tool))
	l.whenf(o.MovedAgent != "", "agent=%s", name(o.MovedAgent))
	l.whenf(o.By != "", "by=%s", name(o.By))
	for _, b := range o.BlockedBy {
		l.word("blocked-by=" + name(string(b.Tx)) + ":" + b.Why + mark(b.Scope != "", ":"+scope(b.Scope)))
	}
	l.flag("retry", o.Retryable)
}

func hold(h sequencer.Hold) string {
	return h.Kind.String() + ":" + want(sequencer.Want{Scope: h.Scope, Access: h.Access})
}

// write writes one scope that moved. Its writer is named where it is not the outcome's own transaction.
func write(w sequencer.Write, o *sequencer.Outcome) string {
	out := "wrote=" + scope(w.Scope)
	if w.Writer.Tx != o.Tx || w.Writer.Residue || w.Writer.Seq != o.Seq {
		out += ";by=" + writer(w.Writer)
	}
	if w.Former != (sequencer.Writer{}) {
		out += ";was=" + writer(w.Former)
	}
	return out
}

func writer(w sequencer.Writer) string {
	out := "nobody"
	if w.Tx != "" {
		out = name(string(w.Tx))
	}
	return out + mark(w.Seq != 0, fmt.Sprintf("@%d", w.Seq)) + mark(w.Residue, "(residue)")
}
