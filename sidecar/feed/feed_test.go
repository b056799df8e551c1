package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testWait = 20 * time.Second

// source is a log that grows; those before first are gone.
type source struct {
	mu      sync.Mutex
	list    []*sequencer.Outcome
	first   sequencer.Seq
	failAt  sequencer.Seq // Follow fails before it; zero: never
	changed chan struct{}
}

func newSource() *source { return &source{first: 1, changed: make(chan struct{})} }

// add appends n decisions, of kinds, agents and scopes in turn.
func (s *source) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		seq := sequencer.Seq(len(s.list) + 1)
		kind, code := sequencer.OutcomeCommitted, sequencer.Code("")
		if seq%3 == 0 {
			kind, code = sequencer.OutcomeAborted, sequencer.CodeStaleRead
		}
		agent := fmt.Sprintf("a%d", seq%2)
		s.list = append(s.list, &sequencer.Outcome{Workspace: "w", Seq: seq, Kind: kind, Code: code, Agent: agent,
			Tx:     sequencer.TxID(fmt.Sprintf("%s.1.%d", agent, seq)),
			Writes: []sequencer.Write{{Scope: sequencer.Scope(fmt.Sprintf("shard:/n/%d", seq%5))}}})
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// appended is when the record was appended that a decision answers; that of the first is unknown.
func appended(seq sequencer.Seq) (at time.Time) {
	if seq > 1 {
		at = time.Unix(1e9+int64(seq), 0).UTC()
	}
	return at
}

func (s *source) follow(ctx context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error {
	for next := after + 1; ; {
		s.mu.Lock()
		changed, failAt, first := s.changed, s.failAt, s.first
		var o *sequencer.Outcome
		if next >= 1 && int(next) <= len(s.list) {
			o = s.list[next-1]
		}
		s.mu.Unlock()
		switch {
		case next < first:
			return fmt.Errorf("follow w: %w: Kafka begins at %d", streams.ErrGone, first)
		case failAt != 0 && next >= failAt:
			return errors.New("the brokers are away")
		case o != nil:
			if err := apply(o, streams.WayNATS, appended(o.Seq)); err != nil {
				return err
			}
			next++
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve serves a source's decisions until the test ends.
func serve(t *testing.T, c Config) (url string, h *Handler) {
	t.Helper()
	h = New(c)
	mux := http.NewServeMux()
	mux.Handle("/w/{workspace}", h)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); http.DefaultClient.CloseIdleConnections() })
	return server.URL + "/w/w", h
}

// event is one that a reader has; a heartbeat has no name.
type event struct {
	id, name, data string
	comments       []string
}

// get opens a stream.
func get(t *testing.T, ctx context.Context, url, lastID string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// next reads one event, or what a comment block says.
func next(r *bufio.Reader) (e event, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
			if line == "" {
				return e, nil
			}
			e.comments = append(e.comments, value)
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		}
	}
}

// nextNamed reads on to an event with a name.
func nextNamed(t *testing.T, r *bufio.Reader) event {
	t.Helper()
	for {
		e, err := next(r)
		if err != nil {
			t.Fatal(err)
		}
		if e.name != "" {
			return e
		}
	}
}

// An event has the seq, the kind and the CloudEvent; a stream says what it is.
func TestEvent(t *testing.T) {
	src := newSource()
	src.add(3)
	url, h := serve(t, Config{Follow: src.follow})
	resp := get(t, t.Context(), url, "2")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" ||
		resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	e := nextNamed(t, bufio.NewReader(resp.Body))
	want, err := topology.EncodeCloudEvent(src.list[2], appended(3), "")
	if err != nil {
		t.Fatal(err)
	}
	if e.id != "3" || e.name != "aborted" || e.data != string(want) {
		t.Errorf("%+v, want data %s", e, want)
	}
	if got := h.Stats(); got.Open != 1 {
		t.Errorf("%+v", got)
	}
}

