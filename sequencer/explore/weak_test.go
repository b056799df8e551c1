package explore

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

func TestScratchWeak(t *testing.T) {
	for _, w := range []sequencer.Weaken{sequencer.WeakenOlderOnly, sequencer.WeakenPiecewise, sequencer.WeakenWaitDie, sequencer.WeakenDirtyRead,
		sequencer.WeakenSettleNoWrite, sequencer.WeakenReadOnly, sequencer.WeakenShardNoClaim, sequencer.WeakenReadCovers} {
		t.Run("", func(t *testing.T) {
			found := 0
			kinds := map[string]Report{}
			var start = time.Now()
			cfgs := append(PairConfigs(), TripleConfigs()...)
			for i, cfg := range cfgs {
				if i < 2758 && i%5 != 0 { continue }
				if i >= 2758 && found > 0 { break }
				cfg.Weaken = w
				cfg.Replay = w == sequencer.WeakenPiecewise
				r := Run(cfg)
				if r.Violation != nil {
					found++
					if len(kinds) < 3 && kinds[r.Violation.What[:2]].Violation == nil {
						kinds[r.Violation.What[:2]] = r
					}
				}
				if time.Since(start) > 20*time.Second { t.Log("timeout", i);break }
			}
			t.Log(w, "found", found, time.Since(start))
			for _, r := range kinds {
				t.Log(r)
			}
		})
	}
}
