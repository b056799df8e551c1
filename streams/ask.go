package streams

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Questions to the tables go over NATS: every process hears them, and the one that owns the workspace's partition and
// has read its table answers.
const (
	askClosure  = "hence.v1.ask.closure"
	askFrontier = "hence.v1.ask.frontier"

	headerWorkspace = "Hence-Workspace"
	headerWhat      = "Hence-What" // a transaction, or a prefix of scopes
	headerLimit     = "Hence-Limit"
	headerAtLeast   = "Hence-At-Least" // a fold that is not there yet does not answer
	headerError     = "Hence-Error"
	headerMore      = "Hence-More"    // set: there is more than the answer holds
	headerStopped   = "Hence-Stopped" // set: the partition or the workspace has stopped; another replica may go on

	noResponders = "503" // the server's status for a question that nobody hears
)

// Bounds of an answer.
const (
	maxAnswerRows  = 1000
	maxAnswerBytes = 768 << 10
	askTimeout     = 2 * time.Second
	askAgain       = 500 * time.Millisecond
	maxQuestions   = 256 // waiting ones, per process and table
	maxAnswers     = 64  // waiting ones, of one question
)

// ErrNoAnswer is returned by Closure, Frontier and Unsettled when no processor that owns the workspace answered in
// time.
var ErrNoAnswer = errors.New("no processor answers")

// ErrUnknownTx is returned by Closure when the table has no row of the transaction.
var ErrUnknownTx = errors.New("unknown transaction")

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
	q := question{workspace: m.Header.Get(headerWorkspace), what: m.Header.Get(headerWhat)}
	limit, err := strconv.Atoi(m.Header.Get(headerLimit))
	if err != nil || topology.ValidWorkspace(q.workspace) != nil {
		return // not a question of ours
	}
	q.limit = min(max(limit, 1), maxAnswerRows)
	atLeast, _ := strconv.ParseUint(m.Header.Get(headerAtLeast), 10, 64) // older clients name none
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
	case errors.Is(err, ErrTruncated):
		answer.Header.Set(headerMore, "1")
	case errors.Is(err, errStopped):
		answer.Header.Set(headerStopped, "1")
		answer.Header.Set(headerError, err.Error())
	case err != nil:
		answer.Header.Set(headerError, err.Error())
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
		return nil, fmt.Errorf("%w: %s has no row in workspace %s", ErrUnknownTx, q.what, q.workspace)
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
		rows, more = rows[:q.limit], ErrTruncated
	}
	for i := range rows {
		b, err := topology.EncodeFrontierRow(&rows[i])
		if err != nil {
			return nil, err
		}
		if len(out)+len(b) > maxAnswerBytes {
			more = ErrTruncated
			break
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out, more
}

// ask puts a question and returns the first answer, whole or not.
func (c *Client) ask(ctx context.Context, subject, workspace, what string, limit int) ([]byte, error) {
	b, err := c.askPart(ctx, subject, workspace, what, limit)
	if errors.Is(err, ErrTruncated) {
		err = nil
	}
	return b, err
}

// askPart does what ask does, and returns ErrTruncated with an answer that is not whole.
func (c *Client) askPart(ctx context.Context, subject, workspace, what string, limit int) ([]byte, error) {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return nil, err
	}
	if c.nats == nil {
		return nil, fmt.Errorf("%w: no NATS address is configured, and questions go over NATS", ErrNoAnswer)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m := nats.NewMsg(subject)
	m.Header.Set(headerWorkspace, workspace)
	m.Header.Set(headerWhat, what)
	m.Header.Set(headerLimit, strconv.Itoa(limit))
	m.Header.Set(headerAtLeast, strconv.FormatUint(uint64(c.followed(workspace)), 10))
	answer, err := c.request(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("%w: is `hence streams` running and NATS reachable? %w", ErrNoAnswer, err)
	}
	if text := answer.Header.Get(headerError); strings.HasPrefix(text, ErrUnknownTx.Error()) {
		return nil, fmt.Errorf("%w%s", ErrUnknownTx, strings.TrimPrefix(text, ErrUnknownTx.Error()))
	} else if text != "" {
		return nil, errors.New(text)
	}
	if answer.Header.Get(headerMore) != "" {
		return answer.Data, ErrTruncated
	}
	return answer.Data, nil
}

// request asks both replicas and takes the first answer. It asks again while nobody says anything: a partition that
// changes hands, or whose owners have not decided what this client has seen, has nobody who answers for a moment. That
// a partition has stopped is the answer only when no other owner gives one.
func (c *Client) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	answers := make(chan *nats.Msg, maxAnswers)
	m.Reply = c.nats.NewInbox()
	sub, err := c.nats.ChanSubscribe(m.Reply, answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	var again <-chan time.Time
	var stopped *nats.Msg
	for ask := true; ; {
		if ask {
			if err := c.nats.PublishMsg(m); err != nil {
				return nil, err
			}
			ask, again = false, c.cfg.Clock.After(askAgain)
		}
		select {
		case <-ctx.Done():
			if stopped != nil {
				return stopped, nil
			}
			return nil, ctx.Err()
		case <-again:
			ask = true
		case a := <-answers:
			switch {
			case a.Header.Get(headerStopped) != "":
				stopped = a
			case len(a.Data) > 0 || a.Header.Get("Status") != noResponders:
				return a, nil
			}
		}
	}
}

// followed is the greatest seq of a workspace that this client has delivered to a follower.
func (c *Client) followed(workspace string) (seq sequencer.Seq) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.followers {
		if f.workspace == workspace {
			seq = max(seq, sequencer.Seq(f.at.Load()))
		}
	}
	return seq
}

