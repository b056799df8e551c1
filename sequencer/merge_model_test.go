package sequencer

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// model is Writes with nothing worked out in between: each call makes a new list, and each value goes through all of
// it. Which entries there are, and what each says, is as in Writes.
type model struct {
	seq  Seq
	list []Standing
}

// merged is what a delta makes of a content.
func merged(op Op, text, more string) string {
	switch op {
	case OpAppend:
		if len(text)+len(more) <= MaxMerged {
			return text + more
		}
	case OpAdd:
		base, ok := new(big.Int), true
		if text != "" {
			base, ok = base.SetString(text, 10)
		}
		delta, is := new(big.Int).SetString(more, 10)
		if ok && is && base.IsInt64() && base.Add(base, delta).IsInt64() {
			return base.String()
		}
	case OpUnion:
		lines := slices.DeleteFunc(strings.Split(text+"\n"+more, "\n"), func(s string) bool { return s == "" })
		slices.Sort(lines)
		if all := strings.Join(append(slices.Compact(lines), ""), "\n"); len(all) <= MaxMerged {
			return all
		}
	}
	return text
}

func (m *model) below(seq Seq) int {
	return len(slices.DeleteFunc(slices.Clone(m.list), func(s Standing) bool { return s.Seq >= seq }))
}

// from says what the list is from one entry on; the wholes there are not known any more.
func (m *model) from(at int, list ...Standing) {
	m.list = slices.Concat(m.list[:at], list)
	for i := at; i < len(m.list); i++ {
		m.list[i].Whole = nil
	}
}

func (m *model) apply(seq Seq, w *ShardWrite) {
	if seq <= m.seq {
		return
	}
	m.seq = seq
	n := len(m.list)
	m.take(seq, w)
	if len(m.list) == 0 || len(m.list) == n || m.list[len(m.list)-1].Seq != seq || m.list[len(m.list)-1].Op == OpSet {
		return
	}
	run := 0 // of deltas at the end since the last whole
	for i := len(m.list) - 1; i >= 0 && m.list[i].Op != OpSet && m.list[i].Whole == nil; i-- {
		run++
	}
	if v, err := m.value(nil); run >= WholeEvery && err == nil {
		m.list = slices.Clone(m.list)
		m.list[len(m.list)-1].Whole = &v
	}
}

func (m *model) late(seq Seq, w *ShardWrite) {
	m.seq = max(m.seq, seq)
	m.take(seq, w)
}

func (m *model) take(seq Seq, w *ShardWrite) {
	s := Standing{Seq: seq, Op: w.Op, Type: w.Type, Content: w.Content, Ref: w.Ref, Absent: w.Absent}
	if w.Absent {
		s.Op = OpSet
	}
	at := m.below(seq)
	there := at < len(m.list) && m.list[at].Seq == seq
	switch {
	case w.Removes != 0:
		m.remove(w.Removes)
	case w.Restored != 0:
		to, from := max(at, m.below(w.Restored+1)), m.below(w.Restored+1)
		if from == 0 {
			m.from(0, append([]Standing{{Seq: w.Restored, Missing: true}}, m.list[to:]...)...)
		} else if from < to {
			m.from(from, m.list[to:]...)
		}
	case at == len(m.list):
		m.list = append(slices.Clone(m.list), s)
	case there && m.list[at].Missing && (at > 0 || s.Op == OpSet):
		m.from(at, append([]Standing{s}, m.list[at+1:]...)...)
	case there, at == 0 && m.list[0].Folded:
	case at == 0 && s.Op != OpSet && m.list[0].Op == OpSet:
		m.from(0, append([]Standing{{Seq: seq, Missing: true}}, m.list...)...)
	default:
		m.from(at, append([]Standing{s}, m.list[at:]...)...)
	}
}

func (m *model) remove(seq Seq) {
	if at := slices.IndexFunc(m.list, func(s Standing) bool { return s.Seq == seq && s.Op != OpSet }); at >= 0 {
		m.from(at, m.list[at+1:]...)
	} else if len(m.list) > 0 && m.list[0].Folded && seq <= m.list[0].Seq {
		m.from(0, append([]Standing{{Seq: m.list[0].Seq, Missing: true, Folded: true}}, m.list[1:]...)...)
	}
}

