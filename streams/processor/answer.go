package processor

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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
	reply func(*tableStore, question) ([]byte, error),
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
		b.cfg.Logger.Error("questions cannot be heard", "subject", subject, "error", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-questions:
			f(m)
		}
	}
}

func (b *base) answerOne(m *nats.Msg, reply func(*tableStore, question) ([]byte, error)) {
	q := question{workspace: m.Header.Get(topology.HeaderWorkspace), what: m.Header.Get(topology.HeaderWhat)}
	limit, err := strconv.Atoi(m.Header.Get(topology.HeaderLimit))
	if err != nil || topology.ValidWorkspace(q.workspace) != nil {
		return // not a question of ours
	}
	q.limit = min(max(limit, 1), topology.MaxAnswerRows)
	atLeast, _ := strconv.ParseUint(m.Header.Get(topology.HeaderAtLeast), 10, 64) // older clients name none
	q.atLeast = sequencer.Seq(atLeast)
	store := b.store(topology.PartitionOf(q.workspace, b.cfg.Partitions))
	if store == nil || !store.ready() {
		return // somebody else owns it, or nobody yet
	}
	answer := nats.NewMsg(m.Reply)
	q.says = answer.Header
	answer.Data, err = reply(store, q)
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

// closureOf walks the table from a transaction, breadth first.
func (c *closureProcessor) closureOf(store *tableStore, q question) ([]byte, error) {
	out := &topology.Closure{Tx: sequencer.TxID(q.what), Limit: q.limit}
	seen := map[sequencer.TxID]bool{out.Tx: true}
	bytes := 0
	for queue := []sequencer.TxID{out.Tx}; len(queue) > 0; queue = queue[1:] {
		value, _ := store.Get(topology.EventKey(q.workspace, queue[0]))
		if value == nil {
			continue
		}
		if bytes += len(value); len(out.Rows) == q.limit || bytes > maxAnswerBytes {
			out.Truncated = true
			break
		}
		row, err := topology.DecodeClosureRow(value)
		if err != nil {
			continue // begins anew with the next record of its key
		}
		out.Rows = append(out.Rows, *row)
		for _, next := range causes(row) {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	if len(out.Rows) == 0 {
		return nil, fmt.Errorf("%w: %s has no row in workspace %s", streams.ErrUnknownTx, q.what, q.workspace)
	}
	return topology.EncodeClosure(out)
}

// causes are the transactions that a row rests on, in order and once each.
func causes(row *topology.ClosureRow) []sequencer.TxID {
	txs := slices.Clone(row.RestsOn)
	for _, e := range row.Edges {
		if e.Writer != "" {
			txs = append(txs, e.Writer)
		}
	}
	slices.Sort(txs)
	return slices.Compact(txs)
}

// frontierOf lists rows under a prefix by scope, without contents, each behind its length.
func (f *frontierProcessor) frontierOf(store *tableStore, q question) ([]byte, error) {
	var rows []topology.FrontierRow
	store.prefixed(topology.ScopeKey(q.workspace, sequencer.Scope(q.what)), func(_ string, value []byte) bool {
		row, err := topology.DecodeFrontierRow(value)
		if err != nil {
			return true // begins anew with the next record of its key
		}
		if row.Shard != nil {
			row.Shard.Content = nil
		}
		row.Former = nil
		rows = append(rows, *row)
		return true
	})
	slices.SortFunc(rows, func(a, b topology.FrontierRow) int { return cmp.Compare(a.Scope, b.Scope) })
	var out []byte
	var more error
	if len(rows) > q.limit {
		rows, more = rows[:q.limit], streams.ErrTruncated
	}
	for i := range rows {
		b, err := topology.EncodeFrontierRow(&rows[i])
		if err != nil {
			return nil, err
		}
		if len(out)+len(b) > maxAnswerBytes {
			more = streams.ErrTruncated
			break
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out, more
}
