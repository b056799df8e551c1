package sequencer

import "testing"

// TestEachPartOfATransactionCounts holds that the budget of open transactions counts all that one keeps in a state
// record: what it left out could fill the record past what Kafka takes.
func TestEachPartOfATransactionCounts(t *testing.T) {
	seal := &Seal{Shards: []ShardWrite{{Scope: "shard:/a"}}}
	past := &Past{Reads: []PastRead{{Scope: "shard:/a"}}}
	for name, c := range map[string]struct {
		set   func(*tx)
		adds  int
		since uint32 // the first logic that counts it
	}{
		"id":         {func(x *tx) { x.ID = "12345" }, 5, 1},
		"agent":      {func(x *tx) { x.Agent = "123" }, 3, 1},
		"grants":     {func(x *tx) { x.Grants = []Hold{{Scope: "shard:/a"}, {Scope: "shard:/b"}} }, 32, 1},
		"gated":      {func(x *tx) { x.Gated = []Scope{"shard:/a"} }, 16, 1},
		"granted":    {func(x *tx) { x.GrantedNs = []uint32{1, 2, 3} }, 24, 1},
		"may":        {func(x *tx) { x.May = []Want{{Scope: "shard:/a"}} }, 16, 1},
		"waiting":    {func(x *tx) { x.Waiting = &WaitingState{Wants: []Want{{Scope: "shard:/a"}}} }, 16, 1},
		"rests on":   {func(x *tx) { x.RestsOn = []TxID{"12345"} }, 9, 1},
		"residue":    {func(x *tx) { x.Residue = []TxID{"12345"} }, 9, 1},
		"seal":       {func(x *tx) { x.Seal = seal }, seal.bytes() + seal.inline(), 1},
		"past":       {func(x *tx) { x.Past = past }, past.bytes(), 1},
		"why":        {func(x *tx) { x.VerdictWhy = "1234" }, 4, 3},
		"retraction": {func(x *tx) { x.Retraction = "1234" }, 4, 3},
		"session":    {func(x *tx) { x.Session = "1234" }, 4, 3},
		"shared":     {func(x *tx) { x.Shared = []Scope{"shard:/a"} }, 12, 3},
		"sealed":     {func(x *tx) { x.Sealed = []Scope{"shard:/a"} }, 12, 3},
		"signer":     {func(x *tx) { x.Signer = "1234" }, 4, 1},
	} {
		for logic := uint32(1); logic <= Logic; logic++ {
			f := New("ws")
			f.rules.Logic = logic
			var without, with tx
			c.set(&with)
			want := c.adds
			switch {
			case logic < c.since:
				want = 0
			case name == "grants" && f.bounded():
				want += 12 // of the outcomes that gave them
			}
			if got := f.bytesOf(&with) - f.bytesOf(&without); got != want {
				t.Errorf("logic %d: %s adds %d bytes, want %d", logic, name, got, want)
			}
		}
	}
	var group tx
	group.Group = "1234"
	if f := New("ws"); f.bytesOf(&group)-f.bytesOf(&tx{}) < 4 {
		t.Error("the group is not counted")
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
