package streams

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// NATSAway says what is wrong with the connection to NATS.
func (c Config) NATSAway(conn *nats.Conn) error {
	switch {
	case conn == nil:
		return nil
	case conn.IsConnected():
		return nil
	case conn.LastError() != nil:
		return fmt.Errorf("NATS at %s is %s: %w", c.NATS, conn.Status(), conn.LastError())
	}
	return fmt.Errorf("NATS at %s does not answer: it is %s", c.NATS, conn.Status())
}

const (
	natsReconnect = 100 * time.Millisecond
	// A server that does not read, or does not answer so many pings, is left for another one: as the library is set,
	// after minutes.
	natsWrite    = 2 * time.Second
	natsPing     = 5 * time.Second
	natsPingsOut = 2
)

// DialNATS connects in the background and for ever; an empty URL is no connection at all. changed is told when the
// connection comes and goes: to ask it takes a lock that it holds for seconds while it dials.
func (c Config) DialNATS(changed func(connected bool)) (*nats.Conn, error) {
	if c.NATS == "" {
		return nil, nil
	}
	notify := func(*nats.Conn) { changed(true) }
	opts, err := c.NATSAuth.options()
	if err != nil {
		return nil, fmt.Errorf("%w: NATS: %w", ErrConfig, err)
	}
	if c.Dial != nil {
		opts = append(opts, nats.SetCustomDialer(c.Dial))
	}
	conn, err := nats.Connect(c.NATS, append(opts, nats.Name("hence-"+c.Instance), nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), nats.MaxReconnects(-1), nats.ReconnectWait(natsReconnect),
		nats.ReconnectJitter(natsReconnect, natsReconnect),
		nats.FlusherTimeout(natsWrite), nats.PingInterval(natsPing), nats.MaxPingsOutstanding(natsPingsOut),
		nats.ConnectHandler(notify), nats.ReconnectHandler(notify),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { changed(false) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.Logger.Debug("NATS", "error", err) // a slow subscription shows as a gap, which Follow closes
		}))...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.NATS, err)
	}
	return conn, nil
}