// value goes through the writes from the last one on that says all of the content.
func (m *model) value(load func(*Ref) ([]byte, error)) (Value, error) {
	v := Value{Absent: true}
	for _, s := range m.list[m.start():] {
		large := v.Ref != nil && v.Ref.Size > MaxMerged || s.Ref != nil && s.Ref.Size > MaxMerged
		switch {
		case s.Missing:
			return Value{}, ErrNoContent
		case s.Whole != nil:
			v = *s.Whole
		case s.Op == OpSet:
			v = Value{Type: s.Type, Content: s.Content, Ref: s.Ref, Absent: s.Absent}
		case !large:
			var both [2]string
			for i, one := range []Standing{{Content: v.Content, Ref: v.Ref}, s} {
				if one.Ref != nil && load == nil {
					return Value{}, ErrNoContent
				} else if one.Ref != nil {
					text, err := load(one.Ref)
					if err != nil {
						return Value{}, err
					}
					one.Content = text
				}
				both[i] = string(one.Content)
			}
			v = Value{Type: v.Type, Content: []byte(merged(s.Op, both[0], both[1]))}
		}
		if v.Type == "" {
			v.Type = s.Type
		}
	}
	return v, nil
}

func (m *model) start() (at int) {
	for i, s := range m.list {
		if i > 0 && (s.Op == OpSet || s.Whole != nil) {
			at = i
		}
	}
	return at
}

func (m *model) forget(keep Seq, load func(*Ref) ([]byte, error)) error {
	n := m.below(keep + 1)
	if n == 0 || n == 1 && m.list[0].Op == OpSet {
		return nil
	}
	under := model{list: m.list[:n]}
	v, err := under.value(load)
	if err != nil {
		return err
	}
	behind, folded := 0, m.list[0].Folded || m.list[0].Op != OpSet
	for i := 1; i < n; i++ {
		if behind++; m.list[i].Op == OpSet {
			behind, folded = 0, false
		}
	}
	m.list = append([]Standing{{Seq: m.list[n-1].Seq, Type: v.Type, Content: v.Content, Ref: v.Ref, Absent: v.Absent,
		Folded: folded || behind > 0}}, m.list[n:]...)
	return nil
}

func (m *model) bound(entries, size int, load func(*Ref) ([]byte, error)) error {
	var contents []int
	for i, s := range m.list {
		if i > 0 && s.Op == OpSet {
			contents = append(contents, i)
		}
	}
	if n := len(contents); n >= keptContents {
		m.list = m.list[contents[n-keptContents]:]
	}
	sizeOf := func(list []Standing) (n int) {
		for _, s := range list[min(1, len(list)):] {
			n += len(s.Content)
		}
		return n
	}
	all := sizeOf(m.list)
	if len(m.list) <= entries && all <= size {
		return nil
	}
	n := max(0, len(m.list)-MostRemovable)
	first, gone := max(n, 1), 0
	for i := first; i < len(m.list) && all-gone > size/2; i++ {
		gone += len(m.list[i].Content)
		n = i
	}
	return m.forget(m.list[n].Seq, load)
}

func (m *model) have(ref *Ref, content []byte) {
	m.list = slices.Clone(m.list)
	for i := range m.list {
		if sameRef(m.list[i].Ref, ref) {
			m.list[i].Content, m.list[i].Ref = content, nil
		}
	}
}

var errGone = errors.New("it is gone")

// keptAt gives the contents that are written by reference, by their offsets; one is gone.
func keptAt(ref *Ref) ([]byte, error) {
	if ref.Offset == 3 {
		return nil, errGone
	}
	return fmt.Appendf(nil, "%d\n", ref.Offset), nil
}

func anyAt(ref *Ref) ([]byte, error) { return fmt.Appendf(nil, "%d\n", ref.Offset), nil }

func sameStanding(a, b Standing) bool {
	return a.Seq == b.Seq && a.Op == b.Op && a.Type == b.Type && bytes.Equal(a.Content, b.Content) &&
		sameRef(a.Ref, b.Ref) && a.Absent == b.Absent && a.Missing == b.Missing && a.Folded == b.Folded &&
		(a.Whole == nil) == (b.Whole == nil) && (a.Whole == nil || sameValue(*a.Whole, *b.Whole))
}

func sameValue(a, b Value) bool {
	return a.Type == b.Type && bytes.Equal(a.Content, b.Content) && sameRef(a.Ref, b.Ref) && a.Absent == b.Absent
}

func sameRef(a, b *Ref) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// deep is a copy of a list that nothing of it is shared with.
func deep(list []Standing) []Standing {
	list = slices.Clone(list)
	for i := range list {
		list[i].Content = bytes.Clone(list[i].Content)
		if v := list[i].Whole; v != nil {
			c := *v
			c.Content = bytes.Clone(v.Content)
			list[i].Whole = &c
		}
	}
	return list
}

