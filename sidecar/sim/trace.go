package sim

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// traceIntent writes a record of the log as one line.
func (t *truth) traceIntent(offset int64, in *sequencer.Intent) {
	if !t.r.tracing {
		return
	}
	if in == nil {
		t.r.note("@%d unreadable", offset)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "@%d %s inc=%d base=%d", offset, in.ID(), in.Incarnation, in.Base)
	switch {
	case in.Touch != nil:
		fmt.Fprintf(&b, " wants %v", in.Touch.Wants)
	case in.Seal != nil:
		for _, r := range in.Seal.Reads {
			fmt.Fprintf(&b, " read %s@%d", r.Scope, r.View)
		}
		for _, e := range in.Seal.Effects {
			fmt.Fprintf(&b, " %s %v", e.Class, e.Scopes)
		}
		for _, w := range in.Seal.Shards {
			fmt.Fprintf(&b, " write %s", w.Scope)
		}
		fmt.Fprintf(&b, " from %v", in.Seal.ReadFrom)
	case in.Settle != nil:
		fmt.Fprintf(&b, " %+v", *in.Settle)
	case in.Watermark != nil:
		fmt.Fprintf(&b, " %s seq=%d", in.Agent, in.Watermark.Seq)
	}
	if in.Begin != nil {
		fmt.Fprintf(&b, " begin %s may %v group %q after %q", in.Begin.Mode, in.Begin.May, in.Begin.Group,
			in.Begin.Predecessor)
	}
	t.r.note("%s", b.String())
}

// traceOutcome writes an outcome as one line.
func (t *truth) traceOutcome(o *sequencer.Outcome) {
	if !t.r.tracing {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "    #%d %s %s", o.Seq, o.Kind, o.Tx)
	if o.Tx == "" {
		fmt.Fprintf(&b, "%s inc=%d", o.Agent, o.Incarnation)
	}
	fmt.Fprintf(&b, " floor=%d time=%d", o.Floor, o.Time)
	if o.Epoch != 0 {
		fmt.Fprintf(&b, " epoch=%d", o.Epoch)
	}
	if o.Code != "" {
		fmt.Fprintf(&b, " %s (%s) moved %v", o.Code, o.Detail, o.Moved)
	}
	for _, h := range o.Added {
		fmt.Fprintf(&b, " +%s %s %s", h.Kind, h.Access, h.Scope)
	}
	for _, h := range o.Ended {
		fmt.Fprintf(&b, " -%s %s %s", h.Kind, h.Access, h.Scope)
	}
	for _, w := range o.Writes {
		fmt.Fprintf(&b, " wrote %s", w.Scope)
	}
	for _, x := range o.BlockedBy {
		fmt.Fprintf(&b, " behind %s(%s)", x.Tx, x.Why)
	}
	if o.Final {
		b.WriteString(" final")
	}
	t.r.note("%s", b.String())
}
