// Package stand starts Hence for the tables of claims: embedded servers and processors in this process, and for each
// row workspaces of its own, whose agents and clients of S-Bus are served over HTTP.
package stand

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// Stand is a ground that is started for the first row that needs it. The caller must Close it.
type Stand struct {
	Dir    string // for journals
	Logger *slog.Logger
	Say    func(format string, args ...any)

	ground  *ground.Ground
	log     *streams.Client
	serving context.Context
	stop    context.CancelFunc
	sides   sync.WaitGroup
	made    int
}

// start starts the servers and the processors.
func (s *Stand) start(ctx context.Context) (err error) {
	s.Say("starting Hence on embedded servers")
	if s.ground, err = ground.Start(ctx, ground.Options{Replication: 1, Partitions: 4, Name: "tables",
		Logger: s.Logger}); err != nil {
		return err
	}
	if s.log, err = streams.Dial(ctx, s.ground.Servers); err != nil {
		return fmt.Errorf("connect the sidecars: %w", err)
	}
	s.serving, s.stop = context.WithCancel(context.Background())
	return nil
}

// Workspace is part of tables.Ground.
func (s *Stand) Workspace(ctx context.Context, nodes, agents int, rules string) (tables.Place, error) {
	return s.Open(ctx, tables.Site{Nodes: nodes, Agents: agents, Policy: rules})
}

// Open is part of tables.Ground.
func (s *Stand) Open(ctx context.Context, site tables.Site) (place tables.Place, err error) {
	if s.ground == nil {
		if err := s.start(ctx); err != nil {
			return place, err
		}
	}
	s.made++
	var tools gate.Tools
	if site.Policy != "" {
		if tools, err = policy.Load([]byte(site.Policy), policy.Options{File: "policy.yaml",
			Build: adapters.Build}); err != nil {
			return place, fmt.Errorf("load the policy of a row: %w", err)
		}
	}
	return s.serve(ctx, fmt.Sprint("tables-", s.made), tools, site)
}

// serve starts the sidecars of a workspace, each with its journals where they were.
func (s *Stand) serve(ctx context.Context, name string, tools gate.Tools, site tables.Site) (place tables.Place,
	err error) {
	logger := s.Logger
	if site.Quiet {
		logger = slog.New(slog.DiscardHandler)
	}
	serving, stop := context.WithCancel(s.serving)
	var here sync.WaitGroup
	place.Again = func(ctx context.Context) (tables.Place, error) {
		stop()
		here.Wait()
		return s.serve(ctx, name, tools, site)
	}
	for n := range site.Nodes {
		cfg := sidecar.Config{Workspace: name, Listen: "127.0.0.1:0", Tools: tools, Logger: logger,
			Hook:    sidecar.Hook{URL: site.HookURL, Command: site.HookCommand},
			DataDir: filepath.Join(s.Dir, name, fmt.Sprint(n)),
			SBus:    sidecar.SBus{Listen: "127.0.0.1:0", MaxDelta: -1, Merge: true}}
		for i := range site.Agents {
			cfg.Agents = append(cfg.Agents, sidecar.AgentConfig{Agent: fmt.Sprintf("agent-%d-%d", n, i),
				Token: fmt.Sprintf("token-of-%s-%d-%d", name, n, i)})
		}
		if cfg.Models, err = modelsOf(site); err != nil {
			return place, err
		}
		cfg.SBus.Agent = cfg.Agents[0].Agent
		side, err := sidecar.New(cfg, s.log)
		if err != nil {
			return place, fmt.Errorf("start a sidecar: %w", err)
		}
		ended := make(chan error, 1)
		here.Add(1)
		s.sides.Go(func() {
			defer here.Done()
			ended <- side.Run(serving)
		})
		if err := up(ctx, side, ended); err != nil {
			return place, err
		}
		place.Buses, place.Metric = append(place.Buses, side.BusURL()), append(place.Metric, side.URL()+"/metrics")
		for i := range cfg.Agents {
			dial := func(o ...client.Option) *client.Client {
				return client.New(side.URL(), cfg.Agents[i].Token, append(o, client.WithWorkspace(name))...)
			}
			place.Agents, place.Dial = append(place.Agents, dial()), append(place.Dial, dial)
		}
	}
	return place, nil
}

// modelsOf are the models that a row has scripted.
func modelsOf(site tables.Site) (sidecar.Models, error) {
	out := sidecar.Models{APIs: map[string]*url.URL{}, Extractor: sidecar.Hook{URL: site.ExtractorURL}}
	for name, at := range site.Models {
		to, err := url.Parse(at)
		if err != nil {
			return out, fmt.Errorf("where a row's model is: %w", err)
		}
		out.APIs[name] = to
	}
	return out, nil
}

// Written is how much some work writes into the log, by topic, of all who are there.
func (s *Stand) Written(ctx context.Context, work func() error) (topics []string, records, bytes []int64, err error) {
	if s.ground == nil {
		if err := s.start(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	from, err := s.ground.Mark(ctx)
	if err == nil {
		err = work()
	}
	if err != nil {
		return nil, nil, nil, err
	}
	to, err := s.ground.Mark(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := s.ground.Written(ctx, from, to)
	for _, w := range all {
		topics, records, bytes = append(topics, w.Topic), append(records, w.Records), append(bytes, w.Bytes)
	}
	return topics, records, bytes, err
}

// Close ends what was started.
func (s *Stand) Close() (err error) {
	if s.stop != nil {
		s.stop()
		s.sides.Wait()
	}
	if s.log != nil {
		s.log.Close()
	}
	if s.ground != nil {
		err = s.ground.Close()
	}
	return err
}

// up waits until a sidecar is ready.
func up(ctx context.Context, side *sidecar.Sidecar, ended <-chan error) error {
	select {
	case <-side.Ready():
		return nil
	case err := <-ended:
		return fmt.Errorf("a sidecar ended: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
