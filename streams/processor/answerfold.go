package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// answerFold answers questions to the folds of this processor until ctx ends.
func (s *seqProcessor) answerFold(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for subject, reply := range map[string]func(*workspaceState, question) ([]byte, error){
		topology.AskUnsettled: unsettledOf, topology.AskCone: coneOf, topology.AskRules: rulesOf, topology.AskLive: liveOf,
	} {
		wg.Go(func() {
			s.answer(ctx, s.nats.conn, subject, func(q question) ([]byte, error) {
				if subject == topology.AskRules && q.what == topology.WhatLogic {
					s.sayLogic(ctx, q.says)
				}
				return s.askWorkspace(q, reply)
			})
		})
	}
	wg.Go(func() { s.answerStopped(ctx) })
}

// askWorkspace puts a question to a workspace's replica while nothing changes it.
func (s *seqProcessor) askWorkspace(q question, reply func(*workspaceState, question) ([]byte, error),
) ([]byte, error) {
	p := s.part(topology.PartitionOf(q.workspace, s.cfg.Partitions))
	if p == nil {
		return nil, errNotOurs
	}
	// Between two steps, so the answer is exact as of the seq that it names.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return nil, errNotOurs
	}
	if p.stopped != nil {
		// Said and not passed over: silence would look like an owner that is away.
		return nil, fmt.Errorf("partition %d %w: %w", p.partition, errStopped, p.stopped)
	}
	if h := p.halted[q.workspace]; h != nil {
		// Its fold may have taken a record whose decisions were not published.
		return nil, fmt.Errorf("workspace %s %w: %s", q.workspace, errStopped, p.textOf(h))
	}
	r := p.workspaces[q.workspace]
	if r == nil {
		r = &workspaceState{replica: sequencer.NewReplica(q.workspace)} // nothing was asked of it yet
	}
	if r.replica.Fold().Seq() < q.atLeast {
		return nil, errNotOurs // the other replica is further, or this one soon will be
	}
	return reply(r, q)
}

func unsettledOf(r *workspaceState, q question) ([]byte, error) {
	st := r.replica.Fold().State()
	return topology.EncodeUnsettled(topology.UnsettledIn(&st, q.what, q.limit))
}

// coneOf says what a retraction would undo now. When it does not fit into an answer, the most recent are told.
func coneOf(r *workspaceState, q question) ([]byte, error) {
	c := topology.ConeIn(r.replica.Fold(), sequencer.TxID(q.what))
	c.Members = c.Members[:min(len(c.Members), q.limit)]
	for {
		b, err := topology.EncodeCone(c)
		if err != nil || len(b) <= maxAnswerBytes || len(c.Members) == 0 {
			return b, err
		}
		c.Members = c.Members[:len(c.Members)/2]
	}
}

func rulesOf(r *workspaceState, q question) ([]byte, error) {
	st := r.replica.Fold().State()
	return topology.EncodeRulesNow(&topology.RulesNow{Workspace: q.workspace, Through: st.Seq, Rules: st.Rules})
}

// liveOf says what goes on in a workspace. What does not fit into an answer is left out, the youngest first.
func liveOf(r *workspaceState, q question) ([]byte, error) {
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

// maxStoppedFacts is how many stopped workspaces one process tells of.
const maxStoppedFacts = 100

// stopped are the stopped workspaces of this process, as JSON.
func (s *seqProcessor) stopped() ([]byte, error) {
	facts := []topology.StoppedFact{}
	for _, p := range s.owned() {
		// One partition at a time: an answer for people must not hold up all of them.
		p.mu.Lock()
		for _, h := range p.halted {
			facts = append(facts, p.factOf(h))
		}
		p.mu.Unlock()
	}
	slices.SortStableFunc(facts, topology.CompareStopped)
	return json.Marshal(facts[:min(len(facts), maxStoppedFacts)])
}

// answerStopped answers questions on which workspaces have stopped, until ctx ends.
func (s *seqProcessor) answerStopped(ctx context.Context) {
	s.hear(ctx, s.nats.conn, topology.AskStopped, func(m *nats.Msg) {
		if b, err := s.stopped(); err == nil {
			_ = m.Respond(b) // who asked does not hear of all, and says what it heard
		}
	})
}

// How long Kafka is asked which groups have members, and believed.
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
	if !s.cfg.Faults.HideEvents {
		h.Set(topology.HeaderEvents, strconv.FormatUint(uint64(topology.EventsBatched), 10))
	}
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
	// Held while Kafka is asked: many sidecars that join at once make one request.
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
		// It may have members: to leave it out would let a workspace begin with a logic that this group stops at.
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
