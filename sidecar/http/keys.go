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
	reads := route.method == http.MethodGet || route.name == "read_all" // which is a POST only for its body
	if n := len(c.request.Header.Values("Idempotency-Key")); n > 1 && !reads {
		// A signed key with a comma has the same signature when it is split into two on its way.
		return nil, api.Problemf(api.CodeBadRequest, "the header Idempotency-Key is there %d times: send it once", n)
	}
	if key == "" || reads {
		return f.run(c, c.request.Context(), route)
	}
	if err := once.ValidKey(key); err != nil {
		return nil, err
	}
	if c.Session != "" { // conversations need not know each other's keys; no key has a line break
		key = c.Session + "\n" + key
	}
	if c.role == RoleApprover { // who asks is told what stands, not what another person was answered
		key = f.approver(c) + "\n\n" + key // neither a key nor a session has two line breaks
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
	var kept *once.Answer
	// A handler that panics loses its connection only. Its key is free again: else every repetition were in flight.
	defer func() { c.agent.Keys.Leave(entry, kept) }()
	out, err := f.run(c, context.WithoutCancel(c.request.Context()), route)
	if err != nil {
		out = problemReply(err)
	}
	kept = out.kept()
	return out, nil
}

// outlives says whether the answers of a route still hold when the sidecar was started again. A read, a write, a
// touch and a plan belong to an open transaction, a registered tool to the process: those go with it, and a
// repetition says so.
func outlives(r *route) bool {
	switch r.name {
	case "read", "write", "touch", "plan", "put_tool", "delete_tool":
		return false
	}
	return true
}

// fingerprint tells requests apart: what they ask for, not how they travel.
func fingerprint(c *call) (sum [sha256.Size]byte) {
	r := c.request
	b := make([]byte, 0, 1<<10)
	for _, part := range [...]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"),
		r.Header.Get("If-Match"), r.Header.Get("If-None-Match")} {
		b = append(append(b, part...), 0)
	}
	if len(b)+len(c.body) <= cap(b) {
		return sha256.Sum256(append(b, c.body...))
	}
	h := sha256.New()
	_, _ = h.Write(b)
	_, _ = h.Write(c.body)
	h.Sum(sum[:0])
	return sum
}

// kept is the reply as it is remembered under a key; nil: the same request may well be answered otherwise when it
// comes again.
func (r *reply) kept() *once.Answer {
	p, refused := r.value.(*api.Problem)
	if refused && p.Read != nil { // contents that others have written since would take the place of other answers
		without, alone := *p, *r
		without.Read = nil
		alone.value = &without
		r.encode()
		return alone.kept()
	}
	r.encode() // what is kept and counted is what travels, not the value that it is made of
	// What only an operator may do is judged again: the next request may carry the other token.
	if refused && (p.SafeSameKey || p.Code == api.CodeOperatorOnly || p.Code == api.CodeApproverOnly) ||
		r.status >= http.StatusInternalServerError || r.status == http.StatusAccepted {
		return nil
	}
	return &once.Answer{Status: r.status, Header: r.header, Media: r.media, Body: r.raw}
}
