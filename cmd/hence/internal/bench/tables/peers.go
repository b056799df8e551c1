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
	"time"
)

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
	p.life++ // what is under way is for nobody
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
