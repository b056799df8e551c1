package hostile

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// Case is the largest legal record of a kind, in one of the ways in which it can be large, in a state made for it.
type Case struct {
	Kind sequencer.IntentKind
	Name string                  // what is large about it
	Made []sequencer.OutcomeKind // what the step makes, among others

	// Sidecars says that it takes many of them.
	Sidecars bool

	// Waiters says that it is not the record that is of a size, nor what it decides, but the waiters that it wakes.
	Waiters bool

	make func(l *Log, share int) *sequencer.Intent
}

// String names the case.
func (c Case) String() string { return c.Kind.String() + "/" + c.Name }

// The shares of its full size that a case can be made in.
const (
	Half = 1
	Full = 2
)

// Make returns the log that leads up to the record, and the record. Where the record, or what it decides, is half as
// large the state before it is the same as far as that can be. An error says that the fold took none of what leads up
// to it.
func (c Case) Make(logic uint32, wide bool, share int) (before []*sequencer.Intent, last *sequencer.Intent,
	err error,
) {
	l := newLog(logic, wide, measure(logic))
	last = c.make(l, share)
	return l.Records, last, l.err
}

// agent is who sends the large record.
const agent = "ann"

// of is a share of a full number.
func of(share, full int) int { return full * share / Full }

// Largest are the cases, by kind.
func Largest() []Case {
	var out []Case
	add := func(kind sequencer.IntentKind, name string, make func(l *Log, share int) *sequencer.Intent,
		made ...sequencer.OutcomeKind,
	) {
		out = append(out, Case{Kind: kind, Name: name, Made: made, make: make})
	}
	largestOfSessions(add)
	largestOpening(add)
	largestSeals(add)
	largestEndings(add)
	largestOfGroups(add)
	largestOfTime(add)
	return append(out, waking()...)
}

type adder func(kind sequencer.IntentKind, name string, make func(l *Log, share int) *sequencer.Intent,
	made ...sequencer.OutcomeKind)

// crowdOf opens transactions until as many are open as the rules allow; of the first ones b says how they begin.
func crowdOf(l *Log, n int, b sequencer.Begin) {
	other := "bob"
	l.join(other)
	for i := range l.transactions() {
		if i < n {
			l.open(agent, sequencer.TxID(fmt.Sprintf("t%04d", i)), b)
		} else {
			l.open(other, sequencer.TxID(fmt.Sprintf("u%04d", i)), sequencer.Begin{Mode: b.Mode})
		}
	}
}

func largestOfSessions(add adder) {
	add(sequencer.IntentJoin, "longest names", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: l.long("x", of(share, l.longs.agent)),
			Join: &sequencer.Join{ID: l.long("j", of(share, l.longs.join)), Logic: l.logic}}
	}, sequencer.OutcomeJoined)
	add(sequencer.IntentJoin, "takes over all that are open", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		crowdOf(l, of(share, l.transactions()), sequencer.Begin{})
		return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent,
			Join: &sequencer.Join{ID: l.long("j", l.longs.join), Logic: l.logic}}
	}, sequencer.OutcomeJoined, sequencer.OutcomeLeaseEnded, sequencer.OutcomeAborted)
	add(sequencer.IntentRegister, "many tools", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		return l.catalogue(sequencer.IntentRegister, of(share, 4000), 4)
	}, sequencer.OutcomeRegistered)
	add(sequencer.IntentRegister, "long names", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		return l.catalogue(sequencer.IntentRegister, of(share, (48<<10)/(l.longs.tool+8)), l.longs.tool)
	}, sequencer.OutcomeRegistered)
	add(sequencer.IntentRegister, "refuses 250 pins", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		in := l.catalogue(sequencer.IntentRegister, 1, 4)
		l.must(sequencer.OutcomeRegistered, in)
		pinned(l, of(share, 250), in.Register)
		return l.catalogue(sequencer.IntentRegister, 1, 5)
	}, sequencer.OutcomeRegistered, sequencer.OutcomeAborted)
	add(sequencer.IntentUnregister, "refuses 250 pins", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		in := l.catalogue(sequencer.IntentRegister, 1, 4)
		l.must(sequencer.OutcomeRegistered, in)
		pinned(l, of(share, 250), in.Register)
		return l.catalogue(sequencer.IntentUnregister, 0, 0)
	}, sequencer.OutcomeUnregistered, sequencer.OutcomeAborted)
	add(sequencer.IntentUnregister, "many tools", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.must(sequencer.OutcomeRegistered, l.catalogue(sequencer.IntentRegister, 4000, 4))
		return l.catalogue(sequencer.IntentUnregister, of(share, 4000), 4)
	}, sequencer.OutcomeUnregistered)
	add(sequencer.IntentWatermark, "lets 2,000 go", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		for i := range 2000 {
			l.must(sequencer.OutcomeCommitted, l.seal(agent, sequencer.TxID(fmt.Sprintf("t%d", i)), sequencer.Seal{
				Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(fmt.Sprintf("shard:/%d", i))}}}))
		}
		in := l.by(agent, sequencer.IntentWatermark, "")
		in.Watermark = &sequencer.Watermark{Seq: l.fold.Seq() * sequencer.Seq(share) / Full}
		return in
	})
}

