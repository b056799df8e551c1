package hostile

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// Log is the records that lead up to a large one, and the fold that has them.
type Log struct {
	Records []*sequencer.Intent
	err     error // the first one: of a record that the fold did not take

	fold     *sequencer.Fold
	logic    uint32
	wide     bool // under the widest rules
	longs    *longs
	live     map[string]sequencer.Seq // incarnation by agent
	rules    sequencer.Rules
	numbered map[string]uint32
}

// longs are the lengths of the longest names that the fold takes, in bytes.
type longs struct {
	letter                                       string // of names: one that JSON escapes, if the fold takes it
	tx, group, agent, join, server, tool, effect int
}

func newLog(logic uint32, wide bool, names *longs) *Log {
	return &Log{fold: sequencer.New("ws"), logic: logic, wide: wide, longs: names, live: map[string]sequencer.Seq{},
		rules: sequencer.DefaultRules(), numbered: map[string]uint32{}}
}

// give appends a record that the fold has to take.
func (l *Log) give(in *sequencer.Intent) []sequencer.Outcome {
	step, err := l.fold.Step(int64(len(l.Records)), in)
	if l.err == nil && (err != nil || step.Ignored) {
		l.err = fmt.Errorf("record %d, %s: ignored %v, %w", len(l.Records), in.Kind, step.Ignored, err)
	}
	l.Records = append(l.Records, in)
	return step.Outcomes
}

// must is give for a record that makes an outcome of a kind.
func (l *Log) must(kind sequencer.OutcomeKind, in *sequencer.Intent) sequencer.Outcome {
	out := l.give(in)
	for _, o := range out {
		if o.Kind == kind {
			return o
		}
	}
	said := ""
	if len(out) > 0 {
		said = fmt.Sprintf("%s %s %s", out[0].Kind, out[0].Code, out[0].Detail)
	}
	if l.err == nil {
		l.err = fmt.Errorf("record %d, %s of %.40q, makes no %s but %d outcomes: %s", len(l.Records)-1, in.Kind, in.Tx,
			kind, len(out), said)
	}
	return sequencer.Outcome{}
}

// join makes a sidecar.
func (l *Log) join(agent string) {
	o := l.must(sequencer.OutcomeJoined, &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent,
		Join: &sequencer.Join{ID: "join-" + agent, Logic: l.logic}})
	if l.live[agent] = o.Incarnation; o.Rules != nil {
		l.rules = *o.Rules
	}
	if l.wide && l.rules.Version == 0 {
		l.change(l.widen)
	}
}

// widen makes the rules that allow the largest footprints and the most of them, as far as the fold takes such.
func (l *Log) widen(r *sequencer.Rules) {
	r.MaxSidecars, r.MaxInline, r.MaxInlineTotal = 4, 16_000, 16_000
	for _, cap := range []struct {
		of   *uint32
		most uint32
	}{{&r.MaxKept, 1 << 20}, {&r.MaxScopes, 4096}, {&r.MaxOpen, 1 << 16}, {&r.MaxBytes, 1 << 20}} {
		least := *cap.of
		*cap.of = least + uint32(sort.Search(int(cap.most-least), func(n int) bool {
			*cap.of = least + uint32(n) + 1
			return !l.takes(*r)
		}))
	}
}

// takes says whether the fold takes rules now.
func (l *Log) takes(r sequencer.Rules) bool {
	f, err := sequencer.Restore(l.fold.State())
	if err != nil {
		return false
	}
	step, err := f.Step(int64(len(l.Records)), &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r})
	return err == nil && len(step.Outcomes) > 0 && step.Outcomes[0].Kind == sequencer.OutcomeRules
}

// scopes is how many scopes a footprint may have.
func (l *Log) scopes() int { return int(l.rules.MaxScopes) }

// width is how long the scopes of a footprint may be that has as many as it may.
func (l *Log) width() int {
	return min(sequencer.MaxScopeBytes, (int(l.rules.MaxBytes)-2048)/l.scopes()-4)
}

// reach is width for what no footprint bounds, but the bytes that the workspace keeps of what is open.
func (l *Log) reach() int {
	return min(sequencer.MaxScopeBytes, (int(l.rules.MaxKept)/2-2048)/l.scopes()-8)
}

// transactions is how many can be open.
func (l *Log) transactions() int { return min(int(l.rules.MaxOpen), int(l.rules.MaxKept)/2/320) }

// by is an intent of an agent about a transaction.
func (l *Log) by(agent string, kind sequencer.IntentKind, tx sequencer.TxID) *sequencer.Intent {
	key := fmt.Sprint(l.live[agent], kind, tx)
	l.numbered[key]++
	return &sequencer.Intent{Kind: kind, Tx: tx, N: l.numbered[key], Agent: agent, Incarnation: l.live[agent],
		Base: l.fold.Seq(), Signer: strings.Repeat("k", signerBytes)}
}

// signerBytes is how long the name of a key may be.
const signerBytes = 64

// open begins a transaction.
func (l *Log) open(agent string, tx sequencer.TxID, b sequencer.Begin) {
	in := l.by(agent, sequencer.IntentBegin, tx)
	in.Begin = &b
	l.must(sequencer.OutcomeBegun, in)
}

