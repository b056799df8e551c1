package streams

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/topology"
)

// liveOf says what goes on in a workspace. What does not fit into an answer is left out, the youngest first.
func liveOf(r *room, q question) ([]byte, error) {
	l := topology.LiveIn(r.replica.Fold(), q.limit)
	for i := range l.Transactions {
		l.Transactions[i].BeganTick = r.notes.of[l.Transactions[i].Tx].began
	}
	for {
		b, err := topology.EncodeLive(l)
		if err != nil || len(b) <= maxAnswerBytes || len(l.Transactions)+len(l.Sidecars) == 0 {
			return b, err
		}
		l.Truncated = true
		l.Transactions, l.Sidecars = l.Transactions[:len(l.Transactions)/2], l.Sidecars[:len(l.Sidecars)/2]
	}
}

// Live is what goes on in a workspace: open, waiting, sealed and unsettled transactions, who waits for whom, sidecars
// with their leases; exact as of the seq that it names. It fails with ErrNoAnswer when nobody owns the workspace.
func (c *Client) Live(ctx context.Context, workspace string) (topology.Live, error) {
	b, err := c.ask(ctx, askLive, workspace, "", maxAnswerRows)
	if err != nil {
		return topology.Live{}, fmt.Errorf("live transactions of %s: %w", workspace, err)
	}
	live, err := topology.DecodeLive(b)
	if err != nil {
		return topology.Live{}, fmt.Errorf("live transactions of %s: %w", workspace, err)
	}
	return *live, nil
}
