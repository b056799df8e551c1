package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hence-dev/hence/sidecar/api"
)

// Group is a branch group: transactions of which one is chosen. The others leave nothing.
type Group struct {
	client   *Client
	id       string
	branches []*Tx
}

// Speculate opens a group of so many branches.
func (c *Client) Speculate(ctx context.Context, branches int, o BeginOptions) (*Group, error) {
	begin, err := beginOf(o)
	if err != nil {
		return nil, err
	}
	in := api.BeginGroup{Branches: branches, Begin: begin}
	var out api.Group
	if err := c.json(ctx, http.MethodPost, c.inWorkspace("/groups"), nil, in, &out); err != nil {
		return nil, err
	}
	g := &Group{client: c, id: out.Group}
	for _, d := range out.Branches {
		g.branches = append(g.branches, &Tx{client: c, opened: d})
	}
	return g, nil
}

// ID is the group's name.
func (g *Group) ID() string { return g.id }

// Branches are its transactions.
func (g *Group) Branches() []*Tx { return g.branches }

// Select makes one branch the winner; every other one is over. The first choice stands.
func (g *Group) Select(ctx context.Context, winner *Tx) (api.Group, error) {
	var out api.Group
	path := g.client.inWorkspace("/groups/" + url.PathEscape(g.id) + "/select")
	err := g.client.json(ctx, http.MethodPost, path, nil, api.Select{Tx: winner.ID()}, &out)
	return out, err
}
