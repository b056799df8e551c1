package sequencer_test

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// showState prints what the fold keeps, a line each.
func showState(st sequencer.State) string {
	var out strings.Builder
	fmt.Fprintf(&out, "seq=%d floor=%d horizon=%d time=%d rules=%d\n", st.Seq, st.Floor, st.Horizon, st.Time,
		st.Rules.Version)
	for _, sc := range st.Sidecars {
		fmt.Fprintf(&out, "sidecar %s incarnation=%d watermark=%d lease=%d", sc.Agent, sc.Incarnation, sc.Watermark, sc.Due)
		for _, s := range sc.Servers {
			if s.Present {
				fmt.Fprintf(&out, " %s.%d=%x", s.Server, s.Generation, s.Catalogue[:2])
			} else {
				fmt.Fprintf(&out, " %s.%d=gone", s.Server, s.Generation)
			}
		}
		fmt.Fprintln(&out, when(sc.Shut, " shut"))
	}
	for i := range st.Txs {
		fmt.Fprintln(&out, showTx(&st.Txs[i]))
	}
	for _, w := range st.Window {
		fmt.Fprintf(&out, "write %s seq=%d by=%s", w.Scope, w.Seq, orNobody(w.Writer.Tx))
		fmt.Fprintln(&out, when(w.Writer.Residue, " residue"))
	}
	for _, r := range st.Retractions {
		fmt.Fprintf(&out, "retraction of %s accepted=%d turn=%d cone=%v\n", r.Tx, r.Seq, r.Turn, r.Cone)
	}
	for _, g := range st.Groups {
		fmt.Fprintf(&out, "group %s winner=%s seq=%d\n", g.ID, orNobody(g.Winner), g.Seq)
	}
	return out.String()
}

// showCone prints what a retraction would undo.
func showCone(f *sequencer.Fold, id sequencer.TxID) string {
	list, err := f.Cone(id)
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	var out strings.Builder
	for _, m := range list {
		fmt.Fprintf(&out, "%s %s decision=%d", m.Tx, m.Agent, m.Decision)
		out.WriteString(when(m.Why != "", " "+m.Why+" "+string(m.Of)) + when(m.At != "", " at "+string(m.At)))
		out.WriteString(when(!m.Settled, " unsettled") + when(m.Effects, " effects"))
		for _, s := range m.Writes {
			fmt.Fprintf(&out, " %s", s)
		}
		for _, v := range m.Restored {
			fmt.Fprintf(&out, " restores %s from %d by %s %q", v.Scope, v.Seq, orNobody(v.Tx), v.Content)
			out.WriteString(when(v.From != 0, fmt.Sprintf(" in %d", v.From)))
			out.WriteString(when(v.Absent, " absent") + when(v.Unknown, " unknown"))
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func showTx(t *sequencer.TxState) string {
	phases := []string{"open", "sealed", "committed", "aborted", "final committed", "final aborted",
		"retracting", "retracted"}
	text := fmt.Sprintf("%s %s %s %s", t.ID, t.Agent, t.Mode, phases[t.Phase])
	text += when(t.Epoch != 0, fmt.Sprintf(" e%d", t.Epoch)) + when(t.Code != "", " "+string(t.Code))
	text += when(t.Waiting != nil, " waiting") + when(t.Owner == 0, " orphan")
	text += when(t.Owner != 0 && t.Owner != t.Incarnation, fmt.Sprintf(" owner=%d", t.Owner))
	text += when(t.Decision != 0, fmt.Sprintf(" decision=%d", t.Decision)) + when(t.Group != "", " group="+t.Group)
	text += when(t.Session != "", " session="+t.Session)
	text += when(t.Verdict > 0, " verdict=yes") + when(t.Verdict == -1, " verdict=no") +
		when(t.Verdict == -2, " verdict=unavailable")
	text += when(t.ApprovalDue != 0, fmt.Sprintf(" approval=%d deadline=%d", t.ApprovalDue, t.Due))
	for _, a := range t.Approvals {
		text += when(a.Yes, fmt.Sprintf(" approved=%d:%s", a.Index, a.By))
	}
	text += when(t.Signer != "", " signer="+t.Signer)
	return text + when(t.Would != "", " would="+string(t.Would)) + when(t.Unclean, " unclean") +
		when(t.Retraction != "", " cone-of="+string(t.Retraction))
}

// showHolds prints who holds what, by transaction; a sealed one claims what it will release and write.
func showHolds(st sequencer.State) string {
	var out strings.Builder
	for i := range st.Txs {
		t := &st.Txs[i]
		show := func(scope sequencer.Scope, kind sequencer.HoldKind, access sequencer.Access) {
			fmt.Fprintf(&out, "%s %s %s %s\n", t.ID, kind, access, scope)
		}
		for _, h := range t.Grants {
			show(h.Scope, h.Kind, h.Access)
		}
		for _, s := range t.Gated {
			show(s, sequencer.Held, sequencer.WriteAccess)
		}
		if t.Phase == sequencer.PhaseOpen {
			for _, w := range t.May {
				show(w.Scope, sequencer.Claimed, w.Access)
			}
		}
		if t.Retraction != "" && t.Phase != sequencer.PhaseRetracted {
			for _, w := range t.Past.Writes {
				show(w.Scope, sequencer.Granted, sequencer.WriteAccess)
			}
		}
		if t.Waiting != nil {
			for _, w := range t.Waiting.Wants {
				show(w.Scope, sequencer.Claimed, w.Access)
			}
		}
		if t.Phase == sequencer.PhaseSealed {
			for _, s := range claimedBySeal(t.Seal) {
				show(s, sequencer.Claimed, sequencer.WriteAccess)
			}
		}
	}
	if out.Len() == 0 {
		return "none\n"
	}
	return out.String()
}

func claimedBySeal(s *sequencer.Seal) []sequencer.Scope {
	var out []sequencer.Scope
	for _, e := range s.Effects {
		if e.Class == sequencer.ClassBufferable || e.Class == sequencer.ClassIrreversible {
			out = append(out, e.Scopes...)
		}
	}
	for _, w := range s.Shards {
		out = append(out, w.Scope)
	}
	return out
}

func orNobody(id sequencer.TxID) string {
	if id == "" {
		return "nobody"
	}
	return string(id)
}

func when(v bool, text string) string {
	if v {
		return text
	}
	return ""
}
