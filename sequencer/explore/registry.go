package explore

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// The sizes of the registry's world: one sidecar with two tool servers, and two plans, each with a tool of one server.
const (
	registryServers  = 2
	registryVersions = 3 // of a server's tools; 0: it has none
	maxGenerations   = 4 // of one server
)

// registryConfig is a configuration of the registry's world.
type registryConfig struct {
	kept    uint32                // MaxKept: catalogues and names of servers share a quarter of it
	bytes   [registryVersions]int // of each version's catalogue
	changes int                   // of the servers' tools
	late    int                   // records that arrive once more, or after a later one
}

// registryWorld is what the servers offer, what the log was told of it, and the plans.
type registryWorld struct {
	incarnation sequencer.Seq
	servers     [registryServers]toolServer
	plans       [registryServers]toolPlan
	changes     uint8
	late        uint8
}

type toolServer struct {
	has  uint8 // the version that it really offers
	seen uint8 // the version that the sidecar has announced last
	gen  uint8
	told uint8 // the generation of the newest announcement in the log
	kept bool  // which the log has not refused
	said [maxGenerations + 1]uint8
}

// toolPlan is a transaction that pins a tool.
type toolPlan struct {
	phase  phase
	pin    uint8 // version; zero: it has no plan yet
	judged bool
}

// newRegistry makes the registry's world.
func newRegistry(cfg registryConfig) *plain[registryWorld] {
	r := registry{cfg}
	return &plain[registryWorld]{
		name:  fmt.Sprintf("the registry, 2 servers x 2 transactions, %d bytes", cfg.kept/4),
		start: r.start, moves: r.moves, ended: func(s *spot[registryWorld]) {
			for i, p := range s.w.plans {
				if p.phase == phaseSealed {
					s.violate("%s waits for ever", planID(i))
				}
			}
		},
	}
}

type registry struct{ cfg registryConfig }

func (r registry) start(s *spot[registryWorld]) {
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = 1, sequencer.Logic
	rules.MaxBytes, rules.MaxInline, rules.MaxInlineTotal, rules.MaxKept = 1<<10, 1, 1, r.cfg.kept
	for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}) {
		if o.Kind != sequencer.OutcomeRules {
			s.violate("the rules are refused: %s", o.Detail)
		}
	}
	for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "a1",
		Join: &sequencer.Join{ID: "j1", Logic: sequencer.Logic}}) {
		s.w.incarnation = o.Incarnation
	}
	s.w.changes, s.w.late = uint8(r.cfg.changes), uint8(r.cfg.late)
}

func (r registry) moves(w *registryWorld) []move[registryWorld] {
	var out []move[registryWorld]
	add := func(idle bool, do func(*spot[registryWorld]), note string, args ...any) {
		out = append(out, move[registryWorld]{fmt.Sprintf(note, args...), idle, do})
	}
	for i := range w.servers {
		v := &w.servers[i]
		for next := uint8(0); next < registryVersions && w.changes > 0; next++ {
			if next != v.has {
				add(true, func(s *spot[registryWorld]) {
					s.w.changes--
					s.w.servers[i].has = next
				}, "server %d has version %d of its tools", i, next)
			}
		}
		if v.has != v.seen && v.gen < maxGenerations {
			add(false, func(s *spot[registryWorld]) { r.announce(s, i, true) }, "the sidecar announces server %d", i)
			if w.late > 0 {
				add(true, func(s *spot[registryWorld]) { r.announce(s, i, false) },
					"the sidecar announces server %d, and that is late", i)
			}
		}
		for gen := uint8(1); gen <= v.gen && w.late > 0; gen++ {
			add(true, func(s *spot[registryWorld]) {
				s.w.late--
				r.register(s, i, gen)
			}, "announcement %d of server %d arrives late", gen, i)
		}
	}
	for i := range w.plans {
		switch p := &w.plans[i]; {
		case p.phase == phaseNone && p.pin == 0 && w.servers[i].has > 0:
			add(true, func(s *spot[registryWorld]) { s.w.plans[i].pin = s.w.servers[i].has }, "%s is planned", planID(i))
		case p.phase == phaseNone && p.pin != 0:
			add(false, func(s *spot[registryWorld]) { r.seal(s, i) }, "%s is sealed", planID(i))
		case p.phase == phaseSealed && !p.judged:
			add(false, func(s *spot[registryWorld]) { r.judge(s, i) }, "the hook agrees to %s", planID(i))
		}
	}
	return out
}

// announce makes the next announcement of a server. One that is late reaches the log later, or never.
func (r registry) announce(s *spot[registryWorld], i int, now bool) {
	v := &s.w.servers[i]
	v.gen++
	v.seen, v.said[v.gen] = v.has, v.has
	if now {
		r.register(s, i, v.gen)
	}
}

