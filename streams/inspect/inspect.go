// Package inspect looks at everything that clients and processors rest on, and reports facts and problems for people.
// It writes nothing and decides nothing.
package inspect

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// Cluster looks at everything that clients and processors rest on. What cannot be asked is a problem of the report;
// the error is about the configuration only. It writes nothing.
func Cluster(ctx context.Context, cfg streams.Config) (*Report, error) {
	cfg, err := cfg.Checked()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(cfg.BaseOptions()...)
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	defer cl.Close()
	i := &inspection{cfg: cfg, cl: cl, admin: kadm.NewClient(cl), Report: &Report{At: cfg.Clock.Now()},
		lowest: make(map[string]sequencer.Seq)}
	conn, err := cfg.DialNATS(func(bool) {})
	if err != nil {
		return nil, err
	}
	if conn != nil {
		defer conn.Close()
	}
	if i.brokers(ctx) {
		i.topics(ctx)
		i.groups(ctx)
		i.decisions(ctx)
		i.replicas(ctx)
	}
	i.nats(ctx, conn)
	i.stopped(ctx, conn)
	i.snapshots(ctx, conn)
	i.workspaces(ctx, conn)
	i.clocks()
	return i.Report, nil
}
