package sim

import (
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// checkEvidence: a refusal says what moved, and that is what the outcomes before it say (docs/codes/README.md has the
// table). What a sidecar says may be wrong only where the fold cannot see it any more.
func (t *truth) checkEvidence(o *sequencer.Outcome, in *sequencer.Intent) {
	if t.rules.Logic < 3 || o.Kind != sequencer.OutcomeAborted && o.Kind != sequencer.OutcomeRefused {
		return
	}
	asked := in != nil && in.Kind == sequencer.IntentAbort && in.Tx == o.Tx
	if o.By == "" && asked {
		return // its agent ended it, and said nothing of it that holds
	}
	if o.By != "" {
		t.r.probe(ProbeTold)
		if !asked || o.Scope != in.Abort.Scope || o.Moved.Seq != in.Abort.Seq || o.Moved.Tx != in.Abort.Writer {
			t.r.fail("%s is refused at %d with evidence that no sidecar gave", o.Tx, o.Seq)
			return
		}
		if t.unseen(in.Abort) {
			return
		}
	}
	if !t.bears(o) {
		t.r.fail("%s is refused at %d: %s at %q, moved %v, tool %q of %q; the outcomes before do not say so", o.Tx, o.Seq,
			o.Code, o.Scope, o.Moved, o.Tool, o.MovedAgent)
	}
}

// unseen: what a sidecar says lies below the floor, or was written over since.
func (t *truth) unseen(a *sequencer.Abort) bool {
	return a.Seq <= t.floor || slices.ContainsFunc(t.writes, func(w write) bool {
		return w.scope == a.Scope && w.seq > a.Seq
	})
}

// bears reports whether the outcomes before one bear out what it says of its cause.
func (t *truth) bears(o *sequencer.Outcome) bool {
	m := &sequencer.Outcome{}
	if seq := o.Moved.Seq; seq > 0 && seq < o.Seq {
		m = t.out[seq-1]
	}
	holds := func() bool {
		return slices.ContainsFunc(m.Added, func(h sequencer.Hold) bool { return h.Scope == o.Scope })
	}
	info := t.txs[o.Tx]
	named := info != nil && info.seal != nil && slices.Contains(info.seal.ReadFrom, o.Moved.Tx) // and no read has met it
	switch o.Code {
	case sequencer.CodeStaleRead, sequencer.CodeVersionMismatch:
		return m.Tx == o.Moved.Tx && slices.ContainsFunc(m.Writes, func(w sequencer.Write) bool {
			return w.Scope == o.Scope
		})
	case sequencer.CodeConflict, sequencer.CodeOwnTransaction:
		return m.Tx == o.Moved.Tx && m.Tx != "" && (holds() || len(o.BlockedBy) == 0 || o.BlockedBy[0].Why == "read_from")
	case sequencer.CodeWounded:
		return m.Kind == sequencer.OutcomeGranted && m.Tx == o.Tx && holds() && o.Moved.Tx != o.Tx && o.Moved.Tx != ""
	case sequencer.CodeCascade:
		by := t.txs[o.Moved.Tx]
		return by != nil && by.decision == o.Moved.Seq && (!by.committed || by.cone != 0) && (o.Scope != "" || named)
	case sequencer.CodeLostBranch:
		return m.Kind == sequencer.OutcomeSelected && m.Group == o.Group && m.Winner == o.Moved.Tx
	case sequencer.CodePhantomTool:
		server, _, _ := strings.Cut(o.Tool, "/")
		announced := m.Server == server || m.Kind == sequencer.OutcomeJoined
		return o.Tool != "" && o.MovedAgent == o.Agent && m.Incarnation == o.Incarnation && announced
	case sequencer.CodeTooOld:
		return o.Kind == sequencer.OutcomeRefused || o.Scope != ""
	}
	return true
}

// tell lets a sidecar that ends a transaction say why, as one does that sees from its view that it is stale: mostly
// what was, and now and then something that was not.
func (c *sidecar) tell(a *attempt, abort *sequencer.Abort) {
	r := c.r
	if r.swarm.watch {
		return // where nothing is refused a view shows nothing of it
	}
	var seen []*sequencer.Outcome
	for _, o := range r.truth.out[:c.view] {
		if o.Seq > a.base && len(o.Writes) > 0 && o.Tx != a.id {
			seen = append(seen, o)
		}
	}
	if len(seen) == 0 || !r.chance(0.7) {
		return
	}
	o := seen[r.n(len(seen))]
	abort.Code, abort.Scope, abort.Seq, abort.Writer = sequencer.CodeStaleRead, o.Writes[r.n(len(o.Writes))].Scope, o.Seq,
		o.Tx
	if !r.chance(r.swarm.sloppy * 4) {
		return
	}
	switch r.n(3) {
	case 0:
		abort.Scope = leaves()[r.n(numLeaves)]
	case 1:
		abort.Seq += sequencer.Seq(1 + r.n(3))
	default:
		abort.Writer = sequencer.TxID("t9.9")
	}
}
