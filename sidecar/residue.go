package sidecar

import (
	"context"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// publishResidue puts what could not be made clean on the list before the log hears of the settlement: a crash in
// between writes it again under the same key.
func (s *session) publishResidue(ctx context.Context, d *debt, made gate.Settlement, inc sequencer.Seq) error {
	for _, r := range made.Residue {
		agent, _, ok := ownerOf(d.tx)
		if !ok {
			agent = s.agent
		}
		record := &topology.Residue{
			Workspace: s.workspace, Tx: d.tx, Index: r.Effect.Index, Agent: agent, Tool: r.Effect.Tool.Name,
			Class: r.Effect.Tool.Class, Key: r.Effect.Key, Scopes: r.Effect.Tool.Scopes, Result: r.Result, Detail: r.Detail,
			Tries: r.Tries, State: topology.ResidueOpen, Incarnation: inc, AtMs: s.clock.Now().UnixMilli(),
		}
		err := retry(ctx, func() error {
			try, cancel := context.WithTimeout(ctx, appendTry)
			defer cancel()
			failpoint.Hit(failpoint.ResidueBefore)
			defer failpoint.Hit(failpoint.ResidueAfter)
			return s.events.PublishResidue(try, record)
		}, func(err error) {
			s.log.Warn("a residue is not on the list yet: written again", "tx", string(d.tx), "cause", err)
		})
		if err != nil {
			return err
		}
		s.metrics.residue(r.Effect.Tool.Class, r.Result)
	}
	return nil
}
