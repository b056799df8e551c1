package sidecar

import (
	"context"
	"net/http"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
)

// newFeed makes what serves the decisions as they come.
func (s *Sidecar) newFeed() *feed.Handler {
	return feed.New(feed.Config{
		Follow: s.events.FollowAt, Start: s.feedFrom, Stop: s.drain.Done(), Subscribers: s.config.Limits.Watchers,
		Logger: s.log,
	})
}

// feedFrom says after which seq a stream of decisions begins.
func (s *Sidecar) feedFrom(ctx context.Context, _ string, after sequencer.Seq, named bool) (sequencer.Seq, error) {
	if err := s.view.ready(); err != nil {
		return 0, notReady(err)
	}
	if !named {
		return s.view.at(), nil
	}
	return after, s.session.reachSeq(ctx, after)
}

// stream serves a route whose answer does not end. It takes none of the places for requests: it has its own bound.
func (f *face) stream(w http.ResponseWriter, r *http.Request, route *route, params map[string]string) {
	answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() { f.sidecar.metrics.answered(route.name, answer.status) }()
	err := f.mayStream(r, params)
	if err != nil {
		p := problemReply(err)
		for k, v := range p.header {
			w.Header().Set(k, v)
		}
		feed.Refuse(answer, api.AsProblem(err))
		return
	}
	f.feed.Serve(answer, r, f.sidecar.config.Workspace)
}

func (f *face) mayStream(r *http.Request, params map[string]string) error {
	if f.role(r) == roleNone {
		return api.Problemf(api.CodeUnauthorized, "send the sidecar's token as Authorization: Bearer")
	}
	if f.sidecar.drain.Err() != nil {
		return api.ErrStopped
	}
	return f.sidecar.inWorkspace(&call{request: r, params: params})
}

// statusWriter notes what a handler answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader is part of http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what is below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
