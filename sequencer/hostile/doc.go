// Package hostile makes the records that a workspace has to survive: for each kind of intent the largest one that the
// fold takes, and mutated ones. It is for tests, and imports nothing but the fold: who writes the records down is the
// caller's business.
package hostile

import "github.com/hence-dev/hence/sequencer"

// Kinds are all kinds of intents.
func Kinds() []sequencer.IntentKind {
	var out []sequencer.IntentKind
	for k := sequencer.IntentJoin; k.String() != "unknown"; k++ {
		out = append(out, k)
	}
	return out
}

// RefusedCodes are the codes that refuse an intent without ending its transaction.
func RefusedCodes() []sequencer.Code {
	return []sequencer.Code{sequencer.CodeOwnTransaction, sequencer.CodeSibling, sequencer.CodeLimit,
		sequencer.CodeLateEffect, sequencer.CodeTouchBound, sequencer.CodeTouchWaiting, sequencer.CodeNotOrphan,
		sequencer.CodeNotDecided, sequencer.CodeNotSealed, sequencer.CodeNotCommitted, sequencer.CodeWrongFootprint,
		sequencer.CodeUnknownIntent, sequencer.CodeWrongScopes, sequencer.CodeNotWhileObserving,
		sequencer.CodeLeaseExpired, sequencer.CodeTooOld}
}

// RecordBytes is the largest record of an intent that is read; a larger one is put aside.
const RecordBytes = 512 << 10

const maxNameBytes = 4 << 10 // of one text of an intent
