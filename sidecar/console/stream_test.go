package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// reader reads a page's stream.
type reader struct {
	w     *world
	lines *bufio.Scanner
	close func()
}

func (w *world) stream(last string) *reader {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.server.URL+"/api/stream", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		w.t.Fatalf("the stream is %s: %s", got, resp.Status)
	}
	r := &reader{w: w, lines: bufio.NewScanner(resp.Body), close: func() { resp.Body.Close() }}
	r.lines.Buffer(nil, 4<<20)
	w.t.Cleanup(r.close)
	return r
}

func (r *reader) next() (b batch) {
	r.w.t.Helper()
	for r.lines.Scan() {
		if data, ok := strings.CutPrefix(r.lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &b); err != nil {
				r.w.t.Fatal(err)
			}
			return b
		}
	}
	r.w.t.Fatalf("the stream ended: %v", r.lines.Err())
	return b
}

// until reads until a seq is told; every decision is told once, in order, or counted as skipped.
func (r *reader) until(seq sequencer.Seq, from sequencer.Seq) (rows, skipped int) {
	r.w.t.Helper()
	for at := from; at < seq; {
		b := r.next()
		skipped += b.Skipped
		at += sequencer.Seq(b.Skipped)
		for _, row := range b.Rows {
			if at++; row.Seq != at {
				r.w.t.Fatalf("seq %d follows %d", row.Seq, at-1)
			}
		}
		rows += len(b.Rows)
	}
	return rows, skipped
}

func many(n int) (list []*sequencer.Outcome) {
	for i := range n {
		list = append(list, committed(fmt.Sprintf("a.1.%d", i)))
	}
	return list
}

// TestStreamTellsAll: rows come in order and once; a burst is cut to the newest, and says so; a page that comes back
// gets what it missed.
func TestStreamTellsAll(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.BatchRows = 50 })
	r := w.stream("")
	w.source.add(many(10))
	if rows, skipped := r.until(10, 0); rows != 10 || skipped != 0 {
		t.Errorf("of 10 decisions %d are told, %d skipped", rows, skipped)
	}
	w.source.add(many(5000))
	rows, skipped := r.until(5010, 10)
	if rows+skipped != 5000 || skipped == 0 {
		t.Errorf("of 5000 decisions at once %d are told, %d skipped", rows, skipped)
	}
	r.close()
	back := w.stream("5000")
	if rows, skipped := back.until(5010, 5000); rows != 10 || skipped != 0 {
		t.Errorf("a page that has 5000 of 5010 is told %d, %d skipped", rows, skipped)
	}
}

// TestStreamsAreBounded: pages beyond the limit are refused, with a word.
func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Streams = 1 })
	r := w.stream("")
	r.next()
	resp, body := w.ask("GET", "/api/stream", "", nil)
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, "close one") {
		t.Errorf("a second page: %s %s", resp.Status, body)
	}
}

// TestRecent: the ring keeps the newest, finds each by its seq, and starts again behind a gap.
func TestRecent(t *testing.T) {
	r := newRecent(8)
	if rows, skipped := r.after(0, 5); len(rows) != 0 || skipped != 0 {
		t.Errorf("an empty ring has %d rows, %d skipped", len(rows), skipped)
	}
	for seq := sequencer.Seq(1); seq <= 100; seq++ {
		r.add(kept{row: row{Seq: seq}})
		first := max(1, int(seq)-7)
		for s := sequencer.Seq(1); s <= seq; s++ {
			if k := r.get(s); (k != nil) != (int(s) >= first) || k != nil && k.row.Seq != s {
				t.Fatalf("at %d: seq %d is %+v", seq, s, k)
			}
		}
	}
	if rows, skipped := r.after(90, 3); len(rows) != 3 || rows[0].Seq != 98 || skipped != 7 {
		t.Errorf("after 90, 3 at most: %v, %d skipped", rows, skipped)
	}
	r.add(kept{row: row{Seq: 200}})
	if r.get(100) != nil || r.get(200) == nil || r.first() != 200 {
		t.Errorf("behind a gap it begins at %d", r.first())
	}
}

// TestSeries: seconds are closed one by one, silent ones too, and only the last five minutes are kept.
func TestSeries(t *testing.T) {
	var s series
	at := time.Unix(1000, 0)
	s.at(at)
	for i := range 2000 {
		s.decided(&sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.Code(fmt.Sprintf("c%d", i%40))})
		s.latency(float64(i % 100))
	}
	s.at(at.Add(3 * time.Second))
	done := s.since(0)
	if len(done) != 3 || done[0].Decisions != 2000 || done[1].Decisions != 0 || len(done[0].Aborts) != maxCodes+1 {
		t.Fatalf("the seconds are %+v", done)
	}
	if done[0].P50Ms < 30 || done[0].P50Ms > 70 || done[0].P99Ms < 90 || done[0].Samples != 2000 {
		t.Errorf("of latencies from 0 to 99 the median is %v, 99 of 100 %v", done[0].P50Ms, done[0].P99Ms)
	}
	s.at(at.Add(200 * time.Second))
	s.at(at.Add(400 * time.Second))
	if n := len(s.since(0)); n != seriesSeconds {
		t.Errorf("%d seconds are kept", n)
	}
	s.at(at.Add(2 * time.Hour))
	if n := len(s.since(0)); n != 0 {
		t.Errorf("after two hours without a look %d seconds are kept", n)
	}
}

// TestForgetting: transactions are bounded; final ones go first.
func TestForgetting(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Transactions = 20 })
	w.source.add(nil, event(topology.EventRead, "b.1.1", 1, 5))
	until(w, "/api/live", func(v liveView) bool { return len(v.Transactions) == 1 })
	w.source.add(many(200))
	until(w, "/api/live", func(v liveView) bool { return v.Seq == 200 })
	w.page.watch.mu.Lock()
	n, open := w.page.watch.order.Len(), w.page.watch.txs["b.1.1"] != nil
	w.page.watch.mu.Unlock()
	if n > 20 || !open {
		t.Errorf("%d transactions are remembered; the open one: %v", n, open)
	}
}
