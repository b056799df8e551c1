package hostile

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

func largestEndings(add adder) {
	add(sequencer.IntentAbort, "grants", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		tx := sequencer.TxID(l.long("t", l.longs.tx))
		l.must(sequencer.OutcomeGranted, l.touch(agent, tx,
			scopesOf("doc", of(share, l.scopes()), l.reach())...))
		in := l.by(agent, sequencer.IntentAbort, tx)
		in.Abort = &sequencer.Abort{Code: sequencer.CodeToolFailed, Detail: text(l.longs.letter, maxNameBytes)}
		return in
	}, sequencer.OutcomeAborted)
	add(sequencer.IntentAbort, "read grants", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		touch := l.touch(agent, "t", scopesOf("doc", of(share, l.scopes()), l.reach())...)
		for i := range touch.Touch.Wants {
			touch.Touch.Wants[i].Access = sequencer.ReadAccess
		}
		l.must(sequencer.OutcomeGranted, touch)
		return l.by(agent, sequencer.IntentAbort, "t")
	}, sequencer.OutcomeAborted)
	add(sequencer.IntentAbort, "unknown, may of 40,000", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		in := l.by(agent, sequencer.IntentAbort, sequencer.TxID(l.long("t", l.longs.tx)))
		in.Begin = &sequencer.Begin{Mode: sequencer.Ordered, May: wants(scopesOf("r", of(share, 40_000), 1))}
		return in
	}, sequencer.OutcomeAborted)
	largestSettlements(add)
	add(sequencer.IntentAdopt, "longest names", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.join("bob")
		tx := sequencer.TxID(l.long("t", l.longs.tx))
		l.must(sequencer.OutcomeCommitted, l.seal("bob", tx, gated(scopesOf("doc", of(share, l.scopes())-1, 200)...)))
		for range 5 {
			l.tick(1) // of eight
			l.renew(agent)
		}
		return l.by(agent, sequencer.IntentAdopt, tx)
	}, sequencer.OutcomeAdopted)
	add(sequencer.IntentRetract, "cone of 256", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		for _, tree := range []struct {
			name string
			n    int
		}{{"half", maxMembers / 2}, {"full", maxMembers}} {
			for i := range tree.n {
				view := l.fold.Seq()
				shard := func(i int) sequencer.Scope { return sequencer.Scope(fmt.Sprintf("shard:/%s/%d", tree.name, i)) }
				s := sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: shard(i), Content: []byte("content")}}}
				if i > 0 {
					s.Reads = []sequencer.Read{{Scope: shard(i - 1), View: view}, {Scope: shard(0), View: view}}
				}
				l.must(sequencer.OutcomeCommitted, l.seal(agent, sequencer.TxID(fmt.Sprintf("%s-%d", tree.name, i)), s))
			}
		}
		return l.by(agent, sequencer.IntentRetract, [...]sequencer.TxID{Half: "half-0", Full: "full-0"}[share])
	}, sequencer.OutcomeRetracting, sequencer.OutcomeSettled)
}

// maxMembers is how many transactions a retraction may undo.
const maxMembers = 256