// catalogue is a server's tools, with names of so many bytes.
func (l *Log) catalogue(kind sequencer.IntentKind, n, bytes int) *sequencer.Intent {
	in := l.by(agent, kind, "")
	in.Register = &sequencer.Register{Server: l.long("s", l.longs.server), Generation: uint64(len(l.Records))}
	for i := range n {
		in.Register.Tools = append(in.Register.Tools, sequencer.Tool{Name: l.long(fmt.Sprintf("%04d", i), bytes)})
	}
	return in
}

// pinned makes transactions that wait for a verdict and pin a tool.
func pinned(l *Log, n int, r *sequencer.Register) {
	for i := range n {
		l.must(sequencer.OutcomeWaiting, l.seal(agent, sequencer.TxID(fmt.Sprintf("p%d", i)), sequencer.Seal{Hook: true,
			Pins: []sequencer.Pin{{Server: r.Server, Name: r.Tools[0].Name}}}))
	}
}

func largestOpening(add adder) {
	add(sequencer.IntentBegin, "may as many as may be", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		in := l.by(agent, sequencer.IntentBegin, sequencer.TxID(l.long("t", l.longs.tx)))
		in.Begin = &sequencer.Begin{Mode: sequencer.Ordered, Group: l.long("g", l.longs.group),
			Session:     l.long("c", l.longs.group),
			Predecessor: sequencer.TxID(l.long("p", l.longs.tx)),
			May:         wants(scopesOf("doc", of(share, l.scopes()), l.reach()))}
		return in
	}, sequencer.OutcomeBegun)
	add(sequencer.IntentTouch, "as many as may be", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		return l.touch(agent, sequencer.TxID(l.long("t", l.longs.tx)),
			scopesOf("doc", of(share, l.scopes()), l.reach())...)
	}, sequencer.OutcomeGranted)
	add(sequencer.IntentTouch, "within may", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		may := scopesOf("doc", l.scopes(), l.reach()/3)
		l.open(agent, "t", sequencer.Begin{Mode: sequencer.Ordered, May: wants(may)})
		return l.touch(agent, "t", may[:of(share, l.scopes())]...)
	}, sequencer.OutcomeGranted)
	add(sequencer.IntentTouch, "waits behind another", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.join("bob")
		scopes := scopesOf("doc", l.scopes(), l.reach()/3)
		l.must(sequencer.OutcomeGranted, l.touch("bob", "u", scopes...))
		return l.touch(agent, sequencer.TxID(l.long("t", l.longs.tx)), scopes[:of(share, l.scopes())]...)
	}, sequencer.OutcomeWaiting)
	add(sequencer.IntentTouch, "wounds 500", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.join("bob")
		tx := sequencer.TxID(l.long("t", l.longs.tx))
		l.open(agent, tx, sequencer.Begin{Mode: sequencer.Ordered})
		for i := range 500 {
			kind := "doc"
			if i >= of(share, 500) {
				kind = "other"
			}
			in := l.touch("bob", sequencer.TxID(fmt.Sprintf("u%d", i)), scopesOf(kind, 500, 10)[i])
			in.Begin = &sequencer.Begin{Mode: sequencer.Ordered}
			l.must(sequencer.OutcomeGranted, in)
		}
		return l.touch(agent, tx, "doc:/")
	}, sequencer.OutcomeAborted)
}

