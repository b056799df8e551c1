package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// A workspace's first join sets its logic, and an owner that does not know it stops there. So a sidecar asks the
// owners first. The question is the one for the rules, which every release answers; what this release says besides is
// in headers, and an owner that leaves them out is of an older one. Members that do not own the partition are not
// asked: a group whose members are replaced one by one may give it to an older one, which is why docs/operating.md
// stops all members of a group before the first new one is started.
//
// Kafka says how many groups there are to hear of. Waiting for a second answer in any case would cost each new
// workspace of the many installations that have one group; taking the first answer would let a fast new group speak
// for a slow old one.
const (
	headerLogic   = "Hence-Logic"   // the newest that the answering owner knows
	headerReplica = "Hence-Replica" // a or b: whose owner it is
	headerGroups  = "Hence-Groups"  // the replicas that have members, with commas; left away when Kafka does not say

	whatLogic = "logic" // asks for these headers
)

// quietLogic is the newest that owners know which do not say: the last one that was released without saying.
const quietLogic = 2

// Bounds of KnownLogic.
const (
	logicIn       = 5 * time.Second        // for all answers
	logicWindow   = 300 * time.Millisecond // for further ones, where Kafka does not say how many groups there are
	logicAgain    = 25 * time.Millisecond  // between two questions at first: a partition may just be recovered
	logicAgainMax = 400 * time.Millisecond
	groupsFor     = 2 * time.Second // what Kafka said of the groups is believed
	groupsIn      = time.Second     // for Kafka to say it
)

// knownLogic is the newest logic that this process takes part in.
func (c Config) knownLogic() uint32 {
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
	h.Set(headerLogic, strconv.FormatUint(uint64(s.cfg.knownLogic()), 10))
	h.Set(headerReplica, s.replica())
	if groups := s.groups.live(ctx, s.out); groups != "" {
		h.Set(headerGroups, groups)
	}
}

// liveGroups is which replicas have members, as Kafka said a moment ago.
type liveGroups struct {
	clock Clock

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

// KnownLogic is the newest logic of the fold that the owners of a workspace know, those of all groups that run. A
// workspace that begins with it stops at none of them. It waits for an owner of each group, 5 s at most; when one does
// not say, or nobody answers, that is the last logic that was released without being asked for.
func (c *Client) KnownLogic(ctx context.Context, workspace string) (uint32, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return 0, err
	}
	if c.nats == nil {
		return quietLogic, nil // questions go over NATS
	}
	asked, cancel := context.WithTimeout(ctx, logicIn)
	defer cancel()
	logic, err := c.askLogic(asked, workspace)
	if err != nil && ctx.Err() != nil {
		return 0, fmt.Errorf("logic of %s: %w", workspace, ctx.Err())
	}
	if err != nil {
		return quietLogic, nil
	}
	return logic, nil
}

// askLogic puts the question until the owners of all groups have answered, or ctx ends.
func (c *Client) askLogic(ctx context.Context, workspace string) (uint32, error) {
	answers := make(chan *nats.Msg, maxAnswers)
	m := nats.NewMsg(askRules)
	m.Header.Set(headerWorkspace, workspace)
	m.Header.Set(headerWhat, whatLogic)
	m.Header.Set(headerLimit, "1")
	m.Reply = c.nats.NewInbox()
	sub, err := c.nats.ChanSubscribe(m.Reply, answers)
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	know := owners{known: make(map[string]uint32)}
	var window <-chan time.Time
	again := c.cfg.Clock.After(0)
	for pauses := (pause.Doubling{Least: logicAgain, Most: logicAgainMax}); ; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-window:
			return know.all(), nil
		case <-again:
			if err := c.nats.PublishMsg(m); err != nil {
				return 0, err
			}
			again = c.cfg.Clock.After(pauses.Next())
		case a := <-answers:
			if len(a.Data) == 0 && a.Header.Get("Status") == noResponders {
				continue // nobody hears it yet
			}
			if !know.hear(a.Header) {
				return quietLogic, nil
			}
			if know.whole() {
				return know.all(), nil
			}
			if know.groups == nil && window == nil {
				window = c.cfg.Clock.After(logicWindow)
			}
		}
	}
}

// owners is what owners have answered of the logic that they know.
type owners struct {
	known  map[string]uint32 // by replica
	groups []string          // replicas that run; nil: nobody could say
}

// hear takes an answer; false: its owner says nothing of a logic.
func (o *owners) hear(h nats.Header) bool {
	logic, err := strconv.ParseUint(h.Get(headerLogic), 10, 32)
	if err != nil || logic == 0 {
		return false
	}
	o.known[h.Get(headerReplica)] = uint32(logic)
	if text := h.Get(headerGroups); text != "" {
		o.groups = strings.Split(text, ",")
	}
	return true
}

// whole reports whether each group that runs has answered.
func (o *owners) whole() bool {
	for _, replica := range o.groups {
		if o.known[replica] == 0 {
			return false
		}
	}
	return len(o.groups) > 0
}

// all is what all of them know.
func (o *owners) all() uint32 {
	least := uint32(sequencer.Logic)
	for _, logic := range o.known {
		least = min(least, logic)
	}
	return least
}
