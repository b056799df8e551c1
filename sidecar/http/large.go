package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// Large contents. A PUT may bring more than other bodies have, as much as the rules say; it is held whole, once, so
// only a few are there at a time. A GET passes a content on part by part, and begins to answer only once it has seen
// all of it: what is lost is a problem, and no answer that ends early.

// How many large contents are handled at once: each one written takes its size, each one read a few parts.
const (
	maxWriting = 2
	maxReading = 4
)

// readAtOnce is the largest body whose memory is taken before it is there, but for those that have a place.
const readAtOnce = 64 << 10

// maxDrained is how much of a body that is too large is read for the client to see the answer.
const maxDrained = 64 << 20

// body reads a request's body. The memory of a large one is free for others once free is called; it is never nil.
func (f *Face) body(w http.ResponseWriter, r *http.Request, route *route) (body []byte, free func(), err error) {
	free = func() {}
	if err := api.WholeBody(r.Header); err != nil {
		return nil, free, err
	}
	sent, n, most := r.Body, r.ContentLength, f.Limits.BodyBytes
	if route.name == "write_shard" {
		most = max(most, f.Workspace.MostContent())
	}
	switch {
	case n > most: // none of it is kept
		err = &http.MaxBytesError{Limit: most}
	case n > f.Limits.BodyBytes:
		if free, err = f.place(r.Context(), f.writing, "large contents are being written"); err == nil {
			body = make([]byte, n)
			_, err = io.ReadFull(sent, body)
		}
	case n >= 0 && n <= readAtOnce: // it has no more than it says
		body = make([]byte, n)
		_, err = io.ReadFull(sent, body)
	default:
		limited := http.MaxBytesReader(w, sent, most)
		body, err = io.ReadAll(io.LimitReader(limited, f.Limits.BodyBytes+1))
		if err == nil && int64(len(body)) > f.Limits.BodyBytes {
			if free, err = f.place(r.Context(), f.writing, "large contents are being written"); err == nil {
				body, err = readOn(limited, body)
			}
		}
	}
	if err == nil {
		return body, free, nil
	}
	_, _ = io.CopyN(io.Discard, sent, maxDrained) // many clients read no answer before they have sent everything
	if _, large := errors.AsType[*http.MaxBytesError](err); large && route.name == "write_shard" {
		return nil, free, f.tooLarge(most)
	}
	if p := api.AsProblem(err); p.Code == api.CodeTooLarge || p.Code == api.CodeBusy ||
		p.Code == api.CodeWrongDigest {
		return nil, free, p
	}
	return nil, free, api.Problemf(api.CodeBadRequest, "the body could not be read: %v", err)
}

// tooLarge is the problem of a content of more bytes than are read.
func (f *Face) tooLarge(read int64) error {
	p := api.Problemf(api.CodeTooLarge, "the content has more than %d bytes; a shard has at most %d", read,
		f.Workspace.MostContent())
	if f.Workspace.MostContent() < sequencer.MaxContent {
		p.Detail += fmt.Sprintf(": hence rules set --max-content allows up to %d", sequencer.MaxContent)
	}
	return p
}

// readOn reads a body that does not say how long it is, behind what is there of it, and has it no more than twice.
func readOn(from io.Reader, head []byte) ([]byte, error) {
	list, size := [][]byte{head}, len(head)
	for {
		part := make([]byte, sequencer.ChunkBytes)
		n, err := io.ReadFull(from, part)
		list, size = append(list, part[:n]), size+n
		switch err {
		case nil:
			continue
		case io.EOF, io.ErrUnexpectedEOF: // its end: a body that was cut off is another error
		default:
			return nil, err
		}
		out := make([]byte, 0, size)
		for _, part := range list {
			out = append(out, part...)
		}
		return out, nil
	}
}

// place waits for one of a few places.
func (f *Face) place(ctx context.Context, places chan struct{}, what string) (free func(), err error) {
	short := time.NewTimer(f.Limits.WaitMost)
	defer short.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-short.C:
	case <-ctx.Done():
	}
	return func() {}, api.Problemf(api.CodeBusy, "%d %s already", cap(places), what)
}

// passOn makes a reply pass a content on. All of it is read once before, so that what is lost is a problem.
func (f *Face) passOn(c *call, out *reply, got *api.Content) error {
	free, err := f.place(c.ctx, f.reading, "large contents are being read")
	if err != nil {
		return err
	}
	if err := got.Parts(c.ctx, func([]byte) error { return nil }); err != nil {
		free()
		return err
	}
	out.parts, out.size, out.done = got.Parts, got.Size, free
	return nil
}

// give writes a reply's parts. One that cannot be given any more breaks the connection off: the client has fewer bytes
// than Content-Length says, and no answer.
func (f *Face) give(w http.ResponseWriter, r *http.Request, out *reply) {
	err := out.parts(r.Context(), func(part []byte) error {
		_, err := w.Write(part)
		return err
	})
	if err != nil {
		f.Log.Warn("a content was not given to its end: the connection is closed", "path", r.URL.Path, "cause", err)
		panic(http.ErrAbortHandler)
	}
}
