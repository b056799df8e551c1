package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

// The shapes of a commit in one request.
type (
	// SeenAt is one read that a commit rests on: of a shard with its version, else as of a seq.
	SeenAt = api.SeenAt
	// Committed is a commit's decision, with the receipts of its calls.
	Committed = api.Committed
	// Seen is what was read at one view: see ShardsOf.
	Seen = api.Seen
	// Offer is one tool that the agent may call.
	Offer = api.Offer
)

// Commit is a transaction in one request; every field may be left out.
type Commit struct {
	Reads   []SeenAt
	Writes  []Write
	Effects []Call
	Mode    string // optimistic, ordered, locked
	Level   string // L0 to L4, or a list of anomalies

	// ReadAgain: a refusal as stale_read comes with the shards as they are now, as if by ReadAll, in the member Read of
	// the *Problem or of Committed; nil where they are too many or too large. A sidecar of a release before it refuses
	// the request.
	ReadAgain bool
}

// Write is one shard write of a commit. Value, where it is set, is written as JSON in place of Content.
type Write struct {
	Scope     string
	Content   []byte
	Value     any
	MediaType string
	IfVersion *uint64 // zero: only if the shard does not exist
	Op        string  // append, add or union: the content is a delta, and no version is expected
}

// Call is one tool call of a commit.
type Call struct {
	Tool string
	Args any    // a JSON object when marshalled
	Key  string // idempotency key for the sink, where the policy leaves it to the agent
}

// At is a read of a shard as a commit names it.
func (s *Shard) At() SeenAt {
	version := s.Version
	return SeenAt{Scope: s.Scope, Version: &version}
}

// ReadAll reads at most 128 shards and patterns at one view, whose seq comes with them; the agent's next seal carries
// the reads. An absent shard is no error. A content that is JSON comes without the space between its parts.
func (c *Client) ReadAll(ctx context.Context, scopes ...string) (shards []Shard, view uint64, err error) {
	var got api.Seen
	err = c.json(ctx, http.MethodPost, c.inWorkspace("/reads"), nil, api.Reads{Scopes: scopes}, &got)
	if err != nil {
		return nil, 0, err
	}
	shards, err = ShardsOf(&got)
	return shards, got.View, err
}

// ShardsOf are the shards of an answer, in the order in which they were asked for.
func ShardsOf(seen *Seen) (shards []Shard, err error) {
	for i := range seen.Items {
		one, err := shardOf(&seen.Items[i])
		if err != nil {
			return nil, err
		}
		shards = append(shards, one)
	}
	return shards, nil
}

// Commit makes a transaction in one request and waits until it is decided or ctx ends. An aborted transaction is no
// error: see the decision's State and Code. A read that did not hold any more is stale_read: the code of a *Problem
// where the sidecar knew it at once, which names what to read again, else of the decision. It is not tried again here.
// One that is not decided in time is an *Undecided.
func (c *Client) Commit(ctx context.Context, in Commit) (Committed, error) {
	body := api.Commit{Reads: in.Reads, Mode: in.Mode, Level: in.Level, ReadAgain: in.ReadAgain}
	for _, w := range in.Writes {
		one := writeOf(w)
		if w.Value != nil {
			text, err := json.Marshal(w.Value)
			if err != nil {
				return Committed{}, fmt.Errorf("write the value of %s: %w", w.Scope, err)
			}
			one.Content, one.ContentBase64, one.Value = nil, nil, text
		}
		body.Writes = append(body.Writes, one)
	}
	for _, call := range in.Effects {
		args, err := objectOf(call.Args)
		if err != nil {
			return Committed{}, fmt.Errorf("call %s: %w", call.Tool, err)
		}
		body.Effects = append(body.Effects, api.Effect{Tool: call.Tool, Args: args, Key: call.Key})
	}
	var out Committed
	err := c.json(ctx, http.MethodPost, c.inWorkspace("/commit"), waitQuery(ctx), body, &out)
	var p *Problem
	if errors.As(err, &p) && p.Decision != nil {
		return Committed{Tx: p.Decision.Tx, Decision: *p.Decision, Read: p.Read}, nil
	}
	if err != nil {
		return Committed{}, err
	}
	out.Decision, err = c.Tx(out.Tx).await(ctx, out.Decision)
	return out, err
}

// Offers lists the tools that the agent may call, with the JSON Schema of their arguments.
func (c *Client) Offers(ctx context.Context) ([]Offer, error) {
	var out api.Offers
	err := c.json(ctx, http.MethodGet, "/v1/tools", nil, nil, &out)
	return out.Tools, err
}

// Await reads a shard, as Get does, once it has another version than known (zero: it is absent), or after the wait;
// then it has that version still, and no content.
func (c *Client) Await(ctx context.Context, scope string, known uint64, wait time.Duration) (Shard, error) {
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, max(0, time.Until(end)))
	}
	return c.getShard(ctx, scope, map[string][]string{
		"wait_ms": {strconv.FormatInt(min(wait, longestWait).Milliseconds(), 10)},
	}, "If-None-Match", `"`+strconv.FormatUint(known, 10)+`"`)
}
