package sequencer_test

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestSignerIsCounted: the key that a waiting seal keeps uses up what open transactions may keep, from logic 5 on.
func TestSignerIsCounted(t *testing.T) {
	kept := func(logic uint32, signer string) int {
		f := sequencer.New("ws")
		for i, in := range []*sequencer.Intent{
			{Kind: sequencer.IntentJoin, Agent: "a", Join: &sequencer.Join{ID: "j", Logic: logic}},
			{Kind: sequencer.IntentSeal, Tx: "T", N: 1, Agent: "a", Incarnation: 1, Base: 1, Signer: signer,
				Seal: &sequencer.Seal{Hook: true, Shards: []sequencer.ShardWrite{{Scope: "shard:/s"}}}},
		} {
			if _, err := f.Step(int64(i), in); err != nil {
				t.Fatal(err)
			}
		}
		return f.Counters()["open"]
	}
	key := strings.Repeat("k", 43)
	if got := kept(5, key) - kept(5, ""); got != len(key) {
		t.Errorf("a key of %d bytes counts as %d", len(key), got)
	}
	if got := kept(4, key) - kept(4, ""); got != 0 {
		t.Errorf("under logic 4 it counts as %d", got)
	}
}