// register puts an announcement into the log.
func (r registry) register(s *spot[registryWorld], i int, gen uint8) {
	v := &s.w.servers[i]
	in := &sequencer.Intent{Kind: sequencer.IntentUnregister, Agent: "a1", Incarnation: s.w.incarnation,
		Register: &sequencer.Register{Server: serverName(i), Generation: uint64(gen)}}
	if version := v.said[gen]; version > 0 {
		in.Kind = sequencer.IntentRegister
		in.Register.Tools = r.tools(i, version)
	}
	if gen > v.told {
		v.told, v.kept = gen, true
	}
	outcomes := s.log(in)
	for i := range outcomes {
		o := &outcomes[i]
		switch {
		case o.Kind != sequencer.OutcomeRefused:
		case in.Kind == sequencer.IntentUnregister:
			s.violate("a withdrawal is refused: %s: %s", o.Code, o.Detail)
		case o.Code != sequencer.CodeLimit:
			s.violate("an announcement is refused: %s: %s", o.Code, o.Detail)
		case gen == v.told:
			v.kept = false
		}
	}
	r.observe(s, outcomes)
}

// tools are one version of a server's tools: the one that plans pin, and one that fills the room.
func (r registry) tools(i int, version uint8) []sequencer.Tool {
	pay := sequencer.Tool{Name: "pay", Signature: signature(version)}
	fill := sequencer.Tool{Name: "z", Signature: serverName(i)}
	room := r.cfg.bytes[version] - 48 - 8 - len(pay.Name) - len(pay.Signature) - 8 - len(fill.Name) - len(fill.Signature)
	fill.Signature += strings.Repeat("x", max(0, room))
	return []sequencer.Tool{pay, fill}
}

func (r registry) seal(s *spot[registryWorld], i int) {
	p := &s.w.plans[i]
	p.phase = phaseSealed
	r.observe(s, s.log(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: planID(i), N: 1, Agent: "a1",
		Incarnation: s.w.incarnation, Base: s.fold.Seq(), Seal: planSeal(i, p.pin)}))
}

func (r registry) judge(s *spot[registryWorld], i int) {
	p := &s.w.plans[i]
	p.judged = true
	r.observe(s, s.log(&sequencer.Intent{Kind: sequencer.IntentVerdict, Tx: planID(i), N: 1, Agent: "a1",
		Incarnation: s.w.incarnation,
		Verdict:     &sequencer.Verdict{Footprint: planSeal(i, p.pin).Footprint(), Yes: true}}))
}

// observe holds decisions against what the log was told last of each server.
func (r registry) observe(s *spot[registryWorld], outcomes []sequencer.Outcome) {
	for k := range outcomes {
		o := &outcomes[k]
		for i := range s.w.plans {
			p, v := &s.w.plans[i], &s.w.servers[i]
			told := v.said[v.told]
			switch {
			case o.Tx != planID(i):
			case o.Kind == sequencer.OutcomeCommitted:
				p.phase = phaseFinalCommitted
				if told != p.pin {
					s.violate("%s commits with version %d of the tools of server %d; as of announcement %d it has version %d",
						o.Tx, p.pin, i, v.told, told)
				}
			case o.Kind == sequencer.OutcomeAborted:
				p.phase = phaseFinalAborted
				if o.Code != sequencer.CodePhantomTool || told == p.pin && v.kept {
					s.violate("%s is aborted: %s; the log was told of version %d of the tools of server %d, which it pins", o.Tx,
						o.Code, told, i)
				}
			case o.Kind == sequencer.OutcomeRefused:
				s.violate("an intent of %s is refused: %s: %s", o.Tx, o.Code, o.Detail)
			}
		}
	}
}

func planID(i int) sequencer.TxID { return sequencer.TxID(fmt.Sprintf("T%d", i+1)) }

func planSeal(i int, version uint8) *sequencer.Seal {
	return &sequencer.Seal{Hook: true,
		Pins: []sequencer.Pin{{Server: serverName(i), Name: "pay", Signature: signature(version)}}}
}

func serverName(i int) string { return [...]string{"s1", "s2"}[i] }

func signature(version uint8) string { return [...]string{"", "v1", "v2"}[version] }

// registryConfigs lists budgets from where nearly all fits to where hardly anything does.
func registryConfigs(changes, late int) []registryConfig {
	var out []registryConfig
	for _, kept := range []uint32{2400, 2520} { // 600 and 630 bytes
		out = append(out, registryConfig{kept: kept, bytes: [...]int{0, 230, 260}, changes: changes, late: late})
	}
	// The second catalogue leaves no room for the name of the other server.
	return append(out, registryConfig{kept: 2400, bytes: [...]int{0, 200, 490}, changes: changes, late: late})
}