// pair is Writes beside the model, and the lists and values that were given away, with copies of them.
type pair struct {
	x     *Writes
	m     *model
	lists [][2][]Standing
	shown [][2][]byte
	cut   bool // entries were cut off by hand, so seqs from before may be of others
}

func newPair(list ...Standing) *pair {
	p := &pair{x: &Writes{List: list}, m: &model{list: deep(list)}}
	if n := len(list); n > 0 {
		p.x.Seq, p.m.seq = list[n-1].Seq, list[n-1].Seq
	}
	return p
}

// give keeps the list as it is: what is done to Writes afterwards must not change it.
func (p *pair) give() { p.lists = append(p.lists, [2][]Standing{p.x.List, deep(p.x.List)}) }

// differ says in what the two differ; nil: in nothing.
func (p *pair) differ(ask bool, load func(*Ref) ([]byte, error)) error {
	if p.x.Seq != p.m.seq || !slices.EqualFunc(p.x.List, p.m.list, sameStanding) {
		return fmt.Errorf("at %d there is\n%+.300v, want at %d\n%+.300v", p.x.Seq, p.x.List, p.m.seq, p.m.list)
	}
	last, missing := Seq(0), Seq(0)
	merges := slices.ContainsFunc(p.m.list, func(s Standing) bool { return s.Op != OpSet })
	if n := len(p.m.list); n > 0 {
		last, merges = p.m.list[n-1].Seq, merges || p.m.list[0].Folded
		if at := p.m.start(); p.m.list[at].Missing {
			missing = p.m.list[at].Seq
		}
	}
	if p.x.Last() != last || p.x.Missing() != missing || p.x.Merges() != merges {
		return fmt.Errorf("%d is last, %d is missing, merges %v; want %d, %d, %v", p.x.Last(), p.x.Missing(),
			p.x.Merges(), last, missing, merges)
	}
	if !ask {
		return nil
	}
	got, err := p.x.Value(load)
	want, bad := p.m.value(load)
	if err == nil && bad != nil { // it was worked out while its contents were there
		want, bad = p.m.value(anyAt)
	}
	if !errors.Is(err, bad) || (err == nil) != (bad == nil) || !sameValue(got, want) {
		return fmt.Errorf("it is %.80q %+v, %v; want %.80q %+v, %v", got.Content, got, err, want.Content, want, bad)
	}
	p.shown = append(p.shown, [2][]byte{got.Content, bytes.Clone(got.Content)})
	return nil
}

// given says whether what was given away is as it was.
func (p *pair) given() error {
	for _, l := range p.lists {
		if !slices.EqualFunc(l[0], l[1], sameStanding) {
			return fmt.Errorf("a list that was given away was\n%+v and is\n%+v", l[1], l[0])
		}
	}
	for _, v := range p.shown {
		if !bytes.Equal(v[0], v[1]) {
			return fmt.Errorf("a value that was shown was %.80q and is %.80q", v[1], v[0])
		}
	}
	return nil
}