func largestSettlements(add adder) {
	settle := func(name string, make func(l *Log, share int, scopes []sequencer.Scope) *sequencer.Intent) {
		add(sequencer.IntentSettle, name, func(l *Log, share int) *sequencer.Intent {
			l.join(agent)
			scopes := scopesOf("doc", l.scopes()-1, l.width())
			over(l, scopes)
			l.must(sequencer.OutcomeCommitted, l.seal(agent, settledTx(l), gated(scopes...)))
			return make(l, share, scopes)
		}, sequencer.OutcomeSettled)
	}
	settle("clean", func(l *Log, share int, scopes []sequencer.Scope) *sequencer.Intent {
		return l.settle(agent, settledTx(l), sequencer.ResultClean, scopes[:of(share, len(scopes))])
	})
	settle("leaked", func(l *Log, share int, scopes []sequencer.Scope) *sequencer.Intent {
		return l.settle(agent, settledTx(l), sequencer.ResultLeaked, scopes[:of(share, len(scopes))])
	})
	settle("partial, in one", func(l *Log, share int, scopes []sequencer.Scope) *sequencer.Intent {
		in := l.settle(agent, settledTx(l), sequencer.ResultPartial, scopes[:1])
		in.Settle.Effects[0].Scopes = scopes[:of(share, len(scopes))]
		return in
	})
	add(sequencer.IntentSettle, "narrower than granted", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.must(sequencer.OutcomeGranted, l.touch(agent, "t", "doc:/"))
		l.must(sequencer.OutcomeAborted, l.by(agent, sequencer.IntentAbort, "t"))
		return l.settle(agent, "t", sequencer.ResultLeaked, scopesOf("doc", of(share, l.scopes()), 200))
	}, sequencer.OutcomeSettled)
	add(sequencer.IntentSettle, "40,000 narrower scopes", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		for _, s := range scopesOf("r", l.scopes()-1, 1) { // of one letter each
			l.must(sequencer.OutcomeGranted, l.touch(agent, "t", s))
		}
		l.must(sequencer.OutcomeAborted, l.by(agent, sequencer.IntentAbort, "t"))
		in := l.settle(agent, "t", sequencer.ResultLeaked, []sequencer.Scope{"r:/0/x"})
		for i := range of(share, 40_000) {
			s := sequencer.Scope(fmt.Sprintf("r:/%d/x/%d", i%(l.scopes()-1), i%100))
			in.Settle.Effects[0].Scopes = append(in.Settle.Effects[0].Scopes, s)
		}
		return in
	}, sequencer.OutcomeSettled)
	add(sequencer.IntentSettle, "60,000 effects", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		scopes := scopesOf("doc", l.scopes()-1, 60)
		l.must(sequencer.OutcomeCommitted, l.seal(agent, "t", gated(scopes...)))
		in := l.settle(agent, "t", sequencer.ResultClean, scopes)
		for i := range of(share, 60_000) {
			in.Settle.Effects = append(in.Settle.Effects, sequencer.Settled{Index: uint32(i), Result: sequencer.ResultPartial})
		}
		return in
	}, sequencer.OutcomeSettled)
	add(sequencer.IntentSettle, "grants of an aborted one", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		scopes := scopesOf("doc", l.scopes(), l.reach())
		l.must(sequencer.OutcomeGranted, l.touch(agent, "t", scopes...))
		l.must(sequencer.OutcomeAborted, l.by(agent, sequencer.IntentAbort, "t"))
		return l.settle(agent, "t", sequencer.ResultUnresolved, scopes[:of(share, l.scopes())])
	}, sequencer.OutcomeSettled)
	add(sequencer.IntentSettle, "a turn", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		tx := sequencer.TxID(l.long("t", min(l.longs.tx, 40))) // it is remembered, with all that it wrote
		scopes := scopesOf("doc", l.scopes()-1, min(l.width(), l.reach()/4))
		l.must(sequencer.OutcomeCommitted, l.seal(agent, tx, gated(scopes...)))
		l.must(sequencer.OutcomeSettled, l.settle(agent, tx, sequencer.ResultClean, scopes))
		l.must(sequencer.OutcomeTurn, l.by(agent, sequencer.IntentRetract, tx))
		return l.settle(agent, tx, sequencer.ResultLeaked, scopes[:of(share, len(scopes))])
	}, sequencer.OutcomeSettled)
}

func settledTx(l *Log) sequencer.TxID { return sequencer.TxID(l.long("t", l.longs.tx)) }

func largestOfGroups(add adder) {
	add(sequencer.IntentSelect, "refuses all that are open", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		crowdOf(l, of(share, l.transactions()), sequencer.Begin{Group: "g"})
		in := l.by(agent, sequencer.IntentSelect, "")
		in.Select = &sequencer.Select{Group: "g", Winner: sequencer.TxID(l.long("w", l.longs.tx))}
		return in
	}, sequencer.OutcomeSelected, sequencer.OutcomeAborted)
	add(sequencer.IntentSelect, "refuses 80 of a long name", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		group := l.long("g", min(l.longs.group, 3000))
		for i := range of(share, 80) {
			l.open(agent, sequencer.TxID(fmt.Sprintf("t%d", i)), sequencer.Begin{Group: group})
		}
		in := l.by(agent, sequencer.IntentSelect, "")
		in.Select = &sequencer.Select{Group: group, Winner: sequencer.TxID(l.long("w", l.longs.tx))}
		return in
	}, sequencer.OutcomeSelected, sequencer.OutcomeAborted)
}

func largestOfTime(add adder) {
	add(sequencer.IntentTick, "ends all that are open", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		crowdOf(l, of(share, l.transactions()), sequencer.Begin{DeadlineTicks: 1})
		return &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: 1, Weight: 1}}
	}, sequencer.OutcomeAborted)
	add(sequencer.IntentTick, "ends all that are open and hold", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		for i, scope := range scopesOf("doc", l.transactions(), 36) {
			begin := sequencer.Begin{Mode: sequencer.Ordered, May: wants([]sequencer.Scope{scope}), DeadlineTicks: 9}
			if i < of(share, l.transactions()) {
				begin.DeadlineTicks = 1
			}
			l.open(agent, sequencer.TxID(fmt.Sprintf("t%d", i)), begin)
		}
		return &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: 1, Weight: 1}}
	}, sequencer.OutcomeAborted)
	add(sequencer.IntentRules, "lets 2,000 go", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		for i := range 2000 {
			l.must(sequencer.OutcomeCommitted, l.seal(agent, sequencer.TxID(fmt.Sprintf("t%d", i)), sequencer.Seal{
				Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(fmt.Sprintf("shard:/%d", i))}}}))
		}
		r := l.rules
		r.Version++
		r.CapSeqs, r.HorizonSeqs = 1, 0
		if share == Half {
			r.CapSeqs, r.HorizonSeqs = 500, 500 // of the thousand that the former horizon has left
		}
		return &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r}
	}, sequencer.OutcomeRules)
	add(sequencer.IntentRules, "ends observing", func(l *Log, share int) *sequencer.Intent {
		l.join(agent)
		l.change(func(r *sequencer.Rules) { r.Observe = true })
		for i := range of(share, l.transactions()) {
			l.open(agent, sequencer.TxID(fmt.Sprintf("t%d", i)), sequencer.Begin{})
		}
		r := l.rules
		r.Version, r.Observe = r.Version+1, false
		return &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r}
	}, sequencer.OutcomeRules)
}

