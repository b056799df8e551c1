package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/topology"
)

// askStopped is heard by every sequencer, and each answers with the stopped workspaces of its partitions, also when
// there are none. The table has them too, among a day's states of all workspaces: too much for a doctor to read.
const askStopped = "hence.v1.ask.stopped"

// stoppedIn is how long a doctor waits for the answers; it knows how many members the groups have.
const stoppedIn = time.Second

// maxStoppedFacts is how many stopped workspaces one process tells of.
const maxStoppedFacts = 100

// stopped are the stopped workspaces of this process, as JSON.
func (s *seqProcessor) stopped() ([]byte, error) {
	facts := []StoppedFact{}
	for _, p := range s.owned() {
		p.mu.Lock()
		for _, h := range p.halted {
			facts = append(facts, p.factOf(h))
		}
		p.mu.Unlock()
	}
	slices.SortFunc(facts, compareStopped)
	return json.Marshal(facts[:min(len(facts), maxStoppedFacts)])
}

func compareStopped(a, b StoppedFact) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Replica, b.Replica))
}

// answerStopped answers whoever asks which workspaces have stopped, until ctx ends.
func (s *seqProcessor) answerStopped(ctx context.Context) {
	s.hear(ctx, s.nats.conn, askStopped, func(m *nats.Msg) {
		if b, err := s.stopped(); err == nil {
			_ = m.Respond(b) // who asked does not hear of all, and says what it heard
		}
	})
}

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
	if err := conn.PublishRequest(askStopped, inbox, nil); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stoppedIn)
	defer cancel()
	for ; members > 0; members-- {
		var facts []StoppedFact
		select {
		case <-ctx.Done():
			members = 0 // older processors know no such question
		case m := <-answers:
			_ = json.Unmarshal(m.Data, &facts) // of a question that nobody hears: none
		}
		i.Stopped = append(i.Stopped, facts...)
	}
	slices.SortFunc(i.Stopped, compareStopped)
	for _, f := range i.Stopped {
		i.problem("workspaces", "", fmt.Sprintf("%s (%s)", f.What, f.Instance), f.Fix)
	}
}
