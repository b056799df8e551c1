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

// quietLogic is the newest that owners know which do not say: the last one that was released without saying.
const quietLogic = 2

// Bounds of KnownLogic.
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
		// None answered: the older logic is right under every owner, a newer one could stop the workspace at its first
		// record.
		return quietLogic, nil
	}
	return logic, nil
}

// askLogic puts the question until the owners of all groups have answered, or ctx ends.
func (c *Client) askLogic(ctx context.Context, workspace string) (uint32, error) {
	answers := make(chan *nats.Msg, maxAnswers)
	m := nats.NewMsg(topology.AskRules)
	m.Header.Set(topology.HeaderWorkspace, workspace)
	m.Header.Set(topology.HeaderWhat, topology.WhatLogic)
	m.Header.Set(topology.HeaderLimit, "1")
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
			// Kafka did not say how many groups there are: a slower owner is taken to know what the others know.
			return know.all(), nil
		case <-again:
			if err := c.nats.PublishMsg(m); err != nil {
				return 0, err
			}
			again = c.cfg.Clock.After(pauses.Next())
		case a := <-answers:
			if len(a.Data) == 0 && a.Header.Get("Status") == noResponders {
				continue // no processor hears it yet
			}
			if !know.hear(a.Header) {
				// It does not know the question, so it is of a release before the newer logic.
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
	groups []string          // replicas that run; nil: not known
}

// hear takes an answer; false: its owner says nothing of a logic.
func (o *owners) hear(h nats.Header) bool {
	logic, err := strconv.ParseUint(h.Get(topology.HeaderLogic), 10, 32)
	if err != nil || logic == 0 {
		return false
	}
	o.known[h.Get(topology.HeaderReplica)] = uint32(logic)
	if text := h.Get(topology.HeaderGroups); text != "" {
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