// touch is a touch for writing.
func (l *Log) touch(agent string, tx sequencer.TxID, scopes ...sequencer.Scope) *sequencer.Intent {
	in := l.by(agent, sequencer.IntentTouch, tx)
	in.Touch = &sequencer.Touch{Wants: wants(scopes)}
	return in
}

func (l *Log) seal(agent string, tx sequencer.TxID, s sequencer.Seal) *sequencer.Intent {
	in := l.by(agent, sequencer.IntentSeal, tx)
	in.Seal = &s
	return in
}

// settle is a settlement that says of each scope, one by one, what became of it.
func (l *Log) settle(agent string, tx sequencer.TxID, result sequencer.Result, scopes []sequencer.Scope,
) *sequencer.Intent {
	in := l.by(agent, sequencer.IntentSettle, tx)
	in.Settle = &sequencer.Settle{}
	for i, s := range scopes {
		in.Settle.Effects = append(in.Settle.Effects, sequencer.Settled{Index: uint32(i), Scopes: []sequencer.Scope{s},
			Result: result})
	}
	return in
}

// tick is the next tick, or several of them.
func (l *Log) tick(n int) {
	for range n {
		next, _ := l.fold.NextTick()
		l.give(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &next})
	}
}

// renew renews the lease of an agent.
func (l *Log) renew(agent string) {
	in := l.by(agent, sequencer.IntentWatermark, "")
	in.Watermark = &sequencer.Watermark{Seq: 1}
	l.give(in)
}

// change changes the rules.
func (l *Log) change(change func(*sequencer.Rules)) {
	l.rules.Version++
	change(&l.rules)
	r := l.rules
	l.must(sequencer.OutcomeRules, &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r})
}

// gated is a seal of an effect that is released after the commit.
func gated(scopes ...sequencer.Scope) sequencer.Seal {
	return sequencer.Seal{Effects: []sequencer.Effect{{Class: sequencer.ClassIrreversible, Scopes: scopes, Tool: "t"}}}
}

func wants(scopes []sequencer.Scope) []sequencer.Want {
	out := make([]sequencer.Want, len(scopes))
	for i, s := range scopes {
		out[i] = sequencer.Want{Scope: s, Access: sequencer.WriteAccess}
	}
	return out
}

// scopesOf are n scopes of so many bytes.
func scopesOf(kind string, n, bytes int) []sequencer.Scope {
	out := make([]sequencer.Scope, n)
	for i := range out {
		s := fmt.Sprintf("%s:/%d/", kind, i)
		out[i] = sequencer.Scope(s + text("x", max(1, bytes-len(s))))
	}
	return out
}

// long is a name of so many bytes that begins with another one.
func (l *Log) long(name string, bytes int) string {
	return name + text(l.longs.letter, bytes-len(name))
}

// measure finds the lengths of the longest names.
func measure(logic uint32) *longs {
	for _, letter := range []string{"\x01", "n"} {
		if m := measureOf(logic, letter); m.tx > 1 {
			return m
		}
	}
	return &longs{letter: "n"}
}

func measureOf(logic uint32, letter string) *longs {
	m := &longs{letter: letter}
	find := func(make func(l *Log, name string) *sequencer.Intent) int {
		// The smallest length that is refused, less one.
		return sort.Search(maxNameBytes, func(n int) bool {
			l := newLog(logic, false, m)
			l.join("p")
			step, err := l.fold.Step(1, make(l, text(letter, n+1)))
			return err != nil || len(step.Outcomes) == 0 || step.Outcomes[0].Kind == sequencer.OutcomeRefused
		})
	}
	m.tx = find(func(l *Log, name string) *sequencer.Intent {
		return l.seal("p", sequencer.TxID(name), sequencer.Seal{})
	})
	m.group = find(func(l *Log, name string) *sequencer.Intent {
		in := l.by("p", sequencer.IntentBegin, "t")
		in.Begin = &sequencer.Begin{Group: name}
		return in
	})
	m.agent = find(func(_ *Log, name string) *sequencer.Intent {
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: name, Join: &sequencer.Join{ID: "j", Logic: logic}}
	})
	m.join = find(func(_ *Log, name string) *sequencer.Intent {
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "q", Join: &sequencer.Join{ID: name, Logic: logic}}
	})
	m.server = find(func(l *Log, name string) *sequencer.Intent {
		in := l.by("p", sequencer.IntentRegister, "")
		in.Register = &sequencer.Register{Server: name, Generation: 1}
		return in
	})
	m.tool = find(func(l *Log, name string) *sequencer.Intent {
		in := l.by("p", sequencer.IntentRegister, "")
		in.Register = &sequencer.Register{Server: "s", Generation: 1, Tools: []sequencer.Tool{{Name: name}}}
		return in
	})
	m.effect = find(func(l *Log, name string) *sequencer.Intent {
		s := gated("doc:/a")
		s.Effects[0].Tool = name
		return l.seal("p", "t", s)
	})
	return m
}
