package topology

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// fuzz holds a decoder to its promises on any input: no panic, an error of the two kinds, and what it accepts can be
// written and is then read back the same.
func fuzz[T any](f *testing.F, record string, encode func(*T) ([]byte, error), decode func([]byte) (*T, error)) {
	seeds := 0
	for _, s := range samples(f) {
		if strings.HasPrefix(s.name, record+"-") {
			f.Add(s.bytes)
			seeds++
		}
	}
	if seeds == 0 {
		f.Fatalf("no sample of %s", record)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode(b)
		if err != nil {
			if v != nil || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForeignVersion) {
				t.Fatalf("error of no kind, or with a value: %v", err)
			}
			return
		}
		again, err := encode(v)
		if err != nil {
			t.Fatalf("accepted, but cannot be written: %v", err)
		}
		back, err := decode(again)
		if err != nil {
			t.Fatalf("written, but cannot be read: %v", err)
		}
		if !reflect.DeepEqual(back, v) {
			t.Fatal(difference("", reflect.ValueOf(back), reflect.ValueOf(v)))
		}
	})
}

func FuzzDecodeIntent(f *testing.F)    { fuzz(f, "intent", EncodeIntent, DecodeIntent) }
func FuzzDecodeOutcome(f *testing.F)   { fuzz(f, "outcome", EncodeOutcome, DecodeOutcome) }
func FuzzDecodeReplica(f *testing.F)   { fuzz(f, "replica", EncodeReplica, DecodeReplica) }
func FuzzDecodeEvent(f *testing.F)     { fuzz(f, "event", EncodeEvent, DecodeEvent) }
func FuzzDecodeEvents(f *testing.F)    { fuzz(f, "event_batch", encodeBatch, decodeBatch) }
func FuzzDecodeScopeMove(f *testing.F) { fuzz(f, "scope_move", EncodeScopeMove, DecodeScopeMove) }
func FuzzDecodeFrontierRow(f *testing.F) {
	fuzz(f, "frontier_row", EncodeFrontierRow, DecodeFrontierRow)
}
func FuzzDecodeClosureRow(f *testing.F) { fuzz(f, "closure_row", EncodeClosureRow, DecodeClosureRow) }
func FuzzDecodeClosure(f *testing.F)    { fuzz(f, "closure", EncodeClosure, DecodeClosure) }
func FuzzDecodeUnsettled(f *testing.F)  { fuzz(f, "unsettled", EncodeUnsettled, DecodeUnsettled) }
func FuzzDecodeRulesNow(f *testing.F)   { fuzz(f, "rules", EncodeRulesNow, DecodeRulesNow) }
func FuzzDecodeLogSeal(f *testing.F)    { fuzz(f, "log_seal", EncodeLogSeal, DecodeLogSeal) }
func FuzzDecodeStateHash(f *testing.F)  { fuzz(f, "state_hash", EncodeStateHash, DecodeStateHash) }
func FuzzDecodeStopped(f *testing.F)    { fuzz(f, "stopped", EncodeStopped, DecodeStopped) }
func FuzzDecodeLive(f *testing.F)       { fuzz(f, "live", EncodeLive, DecodeLive) }
func FuzzDecodeCone(f *testing.F)       { fuzz(f, "cone", EncodeCone, DecodeCone) }
func FuzzDecodeSnapshot(f *testing.F)   { fuzz(f, "snapshot", EncodeSnapshot, DecodeSnapshot) }
func FuzzDecodeResidue(f *testing.F)    { fuzz(f, "residue", EncodeResidue, DecodeResidue) }

func FuzzDecodeCloudEvent(f *testing.F) {
	fuzz[sequencer.Outcome](f, "decision", encodeDecision, DecodeCloudEvent)
}

// What the encoder of decisions takes, every reader takes: the decoder, and the frontier, which cuts it by scopes.
func FuzzEncodeDecision(f *testing.F) {
	for _, o := range sampleOutcomes() {
		b, err := EncodeOutcome(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := DecodeOutcome(b)
		if err != nil {
			return
		}
		event, message, err := EncodeDecision(o, sampleTime, sampleTrace)
		if err != nil {
			return
		}
		takenByAll(t, o, event, message)
	})
}

// takenByAll holds both forms of a decision against what reads them.
func takenByAll(t *testing.T, o *sequencer.Outcome, event, message []byte) {
	t.Helper()
	for form, decode := range map[string]func() (*sequencer.Outcome, error){
		"event":   func() (*sequencer.Outcome, error) { return DecodeCloudEvent(event) },
		"message": func() (*sequencer.Outcome, error) { return DecodeOutcome(message) },
	} {
		if back, err := decode(); err != nil {
			t.Fatalf("the %s is written and cannot be read: %v", form, err)
		} else if !reflect.DeepEqual(back, o) {
			t.Fatal(difference(form, reflect.ValueOf(back), reflect.ValueOf(o)))
		}
	}
	moves := SplitByScope(o)
	for i := range moves {
		if _, err := EncodeScopeMove(&moves[i]); err != nil {
			t.Fatalf("a move of it cannot be written: %v", err)
		}
	}
}
