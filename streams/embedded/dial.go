//go:build !slim

package embedded

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Bounds of connections.
const (
	dialIn   = 10 * time.Second // over the network, where the caller bounds it not
	readLast = time.Second      // a client reads what NATS has sent before its stop, or loses it
)

// Dial connects to a server: without a socket if the address is of one of these and it runs, else over the network.
// It is for streams.Config.Dial.
func (s *Servers) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	enter := s.entries[address]
	s.mu.Unlock()
	if enter != nil {
		if conn, err := enter(ctx); err == nil {
			return conn, nil
		}
		// It has stopped: the network says so in the words that clients know, or finds who has the port now.
	}
	d := net.Dialer{Timeout: dialIn}
	return d.DialContext(ctx, network, address)
}

// entry connects to a server without a socket. An error says that it has stopped.
type entry func(context.Context) (net.Conn, error)

// listener accepts connections from the network and from this process.
type listener struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	accept sync.WaitGroup
}

// listen is net.Listen for a server that this process can also enter.
func listen(network, address string) (*listener, error) {
	inner, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	l := &listener{Listener: inner, conns: make(chan net.Conn), closed: make(chan struct{})}
	l.accept.Go(func() {
		for {
			conn, err := inner.Accept()
			if err != nil {
				_ = l.Close() // the server ends, as it would without this listener
				return
			}
			if l.hand(context.Background(), conn) != nil {
				_ = conn.Close()
			}
		}
	})
	return l, nil
}

// hand waits until a connection is accepted.
func (l *listener) hand(ctx context.Context, conn net.Conn) error {
	select {
	case l.conns <- conn:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// enter is the entry of the listener's server.
func (l *listener) enter(ctx context.Context) (net.Conn, error) {
	theirs, ours := newPipe()
	if err := l.hand(ctx, theirs); err != nil {
		return nil, err
	}
	return ours, nil
}

// enterNATS is the entry of NATS. The server makes such connections itself, and they have no buffer: two copies stand
// between it and a pipe.
func (s *Servers) enterNATS(context.Context) (net.Conn, error) {
	// See StopNATS.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats == nil {
		return nil, net.ErrClosed
	}
	inner, err := s.nats.InProcessConn()
	if err != nil {
		return nil, err
	}
	theirs, ours := newPipe()
	// The copy to a client that reads nothing waits for it, and sees no end of the server.
	done := context.AfterFunc(s.runs, func() { _ = theirs.SetWriteDeadline(time.Now().Add(readLast)) })
	s.copies.Go(func() { carry(inner, theirs) })
	s.copies.Go(func() {
		defer done()
		carry(theirs, inner)
	})
	return ours, nil
}

// carry copies what comes from one connection to another until either ends, and ends both.
func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
