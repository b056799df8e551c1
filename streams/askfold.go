package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Questions to a workspace's fold: what they say is exact, as of the seq that the owner has decided.
const (
	askUnsettled = "hence.v1.ask.unsettled"
	askCone      = "hence.v1.ask.cone"
	askRules     = "hence.v1.ask.rules"
	askLive      = "hence.v1.ask.live"
)

// maxConeMembers is how many members of a cone are told; the fold accepts fewer.
const maxConeMembers = maxAnswerRows

// errNotOurs leaves a question to the process that owns the workspace.
var errNotOurs = errors.New("the workspace is not ours")

// errStopped says that a partition or a workspace has stopped, and behind it why.
var errStopped = errors.New("has stopped")

// answerFold answers questions to the folds of this processor until ctx ends.
func (s *seqProcessor) answerFold(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for subject, reply := range map[string]func(*room, question) ([]byte, error){
		askUnsettled: unsettledOf, askCone: coneOf, askRules: rulesOf, askLive: liveOf,
	} {
		wg.Go(func() {
			s.answer(ctx, s.nats.conn, subject, func(_ *tableStore, q question) ([]byte, error) {
				if subject == askRules && q.what == whatLogic {
					s.sayLogic(ctx, q.says)
				}
				return s.askRoom(q, reply)
			})
		})
	}
	wg.Go(func() { s.answerStopped(ctx) })
}

// askRoom puts a question to a workspace's replica while nothing changes it.
func (s *seqProcessor) askRoom(q question, reply func(*room, question) ([]byte, error)) ([]byte, error) {
	p := s.part(topology.PartitionOf(q.workspace, s.cfg.Partitions))
	if p == nil {
		return nil, errNotOurs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return nil, errNotOurs
	}
	if p.stopped != nil {
		return nil, fmt.Errorf("partition %d %w: %w", p.partition, errStopped, p.stopped)
	}
	if h := p.halted[q.workspace]; h != nil {
		return nil, fmt.Errorf("workspace %s %w: %s", q.workspace, errStopped, p.textOf(h))
	}
	r := p.rooms[q.workspace]
	if r == nil {
		r = &room{replica: sequencer.NewReplica(q.workspace)} // nothing was asked of it yet
	}
	if r.replica.Fold().Seq() < q.atLeast {
		return nil, errNotOurs // the other replica is further, or this one soon will be
	}
	return reply(r, q)
}

func unsettledOf(r *room, q question) ([]byte, error) {
	st := r.replica.Fold().State()
	return topology.EncodeUnsettled(topology.UnsettledIn(&st, q.what, q.limit))
}

// Unsettled lists the decided transactions of a workspace that are not settled, by decision: an agent's, or all when
// agent is empty; through is the seq as of which the list is exact. When there are more than limit, which is at
// most 1,000, the oldest are returned with ErrTruncated.
func (c *Client) Unsettled(ctx context.Context, workspace, agent string, limit int,
) (rows []topology.Unsettled, through sequencer.Seq, err error) {
	b, err := c.ask(ctx, askUnsettled, workspace, agent, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("unsettled transactions of %s: %w", workspace, err)
	}
	list, err := topology.DecodeUnsettled(b)
	if err != nil {
		return nil, 0, fmt.Errorf("unsettled transactions of %s: %w", workspace, err)
	}
	if list.Truncated {
		err = fmt.Errorf("unsettled transactions of %s: %w: these are the first %d", workspace, ErrTruncated, len(list.Rows))
	}
	return list.Rows, list.Through, err
}

// coneOf says what a retraction would undo now. When it does not fit into an answer, the most recent are told.
func coneOf(r *room, q question) ([]byte, error) {
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

// Cone is the dry run of a retraction: what it would undo now, as of the seq that the answer names, and why.
// Its Code says what a retraction would be refused with. It fails with ErrNoAnswer when nobody owns the workspace.
func (c *Client) Cone(ctx context.Context, workspace string, tx sequencer.TxID) (*topology.Cone, error) {
	b, err := c.ask(ctx, askCone, workspace, string(tx), maxConeMembers)
	if err != nil {
		return nil, fmt.Errorf("cone of %s: %w", tx, err)
	}
	cone, err := topology.DecodeCone(b)
	if err != nil {
		return nil, fmt.Errorf("cone of %s: %w", tx, err)
	}
	return cone, nil
}

func rulesOf(r *room, q question) ([]byte, error) {
	st := r.replica.Fold().State()
	return topology.EncodeRulesNow(&topology.RulesNow{Workspace: q.workspace, Through: st.Seq, Rules: st.Rules})
}

// Rules are the workspace's rules as of a seq. It fails with ErrNoAnswer when nobody owns the workspace.
func (c *Client) Rules(ctx context.Context, workspace string) (rules sequencer.Rules, through sequencer.Seq,
	err error) {
	b, err := c.ask(ctx, askRules, workspace, "", 1)
	if err != nil {
		return rules, 0, fmt.Errorf("rules of %s: %w", workspace, err)
	}
	now, err := topology.DecodeRulesNow(b)
	if err != nil {
		return rules, 0, fmt.Errorf("rules of %s: %w", workspace, err)
	}
	return now.Rules, now.Through, nil
}
