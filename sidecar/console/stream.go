package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/feed"
)

const (
	firstRows  = 200
	writeIn    = 5 * time.Second // a page that takes longer is cut off; it comes back by itself
	heartbeat  = 15 * time.Second
	retryAfter = 1000 // milliseconds until a page comes back
)

// batch is one message to a page: what is new since the last one.
type batch struct {
	NowMs    int64          `json:"now_ms"`
	Seq      sequencer.Seq  `json:"seq"`
	Tick     sequencer.Tick `json:"tick"`
	Skipped  int            `json:"skipped,omitempty"` // decisions between the last message and Rows
	Rows     []row          `json:"rows"`
	Seconds  []second       `json:"seconds,omitempty"` // that are over since
	Troubles []string       `json:"troubles"`
}

// pageStream is one page's place in what the console knows. It has no queue: a page that is slow misses rows, and is
// told how many.
type pageStream struct {
	watch    *watch
	seq      sequencer.Seq
	second   int64
	troubles string
	begun    bool
}

// next is what the page has not seen yet; nil: nothing.
func (s *pageStream) next(most int) *batch {
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.series.at(w.config.Clock.Now())
	if s.seq > w.seq {
		s.seq = w.seq // it has watched another log
	}
	b := &batch{NowMs: w.nowMs(), Seq: w.seq, Tick: w.tick, Rows: []row{}, Troubles: w.troubles()}
	rows, skipped := w.recent.after(s.seq, most)
	if len(rows) > 0 {
		b.Rows, b.Skipped = rows, skipped
	}
	if !s.begun && s.seq == 0 {
		b.Skipped = 0
	}
	b.Seconds = w.series.since(s.second)
	troubles := fmt.Sprint(b.Troubles)
	if s.begun && len(rows) == 0 && len(b.Seconds) == 0 && troubles == s.troubles {
		return nil
	}
	s.seq, s.troubles, s.begun = w.seq, troubles, true
	if n := len(b.Seconds); n > 0 {
		s.second = b.Seconds[n-1].At
	}
	return b
}

// stream serves one page until it leaves or the console stops.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		feed.Refuse(w, refusal(http.StatusTooManyRequests, "limit", "%d pages are open, no more are served: close one",
			cap(c.streams)))
		return
	}
	defer c.watch.looking()()
	s := &pageStream{watch: c.watch}
	if last, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 63); err == nil {
		s.seq = sequencer.Seq(last)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "retry: %d\n", retryAfter)
	most, spoken := firstRows, c.config.Clock.Now()
	for {
		if b := s.next(most); b != nil {
			encodeBatch(&buf, b)
			most = c.config.Limits.BatchRows
		} else if c.config.Clock.Now().Sub(spoken) > heartbeat {
			buf.WriteString(": here\n\n")
		}
		if buf.Len() > 0 {
			spoken = c.config.Clock.Now()
			_ = control.SetWriteDeadline(time.Now().Add(writeIn)) // without one it is the server's own
			if _, err := w.Write(buf.Bytes()); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
			buf.Reset()
		}
		select {
		case <-r.Context().Done():
			return
		case <-c.quiet:
			return
		case <-c.config.Clock.After(c.config.Limits.Batch):
		}
	}
}

func encodeBatch(buf *bytes.Buffer, b *batch) {
	fmt.Fprintf(buf, "id: %d\nevent: batch\ndata: ", b.Seq)
	if err := json.NewEncoder(buf).Encode(b); err != nil { // ends the line
		panic("console: a batch cannot be written: " + err.Error())
	}
	buf.WriteByte('\n')
}
