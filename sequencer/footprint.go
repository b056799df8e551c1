package sequencer

import "slices"

// incomplete finds what a seal leaves out or cannot mean.
func (f *Fold) incomplete(t *tx, s *Seal) finding {
	bad := func(detail string, scope Scope) finding {
		return finding{code: CodeIncompleteFootprint, detail: detail, scope: scope}
	}
	for _, r := range s.Reads {
		if r.View > f.seq || r.Version > r.View {
			// A view of the future would pass every later check of the window, so no write could make the read stale.
			return bad("the read names a seq that was not reached", r.Scope)
		}
	}
	known := among(f, s.Touches, len(t.GrantedNs))
	for _, n := range t.GrantedNs {
		if !known(TouchReport{N: n, Known: true}) {
			// A call that may have run and is not listed would be neither judged nor undone; one of unknown outcome can only be
			// undone (holes 6).
			return bad("a granted touch is not listed, or the outcome of a call under it is not known", "")
		}
	}
	held := f.holding(t.Grants, s.scopes())
	for i, e := range s.Effects {
		if int(e.Index) != i {
			// Effects are released and undone in order of their indexes, and settled by them: a gap hides one.
			return bad("the indexes of the effects are not 0..n-1", "")
		}
		if e.Absent && (e.Class != ClassRead || len(e.Scopes) > 0 || e.Key != "" || e.Known) {
			// It would be taken for a call: released, undone, or waited for.
			return bad("a call that never came has a scope, a key, an outcome or a class", firstScope(e.Scopes))
		}
		if e.badApproval() {
			// What has left is not held back any more, and a yes to arguments that are not named is one to any.
			return bad("an approval is for a held effect, and for arguments that the seal names by their hash",
				firstScope(e.Scopes))
		}
		if why := e.uncovered(held); why != "" {
			// It ran where others may run: the grant is what kept them out.
			return bad(why, firstScope(e.Scopes))
		}
	}
	written := make(map[Scope]bool, len(s.Shards))
	for i := range s.Shards {
		w := &s.Shards[i]
		twice := written[w.Scope]
		written[w.Scope] = true
		switch {
		case !w.Scope.IsShard() || w.Scope.HasStar() && !w.Absent:
			// Its content is one value at one name; under a pattern no reader could find it.
			return bad("a shard is written under a scope of type shard, without wildcards", w.Scope)
		case twice:
			// One decision gives a shard one version: which of the two stands, no follower could tell.
			return bad("the shard is written twice", w.Scope)
		case w.Expect != nil && (w.Expect.View > f.seq || w.Expect.Version > w.Expect.View):
			// As with reads: it would be compared with nothing.
			return bad("the expected version names a seq that was not reached", w.Scope)
		case w.Former != nil && (w.Former.View > f.seq || w.Former.Version > w.Former.View):
			// A retraction would put it back: it must be something that a view has shown.
			return bad("the former content names a seq that was not reached", w.Scope)
		case w.Former != nil && f.bounded() && w.Former.Restored > w.Former.Version: // a follower would wait for it for ever
			return bad("the former content is said to be carried by a later decision than its own", w.Scope)
		case w.Absent && s.badTombstone(w) != "":
			return bad(s.badTombstone(w), w.Scope)
		case w.badDelta() != "":
			return bad(w.badDelta(), w.Scope)
		case w.badChain() != "":
			return bad(w.badChain(), w.Scope)
		}
	}
	if at := s.runsAtDelta(); at != "" {
		// A call there and a delta cannot both go in any order.
		return bad("a shard has a write that merges and an effect", at)
	}
	f.look(len(s.Reads) + len(s.Shards))
	return f.outsideMay(t, s)
}

// runsAtDelta finds the first shard that the footprint writes a delta of and that an effect of it names.
func (s *Seal) runsAtDelta() Scope {
	t := tx{TxState: TxState{Seal: s}}
	if len(t.deltas()) == 0 {
		return ""
	}
	for _, e := range s.Effects {
		for _, at := range e.Scopes {
			if e.Class != ClassRead && t.delta(at) != OpSet {
				return at
			}
		}
	}
	return ""
}

// uncovered finds why an eager effect could not have run under what was granted; empty: it could.
func (e *Effect) uncovered(held func(Want) bool) string {
	if !e.Class.Eager() {
		return ""
	}
	if !e.Known {
		// It may yet land: a commit would promise it, an abort could not undo it. Until it is known there is no seal
		// (holes 6).
		return "the outcome of an eager effect is not known"
	}
	for _, s := range e.Scopes {
		if !held(Want{s, WriteAccess}) {
			return "an eager effect is not covered by a grant"
		}
	}
	return ""
}

