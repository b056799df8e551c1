package streams

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

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

// So is asked which format of hence.events they read: a newer one would be parked by an older owner.

// known is what an owner knows.
type known struct {
	logic  uint32 // the newest of the fold
	events uint32 // the newest format of hence.events
}

// quiet is what owners know which do not say: what was released last without saying it.
func quiet() known { return known{logic: 2, events: topology.EventsSingle} }

// Bounds of a question for what owners know.
const (
	logicIn       = 5 * time.Second        // for all answers
	logicWindow   = 300 * time.Millisecond // for further ones, where Kafka does not say how many groups there are
	logicAgain    = 25 * time.Millisecond  // between two questions at first: a partition may just be recovered
	logicAgainMax = 400 * time.Millisecond
)

// KnownLogic is the newest logic of the fold that the owners of a workspace know, those of all groups that run. A
// workspace that begins with it stops at none of them. It waits for an owner of each group, 5 s at most; when one does
// not say, or no processor answers, that is the last logic that was released without being asked for.
func (c *Client) KnownLogic(ctx context.Context, workspace string) (uint32, error) {
	k, err := c.known(ctx, workspace)
	return k.logic, err
}

// KnownEvents is the newest format of hence.events that the owners of a workspace read, asked for as KnownLogic is;
// when one does not say, or none answers, it is topology.EventsSingle, which every release reads.
func (c *Client) KnownEvents(ctx context.Context, workspace string) (uint32, error) {
	k, err := c.known(ctx, workspace)
	return k.events, err
}

// known is what the owners of a workspace know, all of them.
func (c *Client) known(ctx context.Context, workspace string) (known, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return known{}, err
	}
	if c.nats == nil {
		return quiet(), nil // questions go over NATS
	}
	asked, cancel := context.WithTimeout(ctx, logicIn)
	defer cancel()
	k, err := c.askKnown(asked, workspace)
	if err != nil && ctx.Err() != nil {
		return known{}, fmt.Errorf("what the processors of %s know: %w", workspace, ctx.Err())
	}
	if err != nil {
		// None answered: what is older is right under every owner. A newer logic could stop the workspace at its first
		// record, and events of a newer format could be parked.
		return quiet(), nil
	}
	return k, nil
}

// askKnown puts the question until the owners of all groups have answered, or ctx ends.
func (c *Client) askKnown(ctx context.Context, workspace string) (known, error) {
	answers := make(chan *nats.Msg, maxAnswers)
	m := nats.NewMsg(topology.AskRules)
	m.Header.Set(topology.HeaderWorkspace, workspace)
	m.Header.Set(topology.HeaderWhat, topology.WhatLogic)
	m.Header.Set(topology.HeaderLimit, "1")
	m.Reply = c.nats.NewInbox()
	sub, err := c.nats.ChanSubscribe(m.Reply, answers)
	if err != nil {
		return known{}, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	know := owners{known: make(map[string]known)}
	var window <-chan time.Time
	again := c.cfg.Clock.After(0)
	for pauses := (pause.Doubling{Least: logicAgain, Most: logicAgainMax}); ; {
		select {
		case <-ctx.Done():
			return known{}, ctx.Err()
		case <-window:
			// Kafka did not say how many groups there are: a slower owner is taken to know the logic that the others
			// know, or no new workspace would have the newest. Of events it is not: they have another format.
			k := know.all()
			k.events = quiet().events
			return k, nil
		case <-again:
			if err := c.nats.PublishMsg(m); err != nil {
				return known{}, err
			}
			again = c.cfg.Clock.After(pauses.Next())
		case a := <-answers:
			if len(a.Data) == 0 && a.Header.Get("Status") == noResponders {
				continue // no processor hears it yet
			}
			if !know.hear(a.Header) {
				// It does not know the question, so it is of a release before the newer logic.
				return quiet(), nil
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

// owners is what owners have answered of what they know.
type owners struct {
	known  map[string]known // by replica
	groups []string         // replicas that run; nil: not known
}

// hear takes an answer; false: its owner does not know the question.
func (o *owners) hear(h nats.Header) bool {
	logic, err := strconv.ParseUint(h.Get(topology.HeaderLogic), 10, 32)
	if err != nil || logic == 0 {
		return false
	}
	events, err := strconv.ParseUint(h.Get(topology.HeaderEvents), 10, 32)
	if err != nil {
		events = uint64(quiet().events) // of a release that said its logic alone
	}
	o.known[h.Get(topology.HeaderReplica)] = known{uint32(logic), uint32(events)}
	if text := h.Get(topology.HeaderGroups); text != "" {
		o.groups = strings.Split(text, ",")
	}
	return true
}

// whole reports whether each group that runs has answered.
func (o *owners) whole() bool {
	for _, replica := range o.groups {
		if o.known[replica].logic == 0 {
			return false
		}
	}
	return len(o.groups) > 0
}

// all is what all of them know.
func (o *owners) all() known {
	least := known{sequencer.Logic, topology.EventsBatched}
	for _, k := range o.known {
		least = known{min(least.logic, k.logic), min(least.events, k.events)}
	}
	return least
}