// Closure walks what a transaction rests on, breadth first and up to limit transactions; the answer says whether it
// met the limit.
func (c *Client) Closure(ctx context.Context, workspace string, tx sequencer.TxID, limit int,
) (*topology.Closure, error) {
	b, err := c.ask(ctx, askClosure, workspace, string(tx), limit)
	if err != nil {
		return nil, fmt.Errorf("closure of %s: %w", tx, err)
	}
	return topology.DecodeClosure(b)
}

// Frontier lists up to limit rows of the scopes whose text begins with prefix, by scope and without shard contents.
// An empty prefix lists all, the workspace's own row (of the empty scope) first.
func (c *Client) Frontier(ctx context.Context, workspace string, prefix sequencer.Scope, limit int,
) ([]topology.FrontierRow, error) {
	rows, err := c.frontier(ctx, workspace, prefix, limit)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return nil, fmt.Errorf("frontier of %q: %w", prefix, err)
	}
	return rows, nil
}

// Scopes is Frontier as people are shown it: without the workspace's own row, and saying whether there are more.
func (c *Client) Scopes(ctx context.Context, workspace string, prefix sequencer.Scope, limit int,
) (topology.Scopes, error) {
	s := topology.Scopes{Workspace: workspace}
	if prefix == "" {
		limit++ // the workspace's own row
	}
	rows, err := c.frontier(ctx, workspace, prefix, limit)
	if s.Truncated = errors.Is(err, ErrTruncated); err != nil && !s.Truncated {
		return s, fmt.Errorf("scopes under %q: %w", prefix, err)
	}
	for i := range rows {
		if rows[i].Scope != "" {
			s.Rows = append(s.Rows, topology.ScopeInfoOf(&rows[i]))
		}
	}
	return s, nil
}

// frontier asks for rows; with ErrTruncated there are more of them.
func (c *Client) frontier(ctx context.Context, workspace string, prefix sequencer.Scope, limit int,
) ([]topology.FrontierRow, error) {
	b, more := c.askPart(ctx, askFrontier, workspace, string(prefix), limit)
	if more != nil && !errors.Is(more, ErrTruncated) {
		return nil, more
	}
	var rows []topology.FrontierRow
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, errors.New("the answer is cut short")
		}
		row, err := topology.DecodeFrontierRow(b[size : size+int(n)])
		if err != nil {
			return nil, err
		}
		rows, b = append(rows, *row), b[size+int(n):]
	}
	return rows, more
}
