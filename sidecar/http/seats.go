package http

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// Seats are the agents of a process, and the tokens that name them.
type Seats struct {
	several bool
	join    func(name string) error // seats an agent that is not here; nil: those that are here are all

	joining sync.Mutex // held while an agent is seated at its first request: two requests seat it once

	mu     sync.Mutex
	places map[string]*place
	tokens map[[sha256.Size]byte]grant
	keys   map[string]grant // by the ids of keys that sign requests
}

// place is where an agent sits.
type place struct {
	*Seat
	requests int       // that are under way
	last     time.Time // when the last one ended
	leaving  bool
}

// grant is what a token or a key may do, and for whom.
type grant struct {
	agent string // empty: for the agent that the request names
	role  Role
	name  string // of who approves
}

// NewSeats has no agent yet. join, if there is one, seats an agent at its first request.
func NewSeats(several bool, join func(name string) error) *Seats {
	return &Seats{several: several, join: join, places: map[string]*place{}, tokens: map[[sha256.Size]byte]grant{},
		keys: map[string]grant{}}
}

// Grant lets a token act for an agent; for the one that a request names where agent is empty. A token that is another
// agent's already is refused: it would not say whose request it is.
func (s *Seats) Grant(agent, token string, role Role) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(token)) // what is compared says nothing of the token
	if had, ok := s.tokens[key]; ok && had.agent != agent {
		return fmt.Errorf("the token of %q is that of %q, too: give each agent its own, and the operator another", agent,
			had.agent)
	}
	if s.tokens[key].role == RoleApprover {
		return fmt.Errorf("the token of %q is an approver's, too: an agent must not approve its own calls", agent)
	}
	s.tokens[key] = grant{agent: agent, role: max(role, s.tokens[key].role)}
	return nil
}

// GrantApprover lets a person approve and deny calls, and do nothing else.
func (s *Seats) GrantApprover(name, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	if _, ok := s.tokens[key]; ok { // an agent would approve its own calls, or two people had one name
		return fmt.Errorf("the token of approver %q is used twice: give each approver a token of its own", name)
	}
	s.tokens[key] = grant{role: RoleApprover, name: name}
	return nil
}

// GrantKey lets what a key has signed act as the named one: an agent, or with another role for the agent that the
// request names; agent is that one where there is no other. A key is one name's: it would not say whose request it is.
func (s *Seats) GrantKey(id, agent, name string, role Role) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.keys[id]; ok {
		return fmt.Errorf("the key of %q is that of %q, too: give each its own", name, had.name)
	}
	s.keys[id] = grant{agent: agent, role: role, name: name}
	return nil
}

// Approver is part of Agents.
func (s *Seats) Approver(token, key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, _ := s.granted(token, key); g.role == RoleApprover {
		return g.name
	}
	return ""
}

// Signs reports whether a key is one by which an agent acts.
func (s *Seats) Signs(key, agent string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.keys[key]
	return g.role == RoleAgent && g.agent == agent
}

// granted is what a request may do by what it shows: a key that has signed it, else a token.
func (s *Seats) granted(token, key string) (g grant, known bool) {
	if key != "" {
		g, known = s.keys[key]
		return g, known
	}
	g, known = s.tokens[sha256.Sum256([]byte(token))]
	return g, known
}

// Add seats an agent.
func (s *Seats) Add(seat *Seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[seat.Name] = &place{Seat: seat, last: time.Now()}
}

// Remove takes an agent's seat, and the tokens that are its own.
func (s *Seats) Remove(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, agent)
	maps.DeleteFunc(s.tokens, func(_ [sha256.Size]byte, g grant) bool { return g.agent == agent })
}

// Idle marks the transient agents as leaving that had no request for so long, and returns their names. From then on
// they are not entered any more.
func (s *Seats) Idle(since time.Duration) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.places {
		if p.Transient && p.requests == 0 && !p.leaving && time.Since(p.last) >= since {
			p.leaving = true
			names = append(names, name)
		}
	}
	return names
}

