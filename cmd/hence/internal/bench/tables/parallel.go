package tables

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// multiplexed is a proxy before a store that takes HTTP/2 without TLS, with a client that has one connection to it:
// what comes in over that one goes on in parallel. Conns counts the connections.
func multiplexed(ctx context.Context, at string) (front *bus, conns *atomic.Int64, err error) {
	to, err := url.Parse(at)
	if err != nil {
		return nil, nil, fmt.Errorf("read the address of a store: %w", err)
	}
	conns = new(atomic.Int64)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				conns.Add(1)
			}
		}}
	server.Protocols.SetUnencryptedHTTP2(true)
	if at, err = serveWith(ctx, server); err != nil {
		return nil, nil, err
	}
	two := &http.Transport{Protocols: new(http.Protocols)}
	two.Protocols.SetUnencryptedHTTP2(true)
	context.AfterFunc(ctx, two.CloseIdleConnections)
	front = &bus{url: at, http: &http.Client{Timeout: time.Minute, Transport: two}}
	_, err = front.ask(ctx, http.MethodGet, "/shard/none", nil, nil, http.StatusNotFound) // the connection is there
	return front, conns, err
}

// crowd is what many requests of one name at once came to, in rounds.
type crowd struct {
	rounds, fresh, late, mixed            int // by what the name was given: all current, nothing current, or both
	freshDone, lateDone, mixedDone, twice int // commits: twice are second ones at one version
	lost                                  int
}

// crowded lets one name send so many reads at once, and then so many commits of one shard at once. In a third of the
// rounds nothing moves, in one the shard moves when half of its reads are under way, in one after all of them.
func crowded(ctx context.Context, b, other *bus, run string, rounds, n int) (out crowd, err error) {
	for k := range rounds {
		name := fmt.Sprint(run, k)
		read, write := name+"-read", name+"-write"
		if err := other.create(ctx, read, write); err != nil {
			return out, err
		}
		version := uint64(0)
		move := func() error {
			done, err := other.commit(ctx, read, "other", "moved", version)
			if err == nil && !done {
				err = fmt.Errorf("the other one's commit at %d is refused", version)
			}
			version++
			return err
		}
		given, moved := make([]uint64, n), make(chan struct{})
		if err := together(n+1, func(i int) error {
			if i == n {
				defer close(moved)
				if k%3 == 1 {
					return move()
				}
				return nil
			}
			if i%2 == 0 {
				<-moved
			}
			got, err := b.get(ctx, read, name)
			given[i] = got.Version
			return err
		}); err != nil {
			return out, err
		}
		if k%3 == 2 {
			if err := move(); err != nil {
				return out, err
			}
		}
		var done atomic.Int64
		if err := together(n, func(int) error {
			ok, err := b.commit(ctx, write, name, "work", 0)
			if ok {
				done.Add(1)
			}
			return err
		}); err != nil {
			return out, err
		}
		last, err := other.get(ctx, write, "")
		if err != nil {
			return out, err
		}
		out.judge(given, version, int(done.Load()), int(last.Version))
	}
	return out, nil
}

// judge counts a round by what the name was given, what was current, and how many commits were accepted and are there.
func (c *crowd) judge(given []uint64, current uint64, done, there int) {
	c.rounds++
	if done != there {
		c.lost++
	}
	if done > 1 {
		c.twice++
	}
	was := 0
	for _, version := range given {
		if version == current {
			was++
		}
	}
	accepted := min(done, 1)
	switch was {
	case len(given):
		c.fresh, c.freshDone = c.fresh+1, c.freshDone+accepted
	case 0:
		c.late, c.lateDone = c.late+1, c.lateDone+accepted
	default:
		c.mixed, c.mixedDone = c.mixed+1, c.mixedDone+accepted
	}
}

// right says whether the store never accepted what was stale, nor refused what was not.
func (c crowd) right() bool {
	return c.twice == 0 && c.lost == 0 && c.lateDone == 0 && c.freshDone == c.fresh && c.fresh > 0 && c.late > 0
}

func (c crowd) String() string {
	return fmt.Sprintf("committed on reads that were all current %s, on none that was %s, on both %s",
		of(c.freshDone, c.fresh), of(c.lateDone, c.late), of(c.mixedDone, c.mixed))
}

func oneConnection(ctx context.Context, e *Env) (Result, error) {
	n, rounds := e.of(20, 100), e.of(6, 150)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	conns := int64(0)
	var mu sync.Mutex
	ours, theirs, err := beside(ctx, e, []rule{ownVersion, wholeStep}, func(ctx context.Context, b *bus) (out [2]crowd,
		err error) {
		front, opened, err := multiplexed(ctx, b.url)
		if err == nil {
			out[0], err = crowded(ctx, front, b, "two", rounds, n)
		}
		if err == nil {
			out[1], err = crowded(ctx, b, b, "one", rounds, n)
		}
		if err == nil {
			mu.Lock()
			conns = max(conns, opened.Load())
			mu.Unlock()
		}
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("%d requests at once over one connection of HTTP/2: %v; over one each: %v; %d second commits",
			n, ours[0], ours[1], ours[0].twice+ours[1].twice),
		Baseline: fmt.Sprintf("%v: %v; %v: %v", ownVersion, theirs[0][0], wholeStep, theirs[1][0]),
		Verdict:  holds(conns == 1 && ours[0].right() && ours[1].right() && !theirs[0][0].right()),
		Note: "HTTP/2 comes through a proxy in this process that sends on what it gets at once; of two answers that were " +
			"under way together the older one counts, so a commit on both may be refused, and none that has seen nothing " +
			"current is accepted"}, nil
}
