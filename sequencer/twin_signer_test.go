package sequencer_test

import "github.com/hence-dev/hence/sequencer"

// unsigned is a record as the twin's logic reads it: before logic 5 it has no signer.
func (w *twin) unsigned(in *sequencer.Intent) *sequencer.Intent {
	if in.Signer == "" || w.rules.Logic > 4 {
		return in
	}
	older := *in
	older.Signer = ""
	return &older
}

// signer is the key behind an outcome: of the record that it answers, else of the seal that it decides.
func (w *twin) signer(o *sequencer.Outcome) string {
	if o.Intent == w.intent.ID() && o.Tx == w.intent.Tx {
		return w.intent.Signer
	}
	t := w.tx(o.Tx)
	decides := o.Kind == sequencer.OutcomeCommitted || o.Kind == sequencer.OutcomeAborted
	if t == nil || !decides {
		return ""
	}
	return t.signer
}

// noteSigner counts what said who signed.
func (r *reached) noteSigner(o *sequencer.Outcome) {
	if o.Signer == "" {
		return
	}
	r.count["signed "+o.Kind.String()]++
	if seal := idOf(sequencer.IntentSeal, o.Tx, 1); o.Kind == sequencer.OutcomeAborted && o.Intent != seal {
		r.count["signed by its seal"]++
	}
}
