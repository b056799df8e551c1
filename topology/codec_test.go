package topology

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

func TestRoundTrip(t *testing.T) {
	t.Run("intent", func(t *testing.T) { roundTrip(t, EncodeIntent, DecodeIntent) })
	t.Run("outcome", func(t *testing.T) { roundTrip(t, EncodeOutcome, DecodeOutcome) })
	t.Run("replica", func(t *testing.T) { roundTrip(t, EncodeReplica, DecodeReplica) })
	t.Run("event", func(t *testing.T) { roundTrip(t, EncodeEvent, DecodeEvent) })
	t.Run("scope move", func(t *testing.T) { roundTrip(t, EncodeScopeMove, DecodeScopeMove) })
	t.Run("frontier row", func(t *testing.T) { roundTrip(t, EncodeFrontierRow, DecodeFrontierRow) })
	t.Run("closure row", func(t *testing.T) { roundTrip(t, EncodeClosureRow, DecodeClosureRow) })
	t.Run("closure", func(t *testing.T) { roundTrip(t, EncodeClosure, DecodeClosure) })
	t.Run("unsettled", func(t *testing.T) { roundTrip(t, EncodeUnsettled, DecodeUnsettled) })
	t.Run("rules", func(t *testing.T) { roundTrip(t, EncodeRulesNow, DecodeRulesNow) })
	t.Run("state hash", func(t *testing.T) { roundTrip(t, EncodeStateHash, DecodeStateHash) })
	t.Run("stopped", func(t *testing.T) { roundTrip(t, EncodeStopped, DecodeStopped) })
	t.Run("live", func(t *testing.T) { roundTrip(t, EncodeLive, DecodeLive) })
	t.Run("cone", func(t *testing.T) { roundTrip(t, EncodeCone, DecodeCone) })
	t.Run("snapshot", func(t *testing.T) { roundTrip(t, EncodeSnapshot, DecodeSnapshot) })
}

func TestCloudEventRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 30, 0, 123e6, time.UTC)
	encode := func(o *sequencer.Outcome) ([]byte, error) { return EncodeCloudEvent(o, at, "00-ab-cd-01") }
	roundTrip(t, encode, DecodeCloudEvent)
	b, err := encode(&sequencer.Outcome{Workspace: "default", Seq: 1, Kind: sequencer.OutcomeJoined})
	if err != nil {
		t.Fatal(err)
	}
	e, err := ReadCloudEvent(b)
	if err != nil {
		t.Fatal(err)
	}
	if !e.At.Equal(at) || e.Traceparent != "00-ab-cd-01" {
		t.Errorf("came back with time %v and traceparent %q", e.At, e.Traceparent)
	}
}
