package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// kept are the anomalies of a topic: each second one is a copy of the one before it. Of kinds A1 and A3 in turn.
func kept(n int) FollowAnomalies {
	return func(ctx context.Context, workspace string, from int64,
		each func(int64, *topology.Anomaly, []byte) error) error {
		if from < 0 {
			from = int64(n) - 2 // what is found from now on: the last one, and its copy
		}
		for at := from; at < int64(n); at++ {
			a := &topology.Anomaly{Workspace: workspace, Kind: []string{"A1", "A3"}[at/2%2],
				Operations: []topology.AnomalyOp{{Tx: sequencer.TxID(fmt.Sprint("t", at/2))}}}
			if err := each(at, a, []byte(fmt.Sprintf(`{"n":%d}`, at))); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// anomalyIDs are the first n ids that a stream of anomalies has.
func anomalyIDs(t *testing.T, follow FollowAnomalies, query, last string, n int) (ids []string) {
	t.Helper()
	h := New(Config{Anomalies: follow})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeAnomalies(w, r, "w")
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	event := ""
	for lines := bufio.NewScanner(answer.Body); len(ids) < n && lines.Scan(); {
		if kind, is := strings.CutPrefix(lines.Text(), "event: "); is {
			event = kind
		}
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			ids = append(ids, event+data)
		}
	}
	cancel()
	return ids
}

// TestAnomalies: a stream has every finding once, in order, from where it is told; copies are left out.
func TestAnomalies(t *testing.T) {
	for _, c := range []struct{ query, last, want string }{
		{"after=0", "", `[A1{"n":0} A3{"n":2} A1{"n":4}]`},
		{"after=2", "", `[A3{"n":2} A1{"n":4}]`},
		{"after=0", "4", `[A1{"n":4}]`}, // the header is newer
		{"kind=A3&after=0", "", `[A3{"n":2}]`},
		{"", "", `[A1{"n":4}]`},
	} {
		n := strings.Count(c.want, "{")
		if got := fmt.Sprint(anomalyIDs(t, kept(6), c.query, c.last, n)); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.query, c.last, got, c.want)
		}
	}
}

// TestAnomaliesRefused: a refusal starts no stream, and its code says where nothing looks for anomalies.
func TestAnomaliesRefused(t *testing.T) {
	off := func(context.Context, string, int64, func(int64, *topology.Anomaly, []byte) error) error {
		return fmt.Errorf("follow: %w", streams.ErrAnomaliesOff)
	}
	away := func(context.Context, string, int64, func(int64, *topology.Anomaly, []byte) error) error {
		return errors.New("the brokers are away")
	}
	for _, c := range []struct {
		follow FollowAnomalies
		query  string
		status int
		code   string
	}{
		{off, "", http.StatusNotFound, `"anomalies_off"`},
		{away, "", http.StatusServiceUnavailable, `"log_unavailable"`},
		{kept(2), "after=x", http.StatusBadRequest, `"bad_request"`},
		{kept(2), "since=1", http.StatusBadRequest, `"bad_request"`},
		{away, "after=1;kind=A1", http.StatusBadRequest, `"bad_request"`},
		{kept(2), "after=1&after=2", http.StatusBadRequest, `"bad_request"`},
	} {
		answer := httptest.NewRecorder()
		New(Config{Anomalies: c.follow}).ServeAnomalies(answer, httptest.NewRequest(http.MethodGet, "/?"+c.query, nil), "w")
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.code) {
			t.Errorf("%s: %d %s", c.query, answer.Code, answer.Body)
		}
	}
}
