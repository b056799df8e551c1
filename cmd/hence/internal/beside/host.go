package beside

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
)

// Host is one sidecar of this process that serves the agents of a workspace.
type Host struct {
	side  *sidecar.Sidecar
	log   *streams.Client
	hush  *atomic.Bool
	stop  context.CancelFunc
	ended chan struct{}
	err   error // why it ended; read it after ended
}

// StartHost runs a sidecar that agents join, until Close. config says of which workspace, and what it serves.
func StartHost(ctx context.Context, cluster streams.Config, config sidecar.Config, g Ground) (*Host, error) {
	log, err := streams.Dial(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("connect to %v and %s: %w", cluster.Brokers, cluster.NATS, err)
	}
	logger, hush := Hushing(cluster.Logger)
	config.Joins, config.Logger, config.Tracer = true, logger, g.Tracer
	side, err := sidecar.New(config, log)
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("start the sidecar of workspace %s: %w", config.Workspace, err)
	}
	h := &Host{side: side, log: log, hush: hush, ended: make(chan struct{})}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	go func() {
		defer close(h.ended)
		h.err = QuietEnd(serving, side.Run(serving))
	}()
	return h, nil
}

// URL is where the sidecar is asked.
func (h *Host) URL() string { return h.side.URL() }

// Close ends the sidecar, and returns what went wrong with it.
func (h *Host) Close() error {
	h.stop()
	<-h.ended
	h.log.Close()
	return h.err
}

// hosted lets the agent join its host and, once it is ready, calls f. The context of f ends when the agent has left,
// or its host has ended.
func (c Companion) hosted(ctx context.Context, f func(context.Context, Side) error) error {
	m, err := c.Host.side.Join(sidecar.AgentConfig{Agent: c.Config.Agent, Token: c.Config.Token,
		OperatorToken: c.Config.OperatorToken, DataDir: c.Config.DataDir, Order: c.Config.Order, Observe: c.Config.Observe,
		Tools: c.Config.Tools, Hook: c.Config.Hook, Logger: c.Config.Logger, Strict: true})
	if err != nil {
		return fmt.Errorf("start the sidecar of %s: %w", c.Config.Agent, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-m.Done():
			cancel(fmt.Errorf("the sidecar of %s ended: %w", c.Config.Agent, errors.Join(errEnded, m.Err())))
		case <-c.Host.ended:
			cancel(fmt.Errorf("the sidecar of %s ended: %w", c.Config.Agent, errors.Join(errEnded, c.Host.err)))
		case <-ctx.Done():
		}
	}()
	err = c.whenReady(ctx, m, c.Host.log, func(ctx context.Context, side Side) error {
		c.Host.hush.Store(false)
		return f(ctx, side)
	})
	cancel(nil)
	<-watched
	if left := m.Leave(); err == nil {
		err = left
	}
	return err
}

var errEnded = errors.New("it no longer serves the agent")
