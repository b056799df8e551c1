package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// The sizes of the world of what refusals say: writers that each commit once at one of two scopes, one that aborts,
// and a transaction that is granted both scopes in either order.
const (
	claimWriters = 2
	claimScopes  = 2
	claimHorizon = 2
)

// claimsWorld is what has happened so far, as the outcomes say.
type claimsWorld struct {
	writer, reader sequencer.Seq // incarnations
	wrote          [claimWriters]claimWrite
	dropped        sequencer.Seq // decision of the one that aborted
	granted        [claimScopes]sequencer.Seq
	older          bool // the transaction that asks for what was granted has its age
	done           bool // a transaction was refused
}

type claimWrite struct {
	scope uint8
	at    sequencer.Seq
}

type claims struct {
	held bool // not what a sidecar says, but who was granted what, and since when
}

// newClaims makes the world in which a sidecar says why it ends a transaction: all that it could say, true or not.
func newClaims(c claims) *plain[claimsWorld] {
	return &plain[claimsWorld]{name: "what refusals say", start: c.start, moves: c.moves,
		ended: func(*spot[claimsWorld]) {}}
}

func (c claims) start(s *spot[claimsWorld]) {
	for i, at := range []*sequencer.Seq{&s.w.writer, &s.w.reader} {
		for _, o := range s.log(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: claimAgent(i),
			Join: &sequencer.Join{ID: "j" + claimAgent(i), Logic: sequencer.Logic}}) {
			*at = o.Incarnation
		}
	}
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.CapSeqs, rules.HorizonSeqs = 1, sequencer.Logic, 4, claimHorizon // it forgets
	s.log(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
}

func (c claims) moves(w *claimsWorld) []move[claimsWorld] {
	var out []move[claimsWorld]
	if w.done {
		return nil
	}
	add := func(do func(*spot[claimsWorld]), note string, args ...any) {
		out = append(out, move[claimsWorld]{fmt.Sprintf(note, args...), true, do})
	}
	for i := range w.wrote {
		if w.wrote[i].at != 0 {
			continue
		}
		for k := range claimScopes {
			add(func(s *spot[claimsWorld]) { c.commit(s, i, k) }, "%s commits %s", claimWriter(i), claimScope(k))
		}
		break
	}
	if c.held {
		if !w.older {
			add(c.age, "O is granted something")
		}
		for k := range w.granted {
			switch {
			case w.older && w.granted[k] == 0:
				add(func(s *spot[claimsWorld]) { c.grant(s, k) }, "Y is granted %s", claimScope(k))
			case w.granted[k] != 0:
				add(func(s *spot[claimsWorld]) { c.ask(s, k) }, "O asks for %s", claimScope(k))
			}
		}
		return out
	}
	if w.dropped == 0 {
		add(c.drop, "D is aborted")
	}
	for at := sequencer.Seq(3); at < 10; at++ { // before are the joins
		for i := range claimWriters + 1 {
			for k := range claimScopes {
				a := sequencer.Abort{Code: sequencer.CodeStaleRead, Scope: claimScope(k), Seq: at, Writer: claimWriter(i)}
				if k == claimScopes-1 && i != 0 {
					a.Code = sequencer.CodeCascade
				}
				add(func(s *spot[claimsWorld]) { c.claim(s, a) }, "%s of %s at %d by %s", a.Code, a.Scope, a.Seq, a.Writer)
			}
		}
	}
	return out
}

func (c claims) send(s *spot[claimsWorld], agent int, in *sequencer.Intent) *sequencer.Outcome {
	in.Agent, in.Incarnation, in.Base = claimAgent(agent), s.w.writer, s.fold.Seq()
	if agent == 1 {
		in.Incarnation = s.w.reader
	}
	if in.N == 0 {
		in.N = 1
	}
	out := s.log(in)
	if len(out) == 0 {
		s.violate("a record of %s has no outcome", in.Tx)
		return &sequencer.Outcome{}
	}
	return &out[0]
}

func (c claims) commit(s *spot[claimsWorld], i, k int) {
	o := c.send(s, 0, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: claimWriter(i),
		Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: claimScope(k)}}}})
	s.w.wrote[i] = claimWrite{uint8(k), o.Seq}
}

