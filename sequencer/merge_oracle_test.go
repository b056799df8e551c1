package sequencer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// plain is the history of one shard as one would write it down by hand: every write that stands, and nothing worked
// out. What it comes to is what Writes has to come to, whatever that forgets, keeps or is asked in between.
type plain struct {
	writes []plainWrite
	gone   Seq // up to here deltas cannot be taken out one by one any more
}

type plainWrite struct {
	seq    Seq
	op     Op
	text   string
	absent bool
}

func (p *plain) take(seq Seq, w *ShardWrite) {
	switch {
	case w.Removes != 0:
		p.writes = slices.DeleteFunc(p.writes, func(one plainWrite) bool { return one.seq == w.Removes && one.op != OpSet })
	case w.Restored != 0:
		p.writes = slices.DeleteFunc(p.writes, func(one plainWrite) bool { return one.seq > w.Restored })
	default:
		p.writes = append(p.writes, plainWrite{seq, w.Op, string(w.Content), w.Absent})
	}
}

// value goes through the writes, one after the other.
func (p *plain) value() (text string, absent bool) {
	absent = true
	for _, w := range p.writes {
		if w.op == OpSet {
			text, absent = w.text, w.absent
			continue
		}
		text, absent = merged(w.op, text, w.text), false
	}
	return text, absent
}