// outsideMay: a transaction that declared where it may go stays there.
func (f *Fold) outsideMay(t *tx, s *Seal) finding {
	if len(t.May) == 0 {
		return finding{}
	}
	may := make([]Hold, len(t.May))
	for i, w := range t.May {
		may[i] = Hold{Scope: w.Scope, Access: w.Access}
	}
	declared := f.holding(may, s.scopes())
	for _, r := range s.Reads {
		if !declared(Want{r.Scope, ReadAccess}) {
			// Others were let run on the word of begin, at what it did not name.
			return finding{code: CodeIncompleteFootprint, detail: "a read lies outside what begin declared", scope: r.Scope}
		}
	}
	for _, w := range s.written() {
		if !declared(Want{w, WriteAccess}) {
			// Nothing was claimed there, so a younger one may have been let in before this older one's write.
			return finding{code: CodeIncompleteFootprint, detail: "a write lies outside what begin declared", scope: w}
		}
	}
	return finding{}
}

func firstScope(scopes []Scope) Scope {
	if len(scopes) == 0 {
		return ""
	}
	return scopes[0]
}

// written are the scopes that a footprint changes, sorted: of its eager and gated effects and of its shards.
func (s *Seal) written() []Scope {
	var out []Scope
	for _, e := range s.Effects {
		if e.Class != ClassRead {
			out = append(out, e.Scopes...)
		}
	}
	for _, w := range s.Shards {
		out = append(out, w.Scope)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// gated are the scopes of a footprint's gated effects, sorted.
func (s *Seal) gated() []Scope {
	var out []Scope
	for _, e := range s.Effects {
		if e.Class.Gated() {
			out = append(out, e.Scopes...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writeScopes are all scopes that a sealed transaction counts as writing: those of its footprint and those it was
// granted for writing. Grants do not change between the seal and the decision, so it is worked out once.
func (t *tx) writeScopes() []Scope {
	if t.scopes != nil {
		return t.scopes
	}
	out := t.Seal.written()
	for _, g := range t.Grants {
		if g.Access == WriteAccess {
			out = append(out, g.Scope)
		}
	}
	slices.Sort(out)
	t.scopes = slices.Compact(out)
	return t.scopes
}

// committedScopes are the scopes that a commit writes, sorted: those of its footprint, not all that it was granted.
func (t *tx) committedScopes() []Scope {
	if t.grantedForWriting() {
		return t.Seal.written()
	}
	return t.writeScopes()
}

// claimedBySeal are the scopes that a waiting sealed transaction claims: gated ones and shard writes.
func (f *Fold) claimedBySeal(t *tx) []Scope {
	out := t.Seal.gated()
	for _, w := range t.Seal.Shards {
		out = append(out, w.Scope)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scopes counts what MaxScopes bounds.
func (s *Seal) scopes() int {
	n := len(s.Reads) + len(s.Shards) + len(s.ReadFrom) + len(s.Pins)
	for _, e := range s.Effects {
		n += 1 + len(e.Scopes)
	}
	return n
}

// bytes estimates a footprint's size without contents.
func (s *Seal) bytes() int {
	n := 64 + 8*len(s.Touches)
	for _, r := range s.Reads {
		n += 24 + len(r.Scope) + len(r.Writer)
	}
	for _, e := range s.Effects {
		n += 24 + len(e.Tool) + len(e.Key)
		if e.Approve {
			n += approvalBytes // the word that may come has its room from the start
		}
		for _, x := range e.Scopes {
			n += 4 + len(x)
		}
	}
	for _, w := range s.Shards {
		n += 80 + len(w.Scope) + len(w.Type)
		if w.Former != nil {
			n += 80 + len(w.Former.Type)
		}
	}
	for _, p := range s.Pins {
		n += 12 + len(p.Server) + len(p.Name) + len(p.Signature)
	}
	for _, id := range s.ReadFrom {
		n += 4 + len(id)
	}
	return n
}

// inline counts the bytes of inline contents.
func (s *Seal) inline() int {
	n := 0
	for _, w := range s.Shards {
		n += len(w.Content)
		if w.Former != nil {
			n += len(w.Former.Content)
		}
	}
	return n
}
