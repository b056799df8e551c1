package sidecar

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
func (s *session) withFormer(writes []sequencer.ShardWrite) []sequencer.ShardWrite {
	out := slices.Clone(writes)
	now := s.view.settings()
	if !now.exact || now.rules.Logic < retracts {
		return out
	}
	if now.rules.Logic >= refersToLog {
		for i := range out {
			rev, at := s.view.read(out[i].Scope)
			out[i].Former = &sequencer.Former{Version: rev.version, View: at, Restored: rev.from}
		}
		return out
	}
	inline := 0
	for i := range out {
		inline += len(out[i].Content)
	}
	for i := range out {
		rev, at := s.view.read(out[i].Scope)
		recent := rev.version != 0 && at-rev.version < now.rules.HorizonSeqs/2
		if inline += len(rev.content); recent || inline > int(now.rules.MaxInlineTotal) {
			inline -= len(rev.content)
			continue
		}
		out[i].Former = &sequencer.Former{Version: rev.version, View: at, Type: rev.media, Content: rev.content,
			Ref: rev.ref}
	}
	return out
}
