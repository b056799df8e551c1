package sequencer_test

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// write enters scopes into the window and refuses the reads and versions of others that it overtakes.
func (w *twin) write(t *twinTx, scopes []sequencer.Scope, by func(sequencer.Scope,
	sequencer.Writer) sequencer.Writer) []sequencer.Write {
	var out []sequencer.Write
	for _, scope := range scopes {
		last := w.lastWrite(scope)
		former := writerOf(last)
		out = append(out, sequencer.Write{Scope: scope, Former: former, Writer: by(scope, former)})
	}
	mover := sequencer.TxID("")
	if w.bounded() {
		mover = t.id
	}
	for _, x := range out {
		w.window = slices.DeleteFunc(w.window, func(e sequencer.WindowState) bool { return e.Scope == x.Scope })
		e := sequencer.WindowState{Scope: x.Scope, Seq: w.seq + 1, Writer: x.Writer, By: mover}
		if e.By == e.Writer.Tx {
			e.By = ""
		}
		w.window = append(w.window, e)
		for _, u := range w.txs {
			if u != t && u.phase == sequencer.PhaseSealed && u.stale == nil {
				u.stale = w.overtaken(u, x.Scope, sequencer.Writer{Seq: w.seq + 1, Tx: t.id})
			}
		}
	}
	return out
}

// overtaken finds the read or expected version of a waiting transaction that a write has passed.
func (w *twin) overtaken(u *twinTx, scope sequencer.Scope, by sequencer.Writer) *twinFinding {
	var list []*twinFinding
	for _, r := range u.seal.Reads {
		list = append(list, &twinFinding{code: sequencer.CodeStaleRead, level: sequencer.A1, scope: r.Scope, moved: by})
	}
	for _, x := range u.seal.Shards {
		if x.Expect != nil {
			list = append(list, &twinFinding{code: sequencer.CodeVersionMismatch, scope: x.Scope, moved: by})
		}
	}
	slices.SortStableFunc(list, func(a, b *twinFinding) int {
		return cmp.Or(bySegments(a.scope, b.scope), cmp.Compare(a.code, b.code)) // at one scope the read first
	})
	for _, f := range list {
		if f.scope.Overlaps(scope) {
			if f = u.enforce(f); f != nil {
				if w.bounded() {
					f.scope = scope
				}
				return f
			}
		}
	}
	return nil
}

// moved is who moved what was written last.
func (w *twin) moved(e sequencer.WindowState) sequencer.Writer {
	out := writerOf(e)
	if w.bounded() {
		out.Tx = cmp.Or(e.By, out.Tx)
	}
	return out
}

func writerOf(e sequencer.WindowState) sequencer.Writer {
	return sequencer.Writer{Seq: e.Seq, Tx: e.Writer.Tx, Residue: e.Writer.Residue}
}

// lastWrite is the latest overlapping write, of several of one seq that with the smallest scope text.
func (w *twin) lastWrite(scope sequencer.Scope) sequencer.WindowState {
	var last sequencer.WindowState
	for _, e := range w.window {
		if e.Scope.Overlaps(scope) && (e.Seq > last.Seq || e.Seq == last.Seq && e.Scope < last.Scope) {
			last = e
		}
	}
	return last
}
