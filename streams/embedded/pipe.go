//go:build !slim

package embedded

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBytes is what one direction of a pipe holds before its writer waits, as the buffers of a socket do.
const pipeBytes = 64 << 10

// pipe is one end of a connection within the process. It behaves as a TCP connection does: a write returns when its
// bytes are buffered, what was written before a Close is still read by the other end, and then io.EOF. net.Pipe has no
// buffer: its writers wait for the reader, which holds the locks that our clients keep while they write.
type pipe struct {
	in, out *stream
}

// newPipe returns the two ends of a connection.
func newPipe() (net.Conn, net.Conn) {
	a, b := newStream(), newStream()
	return &pipe{in: a, out: b}, &pipe{in: b, out: a}
}

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) { return p.in.read(b) }

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) { return p.out.write(b) }

// Close implements net.Conn.
func (p *pipe) Close() error {
	p.in.close(&p.in.deaf)
	p.out.close(&p.out.ended)
	return nil
}

// LocalAddr implements net.Conn.
func (p *pipe) LocalAddr() net.Addr { return within{} }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return within{} }

// SetDeadline implements net.Conn.
func (p *pipe) SetDeadline(t time.Time) error {
	p.in.reading.set(t)
	p.out.writing.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (p *pipe) SetReadDeadline(t time.Time) error {
	p.in.reading.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(t time.Time) error {
	p.out.writing.set(t)
	return nil
}

// within is the address of both ends.
type within struct{}

// Network implements net.Addr.
func (within) Network() string { return "within" }

// String implements net.Addr.
func (within) String() string { return "this process" }

// stream is one direction of a pipe: a ring of bytes.
type stream struct {
	mu      sync.Mutex
	ring    []byte // grows up to pipeBytes
	at, n   int    // Invariant: n bytes from at on, around the end of the ring, are written and not read
	ended   bool   // the writer has closed its end
	deaf    bool   // the reader has closed its end
	reading waiter
	writing waiter
	turn    sync.Mutex // of writers: what one of them writes stays together
}

func newStream() *stream {
	s := new(stream)
	s.reading.L, s.writing.L = &s.mu, &s.mu
	return s
}

func (s *stream) read(b []byte) (int, error) {
	// Reader, writer and deadlines meet at the ring.
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.deaf:
			return 0, net.ErrClosed // by this end
		case s.reading.late:
			return 0, os.ErrDeadlineExceeded
		case s.n > 0 || len(b) == 0:
			return s.take(b), nil
		case s.ended:
			return 0, io.EOF
		}
		s.reading.Wait() // until there is something, or an end
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	// As in read.
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return n, net.ErrClosed // by this end
		case s.deaf:
			// What the network would say: clients tell from it that another connection may do.
			return n, &net.OpError{Op: "write", Net: within{}.Network(), Err: os.NewSyscallError("write", syscall.EPIPE)}
		case s.writing.late:
			return n, os.ErrDeadlineExceeded
		case n == len(b):
			return n, nil
		case s.n == pipeBytes:
			s.writing.Wait() // until the reader has made space, or an end
		default:
			n += s.put(b[n:])
		}
	}
}

// take moves bytes from the ring; mu is held.
func (s *stream) take(b []byte) (n int) {
	b = b[:min(len(b), s.n)]
	n = copy(b, s.ring[s.at:])
	n += copy(b[n:], s.ring)
	if s.n -= n; s.n == 0 {
		s.at = 0 // in one piece again
	} else {
		s.at = (s.at + n) % len(s.ring)
	}
	s.writing.Broadcast()
	return n
}

// put moves bytes to the ring, as many as it has space for; mu is held.
func (s *stream) put(b []byte) (n int) {
	b = b[:min(len(b), pipeBytes-s.n)]
	if size := s.n + len(b); size > len(s.ring) {
		larger := make([]byte, min(max(2*len(s.ring), size), pipeBytes))
		had := copy(larger, s.ring[s.at:min(s.at+s.n, len(s.ring))])
		copy(larger[had:], s.ring[:s.n-had])
		s.ring, s.at = larger, 0
	}
	end := (s.at + s.n) % len(s.ring)
	n = copy(s.ring[end:], b)
	if n < len(b) {
		n += copy(s.ring, b[n:])
	}
	s.n += n
	s.reading.Broadcast()
	return n
}

// close notes that one side has closed its end; the other side's waits end.
func (s *stream) close(side *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*side = true
	if s.deaf {
		s.ring, s.n = nil, 0 // it has no reader any more
	}
	s.reading.end()
	s.writing.end()
}

// waiter is where one side of a stream waits, until its deadline. The mutex of the stream guards it.
type waiter struct {
	sync.Cond
	deadline time.Time // zero: none
	late     bool      // it has passed
	timer    *time.Timer
}

// set changes the deadline, also of a wait under way.
func (w *waiter) set(t time.Time) {
	w.L.Lock()
	defer w.L.Unlock()
	w.deadline = t
	left := time.Until(t)
	switch w.late = !t.IsZero() && left <= 0; {
	case w.late:
		w.Broadcast()
	case t.IsZero() && w.timer != nil:
		w.timer.Stop()
	case t.IsZero():
	case w.timer == nil:
		w.timer = time.AfterFunc(left, w.expire)
	default:
		w.timer.Reset(left)
	}
}

// expire runs at a deadline, which may have been changed since.
func (w *waiter) expire() {
	w.L.Lock()
	defer w.L.Unlock()
	if !w.deadline.IsZero() && time.Until(w.deadline) <= 0 {
		w.late = true
		w.Broadcast()
	}
}

// end wakes all that wait, and lets no timer outlive the connection; the mutex is held.
func (w *waiter) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.Broadcast()
}
