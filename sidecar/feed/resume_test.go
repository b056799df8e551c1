package feed

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A reader whose connection is cut at 200 random places while decisions come sees each of them once and in order, with
// a filter too, whose resuming is moved on by heartbeats.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		query string
		picks func(seq int) bool
	}{
		{"", func(int) bool { return true }},
		{"?agent=a1&kind=aborted", func(seq int) bool { return seq%2 == 1 && seq%3 == 0 }},
	} {
		t.Run(c.query, func(t *testing.T) {
			const cuts = 200
			src := newSource()
			url, h := serve(t, Config{Follow: src.follow, Queue: 16, Heartbeat: time.Millisecond})
			ctx, enough := context.WithCancel(t.Context())
			var load sync.WaitGroup
			load.Go(func() { grow(ctx, src) })
			random := rand.New(rand.NewPCG(1, 2))
			var seen []int
			last := "0"
			for range cuts {
				conn, leave := context.WithCancel(t.Context())
				body := get(t, conn, url+c.query, last).Body
				got, id := ids(bufio.NewReader(io.LimitReader(body, random.Int64N(20_000))), func(int) bool { return false })
				leave()
				seen = append(seen, got...)
				if id != "" {
					last = id
				}
			}
			enough()
			load.Wait()
			end := len(src.list)
			for end > 0 && !c.picks(end) {
				end--
			}
			if at, _ := strconv.Atoi(last); at < end { // else nothing more would come
				body := get(t, t.Context(), url+c.query, last).Body
				rest, _ := ids(bufio.NewReader(body), func(id int) bool { return id >= end })
				seen = append(seen, rest...)
			}
			if seen[len(seen)-1] > end {
				t.Fatalf("%d came after the last, %d", seen[len(seen)-1], end)
			}
			at := 0
			for seq := 1; seq <= end; seq++ {
				if !c.picks(seq) {
					continue
				}
				if at == len(seen) || seen[at] != seq {
					t.Fatalf("event %d is %v, want seq %d", at, seen[min(at, len(seen)-1)], seq)
				}
				at++
			}
			t.Logf("%d cuts, %d decisions, %d of them picked, %d written", cuts, len(src.list), at, h.Stats().Sent)
		})
	}
}

// grow adds decisions at about 5,000 a second, at most 100,000.
func grow(ctx context.Context, src *source) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 20_000 {
		select {
		case <-tick.C:
			src.add(5)
		case <-ctx.Done():
			return
		}
	}
}

// narrow is a listener whose connections keep little of what is written to them.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(4 << 10)
	}
	return c, err
}

// A reader that does not read is cut off, and holds no other one up.
func TestSlowReader(t *testing.T) {
	src := newSource()
	src.add(50_000)
	h := New(Config{Follow: src.follow, SlowAfter: 100 * time.Millisecond})
	mux := http.NewServeMux()
	mux.Handle("/w/{workspace}", h)
	server := httptest.NewUnstartedServer(mux)
	server.Listener = narrow{server.Listener}
	server.Start()
	t.Cleanup(func() { server.Close(); http.DefaultClient.CloseIdleConnections() })

	silent := dial(t, server)
	quick := bufio.NewReader(get(t, t.Context(), server.URL+"/w/w?after=0", "").Body)
	if got, _ := ids(quick, func(id int) bool { return id == 50_000 }); len(got) != 50_000 {
		t.Errorf("a quick reader beside it: %d decisions", len(got))
	}
	until(t, func() bool { return h.Stats().Cut == 1 })
	_ = silent.Close()
}

// laggard is a connection that takes its time for each write.
type laggard struct{ *httptest.ResponseRecorder }

func (l laggard) Write(b []byte) (int, error) {
	<-time.After(30 * time.Millisecond)
	return l.ResponseRecorder.Write(b)
}

// A reader for whom a write takes too long, but not for ever, is told why its stream ends.
func TestLateReader(t *testing.T) {
	src := newSource()
	src.add(50)
	h := New(Config{Follow: src.follow, SlowAfter: 20 * time.Millisecond})
	w := laggard{httptest.NewRecorder()}
	h.Serve(w, httptest.NewRequest(http.MethodGet, "/?after=0", nil), "w")
	if text := w.Body.String(); !strings.HasSuffix(text, "\n\n: cut off: one write took longer than 20ms; "+
		"read faster and come back with Last-Event-ID\n\n") || !strings.Contains(text, "\nid: 1\n") {
		t.Errorf("%q", text)
	}
	if got := h.Stats(); got.Cut != 1 || got.Open != 0 {
		t.Errorf("%+v", got)
	}
}

// dial opens a stream from the first decision and reads nothing of it.
func dial(t *testing.T, server *httptest.Server) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	tcp := conn.(*net.TCPConn)
	if err := tcp.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /w/w?after=0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return tcp
}
