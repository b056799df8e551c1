package processor

import (
	"context"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Bounds of an answer.
const (
	maxAnswerBytes = 768 << 10
	maxQuestions   = 256 // waiting ones, per process and table
)

type question struct {
	workspace string
	what      string
	limit     int
	atLeast   sequencer.Seq
	says      nats.Header // of the answer, to be written to
}

// answer serves questions about this processor's table until ctx ends.
func (b *base) answer(ctx context.Context, conn *nats.Conn, subject string,
	reply func(question) ([]byte, error),
) {
	b.hear(ctx, conn, subject, func(m *nats.Msg) { b.answerOne(m, reply) })
}

// hear calls f for each message of a subject until ctx ends.
func (b *base) hear(ctx context.Context, conn *nats.Conn, subject string, f func(*nats.Msg)) {
	if conn == nil {
		return
	}
	questions := make(chan *nats.Msg, maxQuestions)
	sub, err := conn.ChanSubscribe(subject, questions)
	if err != nil {
		b.cfg.Logger.Error("failed to subscribe to questions", "subject", subject, "error", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	for {
		select {
		case <-ctx.Done():
			return
		// One after the other: an answer reads a fold or table under its lock, and decisions must not wait for many readers.
		case m := <-questions:
			f(m)
		}
	}
}

func (b *base) answerOne(m *nats.Msg, reply func(question) ([]byte, error)) {
	b.answerIf(m, func(partition int32) bool {
		store := b.store(partition)
		return store != nil && store.ready()
	}, reply)
}

// answerIf answers a question about a partition that this process owns, and knows.
func (b *base) answerIf(m *nats.Msg, owns func(partition int32) bool, reply func(question) ([]byte, error)) {
	q := question{workspace: m.Header.Get(topology.HeaderWorkspace), what: m.Header.Get(topology.HeaderWhat)}
	limit, err := strconv.Atoi(m.Header.Get(topology.HeaderLimit))
	if err != nil || topology.ValidWorkspace(q.workspace) != nil {
		return // not a question of ours
	}
	q.limit = min(max(limit, 1), topology.MaxAnswerRows)
	atLeast, _ := strconv.ParseUint(m.Header.Get(topology.HeaderAtLeast), 10, 64) // older clients name none
	q.atLeast = sequencer.Seq(atLeast)
	if !owns(topology.PartitionOf(q.workspace, b.cfg.Partitions)) {
		return // another process owns it, or none yet
	}
	answer := nats.NewMsg(m.Reply)
	q.says = answer.Header
	answer.Data, err = reply(q)
	switch {
	case errors.Is(err, errNotOurs):
		return
	case errors.Is(err, streams.ErrTruncated):
		answer.Header.Set(topology.HeaderMore, "1")
	case errors.Is(err, errStopped):
		answer.Header.Set(topology.HeaderStopped, "1")
		answer.Header.Set(topology.HeaderError, err.Error())
	case err != nil:
		answer.Header.Set(topology.HeaderError, err.Error())
	}
	_ = m.RespondMsg(answer) // who asked asks again
}

// errNotOurs leaves a question to the process that owns the workspace.
var errNotOurs = errors.New("the workspace is not ours")

// errStopped says that a partition or a workspace has stopped, and behind it why.
var errStopped = errors.New("has stopped")