// A refusal is a problem with a status, a stable code, and what to do.
func TestRefusals(t *testing.T) {
	src := newSource()
	src.add(10)
	src.first = 5
	url, _ := serve(t, Config{Follow: src.follow, Subscribers: 1})
	for _, c := range []struct {
		query, code, says string
		status            int
	}{
		{"?after=x", "bad_request", "give the id of the last event", 400},
		{"?after=-1", "bad_request", "not a seq", 400},
		{"?since=18446744073709551615", "bad_request", "not a seq", 400},
		{"?after=1&after=2", "bad_request", "twice", 400},
		{"?color=red", "bad_request", "known are: after since all tx agent scope reason kind", 400},
		{"?after=1;kind=begun", "bad_request", "write ; as %3B and % as %25", 400},
		{"?after=1&kind=%", "bad_request", "write ; as %3B and % as %25", 400},
		{"?all=some", "bad_request", "neither true nor false", 400},
		{"?kind=blue", "bad_request", "give one of begun, waiting", 400},
		{"?reason=Stale-Read", "bad_request", "is not a code", 400},
		{"?scope=nothing", "bad_request", "scope: ", 400},
		{"?after=3", "forgotten", "kept nowhere any more", 410},
	} {
		resp := get(t, t.Context(), url+c.query, "")
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var p struct{ Code, Detail, Type string }
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatalf("%s: %s: %v", c.query, body, err)
		}
		if resp.StatusCode != c.status || p.Code != c.code || !strings.Contains(p.Detail, c.says) ||
			p.Type != api.ProblemType(c.code) || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", c.query, resp.StatusCode, body)
		}
	}
}

// No more streams are open at once than there may be; one that ends gives its place back.
func TestSubscribers(t *testing.T) {
	src := newSource()
	src.add(1)
	url, h := serve(t, Config{Follow: src.follow, Subscribers: 2})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range 2 {
		get(t, ctx, url, "")
	}
	if resp := get(t, t.Context(), url, ""); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("the third stream: %d", resp.StatusCode)
	}
	leave()
	until(t, func() bool { return h.Stats().Open == 0 })
	if resp := get(t, t.Context(), url, ""); resp.StatusCode != 200 {
		t.Errorf("after the others left: %d", resp.StatusCode)
	}
}

// until waits for a condition.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(testWait); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}

// A quiet stream says that it lives, and moves the id on although the filter picks nothing.
func TestHeartbeat(t *testing.T) {
	src := newSource()
	url, _ := serve(t, Config{Follow: src.follow, Heartbeat: 5 * time.Millisecond})
	r := bufio.NewReader(get(t, t.Context(), url+"?agent=nobody", "").Body)
	src.add(7)
	for {
		e, err := next(r)
		if err != nil || e.name != "" {
			t.Fatalf("%+v %v", e, err)
		}
		if e.id == "7" && len(e.comments) == 1 && e.comments[0] == "at seq 7" {
			return
		}
	}
}

// A stop ends every stream with a word; a failure behind it ends it with a problem.
func TestEnds(t *testing.T) {
	src, stop := newSource(), make(chan struct{})
	src.add(1)
	url, h := serve(t, Config{Follow: src.follow, Stop: stop})
	r := bufio.NewReader(get(t, t.Context(), url, "").Body)
	nextNamed(t, r)
	src.mu.Lock()
	src.failAt = 2
	src.mu.Unlock()
	broken := bufio.NewReader(get(t, t.Context(), url, "").Body)
	nextNamed(t, broken)
	if e := nextNamed(t, broken); e.name != "problem" || !strings.Contains(e.data, `"code":"log_unavailable"`) {
		t.Errorf("the failed one: %+v", e)
	}
	close(stop)
	rest, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(rest), ": this server is stopping") {
		t.Errorf("the stopped one: %q %v", rest, err)
	}
	until(t, func() bool { return h.Stats().Open == 0 })
}

// ids reads a stream's ids of named events until it ends or stop says so.
func ids(r *bufio.Reader, stop func(id int) bool) (got []int, last string) {
	for {
		e, err := next(r)
		if e.id != "" && err == nil { // what was cut off inside an event does not count
			last = e.id
		}
		if e.name != "" && e.data != "" && err == nil {
			n, _ := strconv.Atoi(e.id)
			if got = append(got, n); stop(n) {
				return got, last
			}
		}
		if err != nil {
			return got, last
		}
	}
}

