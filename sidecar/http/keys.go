package http

import (
	"context"
	"crypto/sha256"
	"maps"
	"net/http"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// keyed runs a request once per Idempotency-Key. A request with a key is finished even when its client goes away, so
// that the client can come back for the answer.
func (f *Face) keyed(c *call, route *route) (*reply, error) {
	key := c.request.Header.Get("Idempotency-Key")
	if key == "" || route.method == http.MethodGet || route.name == "read_all" { // which is a POST only for its body
		return f.run(c, c.request.Context(), route)
	}
	if err := once.ValidKey(key); err != nil {
		return nil, err
	}
	if c.Session != "" { // conversations need not know each other's keys; no key has a line break
		key = c.Session + "\n" + key
	}
	entry, answer, err := c.agent.Keys.Enter(key, fingerprint(c), outlives(route))
	if err != nil {
		return nil, err
	}
	if answer != nil {
		again := &reply{status: answer.Status, media: answer.Media, raw: answer.Body,
			header: map[string]string{"Idempotency-Replayed": "true"}}
		maps.Copy(again.header, answer.Header)
		return again, nil
	}
	c.Slot = &entry.Slot
	out := problemReply(api.Problemf(api.CodeInternal, "the request failed"))
	// A handler that panics loses its connection only. Its key is free again: else every repetition were in flight.
	defer func() { c.agent.Keys.Leave(entry, out.kept()) }()
	if out, err = f.run(c, context.WithoutCancel(c.request.Context()), route); err != nil {
		out = problemReply(err)
	}
	return out, nil
}

// outlives says whether the answers of a route still hold when the sidecar was started again. A read, a write and a
// touch belong to an open transaction, a registered tool to the process: those go with it, and a repetition says so.
func outlives(r *route) bool {
	switch r.name {
	case "read", "write", "touch", "put_tool", "delete_tool":
		return false
	}
	return true
}

// fingerprint tells requests apart: what they ask for, not how they travel.
func fingerprint(c *call) (sum [sha256.Size]byte) {
	h := sha256.New()
	r := c.request
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"),
		r.Header.Get("If-Match"), r.Header.Get("If-None-Match")} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.Write(c.body)
	h.Sum(sum[:0])
	return sum
}

// kept is the reply as it is remembered under a key; nil: the same request may well be answered otherwise when it
// comes again.
func (r *reply) kept() *once.Answer {
	p, refused := r.value.(*api.Problem)
	r.encode() // what is kept and counted is what travels, not the value that it is made of
	// What only an operator may do is judged again: the next request may carry the other token.
	if refused && (p.SafeSameKey || p.Code == api.CodeOperatorOnly) || r.status >= http.StatusInternalServerError ||
		r.status == http.StatusAccepted {
		return nil
	}
	return &once.Answer{Status: r.status, Header: r.header, Media: r.media, Body: r.raw}
}
