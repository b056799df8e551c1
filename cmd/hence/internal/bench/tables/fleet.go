package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// Fleets is a ground that starts parts of Hence as processes of their own.
type Fleets interface {
	// Fleet starts servers of their own, which stay until the fleet is closed.
	Fleet(ctx context.Context) (Fleet, error)
}

// Fleet is parts over the same servers and of one workspace. Each row closes its own.
type Fleet interface {
	// Processor starts one, in a group: a, or b, which does the same once more.
	Processor(ctx context.Context, group string) (Part, error)
	// Sidecar starts one with a folder, an agent and an S-Bus of its own, and with flags beside those.
	Sidecar(ctx context.Context, flags ...string) (Part, error)
	// Whole starts all in one process, servers too, which keeps what it has in a folder or in memory.
	Whole(ctx context.Context, folder bool) (Part, error)
	Close() error
}

// Part is one process, which is ready.
type Part interface {
	At() Node
	Kill() error                     // as kill -9 does; it is gone when this returns
	Start(ctx context.Context) error // again, where it was and with what it has on disk
}

// Node is where a part is.
type Node struct {
	PID int32
	URL string // of its health and metrics; of a sidecar, of its interface
	Bus string // of a sidecar: where clients of S-Bus are served
}

// onFleet measures on processes of Hence.
func onFleet[T any](ctx context.Context, e *Env, measure func(context.Context, Fleet) (T, error)) (out T, err error) {
	fleets, has := e.Ground.(Fleets)
	if !has {
		return out, errors.New("this ground starts no processes")
	}
	f, err := fleets.Fleet(ctx)
	if err != nil {
		return out, fmt.Errorf("start processes: %w", err)
	}
	out, err = measure(ctx, f)
	return out, errors.Join(err, f.Close())
}

// besideFleets is beside with nodes that are killed, of Hence and of stores.
func besideFleets[T any](ctx context.Context, e *Env, stores []*peers, measure func(context.Context, Fleet) (T, error),
) (ours T, theirs []T, err error) {
	if ours, err = onFleet(ctx, e, measure); err != nil {
		return ours, nil, fmt.Errorf("on Hence: %w", err)
	}
	for _, p := range stores {
		got, err := measure(ctx, p)
		if err = errors.Join(err, p.Close()); err != nil {
			return ours, nil, fmt.Errorf("on a store: %w", err)
		}
		theirs = append(theirs, got)
	}
	return ours, theirs, nil
}

// sidecars starts a processor and so many sidecars.
func sidecars(ctx context.Context, f Fleet, n int, flags ...string) (all []Part, err error) {
	if _, err = f.Processor(ctx, "a"); err != nil {
		return nil, err
	}
	for range n {
		one, err := f.Sidecar(ctx, flags...)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// busesOf are clients of the S-Bus of nodes.
func busesOf(parts ...Part) (all []*bus) {
	for _, p := range parts {
		all = append(all, newBus(p.At().Bus))
	}
	return all
}

// What peers still have of their shards when one of them is killed.
const (
	keepsAll     = iota // each write is at another node before it is answered
	keepsCommits        // a log has each commit, and no create
	keepsNothing        // they are in the memory of the one that dies
)

// peers are nodes of one store in memory that die as processes do: what they had is gone, unless they keep it. What a
// name was given is at its node at once, and elsewhere only later.
type peers struct {
	rule  rule
	keeps int
	lag   time.Duration // until what a name was given is elsewhere; zero: it is before the answer; negative: it never is

	mu     sync.Mutex
	store  *store
	copied map[string]map[string]uint64 // by name and key: what is elsewhere
	all    []*peer
}

// peer is one of them.
type peer struct {
	of     *peers
	at     Node
	number int
	life   int // how often it was started
	server *http.Server
	ended  chan struct{}
}

// Processor is part of Fleet: a store decides by itself.
func (p *peers) Processor(context.Context, string) (Part, error) { return &peer{of: p}, nil }

// Whole is part of Fleet.
func (p *peers) Whole(ctx context.Context, _ bool) (Part, error) { return p.Sidecar(ctx) }

// Sidecar is part of Fleet.
func (p *peers) Sidecar(ctx context.Context, _ ...string) (Part, error) {
	p.mu.Lock()
	if p.store == nil {
		p.store = inMemory(p.rule)
		p.copied = map[string]map[string]uint64{}
	}
	one := &peer{of: p, number: len(p.all) + 1}
	p.all = append(p.all, one)
	p.mu.Unlock()
	return one, one.Start(ctx)
}

// Close is part of Fleet.
func (p *peers) Close() (err error) {
	for _, one := range p.all {
		err = errors.Join(err, one.Kill())
	}
	return err
}

// At is part of Part.
func (p *peer) At() Node { return p.at }

// Start is part of Part.
func (p *peer) Start(context.Context) error {
	if p.number == 0 {
		return nil
	}
	address := "localhost:"
	if p.at.Bus != "" {
		address = p.at.Bus[len("http://"):]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for a node: %w", err)
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.life++
	life := p.life
	p.at.Bus = "http://" + listener.Addr().String()
	p.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, life) })}
	p.ended = make(chan struct{})
	server, ended := p.server, p.ended
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it ends with the node
	}()
	return nil
}

// Kill is part of Part.
func (p *peer) Kill() error {
	if p.server == nil {
		return nil
	}
	p.of.mu.Lock()
	life := p.life
	p.life++ // what is under way belongs to the old life
	p.of.mu.Unlock()
	err := p.server.Close()
	<-p.ended
	p.server = nil
	s := p.of.store
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for own, given := range s.given {
		if name, is := strings.CutPrefix(own, p.prefix(life)); is && p.of.lag == 0 {
			p.of.copied[name] = maps.Clone(given)
		}
	}
	s.keeper.(*shelf).forget(func(version uint64) bool { // peers are over shards in memory only
		return p.of.keeps == keepsNothing || p.of.keeps == keepsCommits && version == 0
	})
	if err != nil {
		return fmt.Errorf("end a node: %w", err)
	}
	return nil
}

