package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Get reads a shard outside any transaction; the agent's next seal carries the read. An absent shard is no error.
func (c *Client) Get(ctx context.Context, scope string) (Shard, error) {
	return c.getShard(ctx, scope, nil)
}

// GetVersion reads a former version of a shard. History is not carried by a seal.
func (c *Client) GetVersion(ctx context.Context, scope string, version uint64) (Shard, error) {
	return c.getShard(ctx, scope, url.Values{"version": {strconv.FormatUint(version, 10)}})
}

// Look reads a shard as people do: no seal carries it.
func (c *Client) Look(ctx context.Context, scope string) (Shard, error) {
	return c.getShard(ctx, scope, url.Values{"look": {"true"}})
}

// LookAll is List as people read: no seal carries it.
func (c *Client) LookAll(ctx context.Context, prefix, after string, limit int) (*List, error) {
	return c.list(ctx, url.Values{"look": {"true"}}, prefix, after, limit)
}

// getShard reads a shard; header is a name and its value, or nothing.
func (c *Client) getShard(ctx context.Context, scope string, query url.Values, header ...string) (Shard, error) {
	r := request{method: http.MethodGet, path: c.shardPath(scope), query: query, header: map[string]string{}}
	if len(header) == 2 {
		r.header[header[0]] = header[1]
	}
	got, err := c.call(ctx, r)
	var p *Problem
	if errors.As(err, &p) && p.Code == "not_found" {
		return Shard{Scope: scope, View: p.View}, nil
	}
	if err != nil {
		return Shard{}, err
	}
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(got.header.Get(name), 10, 64)
		return n
	}
	return Shard{Scope: scope, Exists: true, Version: number("Hence-Version"), View: number("Hence-View"),
		Writer: got.header.Get("Hence-Writer"), MediaType: got.header.Get("Content-Type"), Content: got.body}, nil
}

// Put writes one shard in a transaction of its own and waits until it is decided or ctx ends. An aborted one is no
// error: see the decision's State and Code. A version that does not hold is version_mismatch: the code of a *Problem
// where the sidecar knew it at once, else of the decision. One that is not decided in time is an *Undecided.
func (c *Client) Put(ctx context.Context, scope string, content []byte, o WriteOptions) (Decision, error) {
	r := request{method: http.MethodPut, path: c.shardPath(scope), query: waitQuery(ctx), header: map[string]string{},
		body: content}
	if o.Op != "" {
		r.query.Set("op", o.Op)
	}
	if o.MediaType != "" {
		r.header["Content-Type"] = o.MediaType
	}
	switch {
	case o.IfVersion != nil && *o.IfVersion == 0:
		r.header["If-None-Match"] = "*"
	case o.IfVersion != nil:
		r.header["If-Match"] = `"` + strconv.FormatUint(*o.IfVersion, 10) + `"`
	}
	got, err := c.call(ctx, r)
	var p *Problem
	if errors.As(err, &p) && p.Decision != nil {
		return *p.Decision, nil
	}
	if err != nil {
		return Decision{}, err
	}
	var d Decision
	if err := decode(got, &d); err != nil {
		return d, err
	}
	return c.Tx(d.Tx).await(ctx, d)
}

// List is one page of the shards under a prefix; after is the Next of the page before, limit 0 the sidecar's default.
func (c *Client) List(ctx context.Context, prefix, after string, limit int) (*List, error) {
	return c.list(ctx, url.Values{}, prefix, after, limit)
}

func (c *Client) list(ctx context.Context, query url.Values, prefix, after string, limit int) (*List, error) {
	query = withLimit(query, limit)
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if after != "" {
		query.Set("after", after)
	}
	out := &List{}
	return out, c.json(ctx, http.MethodGet, c.inWorkspace("/shards"), query, nil, out)
}

// Versions lists what the sidecar remembers of a shard, newest first.
func (c *Client) Versions(ctx context.Context, scope string) (*List, error) {
	out := &List{}
	return out, c.json(ctx, http.MethodGet, c.shardPath(scope), url.Values{"versions": {"true"}}, nil, out)
}

// shardPath is the route of a shard; a scope's own escapes stay as they are.
func (c *Client) shardPath(scope string) string {
	return c.inWorkspace("/shards/" + escapeRest(strings.TrimPrefix(strings.TrimPrefix(scope, "shard:"), "/")))
}

// escapeRest escapes what cannot stand in a path; escapes that are there already, slashes and stars stay.
func escapeRest(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c > '~' || strings.IndexByte(`?#"<>\^{|}`+"`", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
