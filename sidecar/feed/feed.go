// Package feed serves a workspace's decisions to readers, as server-sent events:
//
//	id: 42                          the seq
//	event: committed                the kind
//	data: {"specversion":"1.0",...} the CloudEvent of hence.decisions, without traceparent
//
// Guarantees: the events of one stream are in order and each comes once; a stream that begins after a seq (the header
// Last-Event-ID, which a browser sends by itself, or ?after= or ?since=) has every decision after it that the filter
// picks, or answers 410. What is not picked leaves its number out: that is no gap. A filter that names no kind passes
// over decisions that only confirm a lease, unless ?all=true. A reader that does not read is cut off; it resumes where
// it was.
package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
)

// Follow gives every decision of a workspace after a seq to apply, in order and without gaps, until ctx ends or apply
// errs, with the time of the record that it answers: FollowAt of streams.Client and of sidecar.Log.
type Follow func(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error

// Parameters are the query parameters that a stream takes.
const Parameters = "after since all " + FilterNames

// Config is what a handler is told. Zero values of optional fields are the defaults named.
type Config struct {
	Follow    Follow
	Anomalies FollowAnomalies // nil: there are no streams of anomalies
	// Start says after which seq a stream begins: after the named one, or the newest where none was named. It may
	// refuse, best with an *api.Problem. Nil: after the named one, or with the first decision.
	Start       func(ctx context.Context, workspace string, after sequencer.Seq, named bool) (sequencer.Seq, error)
	Stop        <-chan struct{} // closed: every stream ends; nil: never
	Subscribers int             // streams at once; 32
	Queue       int             // decisions between the log and one reader; 256
	Heartbeat   time.Duration   // between signs of life; 15 s
	SlowAfter   time.Duration   // a reader that takes longer for one write is cut off; 5 s
	Logger      *slog.Logger
}

// Handler serves streams of decisions. It checks no token: the handler that mounts it does. Make it with New.
type Handler struct {
	config Config
	slots  chan struct{}
	sent   atomic.Uint64
	cut    atomic.Uint64
}

// Stats counts what a handler did.
type Stats struct {
	Open int    // streams now
	Sent uint64 // decisions written to readers
	Cut  uint64 // streams ended because their reader was too slow
}

// New makes a handler.
func New(c Config) *Handler {
	c.Subscribers, c.Queue = cmp.Or(c.Subscribers, 32), cmp.Or(c.Queue, 256)
	c.Heartbeat, c.SlowAfter = cmp.Or(c.Heartbeat, 15*time.Second), cmp.Or(c.SlowAfter, 5*time.Second)
	if c.Start == nil {
		c.Start = func(_ context.Context, _ string, after sequencer.Seq, _ bool) (sequencer.Seq, error) {
			return after, nil
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{config: c, slots: make(chan struct{}, c.Subscribers)}
}

// Stats says what the handler did so far.
func (h *Handler) Stats() Stats {
	return Stats{Open: len(h.slots), Sent: h.sent.Load(), Cut: h.cut.Load()}
}

// ServeHTTP serves the workspace that the route's {workspace} names.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Serve(w, r, r.PathValue("workspace"))
}

// slot takes a place among the open streams until done is called; instead is what else a client can do.
func (h *Handler) slot(instead string) (done func(), err error) {
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	default:
		return nil, refusal(http.StatusTooManyRequests, "limit",
			"%d streams are open, no more are served here: close one, or %s", cap(h.slots), instead)
	}
}

// Serve answers one request with a workspace's decisions, until the client leaves, reads too slowly, or the handler is
// stopped.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, workspace string) {
	if err := h.serve(w, r, workspace); err != nil {
		Refuse(w, err)
	}
}

// serve answers; an error means that nothing was answered yet.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, workspace string) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return refusal(http.StatusMethodNotAllowed, "method_not_allowed", "use GET")
	}
	after, named, filter, err := read(r)
	if err != nil {
		return refusal(http.StatusBadRequest, "bad_request", "%v", err)
	}
	done, err := h.slot("follow hence.decisions or NATS")
	if err != nil {
		w.Header().Set("Retry-After", "5")
		return err
	}
	defer done()
	if after, err = h.config.Start(r.Context(), workspace, after, named); err != nil {
		return err
	}
	s := &stream{Handler: h, w: w, control: http.NewResponseController(w), filter: filter,
		queue: make(chan queued, h.config.Queue), told: after}
	s.passed.Store(uint64(after))
	if r.Method == http.MethodHead {
		s.begin()
		return nil
	}
	return s.run(r.Context(), workspace, after)
}

// read is what a request asks for.
func read(r *http.Request) (after sequencer.Seq, named bool, f Filter, err error) {
	q, err := api.Query(r.URL.RawQuery)
	if err != nil {
		return 0, false, f, err
	}
	for name, values := range q {
		if !strings.Contains(" "+Parameters+" ", " "+name+" ") {
			return 0, false, f, fmt.Errorf("query parameter %.40q is not known here; known are: %s", name, Parameters)
		}
		if len(values) > 1 {
			return 0, false, f, fmt.Errorf("query parameter %q is given twice", name)
		}
	}
	f, err = NewFilter(q.Get("tx"), q.Get("agent"), q.Get("scope"), q.Get("reason"), q.Get("kind"))
	if err != nil {
		return 0, false, f, err
	}
	if text := q.Get("all"); text != "" {
		if f.All, err = strconv.ParseBool(text); err != nil {
			return 0, false, f, fmt.Errorf("all=%.40q is neither true nor false", text)
		}
	}
	// A browser that comes back sends the header beside the query of the first time: the header is newer.
	for _, text := range []string{r.Header.Get("Last-Event-ID"), q.Get("after"), q.Get("since")} {
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return 0, false, f, fmt.Errorf("%.40q is not a seq: give the id of the last event that you have, or 0", text)
		}
		return sequencer.Seq(n), true, f, nil
	}
	return 0, false, f, nil
}

func refusal(status int, code, format string, args ...any) *api.Problem {
	return &api.Problem{Type: api.ProblemType(code), Title: http.StatusText(status), Status: status, Code: code,
		Detail: fmt.Sprintf(format, args...), Retryable: status == http.StatusTooManyRequests || status >= 500}
}

// asProblem turns what ended a stream into a problem.
func asProblem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	if errors.Is(err, streams.ErrGone) {
		return refusal(http.StatusGone, "forgotten", "decisions after that seq are kept nowhere any more: "+
			"begin with what is now (without Last-Event-ID, after and since); %v", err)
	}
	return refusal(http.StatusServiceUnavailable, "log_unavailable", "the decisions cannot be followed: %v", err)
}

// Refuse writes why there is no stream, as a problem of RFC 9457.
func Refuse(w http.ResponseWriter, err error) {
	p := asProblem(err)
	body, err := json.Marshal(p)
	if err != nil {
		panic("feed: a problem cannot be written: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
