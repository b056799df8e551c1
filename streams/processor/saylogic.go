package processor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

const (
	groupsFor = 2 * time.Second // what Kafka said of the groups is believed
	groupsIn  = time.Second     // for Kafka to say it
)

// knownLogic is the newest logic that this process takes part in.
func knownLogic(c streams.Config) uint32 {
	if c.Faults.KnownLogic != 0 {
		return c.Faults.KnownLogic
	}
	return sequencer.Logic
}

// sayLogic writes what an owner knows into the headers of its answer.
func (s *seqProcessor) sayLogic(ctx context.Context, h nats.Header) {
	if s.cfg.Faults.HideLogic {
		return
	}
	h.Set(topology.HeaderLogic, strconv.FormatUint(uint64(knownLogic(s.cfg)), 10))
	h.Set(topology.HeaderReplica, s.replica())
	if groups := s.groups.live(ctx, s.out); groups != "" {
		h.Set(topology.HeaderGroups, groups)
	}
}

// liveGroups is which replicas have members, as Kafka said a moment ago.
type liveGroups struct {
	clock streams.Clock

	mu    sync.Mutex // held while Kafka is asked: who else asks waits for the same answer
	at    time.Time
	names string
}

// live lists the replicas whose sequencers have members; empty: Kafka does not say.
func (g *liveGroups) live(ctx context.Context, out producer) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if !g.at.IsZero() && now.Sub(g.at) < groupsFor {
		return g.names
	}
	ctx, cancel := context.WithTimeout(ctx, groupsIn)
	defer cancel()
	g.at, g.names = now, ""
	var names []string
	a, b := topology.GroupOf(topology.GroupSequencer, topology.ReplicaA),
		topology.GroupOf(topology.GroupSequencer, topology.ReplicaB)
	described, err := kadm.NewClient(out.client).DescribeGroups(ctx, a, b)
	if err != nil {
		return ""
	}
	for replica, group := range map[string]string{topology.ReplicaA: a, topology.ReplicaB: b} {
		d, ok := described[group]
		if !ok || d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
			return "" // no right to describe it: it may be there
		}
		if len(d.Members) > 0 {
			names = append(names, replica)
		}
	}
	g.names = strings.Join(names, ",")
	return g.names
}
