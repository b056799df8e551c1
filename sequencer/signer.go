package sequencer

// Signers, since logic 5. A sidecar that took a request by its signature says with the intent whose key it was. The
// fold decides nothing by it: it hands the name on to the outcome that answers the intent, so that it is under the
// chain hash, and keeps it with a seal that waits.

// maxSignerBytes is how long the name of a key may be: the hash of a public key in base64 has 43 bytes.
const maxSignerBytes = 64

// signs: the workspace's logic says who signed.
func (f *Fold) signs() bool { return f.rules.Logic >= 5 }

// signerOf is the key behind an outcome that answers this step's record. Others that the step decides were asked for
// by other requests.
func (f *Fold) signerOf(o *Outcome) string {
	if in := f.step.in; in.Signer != "" && o.Tx == in.Tx && o.Intent == f.stepID() {
		return in.Signer
	}
	return ""
}

// sealSigner is the key behind a sealed transaction that something else than a record of its own ends.
func (f *Fold) sealSigner(t *tx) string {
	if f.step.in.Tx == t.ID {
		return ""
	}
	return t.Signer
}
