package topology

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

func sampleStopped() *Stopped {
	return &Stopped{Workspace: "default", From: 4711, At: 4720, State: 4700,
		Reason: "decision default/42 cannot be written: 2100000 bytes, at most 2097152 are allowed"}
}

// A reason is cut where its bound falls, also inside a letter.
func TestStoppedReason(t *testing.T) {
	for _, reason := range []string{strings.Repeat("é", MaxReasonBytes), "x" + strings.Repeat("é", MaxReasonBytes),
		"\xff\xfe", ""} {
		s := sampleStopped()
		s.Reason = reason
		b, err := EncodeStopped(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeStopped(b)
		if err != nil || len(back.Reason) > MaxReasonBytes || !utf8.ValidString(back.Reason) {
			t.Errorf("%d bytes of %d, %v", len(back.Reason), len(reason), err)
		}
	}
}

// A binary that knows no such row must not take it for a state, and a state is none.
func TestStoppedIsNoState(t *testing.T) {
	b, err := EncodeStopped(sampleStopped())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeReplica(b); !errors.Is(err, ErrForeignVersion) {
		t.Errorf("as a state: %v", err)
	}
	if b, err = EncodeReplica(sampleReplica()); err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeStopped(b); !errors.Is(err, ErrForeignVersion) {
		t.Errorf("a state: %v", err)
	}
	key := StoppedKey("shop")
	if !IsStoppedKey(key) || IsStoppedKey("shop") || WorkspaceOfKey(key) != "shop" ||
		PartitionOf(key, 8) != PartitionOf("shop", 8) {
		t.Errorf("the key %q", key)
	}
}

// A decision of more values than a reader takes was written, and every reader parked it.
func TestDecisionOfManyValues(t *testing.T) {
	o := &sequencer.Outcome{Workspace: "shop", Seq: 3, Kind: sequencer.OutcomeSettled, Tx: "t"}
	for range 40_000 {
		o.Writes = append(o.Writes, sequencer.Write{Scope: "r:/1", Writer: sequencer.Writer{Seq: 3, Tx: "t"}})
	}
	if event, err := EncodeCloudEvent(o, sampleTime, ""); err == nil {
		_, err := DecodeCloudEvent(event)
		t.Errorf("%d bytes are written; read back: %v", len(event), err)
	}
	o.Writes = o.Writes[:10_000]
	event, message, err := EncodeDecision(o, sampleTime, "")
	if err != nil {
		t.Fatal(err)
	}
	takenByAll(t, o, event, message)
}

// A decision whose moves cannot be written, or that has a scope without a name, ends before it leaves.
func TestDecisionThatCannotBeSplit(t *testing.T) {
	o := &sequencer.Outcome{Workspace: "shop", Seq: 3, Kind: sequencer.OutcomeCommitted, Tx: "t",
		Ended: []sequencer.Hold{{Scope: ""}}}
	if _, _, err := EncodeDecision(o, sampleTime, ""); !errors.Is(err, ErrNoScope) {
		t.Errorf("an empty scope: %v", err)
	}
	scope := sequencer.Scope("shard:/" + strings.Repeat("x", maxTextBytes-10))
	content := []byte(strings.Repeat("x", MaxRecordBytes-maxTextBytes-2000))
	o.Ended = nil
	o.Shards = []sequencer.ShardWrite{{Scope: scope, Type: "text/plain", Content: content}}
	if _, err := EncodeOutcome(o); err != nil {
		t.Fatal(err)
	}
	event, message, err := EncodeDecision(o, sampleTime, "")
	if err == nil {
		takenByAll(t, o, event, message)
		return
	}
	t.Logf("refused: %v", err)
}