// All is part of Agents.
func (s *Seats) All() (all []*Seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.places)) {
		all = append(all, s.places[name].Seat)
	}
	return all
}

// Several is part of Agents.
func (s *Seats) Several() bool { return s.several }

// Enter is part of Agents.
func (s *Seats) Enter(a Asking) (*Seat, Role, func(), error) {
	s.mu.Lock()
	g, known := s.granted(a.Token, a.Key)
	s.mu.Unlock()
	if !known {
		return nil, RoleNone, nil, nil
	}
	name, err := s.named(g, a)
	if err != nil {
		return nil, g.role, nil, err
	}
	seat, leave, err := s.sit(name)
	// A token that names an agent is gone with it; a key stays the agent's.
	joins := s.join != nil && g.role != RoleApprover && (g.agent == "" || a.Key != "")
	if seat == nil && err == nil && joins {
		if err = s.joined(name); err == nil {
			if seat, leave, err = s.sit(name); seat != nil {
				seat.opening()
			}
		}
	}
	if seat == nil && err == nil {
		err = api.Problemf(api.CodeNotFound, "agent %.70q is not served here", name)
	}
	return seat, g.role, leave, err
}

// named is the agent that a request is of, whether it is here or not.
func (s *Seats) named(g grant, a Asking) (string, error) {
	switch {
	case g.agent != "" && a.Name != "" && a.Name != g.agent: // a token names its agent: the header cannot name another
		return "", api.Problemf(api.CodeOtherAgent, "the %s is that of agent %s, and Hence-Agent says %.70q: leave the "+
			"header out, or send that agent's %[1]s", a.shown(), g.agent, a.Name)
	case g.agent != "":
		return g.agent, nil
	case a.Name != "":
		return a.Name, nil
	}
	owner, _, _, _ := api.OwnerOf(sequencer.TxID(a.Tx))
	staying, here := s.staying(owner)
	if here {
		return owner, nil
	}
	if a.Acts { // it would be done in the name of an agent that the request does not name
		return "", api.Problemf(api.CodeBadRequest, "this sidecar serves several agents, and the token is none's: say with "+
			"the header Hence-Agent whose request it is")
	}
	for _, seat := range staying { // asked without the lock: one whose disk hangs answers late, and holds up no other
		if standing := seat.Health(); standing.Serves() {
			return seat.Name, nil
		}
	}
	if len(staying) == 0 { // of a sidecar for any agent: none has sent a request yet, or all have left
		return "", api.Problemf(api.CodeNotReady, "no agent is here yet: send the header Hence-Agent, and its agent joins")
	}
	return "", api.Problemf(api.CodeNotReady, "no agent of this sidecar is ready to answer: GET /readyz says why")
}

// staying are the agents that are not leaving, by name; here: one of that name has a seat.
func (s *Seats) staying(name string) (all []*Seat, here bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range slices.Sorted(maps.Keys(s.places)) {
		if p := s.places[one]; !p.leaving {
			all = append(all, p.Seat)
		}
	}
	return all, s.places[name] != nil
}

// sit enters an agent's seat; nil: it is not here.
func (s *Seats) sit(name string) (*Seat, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[name]
	switch {
	case p == nil:
		return nil, nil, nil
	case p.leaving: // its journal is being closed: the next request seats it again
		return nil, nil, api.Problemf(api.CodeNotReady, "agent %s leaves after its idle time: ask again", name)
	}
	p.requests++
	return p.Seat, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.requests--
		p.last = time.Now()
	}, nil
}

// openWait is how long the request that seats an agent waits for its journal.
const openWait = 3 * time.Second

func (s *Seat) opening() {
	timer := time.NewTimer(openWait)
	defer timer.Stop()
	select {
	case <-s.Opened:
	case <-timer.C:
	}
}

// joined seats an agent unless another request has done so meanwhile.
func (s *Seats) joined(name string) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	s.mu.Lock()
	here := s.places[name] != nil
	s.mu.Unlock()
	if here {
		return nil
	}
	return s.join(name)
}
