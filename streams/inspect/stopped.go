package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/topology"
)

const (
	stoppedIn  = time.Second // for all answers: Kafka says how many members the groups have
	maxAnswers = 64          // waiting ones
)

// stopped asks every sequencer which workspaces have stopped.
func (i *inspection) stopped(ctx context.Context, conn *nats.Conn) {
	members := 0
	for _, g := range i.Groups {
		if g.Name == topology.GroupOf(topology.GroupSequencer, g.Replica) {
			members += len(g.Members)
		}
	}
	if members == 0 || !i.NATS.Connected {
		return // said already
	}
	answers := make(chan *nats.Msg, maxAnswers)
	inbox := conn.NewInbox()
	sub, err := conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return // the connection has just gone
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := conn.PublishRequest(topology.AskStopped, inbox, nil); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stoppedIn)
	defer cancel()
	for ; members > 0; members-- {
		var facts []topology.StoppedFact
		select {
		case <-ctx.Done():
			members = 0 // older processors know no such question
		case m := <-answers:
			_ = json.Unmarshal(m.Data, &facts) // a question without a receiver has none
		}
		i.Stopped = append(i.Stopped, facts...)
	}
	slices.SortStableFunc(i.Stopped, topology.CompareStopped)
	for _, f := range i.Stopped {
		i.problem("workspaces", "", fmt.Sprintf("%s (%s)", f.What, f.Instance), f.Fix)
	}
}
