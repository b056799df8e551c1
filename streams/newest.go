package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Newest is the seq of the last decision of a workspace that JetStream has; zero: none. It is for those who measure:
// the stream may lag behind the log, and may be away.
func (c *Client) Newest(ctx context.Context, workspace string) (sequencer.Seq, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return 0, err
	}
	if c.js == nil {
		return 0, errors.New("newest decision: no NATS address is configured")
	}
	id, err := c.firstID(ctx)
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	stream, err := c.js.Stream(ctx, topology.DecisionStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil // the processors have not made it yet
	}
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	last, err := stream.GetLastMsgForSubject(ctx, topology.DecisionSubject(workspace))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	if last.Header.Get(headerLog) != id {
		return 0, nil // it is of a former log
	}
	o, err := topology.DecodeOutcome(last.Data)
	if err != nil {
		return 0, fmt.Errorf("newest decision of %s: %w", workspace, err)
	}
	return o.Seq, nil
}