// over makes a transaction with a long name the last writer of scopes.
func over(l *Log, scopes []sequencer.Scope) {
	l.join("bob")
	tx := sequencer.TxID(l.long("b", l.longs.tx))
	l.must(sequencer.OutcomeCommitted, l.seal("bob", tx, gated(scopes...)))
	l.must(sequencer.OutcomeSettled, l.settle("bob", tx, sequencer.ResultLeaked, scopes))
}

func largestSeals(add adder) {
	seal := func(name string, make func(l *Log, share int) sequencer.Seal, made ...sequencer.OutcomeKind) {
		add(sequencer.IntentSeal, name, func(l *Log, share int) *sequencer.Intent {
			l.join(agent)
			return l.seal(agent, sequencer.TxID(l.long("t", l.longs.tx)), make(l, share))
		}, made...)
	}
	seal("reads", func(l *Log, share int) sequencer.Seal {
		var s sequencer.Seal
		for _, x := range scopesOf("doc", of(share, l.scopes()), l.width()-20) {
			s.Reads = append(s.Reads, sequencer.Read{Scope: x, View: 1})
		}
		return s
	}, sequencer.OutcomeCommitted)
	seal("gated scopes", func(l *Log, share int) sequencer.Seal {
		over(l, scopesOf("doc", l.scopes()-1, l.width()))
		return gated(scopesOf("doc", of(share, l.scopes())-1, l.width())...)
	}, sequencer.OutcomeCommitted)
	seal("gated effects", func(l *Log, share int) sequencer.Seal {
		var s sequencer.Seal
		tool := text(l.longs.letter, min(l.longs.effect, 100))
		for i, x := range scopesOf("doc", of(share, l.scopes()/2), 2*l.width()-228) {
			s.Effects = append(s.Effects, sequencer.Effect{Index: uint32(i), Class: sequencer.ClassBufferable,
				Scopes: []sequencer.Scope{x}, Tool: tool, Key: tool})
		}
		return s
	}, sequencer.OutcomeCommitted)
	seal("contents", func(l *Log, share int) sequencer.Seal {
		var s sequencer.Seal
		view, content := l.fold.Seq(), []byte(text("\x00", int(l.rules.MaxInlineTotal)/32))
		for _, x := range scopesOf("shard", of(share, 16), sequencer.MaxScopeBytes) {
			s.Shards = append(s.Shards, sequencer.ShardWrite{Scope: x, Content: content,
				Former: &sequencer.Former{View: view, Content: content}})
		}
		return s
	}, sequencer.OutcomeCommitted)
	seal("shards", func(l *Log, share int) sequencer.Seal {
		var s sequencer.Seal
		content := []byte(text("x", int(l.rules.MaxInlineTotal)/l.scopes()))
		for _, x := range scopesOf("shard", of(share, l.scopes()), l.width()-76) {
			s.Shards = append(s.Shards, sequencer.ShardWrite{Scope: x, Content: content,
				Expect: &sequencer.Expect{View: 1}})
		}
		return s
	}, sequencer.OutcomeCommitted)
	seal("read from", func(l *Log, share int) sequencer.Seal {
		var s sequencer.Seal
		bytes := min(l.longs.tx, l.width(), l.reach()/3)
		for i := range of(share, l.scopes()) {
			s.ReadFrom = append(s.ReadFrom, sequencer.TxID(l.long(fmt.Sprintf("%04d", i), bytes)))
		}
		return s
	}, sequencer.OutcomeCommitted)
	largestLate(add)
}

