package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// sink is what the tools of a test move: a list of what was done, in order. One key counts once.
type sink struct {
	mu      sync.Mutex
	done    []string          // "tool at", in the order in which it happened
	answers map[string]string // by key: what was done under it
	refuses map[string]bool   // keys that were compensated
	calls   int
	block   map[string]chan struct{} // calls of a tool wait until it is closed
	entered chan string              // one for each call that waits or hangs
	lose    map[string]int           // so many calls of a tool happen and are not answered
	hang    map[string]int           // so many calls of a tool happen and have no answer until they are broken off
	down    map[string]int           // so many calls of a tool do not happen and are not answered
	deny    map[string]bool          // a tool refuses
	away    map[string]bool          // a tool's service is not reached
	mute    bool                     // look-ups are not answered
}

func newSink() *sink {
	return &sink{answers: map[string]string{}, refuses: map[string]bool{}, block: map[string]chan struct{}{},
		entered: make(chan string, 64), lose: map[string]int{}, hang: map[string]int{}, down: map[string]int{},
		deny: map[string]bool{}, away: map[string]bool{}}
}

func (s *sink) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// world is everything that happened so far, in order.
func (s *sink) world() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.done)
}

func (s *sink) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := s.world(); !slices.Equal(got, want) {
		t.Errorf("the world saw %q, want %q", got, want)
	}
}

// Call does what a tool does.
func (s *sink) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	s.mu.Lock()
	gateway := s.block[c.Tool]
	s.mu.Unlock()
	if gateway != nil {
		s.entered <- c.Tool
		select {
		case <-gateway:
		case <-ctx.Done():
			return gate.Answer{}, gate.ErrUnknown
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var in struct{ At string }
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return gate.Answer{}, gate.ErrNotSent
	}
	text := c.Tool + " " + in.At
	switch {
	case s.away[c.Tool]:
		return gate.Answer{}, gate.ErrNotSent
	case s.down[c.Tool] > 0:
		s.down[c.Tool]--
		return gate.Answer{}, gate.ErrUnknown
	case s.deny[c.Tool]:
		return gate.Answer{Refused: true, Detail: "the sink says no"}, nil
	case c.Key != "" && s.refuses[c.Key]:
		return gate.Answer{Refused: true, AboutKey: true, Detail: "it was compensated"}, nil
	}
	if c.Compensates != "" {
		s.refuses[c.Compensates] = true
		if s.answers[c.Compensates] == "" {
			return gate.Answer{Absent: true}, nil
		}
	}
	if c.Key == "" || s.answers[c.Key] == "" {
		s.done = append(s.done, text)
		if c.Key != "" {
			s.answers[c.Key] = text
		}
	}
	if s.lose[c.Tool] > 0 {
		s.lose[c.Tool]--
		return gate.Answer{}, gate.ErrUnknown
	}
	if s.hang[c.Tool] > 0 {
		s.hang[c.Tool]--
		s.entered <- c.Tool
		s.mu.Unlock() // others are served meanwhile
		<-ctx.Done()
		s.mu.Lock()
		return gate.Answer{}, gate.ErrUnknown
	}
	return gate.Answer{Result: json.RawMessage(fmt.Sprintf("%q", text))}, nil
}

// LookUp says what became of a key.
func (s *sink) LookUp(_ context.Context, c gate.Call) (gate.Answer, error) {
	if c.Key == "" || strings.HasPrefix(c.Tool, "mail") {
		return gate.Answer{}, gate.ErrNoLookup
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		return gate.Answer{}, gate.ErrUnknown
	}
	return gate.Answer{Absent: s.answers[c.Key] == ""}, nil
}

// testTools is the policy of the tests: a tool's name says its class, "un" before it that its sink takes no key.
type testTools struct {
	sink    *sink
	maxTime time.Duration
	pins    bool
}

func (p *testTools) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	var in struct {
		At, Key string
		Ask     bool // a held call needs approval
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return gate.Tool{}, err
	}
	if in.At == "" {
		return gate.Tool{}, errors.New("argument at is missing")
	}
	name, plain := strings.CutPrefix(tool, "un")
	out := gate.Tool{Name: tool, Scopes: []sequencer.Scope{sequencer.Scope("thing:/" + in.At)}, Keyed: !plain,
		MaxTime: p.maxTime, Undo: true, Forbids: !plain,
		Retry: gate.Retry{Attempts: 3, Backoff: time.Millisecond, Most: 2 * time.Millisecond}}
	switch name {
	case "look":
		out.Class = sequencer.ClassRead
	case "set", "unset":
		out.Class, out.Cost = sequencer.ClassReversible, 1
	case "charge":
		out.Class = sequencer.ClassKnownOutcome
	case "stage":
		out.Class = sequencer.ClassBufferable
	case "mail":
		out.Class = sequencer.ClassIrreversible
		if out.Undo = false; !plain {
			out.Key = in.Key
		}
	default:
		return gate.Tool{}, fmt.Errorf("tool %q is not declared", tool)
	}
	out.Approve = in.Ask && out.Class.Gated()
	if p.pins {
		out.Pin = &sequencer.Pin{Server: "policy", Name: tool, Signature: "1"}
	}
	return out, nil
}

// Undo is the opposite of set.
func (p *testTools) Undo(e gate.Effect, _ gate.Answer) (gate.Call, error) {
	c := gate.Call{Tool: "back", Tx: e.Tx, Index: e.Index, Args: e.Args, Compensates: e.Key}
	if e.Key != "" {
		c.Key = e.Key + "/undo"
	}
	return c, nil
}

func (p *testTools) Adapter(string) (gate.Adapter, error) { return p.sink, nil }

// Catalogue is what the policy announces when it pins.
func (p *testTools) Catalogue() (string, []sequencer.Tool) {
	if !p.pins {
		return "policy", nil
	}
	var out []sequencer.Tool
	for _, name := range []string{"look", "mail", "set", "stage"} {
		out = append(out, sequencer.Tool{Name: name, Signature: "1"})
	}
	return "policy", out
}

// withTools gives a sidecar a policy over a sink.
func withTools(s *sink) func(*setup) {
	return func(c *setup) { c.Tools = &testTools{sink: s, maxTime: 2 * time.Second} }
}

type at struct {
	At  string `json:"at"`
	Key string `json:"key,omitempty"`
}
