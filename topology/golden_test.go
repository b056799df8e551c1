package topology

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again: the format changes, so its version must too")

// sample is one encoded record, with its decoder.
type sample struct {
	name   string // record, and what kind of it
	bytes  []byte
	decode func([]byte) error
	again  func([]byte) ([]byte, error) // reads and writes
}

func newSample[T any](tb testing.TB, name string, v *T, encode func(*T) ([]byte, error),
	decode func([]byte) (*T, error)) sample {
	tb.Helper()
	b, err := encode(v)
	if err != nil {
		tb.Fatal(err)
	}
	return sample{name: name, bytes: b, decode: func(b []byte) error { _, err := decode(b); return err },
		again: func(b []byte) ([]byte, error) {
			v, err := decode(b)
			if err != nil {
				return nil, err
			}
			return encode(v)
		}}
}

func encodeDecision(o *sequencer.Outcome) ([]byte, error) {
	return EncodeCloudEvent(o, sampleTime, sampleTrace)
}

// samples are encodings of every record there is, of every kind.
func samples(tb testing.TB) (list []sample) {
	tb.Helper()
	for _, in := range sampleIntents() {
		list = append(list, newSample(tb, "intent-"+in.Kind.String(), in, EncodeIntent, DecodeIntent))
	}
	for _, o := range sampleOutcomes() {
		list = append(list, newSample(tb, "outcome-"+o.Kind.String(), o, EncodeOutcome, DecodeOutcome),
			newSample(tb, "decision-"+o.Kind.String(), o, encodeDecision, DecodeCloudEvent))
	}
	for _, e := range sampleEvents() {
		list = append(list, newSample(tb, fmt.Sprintf("event-%d", e.Kind), e, EncodeEvent, DecodeEvent))
	}
	for i, m := range SplitByScope(sampleOutcomes()[4]) {
		list = append(list, newSample(tb, fmt.Sprintf("scope_move-%d", i), &m, EncodeScopeMove, DecodeScopeMove))
	}
	return append(list,
		newSample(tb, "event-hand", sampleHandEvent(), EncodeEvent, DecodeEvent),
		newSample(tb, "event_batch-1", sampleBatch(), encodeBatch, decodeBatch),
		newSample(tb, "event_batch-2", samplePlanned(), encodeBatch, decodeBatch),
		newSample(tb, "anomaly-1", sampleAnomaly(), encodeAnomaly, DecodeAnomaly),
		newSample(tb, "residue-1", sampleResidue(), EncodeResidue, DecodeResidue),
		newSample(tb, "intent-former", sampleFormer(), EncodeIntent, DecodeIntent),
		newSample(tb, "intent-confirm", sampleConfirm(), EncodeIntent, DecodeIntent),
		newSample(tb, "outcome-retracted", sampleRetracted(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-retracted", sampleRetracted(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "outcome-restored", sampleRestored(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-restored", sampleRestored(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "replica-2", sampleRetracting(), EncodeReplica, DecodeReplica),
		newSample(tb, "intent-told", sampleTellAbort(), EncodeIntent, DecodeIntent),
		newSample(tb, "outcome-told", sampleTold(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-told", sampleTold(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "outcome-phantom", samplePhantom(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-phantom", samplePhantom(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "replica-3", sampleEvidence(), EncodeReplica, DecodeReplica),
		newSample(tb, "intent-merges", sampleMerges(), EncodeIntent, DecodeIntent),
		newSample(tb, "outcome-merged", sampleMerged(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-merged", sampleMerged(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "outcome-taken_out", sampleTakenOut(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-taken_out", sampleTakenOut(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "outcome-reset", sampleReset(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-reset", sampleReset(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "replica-4", sampleTakingOut(), EncodeReplica, DecodeReplica),
		newSample(tb, "intent-asks", sampleAsks(), EncodeIntent, DecodeIntent),
		newSample(tb, "intent-approves", sampleApproves(), EncodeIntent, DecodeIntent),
		newSample(tb, "intent-chain", sampleChain(), EncodeIntent, DecodeIntent),
		newSample(tb, "outcome-chain", sampleChained(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-chain", sampleChained(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "event-chunk", sampleChunk(), EncodeEvent, DecodeEvent),
		newSample(tb, "outcome-approved", sampleApproved(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-approved", sampleApproved(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "outcome-unapproved", sampleUnapproved(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-unapproved", sampleUnapproved(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "replica-approval", sampleWaitingForApproval(), EncodeReplica, DecodeReplica),
		newSample(tb, "intent-signs", sampleSigns(), EncodeIntent, DecodeIntent),
		newSample(tb, "outcome-signed", sampleSigned(), EncodeOutcome, DecodeOutcome),
		newSample(tb, "decision-signed", sampleSigned(), encodeDecision, DecodeCloudEvent),
		newSample(tb, "replica-signed", sampleSignedWaits(), EncodeReplica, DecodeReplica),
		newSample(tb, "replica-1", sampleReplica(), EncodeReplica, DecodeReplica),
		newSample(tb, "frontier_row-1", sampleFrontierRow(), EncodeFrontierRow, DecodeFrontierRow),
		newSample(tb, "frontier_row-held", sampleHeldRow(), EncodeFrontierRow, DecodeFrontierRow),
		newSample(tb, "frontier_row-counted", sampleCountedRow(), EncodeFrontierRow, DecodeFrontierRow),
		newSample(tb, "frontier_row-merged", sampleMergedRow(), EncodeFrontierRow, DecodeFrontierRow),
		newSample(tb, "closure_row-1", sampleClosureRow(), EncodeClosureRow, DecodeClosureRow),
		newSample(tb, "closure_row-2", sampleGrownClosureRow(), EncodeClosureRow, DecodeClosureRow),
		newSample(tb, "unsettled-1", sampleUnsettled(), EncodeUnsettled, DecodeUnsettled),
		newSample(tb, "rules-1", sampleRulesNow(), EncodeRulesNow, DecodeRulesNow),
		newSample(tb, "state_hash-1", sampleStateHash(), EncodeStateHash, DecodeStateHash),
		newSample(tb, "state_hash-2", sampleStateHashEvery(), EncodeStateHash, DecodeStateHash),
		newSample(tb, "log_seal-1", sampleLogSeal(), EncodeLogSeal, DecodeLogSeal),
		newSample(tb, "log_seal-first", sampleFirstLogSeal(), EncodeLogSeal, DecodeLogSeal),
		newSample(tb, "stopped-1", sampleStopped(), EncodeStopped, DecodeStopped),
		newSample(tb, "live-1", sampleLive(), EncodeLive, DecodeLive),
		newSample(tb, "cone-1", sampleCone(), EncodeCone, DecodeCone),
		newSample(tb, "closure-1", sampleClosure(), EncodeClosure, DecodeClosure),
		newSample(tb, "snapshot-1", sampleSnapshot(), EncodeSnapshot, DecodeSnapshot),
		newSample(tb, "snapshot-counted", sampleCountedSnapshot(), EncodeSnapshot, DecodeSnapshot))
}

// TestGolden holds every format to the bytes that it had when it was released: a log lives longer than a binary.
func TestGolden(t *testing.T) {
	for _, s := range samples(t) {
		path := filepath.Join("testdata", "golden", s.name+".hex")
		if *rewrite {
			if err := os.WriteFile(path, []byte(hexLines(s.bytes)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v: a new record needs a golden file, run with -rewrite", err)
		}
		want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !bytes.Equal(s.bytes, want) {
			t.Errorf("%s: the format has changed: what older binaries wrote is\n%x\nand what this one writes is\n%x",
				s.name, want, s.bytes)
		}
		if err := s.decode(want); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// TestOlder holds that records which an older binary wrote are read as what they were: written again, they are this
// binary's records of the same samples.
func TestOlder(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "older", "*.hex"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d older records: %v", len(names), err)
	}
	now := map[string]sample{}
	for _, s := range samples(t) {
		now[s.name] = s
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		old, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, known := now[strings.TrimSuffix(filepath.Base(name), ".hex")]
		if !known {
			t.Errorf("%s is of no sample", name)
			continue
		}
		if bytes.Equal(old, s.bytes) {
			t.Errorf("%s is what this binary writes", name)
		}
		if got, err := s.again(old); err != nil || !bytes.Equal(got, s.bytes) {
			t.Errorf("%s: becomes\n%x, %v, want\n%x", name, got, err, s.bytes)
		}
	}
}

func hexLines(b []byte) string {
	var text strings.Builder
	for len(b) > 0 {
		n := min(40, len(b))
		fmt.Fprintf(&text, "%x\n", b[:n])
		b = b[n:]
	}
	return text.String()
}