// largestLate are seals and verdicts whose size lies in what came before.
func largestLate(add adder) {
	add(sequencer.IntentSeal, "touches", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		scopes := scopesOf("doc", l.scopes(), 10)
		for _, x := range scopes {
			l.must(sequencer.OutcomeGranted, l.touch(agent, "t", x))
		}
		s := gated(scopes[:of(share, l.scopes())-1]...)
		for i := range l.scopes() {
			s.Touches = append(s.Touches, sequencer.TouchReport{N: uint32(i + 1), Known: true})
		}
		for range of(share, 6000) {
			s.Touches = append(s.Touches, sequencer.TouchReport{N: 9999, Known: true})
		}
		return l.seal(agent, "t", s)
	}, sequencer.OutcomeCommitted)
	add(sequencer.IntentSeal, "within may", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		may := scopesOf("doc", l.scopes(), min(l.width(), l.reach()/3))
		l.open(agent, "t", sequencer.Begin{Mode: sequencer.Ordered, May: wants(may)})
		return l.seal(agent, "t", gated(may[:of(share, l.scopes())-1]...))
	}, sequencer.OutcomeCommitted)
	add(sequencer.IntentSeal, "overtakes 250", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.join("bob")
		for i := range 250 {
			scope := sequencer.Scope("shard:/s")
			if i >= of(share, 250) {
				scope = "shard:/other"
			}
			l.must(sequencer.OutcomeWaiting, l.seal("bob", sequencer.TxID(fmt.Sprintf("u%d", i)), sequencer.Seal{Hook: true,
				Reads: []sequencer.Read{{Scope: scope, View: l.fold.Seq()}}}))
		}
		return l.seal(agent, sequencer.TxID(l.long("t", l.longs.tx)), sequencer.Seal{Shards: []sequencer.ShardWrite{{
			Scope: "shard:/s"}}})
	}, sequencer.OutcomeCommitted, sequencer.OutcomeAborted)
	add(sequencer.IntentVerdict, "commits gated scopes", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		s := gated(scopesOf("doc", of(share, l.scopes())-1, l.width())...)
		s.Hook = true
		o := l.must(sequencer.OutcomeWaiting, l.seal(agent, "t", s))
		in := l.by(agent, sequencer.IntentVerdict, "t")
		in.Verdict = &sequencer.Verdict{Footprint: o.Footprint, Yes: true, Reason: text(l.longs.letter, maxNameBytes)}
		return in
	}, sequencer.OutcomeCommitted)
	add(sequencer.IntentVerdict, "approves as much as may be", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		s := sequencer.Seal{Hook: l.logic < 4} // older logic has no approvals
		in := l.by(agent, sequencer.IntentVerdict, "t")
		in.Verdict = &sequencer.Verdict{Yes: true}
		for i, x := range scopesOf("doc", of(share, l.scopes()/2), 2*l.width()-248) {
			s.Effects = append(s.Effects, sequencer.Effect{Index: uint32(i), Class: sequencer.ClassIrreversible,
				Scopes: []sequencer.Scope{x}, Approve: true, Args: approvedArgs()})
			in.Verdict.Approvals = append(in.Verdict.Approvals, sequencer.Approval{Index: uint32(i), Yes: true,
				By: text(l.longs.letter, min(l.longs.tx, 128)), Args: approvedArgs()})
		}
		in.Verdict.Footprint = l.must(sequencer.OutcomeWaiting, l.seal(agent, "t", s)).Footprint
		return in
	}, sequencer.OutcomeCommitted)
	add(sequencer.IntentVerdict, "longest reason", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		o := l.must(sequencer.OutcomeWaiting, l.seal(agent, "t", sequencer.Seal{Hook: true}))
		in := l.by(agent, sequencer.IntentVerdict, "t")
		in.Verdict = &sequencer.Verdict{Footprint: o.Footprint, Reason: "n" + text("é", of(share, maxNameBytes)-1)}
		return in
	}, sequencer.OutcomeAborted)
}
