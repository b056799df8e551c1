package torture

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// weather is what a link does to the bytes that pass it.
type weather struct {
	cut    bool          // every connection is closed, and no new one is accepted
	delay  time.Duration // of each piece, in both directions
	reset  int           // bytes from the server after which a connection is reset, in the middle of a frame; zero: never
	oneWay bool          // what the server answers is dropped, what it is asked arrives
}

// link is a TCP proxy in front of one server, for one kind of its clients.
type link struct {
	listener net.Listener
	to       string
	serving  sync.WaitGroup
	landed   atomic.Int64 // connections and pieces that the weather hit

	mu      sync.Mutex
	now     weather
	changed chan struct{}
	conns   map[net.Conn]bool
	closed  bool
}

// openLink listens on a free port of loopback. The server need not be there yet.
func openLink(tb testing.TB) *link {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l := &link{listener: listener, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
	l.serving.Go(l.serve)
	tb.Cleanup(l.close)
	return l
}

func (l *link) addr() string { return l.listener.Addr().String() }

// set changes the weather. Connections that are open stay, unless it cuts them, or they have lost bytes.
func (l *link) set(w weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.cut || l.now.oneWay { // after a one-way spell the bytes that follow would begin inside a frame
		l.drop(w.cut)
	}
	l.now = w
	close(l.changed)
	l.changed = make(chan struct{})
}

// drop closes all connections; the lock is held.
func (l *link) drop(counts bool) {
	for c := range l.conns {
		if counts {
			l.landed.Add(1)
		}
		c.Close()
	}
}

func (l *link) close() {
	l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.drop(false)
	l.mu.Unlock()
	l.serving.Wait()
}

// keep notes a connection so that it can be cut; false: it is cut already.
func (l *link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.now.cut {
		return false
	}
	l.conns[c] = true
	return true
}

func (l *link) forget(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	c.Close()
}

func (l *link) serve() {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the other end has gone again
		}
		if !l.keep(c) {
			l.landed.Add(1)
			c.Close()
			continue
		}
		l.serving.Go(func() { l.pass(c) })
	}
}

// pass joins a connection to one of the server until either end closes.
func (l *link) pass(c net.Conn) {
	defer l.forget(c)
	server, err := net.DialTimeout("tcp", l.to, 5*time.Second)
	if err != nil || !l.keep(server) {
		return
	}
	defer l.forget(server)
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, c, false) })
	l.copy(c, server, true)
	both.Wait()
}

// copy carries bytes one way through the weather, and closes both ends when it is over.
func (l *link) copy(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	piece, passed := make([]byte, 32<<10), 0
	for {
		n, err := from.Read(piece)
		if n > 0 && !l.carry(to, piece[:n], answers, &passed) {
			return
		}
		if err != nil {
			return
		}
	}
}

// carry writes one piece; false: the connection is over.
func (l *link) carry(to io.Writer, piece []byte, answers bool, passed *int) bool {
	l.mu.Lock()
	w, changed := l.now, l.changed
	l.mu.Unlock()
	if w.delay > 0 {
		l.landed.Add(1)
		wait := time.NewTimer(w.delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-changed:
		}
	}
	if !answers {
		_, err := to.Write(piece)
		return err == nil
	}
	if w.oneWay {
		l.landed.Add(1)
		return true
	}
	if *passed += len(piece); w.reset > 0 && *passed > w.reset {
		l.landed.Add(1)
		_, _ = to.Write(piece[:len(piece)/2]) // it is closed next: an error changes nothing
		if c, ok := to.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // a reset, not an orderly end
		}
		return false
	}
	_, err := to.Write(piece)
	return err == nil
}

// TestLink holds that a link does to bytes what its weather says, and counts it.
func TestLink(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	heard := make(chan string, 8)
	go func() { // it says back what it hears, until it is closed
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				piece := make([]byte, 64)
				for {
					n, err := c.Read(piece)
					if err != nil {
						return
					}
					heard <- string(piece[:n])
					if _, err := c.Write(piece[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	l := openLink(t)
	l.to = server.Addr().String()
	// say returns what came back; an error of the connection ends it, a second of silence is "".
	say := func(c net.Conn, text string) (string, error) {
		if _, err := c.Write([]byte(text)); err != nil {
			return "", err
		}
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // of an open connection
		piece := make([]byte, 64)
		n, err := c.Read(piece)
		if wait := net.Error(nil); errors.As(err, &wait) && wait.Timeout() {
			return "", nil
		}
		return string(piece[:n]), err
	}
	for _, c := range []struct {
		name   string
		w      weather
		back   string
		ends   bool
		hits   bool
		arrive bool
	}{
		{"fair", weather{}, "hello", false, false, true},
		{"slow", weather{delay: 20 * time.Millisecond}, "hello", false, true, true},
		{"one way", weather{oneWay: true}, "", false, true, true},
		{"reset", weather{reset: 2}, "", true, true, true},
		{"cut", weather{cut: true}, "", true, true, false},
	} {
		l.set(weather{})
		conn, err := net.Dial("tcp", l.addr())
		if err != nil {
			t.Fatal(err)
		}
		if back, err := say(conn, "first"); back != "first" || err != nil {
			t.Fatalf("%s: in fair weather it said %q, %v", c.name, back, err)
		}
		<-heard
		before := l.landed.Load()
		l.set(c.w)
		back, err := say(conn, "hello")
		if c.w.reset > 0 && err == nil { // half a frame came before the reset
			back, err = say(conn, "hello")
		}
		if c.back != "" && back != c.back || c.ends != (err != nil) || c.hits != (l.landed.Load() > before) {
			t.Errorf("%s: it said %q, %v, with %d hits", c.name, back, err, l.landed.Load()-before)
		}
		if c.arrive {
			if text := <-heard; text != "hello" {
				t.Errorf("%s: the server heard %q", c.name, text)
			}
		}
		conn.Close()
		for len(heard) > 0 {
			<-heard
		}
	}
}
