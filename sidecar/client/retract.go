package client

import (
	"context"
	"net/http"

	"github.com/hence-dev/hence/sidecar/api"
)

// Retraction is what a retraction undoes, or would undo.
type Retraction = api.Retraction

// Retract undoes a committed transaction, anybody's, and all that follows from it. With dry it only says what that is.
// The answer comes when the retraction is accepted; its State says how far it is, and asking again how far it is then.
func (c *Client) Retract(ctx context.Context, tx, reason string, dry bool) (Retraction, error) {
	var out Retraction
	in := api.Retract{DryRun: dry, Reason: reason}
	err := c.json(ctx, http.MethodPost, txPath(tx, "/retract"), nil, in, &out)
	return out, err
}
