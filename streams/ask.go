package streams

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// noResponders is the server's status for a question that no process hears.
const noResponders = "503"

// Bounds of a question.
const (
	askTimeout = 2 * time.Second
	askAgain   = 500 * time.Millisecond
	maxAnswers = 64 // waiting ones, of one question
)

// ErrNoAnswer is returned by Closure, Frontier and Unsettled when no processor that owns the workspace answered in
// time.
var ErrNoAnswer = errors.New("no processor answers")

// ErrUnknownTx is returned by Closure when the table has no row of the transaction.
var ErrUnknownTx = errors.New("unknown transaction")

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
		// Said at once: waiting for an answer that cannot come would cost each caller two seconds.
		return nil, fmt.Errorf("%w: no NATS address is configured, and questions go over NATS", ErrNoAnswer)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m := nats.NewMsg(subject)
	m.Header.Set(topology.HeaderWorkspace, workspace)
	m.Header.Set(topology.HeaderWhat, what)
	m.Header.Set(topology.HeaderLimit, strconv.Itoa(limit))
	m.Header.Set(topology.HeaderAtLeast, strconv.FormatUint(uint64(c.followed(workspace)), 10))
	answer, err := c.request(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("%w: is `hence streams` running and NATS reachable? %w", ErrNoAnswer, err)
	}
	if text := answer.Header.Get(topology.HeaderError); strings.HasPrefix(text, ErrUnknownTx.Error()) {
		return nil, fmt.Errorf("%w%s", ErrUnknownTx, strings.TrimPrefix(text, ErrUnknownTx.Error()))
	} else if text != "" {
		return nil, errors.New(text)
	}
	if answer.Header.Get(topology.HeaderMore) != "" {
		return answer.Data, ErrTruncated
	}
	return answer.Data, nil
}

// request asks both replicas and takes the first answer. It asks again while none answers: a partition that
// changes hands, or whose owners have not decided what this client has seen, does not answer for a moment. That
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
			// That the partition has stopped is said only now: the other replica's owner may have answered.
			if stopped != nil {
				return stopped, nil
			}
			return nil, ctx.Err()
		case <-again:
			// A question on NATS is lost with the process that heard it.
			ask = true
		case a := <-answers:
			switch {
			case a.Header.Get(topology.HeaderStopped) != "":
				stopped = a
			case len(a.Data) > 0 || a.Header.Get("Status") != noResponders:
				return a, nil
			}
		}
	}
}

// followed is the greatest seq of a workspace that this client has delivered to a follower.
func (c *Client) followed(workspace string) (seq sequencer.Seq) {
	// Followers come and go; each one's seq is an atomic, for it moves on.
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
	b, err := c.ask(ctx, topology.AskClosure, workspace, string(tx), limit)
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
	b, more := c.askPart(ctx, topology.AskFrontier, workspace, string(prefix), limit)
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
