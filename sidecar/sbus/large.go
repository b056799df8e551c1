package sbus

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// Large contents, most of them of /v1: an answer passes them on part by part, and begins only once all of them have
// been seen, so that what is lost is an error and no content is short.

// How many requests handle large contents at a time.
const (
	readAtOnce  = 4 // that pass them on, a few parts of each in memory
	wholeAtOnce = 2 // that hold one whole, to write it again
)

// partsOf gives a content part by part; nil: it is small enough to be written as one.
func partsOf(one *api.Counted) func(context.Context, func([]byte) error) error {
	if one.Parts != nil || len(one.Body) <= sequencer.ChunkBytes {
		return one.Parts
	}
	return func(_ context.Context, take func([]byte) error) error {
		for part := range slices.Chunk(one.Body, sequencer.ChunkBytes) { // its answer takes no memory of its size
			if err := take(part); err != nil {
				return err
			}
		}
		return nil
	}
}

// answerShards answers with shards, which stand between two texts.
func (f *Face) answerShards(c *call, status int, before string, list []*shard, behind string) error {
	if slices.ContainsFunc(list, func(s *shard) bool { return s.parts != nil }) {
		free, err := f.place(c.r.Context(), f.reading, "large contents are being read")
		if err != nil {
			return err
		}
		defer free()
	}
	for _, s := range list {
		if s.parts == nil {
			continue
		}
		if err := s.parts(c.r.Context(), func([]byte) error { return nil }); err != nil {
			return err
		}
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	c.sent = true
	if c.r.Method == http.MethodHead {
		return nil
	}
	_, _ = io.WriteString(c.w, before)
	for i, s := range list {
		if i > 0 {
			_, _ = io.WriteString(c.w, ",")
		}
		if err := s.writeTo(c); err != nil {
			f.config.Log.Warn("a shard was not given to its end: the connection is closed", "key", s.Key, "cause", err)
			panic(http.ErrAbortHandler) // the client must not take what it has for all
		}
	}
	_, _ = io.WriteString(c.w, behind)
	return nil
}

// writeTo writes a shard.
func (s *shard) writeTo(c *call) error {
	text := asJSON(s)
	if s.parts == nil {
		_, err := c.w.Write(text)
		return err
	}
	// What stands before the content are numbers.
	head, tail, _ := bytes.Cut(text, []byte(`"content":""`))
	if _, err := c.w.Write(append(head, `"content":"`...)); err != nil {
		return err
	}
	out := quoted{to: c.w}
	if err := s.parts(c.whole, out.add); err != nil {
		return err
	}
	if err := out.put(out.left); err != nil {
		return err
	}
	_, err := c.w.Write(append([]byte(`"`), tail...))
	return err
}

// asJSON is a value as answers have it.
func asJSON(value any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // all answers are plain values
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// quoted writes the inside of a JSON string part by part, as it would be written at once.
type quoted struct {
	to   io.Writer
	left []byte // of the last part: the beginning of a character
}

func (q *quoted) add(part []byte) error {
	text := append(q.left, part...)
	end := len(text)
	for i := end - 1; i >= 0 && i > end-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	q.left = bytes.Clone(text[end:])
	return q.put(text[:end])
}

func (q *quoted) put(text []byte) error {
	inside := asJSON(string(text))
	_, err := q.to.Write(inside[1 : len(inside)-1])
	return err
}

// wholeOf is all of a content. A large one takes memory until free is called; it is never nil.
func (f *Face) wholeOf(ctx context.Context, one *api.Counted) (body []byte, free func(), err error) {
	if one.Parts == nil {
		return one.Body, func() {}, nil
	}
	if free, err = f.place(ctx, f.holding, "large contents are being written"); err != nil {
		return nil, func() {}, err
	}
	body = make([]byte, 0, one.Size)
	err = one.Parts(ctx, func(part []byte) error {
		body = append(body, part...)
		return nil
	})
	return body, free, err
}

// place waits for one of a few places.
func (f *Face) place(ctx context.Context, places chan struct{}, what string) (free func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, api.Problemf(api.CodeBusy, "%d %s already: ask again", cap(places), what)
	}
}