// answer lets the store answer, under names of this node's present life.
func (p *peer) answer(w http.ResponseWriter, r *http.Request, life int) {
	p.of.store.serveAs(w, r, func(name string) string {
		own := p.prefix(life) + name
		p.inherit(own, name)
		if r.Method == http.MethodGet && p.of.lag > 0 {
			time.AfterFunc(p.of.lag, func() { p.copy(own, name, life) })
		}
		return own
	})
}

// prefix is what begins the names of a life of this node.
func (p *peer) prefix(life int) string { return fmt.Sprint(p.number, "/", life, "/") }

// inherit lets a name have at this node what has come there from others.
func (p *peer) inherit(own, name string) {
	s := p.of.store
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[own] == nil && p.of.copied[name] != nil {
		s.given[own] = maps.Clone(p.of.copied[name])
	}
}

// copy carries what a name was given to the others, if the node still lives.
func (p *peer) copy(own, name string, life int) {
	s := p.of.store
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.life == life {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.of.copied[name] = maps.Clone(s.given[own])
	}
}

// Harms is a ground that serves a workspace at two nodes, of which a harm befalls the second.
type Harms interface {
	Harmed(ctx context.Context, harm *Harm) (Place, error)
}

// Harm befalls the way between a node and the log.
type Harm struct {
	mu    sync.Mutex
	cut   bool
	lost  sequencer.Scope
	conns map[net.Conn]struct{}
}

// Cut closes the node's connections to the servers and lets it make none, or lets it make them again.
func (h *Harm) Cut(cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = cut
	for conn := range h.conns {
		if cut {
			_ = conn.Close() // what it says is of no use
		}
	}
	h.conns = map[net.Conn]struct{}{}
}

// Lose lets no decision that writes a shard come to the node's view; empty: all come.
func (h *Harm) Lose(scope sequencer.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = scope
}

// Loses reports whether a decision is one that does not come.
func (h *Harm) Loses(o *sequencer.Outcome) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range o.Shards {
		if o.Shards[i].Scope == h.lost {
			return true
		}
	}
	return false
}

// Dial is a dialer for the node.
func (h *Harm) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context,
	string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.cut {
			_ = conn.Close() // it was never the node's
			return nil, fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
		}
		if h.conns == nil {
			h.conns = map[net.Conn]struct{}{}
		}
		h.conns[conn] = struct{}{}
		return conn, nil
	}
}

// writer commits to a shard of its own, each time all that it has written before and one word more.
type writer struct {
	bus *bus
	key string

	mu       sync.Mutex
	text     string
	accepted int           // in a row, as the shard's version counts
	refused  int           // answered, and not accepted
	broken   int           // not answered
	longest  time.Duration // that a commit was waited for
}

// write commits once. What is not answered may be written all the same: the shard is read again then.
func (w *writer) write(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	text := fmt.Sprint(w.text, " ", w.accepted)
	ok, err := w.bus.commit(ctx, w.key, w.key, text, uint64(w.accepted))
	w.longest = max(w.longest, time.Since(began))
	switch {
	case err != nil:
		w.broken++
		if now, err := w.bus.get(ctx, w.key, ""); err == nil && now.Content == text {
			w.text, w.accepted = text, w.accepted+1
		}
	case ok:
		w.text, w.accepted = text, w.accepted+1
	default:
		w.refused++
	}
}

// writersSum adds up writers.
func writersSum(all []*writer) (accepted, refused, broken int, longest time.Duration) {
	for _, w := range all {
		accepted, refused, broken = accepted+w.accepted, refused+w.refused, broken+w.broken
		longest = max(longest, w.longest)
	}
	return accepted, refused, broken, longest
}

// writersAt makes a writer for each node.
func writersAt(ctx context.Context, nodes []*bus) (all []*writer, err error) {
	for i, b := range nodes {
		w := &writer{bus: b, key: fmt.Sprint("writer", i)}
		if err := b.create(ctx, w.key); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// busy lets each writer commit again and again until the returned function ends that.
func busy(ctx context.Context, all ...*writer) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	for _, w := range all {
		done.Go(func() {
			for ctx.Err() == nil {
				w.write(context.WithoutCancel(ctx))
			}
		})
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// each lets each writer commit so many times.
func each(ctx context.Context, n int, all ...*writer) error {
	return together(len(all), func(i int) error {
		for range n {
			all[i].write(ctx)
		}
		return nil
	})
}

// missingAt counts the accepted commits that a reader does not find. It may be behind; a shard that it does not know
// has been lost.
func missingAt(ctx context.Context, reader *bus, all []*writer) (lost int, err error) {
	for _, w := range all {
		status, err := reader.ask(ctx, http.MethodGet, "/shard/"+w.key, nil, nil, http.StatusOK, http.StatusNotFound)
		var now shown
		if err == nil && status == http.StatusOK {
			now, err = reader.until(ctx, w.key, "", uint64(w.accepted))
		}
		if err != nil {
			return 0, err
		}
		lost += w.accepted - w.found(now)
	}
	return lost, nil
}

// found counts the accepted commits that a shard shows. One more may be there, which was not answered.
func (w *writer) found(now shown) (n int) {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(now.Content) {
		words[word] = true
	}
	for i := range w.accepted {
		if words[fmt.Sprint(i)] && now.Version >= uint64(w.accepted) {
			n++
		}
	}
	return n
}
