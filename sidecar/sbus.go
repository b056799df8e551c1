package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/llm"
	"github.com/hence-dev/hence/sidecar/sbus"
)

// SBus says how clients of S-Bus are served, on an address of their own.
type SBus struct {
	Listen string // host:port; empty: they are not
	Agent  string // whose conversations they are; empty: the one agent of the process
	Merge  bool   // commits that say that they only add are merged, not refused
	// MergeHook merges those of them that do not merge by regions, and all where Merge is not set; none by default.
	MergeHook Hook
	MaxDelta  int // bytes of a commit's content; zero: 2,000; negative: no bound but the workspace's
}

const defaultMaxDelta = 2000

// bus is the face of S-Bus.
type bus struct {
	listener net.Listener
	server   *http.Server
	face     *sbus.Face
}

// openBus opens the face of S-Bus where one is configured. Off loopback its requests carry the agent's token.
func (s *Sidecar) openBus() error {
	c := &s.config.SBus
	if c.Listen == "" {
		return nil
	}
	m := s.only
	if m == nil {
		m = s.members[c.Agent]
	} else if c.Agent != "" && c.Agent != m.Agent() {
		m = nil
	}
	if m == nil {
		return fmt.Errorf("the agent %q of the S-Bus interface is not served here: name one that is", c.Agent)
	}
	if err := CheckHook(c.MergeHook); err != nil {
		return fmt.Errorf("merge commits of S-Bus: %w", err)
	}
	var ask func(context.Context, []byte, int) ([]byte, error)
	if c.MergeHook.URL != "" || len(c.MergeHook.Command) > 0 {
		ask = c.MergeHook.Exchange
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen for S-Bus: %w", err)
	}
	s.bus.listener = listener
	at, ok := listener.Addr().(*net.TCPAddr)
	loopback := ok && at.IP.IsLoopback()
	token := ""
	if !loopback {
		token = m.Token()
	}
	most := c.MaxDelta
	if most == 0 {
		most = defaultMaxDelta
	}
	s.bus.face = sbus.New(sbus.Config{Shards: m.agent, Readers: m.agent, Resets: m.agent, Tokens: m.agent,
		Name: m.Agent(), URL: s.BusURL(), Token: token, Signs: s.signsFor(m.Agent()), Admin: loopback,
		Merge: c.Merge, Ask: ask, MaxDelta: max(0, most),
		WaitMost: s.config.Limits.WaitMost, Log: s.log})
	longest := s.longest()
	// A server writes to its TLS configuration when it begins to serve: the two listeners do not share one.
	s.bus.server = &http.Server{Handler: s.signed(s.busHandler(m, loopback)), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: longest, WriteTimeout: longest, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		TLSConfig: s.config.TLS.Clone(), ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	return nil
}

// busHandler also serves models, as S-Bus's proxy does: on loopback alone, as requests to models carry no token of
// ours.
func (s *Sidecar) busHandler(m *Member, loopback bool) http.Handler {
	if !loopback {
		return s.bus.face
	}
	if s.llm == nil {
		return fromHere(s.bus.face)
	}
	signs := s.signsFor(m.Agent())
	return fromHere(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guest := func() (*llm.Guest, error) {
			signed := api.SignedOf(r.Context())
			switch {
			case signed.Err != nil:
				return nil, signed.Err
			case signed.Key != "" && !signs(signed.Key):
				return nil, api.Problemf(api.CodeOtherAgent, "the key is not that of agent %s: sign with its key", m.Agent())
			case s.drain.Err() != nil:
				return nil, api.ErrStopped
			}
			return s.guestOf(m, m.Agent()), nil
		}
		if !s.llm.ServeBus(w, r, guest) {
			s.bus.face.ServeHTTP(w, r)
		}
	}))
}

// fromHere lets programs of this machine alone through: where no token is asked for, a page in a browser could else
// send requests, also under a name of its own that leads here.
func fromHere(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			// An image's GET has no Origin, and its read would count as one of the name in its address.
			http.Error(w, "this address is for programs of this machine: a page of another site sent this",
				http.StatusForbidden)
			return
		}
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if r.Header.Get("Origin") != "" || !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this address is for programs of this machine: no page of a browser, and no name but localhost or "+
				"a loopback address", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// BusURL is the base of the routes of S-Bus; empty: they are not served.
func (s *Sidecar) BusURL() string {
	if s.bus.listener == nil {
		return ""
	}
	scheme := "http://"
	if s.config.TLS != nil {
		scheme = "https://"
	}
	return scheme + s.bus.listener.Addr().String()
}

// BusClasses tells the classes of shards that clients of S-Bus commit to; nil: they are not served.
func (s *Sidecar) BusClasses() func() api.ShardClasses {
	if s.bus.face == nil {
		return nil
	}
	return s.bus.face.Classes
}

// serve answers until stop.
func (b *bus) serve(encrypted bool) error {
	serve := func() error { return b.server.Serve(b.listener) }
	if encrypted {
		serve = func() error { return b.server.ServeTLS(b.listener, "", "") }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve S-Bus: %w", err)
	}
	return nil
}

// stop lets running requests end as long as ctx lasts.
func (b *bus) stop(ctx context.Context) {
	if b.server != nil && b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
}

// close gives the listener back.
func (b *bus) close() error {
	if b.listener == nil {
		return nil
	}
	return b.listener.Close()
}