// TestWritesOracle draws histories of a shard and holds Writes against the plain one after each write: what it comes
// to, whether a delta can still be taken out, and that what was shown before stays as it was.
func TestWritesOracle(t *testing.T) {
	for seed := range uint64(1_500) {
		if err := oracle(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func oracle(rng *rand.Rand) error {
	x, p := &Writes{}, &plain{}
	shown := map[Seq][2][]byte{} // a value as it was given, and a copy
	only := Op(rng.IntN(int(numOps)))
	for seq := Seq(1); seq < Seq(3+rng.IntN(3*WholeEvery)); seq++ {
		w := drawnWrite(rng, p, only, seq)
		x.Apply(seq, w)
		x.Apply(seq, w) // a second copy changes nothing
		p.take(seq, w)
		if rng.IntN(12) == 0 {
			p.gone = max(p.gone, seq-Seq(rng.IntN(int(seq))))
			if err := x.Forget(p.gone, nil); err != nil && !errors.Is(err, ErrNoContent) {
				return err
			}
		}
		if rng.IntN(3) == 0 {
			continue // it is not asked after each write
		}
		if err := alike(x, p, seq); err != nil {
			return fmt.Errorf("after %+v at %d: %w", w, seq, err)
		}
		if v, err := x.Value(nil); err == nil {
			shown[seq] = [2][]byte{v.Content, bytes.Clone(v.Content)}
		}
	}
	for seq, was := range shown {
		if !bytes.Equal(was[0], was[1]) {
			return fmt.Errorf("what was shown at %d was %q, and is %q now", seq, was[1], was[0])
		}
	}
	return nil
}

// drawnWrite is one of what a log may have: contents, deltas, some taken out, earlier versions put back.
func drawnWrite(rng *rand.Rand, p *plain, only Op, seq Seq) *ShardWrite {
	var removable, versions []Seq
	for _, w := range p.writes {
		if w.seq > p.gone && w.op != OpSet {
			removable = append(removable, w.seq)
		}
		if w.seq > p.gone {
			versions = append(versions, w.seq)
		}
	}
	op := only
	if rng.IntN(10) == 0 {
		op = Op(rng.IntN(int(numOps)))
	}
	switch n := rng.IntN(40); {
	case n == 0 && len(removable) > 0:
		return &ShardWrite{Removes: removable[rng.IntN(len(removable))]}
	case n == 1 && len(versions) > 0:
		return &ShardWrite{Restored: versions[rng.IntN(len(versions))]}
	case n == 2:
		return &ShardWrite{Absent: true}
	case n == 3:
		return &ShardWrite{Content: []byte(fmt.Sprint(rng.IntN(100)))}
	case n == 4 && op == OpAdd:
		edge := []string{"9223372036854775807", "-9223372036854775808", "0"}[rng.IntN(3)]
		return &ShardWrite{Op: op, Content: []byte(edge)}
	case n == 5 && (op == OpAppend || op == OpUnion):
		return &ShardWrite{Op: op, Content: bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, MaxMerged/2-1+rng.IntN(3))}
	}
	return &ShardWrite{Op: op, Content: []byte(fmt.Sprint(rng.IntN(60) - 20))}
}

func alike(x *Writes, p *plain, seq Seq) error {
	v, err := x.Value(nil)
	if err != nil {
		return err
	}
	text, absent := p.value()
	if string(v.Content) != text || v.Absent != absent {
		return fmt.Errorf("it is %.80q (absent %v), want %.80q (%v)", v.Content, v.Absent, text, absent)
	}
	last := Seq(0)
	if n := len(p.writes); n > 0 {
		last = p.writes[n-1].seq
	}
	if x.Last() != last || x.Seq != seq || x.Missing() != 0 {
		return fmt.Errorf("it is as of %d and %d, lacks %d; want %d and %d", x.Last(), x.Seq, x.Missing(), last, seq)
	}
	deltas := slices.ContainsFunc(p.writes, func(w plainWrite) bool { return w.op != OpSet && w.seq > p.gone })
	if deltas && !x.Merges() {
		return errors.New("deltas stand, and it does not say so")
	}
	return nil
}

// TestLateWrites holds where a write goes that others behind it came before: between them, where its place is known;
// nowhere, where the first one has it already; and as a place of which only the log knows more, where it came upon
// what was there before all that is known.
func TestLateWrites(t *testing.T) {
	set := func(seq Seq, text string) Standing { return Standing{Seq: seq, Content: []byte(text)} }
	delta := func(seq Seq, text string) Standing { return Standing{Seq: seq, Op: OpAppend, Content: []byte(text)} }
	folded := set(5, "abc")
	folded.Folded = true
	gap := Standing{Seq: 7, Missing: true}
	more := func(text string) *ShardWrite { return &ShardWrite{Op: OpAppend, Content: []byte(text)} }
	for name, c := range map[string]struct {
		list []Standing
		seq  Seq
		w    *ShardWrite
		want string // with what is missing in brackets
	}{
		"in what is folded":        {[]Standing{folded, delta(9, "z")}, 3, more("b"), "abcz"},
		"the fold itself":          {[]Standing{folded, delta(9, "z")}, 5, more("c"), "abcz"},
		"behind what is folded":    {[]Standing{folded, delta(9, "z")}, 7, more("y"), "abcyz"},
		"between two":              {[]Standing{set(5, "abc"), delta(9, "z")}, 7, more("y"), "abcyz"},
		"a content between two":    {[]Standing{set(5, "abc"), delta(9, "z")}, 7, &ShardWrite{Content: []byte("n")}, "nz"},
		"a copy":                   {[]Standing{set(5, "abc"), delta(9, "z")}, 9, more("z"), "abcz"},
		"below the first content":  {[]Standing{set(5, "abc")}, 3, more("x"), "abc"},
		"below the first delta":    {[]Standing{delta(5, "c")}, 3, more("b"), "bc"},
		"a content below a delta":  {[]Standing{delta(5, "c")}, 3, &ShardWrite{Content: []byte("n")}, "nc"},
		"a delta that was missing": {[]Standing{set(5, "abc"), gap, delta(9, "z")}, 7, more("y"), "abcyz"},
		"a first one missing":      {[]Standing{gap, delta(9, "z")}, 7, &ShardWrite{Content: []byte("n")}, "nz"},
		"a first delta missing":    {[]Standing{gap, delta(9, "z")}, 7, more("y"), "[7]"},
	} {
		x := &Writes{Seq: 9, List: c.list}
		shown := func() string {
			v, err := x.Value(nil)
			if err != nil {
				return fmt.Sprintf("[%d]", x.Missing())
			}
			return string(v.Content)
		}
		shown() // what was worked out before must not be what is shown after
		x.Late(c.seq, c.w)
		if got := shown(); got != c.want || x.Seq != 9 {
			t.Errorf("%s: it is %q as of %d, want %q as of 9", name, got, x.Seq, c.want)
		}
	}
	x := &Writes{Seq: 5, List: []Standing{set(5, "abc")}}
	x.Late(3, more("x"))
	x.Apply(11, &ShardWrite{Restored: 3}) // what stood then is in the log alone
	if _, err := x.Value(nil); !errors.Is(err, ErrNoContent) || x.Missing() != 3 {
		t.Errorf("back to a delta on nothing known: %v, %d is missing", err, x.Missing())
	}
}
