package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

const (
	beginWithin = 250 * time.Millisecond // until then a refusal can still be told by the status
	batchBytes  = 64 << 10               // of one write, and one decision more
	retryMs     = 1000                   // what a browser waits before it comes back
)

var errSlow = errors.New("the reader is too slow")

// stream is one reader's. Two goroutines work on it: Follow puts decisions into the queue, the handler writes them.
type stream struct {
	*Handler
	w       http.ResponseWriter
	control *http.ResponseController
	filter  Filter
	queue   chan queued
	passed  atomic.Uint64 // seq: it and all before it are in the queue or not picked

	begun bool
	told  sequencer.Seq // the last id that the reader has
	buf   bytes.Buffer

	ofAnomalies bool // and not of decisions
}

// queued is a decision with the time of the record that it answers; zero: not known.
type queued struct {
	*sequencer.Outcome
	at    time.Time
	found *found // in place of a decision
}

// run writes decisions until the client leaves, reads too slowly, or the stream is stopped. An error means that
// nothing was answered yet.
func (s *stream) run(ctx context.Context, workspace string, after sequencer.Seq) error {
	return s.runWith(ctx, func(ctx context.Context) error {
		return s.config.Follow(ctx, workspace, after, s.take(ctx))
	})
}

// runWith is run of what follow puts into the queue.
func (s *stream) runWith(ctx context.Context, follow func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- follow(ctx) }()
	err, open := s.serveUntil(ctx, ended)
	cancel()
	if open {
		<-ended
	}
	return err
}

// take queues what the filter picks.
func (s *stream) take(ctx context.Context) func(*sequencer.Outcome, streams.Way, time.Time) error {
	return func(o *sequencer.Outcome, _ streams.Way, at time.Time) error {
		if s.filter.Match(o) {
			select {
			case s.queue <- queued{Outcome: o, at: at}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.passed.Store(uint64(o.Seq))
		return nil
	}
}

// serveUntil is the writing half. open: the following half has not ended yet.
func (s *stream) serveUntil(ctx context.Context, ended <-chan error) (err error, open bool) {
	timer := time.NewTimer(beginWithin)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, true
		case <-s.config.Stop:
			s.last("this server is stopping: come back with Last-Event-ID")
			return nil, true
		case o := <-s.queue:
			err = s.send(o)
		case <-timer.C:
			err = s.beat()
		case cause := <-ended:
			return s.finish(ctx, cause), false
		}
		timer.Reset(s.config.Heartbeat)
		switch {
		case errors.Is(err, errSlow), errors.Is(err, os.ErrDeadlineExceeded):
			s.cut.Add(1)
			s.config.Logger.Warn("a reader of the decisions was cut off: it is too slow", "seq", s.told)
			s.last(fmt.Sprintf("cut off: one write took longer than %v; read faster and come back with Last-Event-ID",
				s.config.SlowAfter)) // one that read nothing at all sees the end only
			return nil, true
		case err != nil:
			return nil, true // the client has gone
		}
		// The deadline was that write's. Over HTTP/2 one that passes later resets the stream, though nothing is written.
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}

// finish ends a stream whose decisions ended.
func (s *stream) finish(ctx context.Context, cause error) error {
	for len(s.queue) > 0 {
		if s.send(<-s.queue) != nil {
			return nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case !s.begun:
		return cause
	}
	p := asProblem(cause)
	s.config.Logger.Warn("a stream of decisions ended", "seq", s.told, "cause", cause)
	body, err := json.Marshal(p)
	if err != nil {
		panic("feed: a problem cannot be written: " + err.Error())
	}
	fmt.Fprintf(&s.buf, "event: problem\ndata: %s\n\n", body)
	_ = s.flush() // nothing more can be told
	return nil
}

// begin sends the headers, once.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")           // else a proxy may hold events back
	_ = s.control.SetReadDeadline(time.Time{}) // the server's would end the stream; not every writer has one
	s.w.WriteHeader(http.StatusOK)
	what := "decisions after seq"
	if s.ofAnomalies {
		what = "anomalies after"
	}
	fmt.Fprintf(&s.buf, "retry: %d\n: %s %d\n\n", retryMs, what, s.told)
}

// send writes a decision and those that wait behind it.
func (s *stream) send(o queued) error {
	s.begin()
	n := uint64(0)
	for {
		if err := s.frame(o); err != nil {
			return err
		}
		n++
		if s.buf.Len() >= batchBytes || len(s.queue) == 0 {
			break
		}
		o = <-s.queue
	}
	err := s.flush()
	if err == nil || errors.Is(err, errSlow) {
		s.sent.Add(n)
	}
	return err
}

// frame adds one decision to what is written next.
func (s *stream) frame(o queued) error {
	if f := o.found; f != nil {
		fmt.Fprintf(&s.buf, "id: %d\nevent: %s\ndata: %s\n\n", f.id, f.kind, f.record)
		s.told = f.id
		return nil
	}
	event, err := topology.EncodeCloudEvent(o.Outcome, o.at, "")
	if err != nil {
		return fmt.Errorf("write decision %d: %w", o.Seq, err)
	}
	fmt.Fprintf(&s.buf, "id: %d\nevent: %s\ndata: %s\n\n", o.Seq, o.Kind, event)
	s.told = o.Seq
	return nil
}

// beat is a sign of life. It moves the id on, so that a reader whose filter picks little resumes near the newest. That
// loses nothing: what was passed before the queue was seen to be empty has been written.
func (s *stream) beat() error {
	s.begin()
	if at := sequencer.Seq(s.passed.Load()); len(s.queue) == 0 && at > s.told {
		s.told = at
		fmt.Fprintf(&s.buf, "id: %d\n", at)
	}
	if s.ofAnomalies { // its ids are no seqs
		s.buf.WriteString(": nothing more was found\n\n")
		return s.flush()
	}
	fmt.Fprintf(&s.buf, ": at seq %d\n\n", s.told)
	return s.flush()
}

// flush writes what was gathered. errSlow: it is written, but took too long.
func (s *stream) flush() error {
	defer s.buf.Reset()
	start := time.Now()
	_ = s.control.SetWriteDeadline(start.Add(2 * s.config.SlowAfter)) // not every writer has one
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	if time.Since(start) > s.config.SlowAfter {
		return errSlow
	}
	return nil
}

// last says why the stream ends.
func (s *stream) last(why string) {
	s.begin()
	fmt.Fprintf(&s.buf, ": %s\n\n", why)
	_ = s.flush() // the reader learns it, or sees the end
}
