package sidecar

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
)

// settleAll settles transactions that were aborted after they had been granted something for writing. Nothing ran
// under those grants: shards change at the commit only.
func (s *session) settleAll(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return
	}
	for id := range s.unsettled {
		t := s.txs[id]
		if t == nil || t.final {
			delete(s.unsettled, id)
			continue
		}
		if t.settledBy == s.incarnation {
			continue
		}
		t.settledBy = s.incarnation
		in := t.intent(sequencer.IntentSettle, s.agent)
		in.Incarnation = s.incarnation
		in.Settle = &sequencer.Settle{NoneElse: true}
		if !s.tasks.start(func(ctx context.Context) { s.repeat(ctx, t, in) }) {
			t.settledBy = 0
		}
	}
}