func (c claims) drop(s *spot[claimsWorld]) {
	s.w.dropped = c.send(s, 0, &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: "D"}).Seq
}

func (c claims) age(s *spot[claimsWorld]) {
	c.send(s, 0, claimTouch("O", 1, "doc:/other"))
	s.w.older = true
}

func (c claims) grant(s *spot[claimsWorld], k int) {
	later := uint32(s.fold.Seq()) // whatever the order, its number is greater
	s.w.granted[k] = c.send(s, 1, claimTouch("Y", later, claimHeld(k))).Seq
}

// ask: the older asks for what the younger was granted, and is told since when that is.
func (c claims) ask(s *spot[claimsWorld], k int) {
	o := c.send(s, 0, claimTouch("O", 2, claimHeld(k)))
	s.w.done = true
	if o.Code != sequencer.CodeConflict || o.Scope != claimHeld(k) || o.Moved != (sequencer.Writer{Seq: s.w.granted[k],
		Tx: "Y"}) {
		s.violate("%s of O at %s, moved %v: it was granted to Y at %d", o.Code, o.Scope, o.Moved, s.w.granted[k])
	}
}

// claim: what is true is said, and what is not is dropped where the fold can see it.
func (c claims) claim(s *spot[claimsWorld], a sequencer.Abort) {
	head := s.fold.Seq()
	o := c.send(s, 1, &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: "C", Abort: &a})
	s.w.done = true
	told := o.By == sequencer.BySidecar && o.Scope == a.Scope && o.Moved == sequencer.Writer{Seq: a.Seq, Tx: a.Writer}
	isTrue, hidden := c.happened(&s.w, &a), a.Seq <= head && (a.Seq <= o.Floor || c.covered(&s.w, &a, head, o.Floor))
	switch {
	case isTrue && !told:
		s.violate("what a sidecar says is true and is dropped: %+v", a)
	case !isTrue && told && !hidden:
		s.violate("%s is said of %s at %d by %s, which the log does not show", a.Code, a.Scope, a.Seq, a.Writer)
	case !told && (o.Scope != "" || o.By != "" || o.Moved != sequencer.Writer{}):
		s.violate("the fold says of a sidecar's abort what nobody said: %v at %s", o.Moved, o.Scope)
	}
}

func (c claims) happened(w *claimsWorld, a *sequencer.Abort) bool {
	if a.Code == sequencer.CodeCascade {
		return a.Writer == "D" && a.Seq == w.dropped
	}
	for i, x := range w.wrote {
		if x.at == a.Seq && claimWriter(i) == a.Writer && claimScope(int(x.scope)) == a.Scope {
			return true
		}
	}
	return false
}

// covered: it was written over since, and what the one wrote who is said to have done it is not remembered.
func (c claims) covered(w *claimsWorld, a *sequencer.Abort, head, floor sequencer.Seq) bool {
	later, known := false, a.Writer == "D" && w.dropped > floor
	for i, x := range w.wrote {
		later = later || a.Code == sequencer.CodeStaleRead && claimScope(int(x.scope)) == a.Scope && x.at > a.Seq
		known = known || claimWriter(i) == a.Writer && x.at > floor
	}
	return later && (!known || a.Seq+claimHorizon <= head)
}

func claimTouch(id sequencer.TxID, n uint32, scope sequencer.Scope) *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentTouch, Tx: id, N: n,
		Touch: &sequencer.Touch{Wants: []sequencer.Want{{Scope: scope, Access: sequencer.WriteAccess}}}}
}

func claimAgent(i int) string { return [...]string{"a1", "a2"}[i] }

func claimWriter(i int) sequencer.TxID { return [...]sequencer.TxID{"T1", "T2", "D"}[i] }

func claimScope(k int) sequencer.Scope { return [...]sequencer.Scope{"shard:/s", "shard:/t"}[k] }

func claimHeld(k int) sequencer.Scope { return [...]sequencer.Scope{"doc:/s", "doc:/t"}[k] }