// TestWritesModel draws long and short histories, of writes in and out of order, of what is folded and bounded in
// between and cut off by hand, and holds Writes against the model after each: its entries, and its value as often as
// it is asked for. Nothing that was given away changes afterwards.
func TestWritesModel(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := newPair()
		length, refs := 3*WholeEvery, seed%8 != 0
		if refs {
			length = 30
		}
		for i := range length {
			what := p.draw(rng, refs)
			load := []func(*Ref) ([]byte, error){nil, keptAt, anyAt}[rng.IntN(3)]
			if err := p.differ(rng.IntN(4) > 0, load); err != nil {
				t.Fatalf("seed %d, %d: after %s: %v", seed, i, what, err)
			}
			if rng.IntN(6) == 0 {
				p.give()
			}
		}
		if err := p.given(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// draw does one thing to both.
func (p *pair) draw(rng *rand.Rand, refs bool) string {
	seq := p.m.seq + Seq(rng.IntN(3))
	some := func() Seq { return Seq(1 + rng.IntN(int(p.m.seq)+1)) }
	w := &ShardWrite{Op: Op(rng.IntN(int(numOps))), Content: fmt.Append(nil, rng.IntN(30)-9),
		Type: []string{"", "a", "b"}[rng.IntN(3)]}
	if !refs && w.Op == OpSet && rng.IntN(20) > 0 {
		w.Op = OpAppend
	}
	odds := 2
	if refs {
		odds = 6
	}
	switch n := rng.IntN(60 / odds); {
	case n == 0:
		w = &ShardWrite{Removes: some()}
	case n == 1 && rng.IntN(3) == 0:
		w = &ShardWrite{Restored: some()}
	case n == 2 && rng.IntN(3) == 0:
		w.Absent = true
	case n == 3 && refs:
		w.Ref, w.Content = &Ref{Offset: int64(1 + rng.IntN(4)), Size: []int64{2, MaxMerged, MaxMerged + 1}[rng.IntN(3)]}, nil
	}
	switch n := rng.IntN(100 / odds); {
	case n == 0:
		keep := some()
		err, bad := p.x.Forget(keep, keptAt), p.m.forget(keep, keptAt)
		if err == nil && bad != nil {
			_ = p.m.forget(keep, anyAt)
		}
		return fmt.Sprintf("forgetting up to %d: %v, %v", keep, err, bad)
	case n == 1:
		entries, size := rng.IntN(12), rng.IntN(30)
		_, _ = p.x.Bound(entries, size, anyAt), p.m.bound(entries, size, anyAt)
		return fmt.Sprintf("bounding to %d and %d", entries, size)
	case n == 2 && len(p.x.List) > 0:
		cut := rng.IntN(len(p.x.List))
		p.x.List, p.m.list, p.cut = slices.Clone(p.x.List[:cut]), p.m.list[:cut], true
		return fmt.Sprintf("cutting at %d", cut)
	case n == 3 && refs:
		ref, content := &Ref{Offset: int64(1 + rng.IntN(4)), Size: 2}, []byte("had\n")
		p.lists = nil // it is taken over where it is
		p.x.Have(ref, content)
		p.m.have(ref, content)
		return fmt.Sprintf("having %d", ref.Offset)
	case n < 6:
		if seq = some(); p.cut {
			seq = p.m.seq + 1
		}
		p.x.Late(seq, w)
		p.m.late(seq, w)
	default:
		p.x.Apply(seq, w)
		p.m.apply(seq, w)
	}
	return fmt.Sprintf("%+v at %d", *w, seq)
}

// TestWritesExhaustive does all that can be done in three steps of twelve kinds, or in four, to lists that begin in
// each way that there is.
func TestWritesExhaustive(t *testing.T) {
	delta := func(op Op) func(seq Seq) *ShardWrite {
		return func(seq Seq) *ShardWrite { return &ShardWrite{Op: op, Content: fmt.Append(nil, seq)} }
	}
	write := func(w ShardWrite) func(Seq) *ShardWrite { return func(Seq) *ShardWrite { return &w } }
	apply := []func(Seq) *ShardWrite{delta(OpSet), delta(OpAppend), delta(OpAdd), write(ShardWrite{Absent: true}),
		write(ShardWrite{Removes: 4}), write(ShardWrite{Removes: 5}), write(ShardWrite{Restored: 4}),
		write(ShardWrite{Restored: 5})}
	set, one := Standing{Seq: 4, Content: []byte("7")}, Standing{Seq: 5, Op: OpAppend, Content: []byte("8")}
	folded, missing := set, Standing{Seq: 4, Missing: true}
	folded.Folded = true
	for name, list := range map[string][]Standing{"nothing": nil, "a content": {set}, "a content and a delta": {set, one},
		"a delta": {one}, "a fold": {folded, one}, "a hole": {missing, one}} {
		steps := len(apply) + 4
		all := steps * steps * steps
		if list != nil && list[0].Folded {
			all *= steps
		}
		for n := range all {
			p := newPair(deep(list)...)
			p.give()
			for at, rest := Seq(7), n; at < 11; at, rest = at+1, rest/steps {
				switch kind := rest % steps; {
				case kind < len(apply):
					p.x.Apply(at, apply[kind](at))
					p.m.apply(at, apply[kind](at))
				case kind < len(apply)+2:
					early := Seq(3 + kind - len(apply))
					p.x.Late(early, delta(Op(kind-len(apply)))(early))
					p.m.late(early, delta(Op(kind-len(apply)))(early))
				default:
					keep := at - 1 - Seq(steps-kind)
					if err, bad := p.x.Forget(keep, nil), p.m.forget(keep, nil); (err == nil) != (bad == nil) {
						t.Fatalf("%s, %d: forgetting up to %d: %v, want %v", name, n, keep, err, bad)
					}
				}
				if err := p.differ(at%2 == 0, nil); err != nil {
					t.Fatalf("%s, steps %d: %v", name, n, err)
				}
			}
			if err := p.given(); err != nil {
				t.Fatalf("%s, steps %d: %v", name, n, err)
			}
		}
	}
}
