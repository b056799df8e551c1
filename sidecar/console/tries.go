package console

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// The bounds of wrong tokens. Addresses beyond those that are remembered push out the one that began first.
const (
	maxTries     = 20 // in one window, of one address
	triesWindow  = time.Minute
	maxAddresses = 1024
)

// tries counts wrong tokens by address, in windows that begin with the first one. Its user locks it.
type tries struct{ by map[string]*counted }

type counted struct {
	began time.Time
	n     int
}

// tooManyTries is the error of an address that has to wait.
type tooManyTries struct{ wait time.Duration }

func (e *tooManyTries) Error() string { return fmt.Sprintf("too many wrong tokens: wait %s", e.wait) }

// wait is how long an address is turned away; zero: it is not.
func (t *tries) wait(address string, now time.Time) time.Duration {
	c := t.by[address]
	if c == nil || c.n < maxTries {
		return 0
	}
	return max(0, c.began.Add(triesWindow).Sub(now))
}

// count notes a wrong token.
func (t *tries) count(address string, now time.Time) {
	c := t.by[address]
	if c == nil {
		t.prune(now)
		c = &counted{began: now}
		t.by[address] = c
	}
	if now.Sub(c.began) >= triesWindow {
		*c = counted{began: now}
	}
	c.n++
}

// prune drops windows that are over, and the oldest one if there are too many.
func (t *tries) prune(now time.Time) {
	if t.by == nil {
		t.by = map[string]*counted{}
	}
	if len(t.by) < maxAddresses {
		return
	}
	oldest := ""
	for address, c := range t.by {
		if now.Sub(c.began) >= triesWindow {
			delete(t.by, address)
		} else if oldest == "" || c.began.Before(t.by[oldest].began) {
			oldest = address
		}
	}
	if len(t.by) >= maxAddresses {
		delete(t.by, oldest)
	}
}

// addressOf is where a request comes from, as far as its connection says: what a header says anybody can write. Of an
// IPv6 address it is the /64, which one host may have all of.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if at = at.Unmap().WithZone(""); at.Is6() {
		if net, err := at.Prefix(64); err == nil {
			return net.String()
		}
	}
	return at.String()
}
