package costlaw

import (
	"context"
	"errors"
	"fmt"

	"github.com/hence-dev/hence/sidecar/client"
)

// Hence is a Store on a running Hence, over HTTP.
type Hence struct {
	agents []*client.Client
	prefix string
}

// NewHence returns a store of which each agent has a client of its own. Prefix names the session's cells: two
// sessions with one prefix share them.
func NewHence(agents []*client.Client, prefix string) *Hence { return &Hence{agents, prefix} }

// Begin reads a cell.
func (h *Hence) Begin(ctx context.Context, agent, cell int) (Turn, error) {
	scope := fmt.Sprintf("shard:/%s/cell%d", h.prefix, cell)
	shards, _, err := h.agents[agent].ReadAll(ctx, scope)
	if err != nil {
		return nil, err
	}
	return &henceTurn{h.agents[agent], shards[0].At()}, nil
}

type henceTurn struct {
	agent *client.Client
	read  client.SeenAt
}

// staleRead is the code of a commit that is refused because what it read was overwritten.
const staleRead = "stale_read"

func (t *henceTurn) Commit(ctx context.Context, text string) (ok bool, err error) {
	done, err := t.agent.Commit(ctx, client.Commit{Reads: []client.SeenAt{t.read},
		Writes: []client.Write{{Scope: t.read.Scope, Content: []byte(text)}}})
	if p, refused := errors.AsType[*client.Problem](err); refused && p.Code == staleRead {
		return false, nil
	}
	switch {
	case err != nil:
		return false, err
	case done.Decision.State == "committed":
		return true, nil
	case done.Decision.Code == staleRead:
		return false, nil
	}
	return false, fmt.Errorf("%s is %s: %s", done.Tx, done.Decision.State, done.Decision.Code)
}
