package sequencer

import "testing"

// TestEachPartOfATransactionCounts holds that the budget of open transactions counts all that one keeps in a state
// record: what it left out could fill the record past what Kafka takes.
func TestEachPartOfATransactionCounts(t *testing.T) {
	seal := &Seal{Shards: []ShardWrite{{Scope: "shard:/a"}}}
	past := &Past{Reads: []PastRead{{Scope: "shard:/a"}}}
	for name, c := range map[string]struct {
		set        func(*tx)
		adds, more int // under every logic, and from logic 3 on
	}{
		"id":         {set: func(x *tx) { x.ID = "12345" }, adds: 5},
		"agent":      {set: func(x *tx) { x.Agent = "123" }, adds: 3},
		"group":      {set: func(x *tx) { x.Group = "1234" }, adds: 4, more: 4},
		"grants":     {set: func(x *tx) { x.Grants = []Hold{{Scope: "shard:/a"}, {Scope: "shard:/b"}} }, adds: 32, more: 12},
		"gated":      {set: func(x *tx) { x.Gated = []Scope{"shard:/a"} }, adds: 16},
		"granted":    {set: func(x *tx) { x.GrantedNs = []uint32{1, 2, 3} }, adds: 24},
		"may":        {set: func(x *tx) { x.May = []Want{{Scope: "shard:/a"}} }, adds: 16},
		"waiting":    {set: func(x *tx) { x.Waiting = &WaitingState{Wants: []Want{{Scope: "shard:/a"}}} }, adds: 16},
		"rests on":   {set: func(x *tx) { x.RestsOn = []TxID{"12345"} }, adds: 9},
		"residue":    {set: func(x *tx) { x.Residue = []TxID{"12345"} }, adds: 9},
		"seal":       {set: func(x *tx) { x.Seal = seal }, adds: seal.bytes() + seal.inline()},
		"past":       {set: func(x *tx) { x.Past = past }, adds: past.bytes()},
		"signer":     {set: func(x *tx) { x.Signer = "1234" }, adds: 4},
		"why":        {set: func(x *tx) { x.VerdictWhy = "1234" }, more: 4},
		"retraction": {set: func(x *tx) { x.Retraction = "1234" }, more: 4},
		"session":    {set: func(x *tx) { x.Session = "1234" }, more: 4},
		"shared":     {set: func(x *tx) { x.Shared = []Scope{"shard:/a"} }, more: 12},
		"sealed":     {set: func(x *tx) { x.Sealed = []Scope{"shard:/a"} }, more: 12},
	} {
		for logic := uint32(1); logic <= Logic; logic++ {
			f := New("ws")
			f.rules.Logic = logic
			var without, with tx
			c.set(&with)
			want := c.adds
			if logic >= 3 {
				want += c.more
			}
			if got := f.bytesOf(&with) - f.bytesOf(&without); got != want {
				t.Errorf("logic %d: %s adds %d bytes, want %d", logic, name, got, want)
			}
		}
	}
}

// TestHorizonAlwaysMoves: what makes room gives up at least one decision each time, or says that none is left; it is
// called until there is room.
func TestHorizonAlwaysMoves(t *testing.T) {
	f := New("ws")
	f.seq = 40
	for was := f.horizon; f.advanceHorizon(); was = f.horizon {
		if f.horizon <= was || f.horizon > f.seq {
			t.Fatalf("from %d it moves to %d, of %d", was, f.horizon, f.seq)
		}
	}
	if f.horizon != f.seq {
		t.Errorf("it ends at %d, of %d", f.horizon, f.seq)
	}
}
