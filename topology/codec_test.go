package topology

import "testing"

func TestRoundTrip(t *testing.T) {
	t.Run("intent", func(t *testing.T) { roundTrip(t, EncodeIntent, DecodeIntent) })
	t.Run("outcome", func(t *testing.T) { roundTrip(t, EncodeOutcome, DecodeOutcome) })
	t.Run("replica", func(t *testing.T) { roundTrip(t, EncodeReplica, DecodeReplica) })
	t.Run("event", func(t *testing.T) { roundTrip(t, EncodeEvent, DecodeEvent) })
	t.Run("scope move", func(t *testing.T) { roundTrip(t, EncodeScopeMove, DecodeScopeMove) })
	t.Run("frontier row", func(t *testing.T) { roundTrip(t, EncodeFrontierRow, DecodeFrontierRow) })
	t.Run("closure row", func(t *testing.T) { roundTrip(t, EncodeClosureRow, DecodeClosureRow) })
	t.Run("closure", func(t *testing.T) { roundTrip(t, EncodeClosure, DecodeClosure) })
	t.Run("snapshot", func(t *testing.T) { roundTrip(t, EncodeSnapshot, DecodeSnapshot) })
}
