package http

import (
	"cmp"
	"net/http"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
)

// stream serves a route whose answer does not end. It takes none of the places for requests: it has its own bound.
func (f *Face) stream(w http.ResponseWriter, r *http.Request, route *route, params params) {
	answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() { f.Metrics.Answered(route.name, answer.status) }()
	err := f.mayStream(r, params)
	if err != nil {
		p := problemReply(err)
		for k, v := range p.header {
			w.Header().Set(k, v)
		}
		feed.Refuse(answer, api.AsProblem(err))
		return
	}
	if route.name == "anomalies" {
		f.feed.ServeAnomalies(answer, r, f.Name)
		return
	}
	f.feed.Serve(answer, r, f.Name)
}

func (f *Face) mayStream(r *http.Request, params params) error {
	_, role, leave, err := f.enter(r, params, false)
	leave() // a stream is of the workspace: it keeps no agent here
	if role == RoleNone {
		return cmp.Or(err, error(api.Problemf(api.CodeUnauthorized, "send the sidecar's token as Authorization: Bearer")))
	}
	if f.Drain.Err() != nil {
		return api.ErrStopped
	}
	if name := params.get("workspace"); name != f.Name {
		return f.otherWorkspace(name)
	}
	return err
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
