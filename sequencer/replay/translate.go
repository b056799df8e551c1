package replay

import (
	"maps"
	"math"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// translated is a record as it would be in the second run: the seqs that it names are those of what they stood for,
// and what the change says is as the change has it. Nil: it would not be there.
func (r *run) translated(s *story, in *sequencer.Intent) *sequencer.Intent {
	if in == nil {
		return nil
	}
	out := *in
	out.Incarnation, out.Base = r.incarnation(in.Incarnation), r.view(in.Base)
	out.Begin = r.begin(in.Begin)
	switch {
	case in.Kind == sequencer.IntentTouch && in.Touch != nil && s != nil:
		t := r.touch(s, in)
		if t == nil {
			return nil
		}
		out.Touch = t
		s.number(in, &out, t)
	case in.Kind == sequencer.IntentSeal && in.Seal != nil && s != nil:
		out.Seal = r.sealed(s, in.Seal)
	case in.Abort != nil && in.Abort.Seq != 0:
		a := *in.Abort
		a.Seq = r.view(a.Seq)
		out.Abort = &a
	case in.Verdict != nil && s != nil:
		v := *in.Verdict
		if v.Footprint == s.then.footprint && s.now.footprint != (sequencer.Hash{}) {
			v.Footprint = s.now.footprint // the same reads, at the seqs where they are now
		}
		out.Verdict = &v
	case in.Watermark != nil:
		w := *in.Watermark
		w.Seq = r.watermark(in)
		out.Watermark = &w
	case in.Rules != nil:
		rules := r.change.rules(*in.Rules)
		out.Rules = &rules
	case in.Kind == sequencer.IntentSettle && s != nil && s.settles > 0:
		out.N += s.settles + 1 // after those that were supposed
	}
	return &out
}

// number gives a touch its number in the second run: those that are put in count too.
func (s *story) number(in, out *sequencer.Intent, t *sequencer.Touch) {
	if !slices.Contains(s.put, in) { // not by its number: a hostile record may carry zero, and is a record all the same
		s.lastTouch = in.N
		if s.asked > 0 {
			out.N = in.N + s.asked
			s.numbers[out.N] = in.N
		}
		return
	}
	s.asked++
	out.N = s.lastTouch + s.asked
	s.numbers[out.N] = 0
	if writes(t.Wants) {
		s.writing = append(s.writing, out.N)
	} else {
		s.reads[out.N] = s.views[in]
	}
}

// asksFirst is the touch of what a policy makes calls at once that were held: the log does not have where they were
// issued, so it comes right before the seal. Nil: there are none.
func (r *run) asksFirst(s *story, in *sequencer.Intent) *sequencer.Intent {
	if r.change.Class == nil || in.Kind != sequencer.IntentSeal || in.Seal == nil || s.askedFirst {
		return nil
	}
	var wants []sequencer.Want
	for _, e := range in.Seal.Effects {
		if !e.Class.Eager() && r.effect(e).Class.Eager() {
			for _, at := range e.Scopes {
				wants = append(wants, sequencer.Want{Scope: at, Access: sequencer.WriteAccess})
			}
		}
	}
	if len(wants) == 0 {
		return nil
	}
	s.askedFirst = true
	ask := &sequencer.Intent{Kind: sequencer.IntentTouch, Tx: s.id, Agent: s.agent, Incarnation: in.Incarnation,
		Base: in.Base, Begin: in.Begin, Touch: &sequencer.Touch{Wants: wants}}
	s.put = append(s.put, ask)
	return ask
}

// watermark is what the sidecar would have promised: it would not have let go of what is open now and was decided.
func (r *run) watermark(in *sequencer.Intent) sequencer.Seq {
	mark := r.view(in.Watermark.Seq)
	for s := range r.now.open {
		if s.agent == in.Agent && !s.then.before(r.now.offset).undecided() {
			mark = min(mark, r.view(s.base))
		}
	}
	return mark
}

// begin is the declaration of a transaction under the change.
func (r *run) begin(b *sequencer.Begin) *sequencer.Begin {
	if b == nil {
		return nil
	}
	c := *b
	if r.change.Mode != nil {
		c.Mode = *r.change.Mode
		if c.Mode != sequencer.Ordered {
			c.May = nil // only there it is declared
		}
	}
	if r.change.Observe != nil && !*r.change.Observe {
		c.Observe = false
	}
	return &c
}

// touch is what a touch would ask for; nil: nothing.
func (r *run) touch(s *story, in *sequencer.Intent) *sequencer.Touch {
	t := *in.Touch
	if m := r.change.Mode; m != nil && *m != sequencer.Locked && s.thenLocked() && !writes(t.Wants) {
		return nil // it was for reads, which are validated instead
	}
	if r.change.Class == nil || s.seal == nil {
		return &t
	}
	kept := slices.DeleteFunc(slices.Clone(t.Wants), func(w sequencer.Want) bool {
		return w.Access == sequencer.WriteAccess && r.heldNow(s.seal, w.Scope)
	})
	if len(kept) == 0 && len(t.Wants) > 0 {
		return nil
	}
	t.Wants = kept
	return &t
}

func (s *story) thenLocked() bool {
	return s.first.Begin != nil && s.first.Begin.Mode == sequencer.Locked
}

func writes(wants []sequencer.Want) bool {
	return slices.ContainsFunc(wants, func(w sequencer.Want) bool { return w.Access == sequencer.WriteAccess })
}

// heldNow: all calls at the scope were made at once as recorded, and none of them is now.
func (r *run) heldNow(seal *sequencer.Seal, at sequencer.Scope) bool {
	found := false
	for i := range seal.Effects {
		e := &seal.Effects[i]
		if !e.Class.Eager() || !slices.ContainsFunc(e.Scopes, at.Overlaps) {
			continue
		}
		if r.effect(*e).Class.Eager() {
			return false
		}
		found = true
	}
	return found
}

// effect is a call as the policy has it.
func (r *run) effect(e sequencer.Effect) sequencer.Effect {
	if r.change.Class == nil || e.Absent {
		return e
	}
	t, known := r.change.Class(e.Tool)
	if !known || t.Class == e.Class && t.Approve == e.Approve {
		return e
	}
	was := e.Class
	e.Class = t.Class
	if e.Approve = e.Approve && e.Class.Gated() && t.Approve; !e.Approve {
		e.Args = sequencer.Hash{} // they are named for the yes
	}
	if e.Class.Eager() && !was.Eager() {
		e.Known = true // what the tool would have answered is not known: that it did
	}
	if !e.Class.Eager() {
		e.Known = false
	}
	return e
}

// sealed is a footprint under the change.
func (r *run) sealed(s *story, in *sequencer.Seal) *sequencer.Seal {
	out := *in
	out.Reads = slices.Clone(in.Reads)
	for i := range out.Reads {
		rd := &out.Reads[i]
		rd.View, rd.Version = r.seen(s, rd.View, rd.Version)
		if r.gone(rd.Writer) {
			rd.Writer = "" // the view would have shown another one
		}
	}
	out.ReadFrom = slices.DeleteFunc(slices.Clone(in.ReadFrom), func(id sequencer.TxID) bool {
		if !r.gone(id) {
			return false
		}
		s.knowsNot(unknownRead)
		return true
	})
	out.Shards = slices.Clone(in.Shards)
	for i := range out.Shards {
		w := &out.Shards[i]
		if w.Expect != nil {
			e := *w.Expect
			e.View, e.Version = r.seen(s, e.View, e.Version)
			w.Expect = &e
		}
		if w.Former != nil {
			f := *w.Former
			f.Restored = r.view(f.Restored)
			f.View, f.Version = r.seen(s, f.View, f.Version)
			w.Former = &f
		}
	}
	out.Effects = slices.Clone(in.Effects)
	for i := range out.Effects {
		e := &out.Effects[i]
		*e = r.effect(*e)
		if c := r.change.Class; c != nil && !e.Absent && !e.Approve {
			if t, known := c(e.Tool); known && t.Approve {
				r.result.suppose(supposedYes)
			}
		}
	}
	if s.asked > 0 {
		out.Touches = nil
		for _, t := range in.Touches {
			for sent, n := range s.numbers {
				if n == t.N && n != 0 {
					t.N = sent
					break
				}
			}
			out.Touches = append(out.Touches, t)
		}
		for _, sent := range s.writing {
			out.Touches = append(out.Touches, sequencer.TouchReport{N: sent, Known: true})
		}
	}
	return &out
}

// seen is what a view showed, and when: a version above the view that showed it stays above.
func (r *run) seen(s *story, view, version sequencer.Seq) (sequencer.Seq, sequencer.Seq) {
	at, of := r.viewOf(s, view), r.view(version)
	if version <= view {
		of = min(of, at)
	}
	return at, of
}

// gone: a transaction had committed as recorded before this record, and has not.
func (r *run) gone(id sequencer.TxID) bool {
	w := r.stories[id]
	return w != nil && w.then.committed(r.now.offset) && !w.now.committed(math.MaxInt64)
}

// putIns lists the records that the change asks for and that the log does not have: begins where an epoch is taken at
// the begin, and touches of what a locked transaction reads.
func (r *run) putIns(s *story) {
	m := r.change.Mode
	if m == nil || *m == sequencer.Optimistic || s.first.Kind == sequencer.IntentAbort {
		return
	}
	if s.first.Kind != sequencer.IntentBegin {
		b := s.first.Begin
		if b == nil {
			b = &sequencer.Begin{}
		}
		r.now.early = append(r.now.early, putIn{max(s.base, s.incarnation), s, &sequencer.Intent{
			Kind: sequencer.IntentBegin, Tx: s.id, N: 1, Agent: s.agent, Incarnation: s.incarnation, Base: s.base, Begin: b}})
	}
	if *m != sequencer.Locked || s.seal == nil || s.thenLocked() {
		return
	}
	s.reads, s.views = map[uint32]sequencer.Seq{}, map[*sequencer.Intent]sequencer.Seq{}
	wants := map[sequencer.Seq][]sequencer.Want{}
	for _, rd := range s.seal.Reads {
		wants[rd.View] = append(wants[rd.View], sequencer.Want{Scope: rd.Scope, Access: sequencer.ReadAccess})
	}
	for _, view := range slices.Sorted(maps.Keys(wants)) {
		in := &sequencer.Intent{Kind: sequencer.IntentTouch, Tx: s.id, Agent: s.agent, Incarnation: s.incarnation,
			Base: s.base, Touch: &sequencer.Touch{Wants: wants[view]}}
		s.views[in] = view
		s.put = append(s.put, in)
		r.now.early = append(r.now.early, putIn{max(view, s.base, s.incarnation), s, in})
	}
}
