package stand

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// harmed is the log as a node sees it before whose view decisions are lost.
type harmed struct {
	*streams.Client
	harm *tables.Harm
}

// Follow is part of sidecar.Log.
func (h harmed) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	return h.Client.Follow(ctx, workspace, after, func(o *sequencer.Outcome, way streams.Way) error {
		if h.harm.Loses(o) {
			return nil
		}
		return apply(o, way)
	})
}

// Harmed is part of tables.Harms.
func (s *Stand) Harmed(ctx context.Context, harm *tables.Harm) (place tables.Place, err error) {
	if place, err = s.Workspace(ctx, 1, 1, ""); err != nil {
		return place, err
	}
	servers := s.ground.Servers
	servers.Dial = harm.Dial(servers.Dial)
	log, err := streams.Dial(ctx, servers)
	if err != nil {
		return place, fmt.Errorf("connect a sidecar: %w", err)
	}
	name := fmt.Sprint("tables-", s.made)
	side, err := sidecar.New(sidecar.Config{Workspace: name, Agent: "far", Token: "token-of-the-far-node-of-" + name,
		Logger: s.Logger, DataDir: filepath.Join(s.Dir, name, "far")}, harmed{log, harm})
	if err != nil {
		log.Close()
		return place, fmt.Errorf("start a sidecar: %w", err)
	}
	ended := make(chan error, 1)
	s.sides.Go(func() {
		defer log.Close()
		ended <- side.Run(s.serving)
	})
	if err := up(ctx, side, ended); err != nil {
		return place, err
	}
	place.Agents = append(place.Agents, client.New(side.URL(), side.Token(), client.WithWorkspace(name)))
	return place, nil
}
