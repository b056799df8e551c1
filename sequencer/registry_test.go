package sequencer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestRegistryFailsClosed fills random registries to between 95 and 105 per cent of what the rules allow. Whatever is
// announced, changed and withdrawn then, a plan commits on a tool only if the last word on its server that the log
// took has it as the plan knew it; a withdrawal is never refused, and late copies change nothing.
func TestRegistryFailsClosed(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(400) {
		d := &dice{seed*2654435761 + 1}
		g := newRegistryGame(t, d)
		for range 150 {
			g.step(reached)
		}
	}
	t.Log(reached)
	for _, key := range []string{"registered", "refused", "withdrawn", "withdrawn while full", "late", "commits",
		"phantom after a refusal", "phantom after a withdrawal", "changed while full"} {
		if reached[key] == 0 {
			t.Errorf("no registry came to %q", key)
		}
	}
}

// registryGame is a fold with a few sidecars and what their registries must be.
type registryGame struct {
	t      *testing.T
	d      *dice
	f      *sequencer.Fold
	offset int64
	agents []sequencer.Seq // incarnations
	said   map[string]*saidServer
	copies []*sequencer.Intent
	plans  int
}

// saidServer is what a sidecar has said of a server, and what counts of it.
type saidServer struct {
	generation uint64
	signature  string // of its one tool; empty: none counts
	refused    bool
}

func newRegistryGame(t *testing.T, d *dice) *registryGame {
	g := &registryGame{t: t, d: d, f: sequencer.New("ws"), said: map[string]*saidServer{}}
	for i := range 2 {
		o := g.apply(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: fmt.Sprint("a", i),
			Join: &sequencer.Join{ID: fmt.Sprint("j", i), Logic: sequencer.Logic}})
		g.agents = append(g.agents, o.Seq)
	}
	r := sequencer.DefaultRules()
	r.Version, r.Logic, r.MaxBytes, r.MaxInline, r.MaxInlineTotal, r.MaxKept = 1, sequencer.Logic, 900, 0, 0, 12_000
	g.apply(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r})
	for i := range 5 { // 3,000 bytes are allowed, 57 for each server's name
		g.register(i%2, fmt.Sprint("s", i), 440+d.n(60)) // five of 570 to 630: 95 to 105 per cent
	}
	return g
}

// apply gives the fold a record and returns what it was answered with; nothing is the zero outcome.
func (g *registryGame) apply(in *sequencer.Intent) sequencer.Outcome {
	g.t.Helper()
	step, err := g.f.Step(g.offset, in)
	if err != nil {
		g.t.Fatal(err)
	}
	g.offset++
	if len(step.Outcomes) == 0 {
		return sequencer.Outcome{}
	}
	return step.Outcomes[0]
}

func (g *registryGame) entry(agent int, server string) *saidServer {
	key := fmt.Sprint(agent, server)
	if g.said[key] == nil {
		g.said[key] = &saidServer{}
	}
	return g.said[key]
}

// register announces one tool with a signature of so many bytes.
func (g *registryGame) register(agent int, server string, bytes int) sequencer.Outcome {
	g.t.Helper()
	s := g.entry(agent, server)
	s.generation++
	g.plans++
	signature := fmt.Sprint("v", g.plans, strings.Repeat("x", bytes))
	in := &sequencer.Intent{Kind: sequencer.IntentRegister, Agent: fmt.Sprint("a", agent), Incarnation: g.agents[agent],
		Register: &sequencer.Register{Server: server, Generation: s.generation,
			Tools: []sequencer.Tool{{Name: "t", Signature: signature}}}}
	g.copies = append(g.copies, in)
	o := g.apply(in)
	if s.signature, s.refused = signature, o.Kind == sequencer.OutcomeRefused; s.refused {
		s.signature = ""
	}
	return o
}

// plan seals a transaction that pins a server's tool, and holds what comes of it to what counts.
func (g *registryGame) plan(agent int, server, signature string, reached map[string]int) {
	g.t.Helper()
	s := g.entry(agent, server)
	g.plans++
	o := g.apply(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: sequencer.TxID(fmt.Sprint("T", g.plans)), N: 1,
		Agent: fmt.Sprint("a", agent), Incarnation: g.agents[agent], Base: g.f.Seq(), Seal: &sequencer.Seal{
			Pins: []sequencer.Pin{{Server: server, Name: "t", Signature: signature}}}})
	committed := o.Kind == sequencer.OutcomeCommitted
	if want := s.signature != "" && s.signature == signature; committed != want {
		g.t.Fatalf("a plan on %s of sidecar %d: %s %s, what counts is %.12q, refused %v", server, agent, o.Kind, o.Code,
			s.signature, s.refused)
	}
	switch {
	case committed:
		reached["commits"]++
	case s.refused:
		reached["phantom after a refusal"]++
	default:
		reached["phantom after a withdrawal"]++
	}
}

func (g *registryGame) step(reached map[string]int) {
	g.t.Helper()
	agent, server := g.d.n(2), fmt.Sprint("s", g.d.n(7))
	s := g.entry(agent, server)
	former := s.signature
	switch g.d.n(5) {
	case 0, 1:
		full := former != ""
		if o := g.register(agent, server, 300+g.d.n(300)); o.Kind == sequencer.OutcomeRefused {
			reached["refused"]++
			if full {
				reached["changed while full"]++
			}
			if former == "" {
				former = fmt.Sprint("v", g.plans)
			}
		} else {
			reached["registered"]++
			g.plan(agent, server, s.signature, reached)
		}
	case 2:
		s.generation++
		in := &sequencer.Intent{Kind: sequencer.IntentUnregister, Agent: fmt.Sprint("a", agent),
			Incarnation: g.agents[agent], Register: &sequencer.Register{Server: server, Generation: s.generation}}
		if o := g.apply(in); o.Kind != sequencer.OutcomeUnregistered {
			g.t.Fatalf("a withdrawal of %s: %s %s", server, o.Kind, o.Code)
		}
		reached["withdrawn"]++
		if s.refused {
			reached["withdrawn while full"]++
		}
		s.signature, s.refused = "", false
	case 3:
		if o := g.apply(g.copies[g.d.n(len(g.copies))]); o.Kind != 0 && o.Kind != sequencer.OutcomeRefused {
			g.t.Fatalf("a late copy: %s of %s", o.Kind, o.Server)
		}
		reached["late"]++
	}
	if former != "" {
		g.plan(agent, server, former, reached)
	}
}
