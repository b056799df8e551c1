package tables

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// serverRuns are the rows of one piece of work on several stores.
func serverRuns() map[string]run { return map[string]run{"S17": backends, "S18": oneLanguage} }

// coordinated is what runs of one size came to.
type coordinated struct {
	walls, requests             []float64 // ms of a run, and of a request
	commits, conflicts, corrupt int
	caught, probes              int // commits on a read that has moved: refused, of so many
}

// coordinate is one run as the published harness has it: agents that read three shards and write one, all one after
// the other. Nothing moves between a read and its commit there, so at its end one more commit has a read that moved.
func (c *coordinated) coordinate(ctx context.Context, b *bus, run string, agents int) error {
	const shards, steps = 3, 6
	keys, versions := make([]string, shards), make([]uint64, shards)
	for i := range keys {
		keys[i] = fmt.Sprint(run, "-", i)
	}
	if err := b.create(ctx, keys...); err != nil {
		return err
	}
	request := func(began time.Time) { c.requests = append(c.requests, milliseconds(time.Since(began))) }
	look := func(name string, keys ...string) error {
		for i, key := range keys {
			began := time.Now()
			got, err := b.get(ctx, key, name)
			if err != nil {
				return err
			}
			request(began)
			if got.Version != versions[i] {
				c.corrupt++
			}
		}
		return nil
	}
	write := func(name string, at int) (bool, error) {
		began := time.Now()
		done, err := b.commit(ctx, keys[at], name, "by "+name, versions[at])
		request(began)
		if done {
			versions[at]++
		}
		return done, err
	}
	began := time.Now()
	for range steps {
		for i := range agents {
			name := fmt.Sprint(run, "-agent-", i)
			if err := look(name, keys...); err != nil {
				return err
			}
			done, err := write(name, i%shards)
			if err != nil {
				return err
			}
			if done {
				c.commits++
			} else {
				c.conflicts++
			}
		}
	}
	c.walls = append(c.walls, milliseconds(time.Since(began)))
	late := run + "-late"
	if err := look(late, keys...); err != nil {
		return err
	}
	if _, err := write(run+"-other", 0); err != nil {
		return err
	}
	done, err := write(late, 1)
	if err != nil {
		return err
	}
	if c.probes++; !done {
		c.caught++
	}
	return look("", keys...) // each accepted commit is a version, and no other is
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// safe says whether all of so many runs went as they must.
func (c *coordinated) safe() bool {
	return c.commits > 0 && c.conflicts == 0 && c.corrupt == 0 && c.caught == c.probes && c.probes == len(c.walls)
}

// rate is commits a second of a run of so many commits, with half of its interval of 95 %.
func (c *coordinated) rate() (mean, half float64) {
	n := float64(len(c.walls))
	var all []float64
	for _, ms := range c.walls {
		all = append(all, float64(c.commits)/n/ms*1000)
		mean += all[len(all)-1] / n
	}
	for _, v := range all {
		half += (v - mean) * (v - mean)
	}
	const normal = 1.96
	return mean, normal * math.Sqrt(half/max(1, n-1)/n)
}

// sized is runs by their sizes.
type sized []*coordinated

// onServers makes the same runs on Hence, and on stores; says is how these make a commit durable.
func (e *Env) onServers(ctx context.Context, sizes []int, runs int, rules []rule) (ours sized, theirs []sized,
	says string, err error,
) {
	measure := func(b *bus) (all sized, err error) {
		for _, agents := range sizes {
			one := &coordinated{}
			for k := range runs {
				if err := one.coordinate(ctx, b, fmt.Sprintf("work-%d-%d", agents, k), agents); err != nil {
					return nil, err
				}
			}
			all = append(all, one)
		}
		return all, nil
	}
	own, err := e.hence(ctx, 1)
	if err != nil {
		return nil, nil, "", err
	}
	if ours, err = measure(own[0]); err != nil {
		return nil, nil, "", fmt.Errorf("on Hence: %w", err)
	}
	var words []string
	for _, r := range rules {
		b, setting, end, err := e.store(ctx, r)
		var got sized
		if err == nil {
			got, err = measure(b)
			end()
		}
		if err != nil {
			return nil, nil, "", fmt.Errorf("on %v: %w", r, err)
		}
		theirs = append(theirs, got)
		if setting != "" {
			words = append(words, setting)
		}
	}
	return ours, theirs, strings.Join(words, "; "), nil
}

// text shows runs, size by size.
func (s sized) text(show func(*coordinated) string) string {
	var words []string
	for _, one := range s {
		words = append(words, show(one))
	}
	return strings.Join(words, ", ")
}

// safe says whether all runs went as they must.
func (s sized) safe() bool {
	return !slices.ContainsFunc(s, func(c *coordinated) bool { return !c.safe() })
}

// counts are the commits, those that were refused, and those that were wrong.
func (s sized) counts() string {
	commits, conflicts, corrupt, missed := 0, 0, 0, 0
	for _, one := range s {
		commits, conflicts, corrupt = commits+one.commits, conflicts+one.conflicts, corrupt+one.corrupt
		missed += one.probes - one.caught
	}
	return fmt.Sprintf("%d commits, %d refused, %d corrupt, %d on a read that had moved", commits, conflicts, corrupt,
		missed)
}

func backends(ctx context.Context, e *Env) (Result, error) {
	sizes := []int{4, 8}
	if e.Full {
		sizes = []int{4, 8, 16, 32, 64}
	}
	rules := append([]rule{wholeStep}, e.Servers.rules()...)
	ours, theirs, says, err := e.onServers(ctx, sizes, e.of(1, 6), rules)
	if err != nil {
		return Result{}, err
	}
	plot := report.Plot{Title: "ms a run by agents"}
	tell := func(name string, s sized) string {
		line, requests := report.Line{Name: name}, []float64{}
		words := s.text(func(c *coordinated) string {
			line.X, line.Y = append(line.X, float64(sizes[len(line.X)])), append(line.Y, report.Quantile(c.walls, .5))
			requests = append(requests, c.requests...)
			return digits(report.Quantile(c.walls, .5))
		})
		plot.Lines = append(plot.Lines, line)
		slices.Sort(requests)
		return fmt.Sprintf("%s ms a run, %s ms a request", words, digits(report.Quantile(requests, .5)))
	}
	for _, s := range append([]sized{ours}, theirs...) {
		for _, one := range s {
			slices.Sort(one.walls)
		}
	}
	out := Result{Ours: tell("Hence", ours) + "; " + ours.counts(), Verdict: holds(ours.safe())}
	var words []string
	for i, s := range theirs {
		words = append(words, fmt.Sprintf("%v: %s; %s", rules[i], tell(rules[i].String(), s), s.counts()))
		if !s.safe() {
			out.Verdict = Missed
		}
	}
	out.Baseline, out.Plots = strings.Join(words, ". "), []report.Plot{plot}
	out.Note = fmt.Sprint(sizes, " agents; the work is done by one after the other, so no ") +
		"refusals are its shape, and times are those of requests: a commit on a moved read is added to each run. " +
		"What is durable stands side by side: Hence's embedded log, and " + says +
		"; one lock over all is in memory and keeps nothing"
	return out, nil
}

func oneLanguage(ctx context.Context, e *Env) (Result, error) {
	sizes, runs := []int{4, 8}, e.of(2, 20)
	if e.Full {
		sizes = []int{4, 8, 16}
	}
	rules := append([]rule{wholeStep}, e.Servers.rules()...)
	ours, theirs, says, err := e.onServers(ctx, sizes, runs, rules)
	if err != nil {
		return Result{}, err
	}
	rates := func(s sized) string {
		return s.text(func(c *coordinated) string {
			mean, half := c.rate()
			return digits(mean) + " ± " + digits(half)
		}) + " commits a second; " + s.counts()
	}
	out := Result{Ours: rates(ours), Verdict: holds(ours.safe())}
	var words []string
	for i, s := range theirs {
		words = append(words, fmt.Sprintf("%v: %s", rules[i], rates(s)))
		if !s.safe() {
			out.Verdict = Missed
		}
	}
	out.Baseline = strings.Join(words, ". ")
	out.Note = fmt.Sprint(sizes, " agents, one after the other; all stores are in Go over ") +
		"one HTTP layer, and Hence's face is Go. " + says + ". Which is faster decides nothing here"
	return out, nil
}

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