// retractsUnder takes back much that was written, while there are many waiting reads of other things.
func retractsUnder(l *Log, share int) *sequencer.Intent {
	l.join(agent)
	for i := range 4 {
		root := sequencer.Scope("shard:/root")
		s := sequencer.Seal{Reads: []sequencer.Read{{Scope: root, View: l.fold.Seq()}}}
		if i == 0 {
			s = sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: root}}}
		}
		for _, x := range scopesOf(fmt.Sprintf("doc%d", i), of(share, 100), 12) {
			s.Effects = append(s.Effects, sequencer.Effect{Index: uint32(len(s.Effects)), Scopes: []sequencer.Scope{x},
				Class: sequencer.ClassBufferable})
		}
		tx := sequencer.TxID(fmt.Sprintf("t%d", i))
		l.must(sequencer.OutcomeCommitted, l.seal(agent, tx, s))
		l.must(sequencer.OutcomeSettled, l.settle(agent, tx, sequencer.ResultClean, nil))
	}
	l.join("bob")
	for i := range of(share, 30) {
		s := sequencer.Seal{Hook: true}
		for _, x := range scopesOf("other", 200, 12) {
			s.Reads = append(s.Reads, sequencer.Read{Scope: x, View: l.fold.Seq()})
		}
		l.must(sequencer.OutcomeWaiting, l.seal("bob", sequencer.TxID(fmt.Sprintf("u%d", i)), s))
	}
	return l.by(agent, sequencer.IntentRetract, "t0")
}

func endsLeases(l *Log, share int) *sequencer.Intent {
	l.join(agent)
	const sidecars = 500
	for i := range sidecars {
		l.join(fmt.Sprintf("a%d", i))
	}
	for range 4 {
		l.tick(1) // of eight
		l.renew(agent)
	}
	for i := of(share, sidecars); i < sidecars; i++ {
		l.renew(fmt.Sprintf("a%d", i))
	}
	return &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: 5, Weight: 8}}
}

// waking are records of no size that wake many waiters.
func waking() []Case {
	touches := func(l *Log, n int, scope func(i int) sequencer.Scope) {
		for i := range n {
			waiter := fmt.Sprintf("b%d", i) // one sidecar does not wait for itself
			l.join(waiter)
			l.must(sequencer.OutcomeWaiting, l.touch(waiter, sequencer.TxID(fmt.Sprintf("u%d", i)), scope(i)))
		}
	}
	return []Case{
		{Kind: sequencer.IntentRetract, Name: "under those that have read", Waiters: true,
			Made: []sequencer.OutcomeKind{sequencer.OutcomeRetracting}, make: retractsUnder},
		{Kind: sequencer.IntentTick, Name: "ends 500 leases", Sidecars: true,
			Made: []sequencer.OutcomeKind{sequencer.OutcomeLeaseEnded}, make: endsLeases},
		{Kind: sequencer.IntentAbort, Name: "500 wait at one scope", Waiters: true, Sidecars: true,
			Made: []sequencer.OutcomeKind{sequencer.OutcomeAborted, sequencer.OutcomeGranted},
			make: func(l *Log, share int) *sequencer.Intent {
				l.join(agent)
				touch := l.touch(agent, "t", "doc:/a")
				touch.Touch.Wants[0].Access = sequencer.ReadAccess // ends with the abort
				l.must(sequencer.OutcomeGranted, touch)
				touches(l, of(share, 500), func(int) sequencer.Scope { return "doc:/a" })
				return l.by(agent, sequencer.IntentAbort, "t")
			}},
		{Kind: sequencer.IntentAbort, Name: "500 wait below a scope", Waiters: true, Sidecars: true,
			Made: []sequencer.OutcomeKind{sequencer.OutcomeAborted, sequencer.OutcomeGranted},
			make: func(l *Log, share int) *sequencer.Intent {
				l.join(agent)
				touch := l.touch(agent, "t", "doc:/a")
				touch.Touch.Wants[0].Access = sequencer.ReadAccess
				l.must(sequencer.OutcomeGranted, touch)
				touches(l, of(share, 500), func(i int) sequencer.Scope { return sequencer.Scope(fmt.Sprintf("doc:/a/%d", i)) })
				return l.by(agent, sequencer.IntentAbort, "t")
			}},
	}
}