// A decision whose record's time is unknown has none in its event, and not that of another one.
func TestUnknownTime(t *testing.T) {
	src := newSource()
	src.add(2)
	url, _ := serve(t, Config{Follow: src.follow})
	r := bufio.NewReader(get(t, t.Context(), url, "0").Body)
	if e := nextNamed(t, r); e.id != "1" || strings.Contains(e.data, `"time"`) {
		t.Errorf("the first: %+v", e)
	}
	if e := nextNamed(t, r); !strings.Contains(e.data, `"time":"2001-09-09T01:46:42.000Z"`) {
		t.Errorf("the second: %+v", e)
	}
}

// What only confirms a lease is shown to who asks for it. It is no gap, and a reader that comes back loses nothing.
func TestQuiet(t *testing.T) {
	src := newSource()
	src.add(5)
	*src.list[1] = sequencer.Outcome{Workspace: "w", Seq: 2, Kind: sequencer.OutcomeConfirmed, Agent: "a0",
		Incarnation: 1, Intent: "confirm:1:1"}
	*src.list[2] = sequencer.Outcome{Workspace: "w", Seq: 3, Kind: sequencer.OutcomeRefused, Agent: "a1",
		Incarnation: 1, Code: sequencer.CodeTooOld, Tx: "a1.1.0", Intent: "a1.1.0:adopt:7"} // as logic 2 says it
	url, _ := serve(t, Config{Follow: src.follow})
	for query, want := range map[string]string{"": "[1 4 5]", "&all=true": "[1 2 3 4 5]", "&all=false": "[1 4 5]",
		"&kind=confirmed": "[2]", "&kind=refused": "[3]", "&all=1&agent=a0": "[2 4]"} {
		ctx, leave := context.WithCancel(t.Context())
		r := bufio.NewReader(get(t, ctx, url+"?after=0"+query, "").Body)
		got := []string{}
		for len(got) < strings.Count(want, " ")+1 {
			got = append(got, nextNamed(t, r).id)
		}
		leave()
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
	r := bufio.NewReader(get(t, t.Context(), url, "1").Body)
	if e := nextNamed(t, r); e.id != "4" {
		t.Errorf("after 1: %+v", e)
	}
}

// TestIdleLasts: a stream in which nothing happens lasts over either protocol, although its heartbeats are further
// apart than one write may take. Times are the defaults, by a clock of the test.
func TestIdleLasts(t *testing.T) {
	for _, version := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var protocols http.Protocols
			protocols.SetHTTP1(version == 1)
			protocols.SetUnencryptedHTTP2(version == 2)
			src := newSource()
			src.add(1)
			ours, theirs := net.Pipe()
			listener := &oneConn{conns: make(chan net.Conn, 1)}
			listener.conns <- theirs
			server := &http.Server{Handler: New(Config{Follow: src.follow}), Protocols: &protocols}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			transport := &http.Transport{Protocols: &protocols,
				DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
			resp, err := (&http.Client{Transport: transport}).Get("http://x/?after=0")
			if err != nil {
				t.Fatal(err)
			}
			if resp.ProtoMajor != version {
				t.Errorf("%s, want version %d", resp.Proto, version)
			}
			r := bufio.NewReader(resp.Body)
			for beats := 0; beats < 10; {
				e, err := next(r)
				if err != nil {
					t.Errorf("%s: the stream ended after %d heartbeats: %v", resp.Proto, beats, err)
					break
				}
				if len(e.comments) > 0 && strings.HasPrefix(e.comments[0], "at seq") {
					beats++
				}
			}
			_ = resp.Body.Close()
			transport.CloseIdleConnections()
			_ = server.Close()
			<-served
		})
	}
}

// oneConn is a listener that accepts what is put into it.
type oneConn struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c, open := <-l.conns; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
