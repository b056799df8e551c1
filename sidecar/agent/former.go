package agent

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// retracts is the logic of the fold from which on it takes committed transactions back.
const retracts = 2

// refersToLog is the logic from which on the fold keeps no contents: a former one is said by the decision that has it.
const refersToLog = 3

// withFormer is a transaction's writes for its seal. Those of shards that were last written so long ago that the fold
// may have forgotten what stood there say it, so that a retraction can put it back; s.mu is held.
func (s *Agent) withFormer(writes []sequencer.ShardWrite) []sequencer.ShardWrite {
	out := slices.Clone(writes)
	now := s.view.Settings()
	if !now.Exact || now.Rules.Logic < retracts {
		return out
	}
	if now.Rules.Logic >= refersToLog {
		for i := range out {
			rev, at := s.view.Read(out[i].Scope)
			out[i].Former = &sequencer.Former{Version: rev.Version, View: at, Restored: rev.From}
		}
		return out
	}
	inline := 0
	for i := range out {
		inline += len(out[i].Content)
	}
	for i := range out {
		rev, at := s.view.Read(out[i].Scope)
		recent := rev.Version != 0 && at-rev.Version < now.Rules.HorizonSeqs/2
		if inline += len(rev.Content); recent || inline > int(now.Rules.MaxInlineTotal) {
			inline -= len(rev.Content)
			continue
		}
		out[i].Former = &sequencer.Former{Version: rev.Version, View: at, Type: rev.Media, Content: rev.Content,
			Ref: rev.Ref}
	}
	return out
}
