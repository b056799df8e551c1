// Package spans says where the time of a decision goes: it is a collector of the spans that the parts of Hence send
// about some of the turns, and takes the parts of each turn from their timestamps. All processes are of one machine,
// and so is the clock.
package spans

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
)

// Collector gathers spans. It is an http.Handler for OTLP in JSON.
type Collector struct {
	mu     sync.Mutex
	traces map[string]*turn
}

// turn is the spans of one request to commit.
type turn struct{ request, log, fold, decision otlp.Span }

// New returns a collector without spans.
func New() *Collector { return &Collector{traces: map[string]*turn{}} }

// ServeHTTP takes spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := otlp.Decode(r.Body, c.take); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

func (c *Collector) take(s otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.traces[s.Trace]
	if t == nil {
		t = new(turn)
		c.traces[s.Trace] = t
	}
	switch {
	case strings.HasSuffix(s.Name, "/commit"):
		t.request = s
	case s.Name == "hence.append":
		t.log = s
	case s.Name == "hence.fold":
		t.fold = s
	case s.Name == "hence.decision":
		t.decision = s
	}
}

// Part is one part of a decision's time.
type Part struct {
	Name string
	Took []float64 // microseconds, sorted, one for each turn of which all spans came
}

// Parts are those of all turns, in the order in which they happen, and at last the whole.
func (c *Collector) Parts() []Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts := []Part{{Name: "HTTP to append"}, {Name: "append acknowledged"}, {Name: "append to fold"}, {Name: "fold"},
		{Name: "NATS publish call"}, {Name: "publish to follower"}, {Name: "view to answer"}, {Name: "whole"}}
	for _, t := range c.traces {
		publish, published := t.fold.Events["hence.publish"], t.fold.Events["hence.published"]
		marks := []time.Time{t.request.Start, t.log.Start, t.log.End, t.fold.Start, publish, published, t.decision.End,
			t.request.End}
		if slices.ContainsFunc(marks, time.Time.IsZero) {
			continue // refused, or its last spans did not come
		}
		for i := range parts {
			from, to := marks[0], marks[len(marks)-1]
			if i < len(marks)-1 {
				from, to = marks[i], marks[i+1]
			}
			parts[i].Took = append(parts[i].Took, float64(to.Sub(from))/float64(time.Microsecond))
		}
	}
	for _, p := range parts {
		slices.Sort(p.Took)
	}
	return parts
}

// Sampler is an HTTP transport that asks for the spans of one in so many requests to commit.
type Sampler struct {
	http.RoundTripper
	Every uint64
	n     atomic.Uint64
}

// RoundTrip is part of http.RoundTripper.
func (s *Sampler) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/commit") && s.n.Add(1)%s.Every == 0 {
		var id [24]byte
		_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
		r = r.Clone(r.Context())
		r.Header.Set("Traceparent", "00-"+hex.EncodeToString(id[:16])+"-"+hex.EncodeToString(id[16:])+"-01")
	}
	return s.RoundTripper.RoundTrip(r)
}
