package streams

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// maxConeMembers is how many members of a cone are told; the fold accepts fewer.
const maxConeMembers = topology.MaxAnswerRows

// Unsettled lists the decided transactions of a workspace that are not settled, by decision: an agent's, or all when
// agent is empty; through is the seq as of which the list is exact. When there are more than limit, which is at
// most 1,000, the oldest are returned with ErrTruncated.
func (c *Client) Unsettled(ctx context.Context, workspace, agent string, limit int,
) (rows []topology.Unsettled, through sequencer.Seq, err error) {
	b, err := c.ask(ctx, topology.AskUnsettled, workspace, agent, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("unsettled transactions of %s: %w", workspace, err)
	}
	list, err := topology.DecodeUnsettled(b)
	if err != nil {
		return nil, 0, fmt.Errorf("unsettled transactions of %s: %w", workspace, err)
	}
	if list.Truncated {
		err = fmt.Errorf("unsettled transactions of %s: %w: these are the first %d", workspace, ErrTruncated, len(list.Rows))
	}
	return list.Rows, list.Through, err
}

// Cone is the dry run of a retraction: what it would undo now, as of the seq that the answer names, and why.
// Its Code says what a retraction would be refused with. It fails with ErrNoAnswer when no process owns the workspace.
func (c *Client) Cone(ctx context.Context, workspace string, tx sequencer.TxID) (*topology.Cone, error) {
	b, err := c.ask(ctx, topology.AskCone, workspace, string(tx), maxConeMembers)
	if err != nil {
		return nil, fmt.Errorf("cone of %s: %w", tx, err)
	}
	cone, err := topology.DecodeCone(b)
	if err != nil {
		return nil, fmt.Errorf("cone of %s: %w", tx, err)
	}
	return cone, nil
}

// Rules are the workspace's rules as of a seq. It fails with ErrNoAnswer when no process owns the workspace.
func (c *Client) Rules(ctx context.Context, workspace string) (rules sequencer.Rules, through sequencer.Seq,
	err error) {
	b, err := c.ask(ctx, topology.AskRules, workspace, "", 1)
	if err != nil {
		return rules, 0, fmt.Errorf("rules of %s: %w", workspace, err)
	}
	now, err := topology.DecodeRulesNow(b)
	if err != nil {
		return rules, 0, fmt.Errorf("rules of %s: %w", workspace, err)
	}
	return now.Rules, now.Through, nil
}

// Live is what goes on in a workspace: open, waiting, sealed and unsettled transactions, who waits for whom, sidecars
// with their leases; exact as of the seq that it names. It fails with ErrNoAnswer when no process owns the workspace.
func (c *Client) Live(ctx context.Context, workspace string) (topology.Live, error) {
	b, err := c.ask(ctx, topology.AskLive, workspace, "", topology.MaxAnswerRows)
	if err != nil {
		return topology.Live{}, fmt.Errorf("live transactions of %s: %w", workspace, err)
	}
	live, err := topology.DecodeLive(b)
	if err != nil {
		return topology.Live{}, fmt.Errorf("live transactions of %s: %w", workspace, err)
	}
	return *live, nil
}
