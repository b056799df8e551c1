package sequencer_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// written is one write of a shard as the test knows it.
type written struct {
	seq  sequencer.Seq
	op   sequencer.Op
	text string
}

// comesTo is what writes come to, said as plainly as can be.
func comesTo(list []written) string {
	value := ""
	for _, w := range list {
		switch w.op {
		case sequencer.OpSet:
			value = w.text
		case sequencer.OpAppend:
			value += w.text
		case sequencer.OpAdd:
			a, err := strconv.ParseInt(value, 10, 64)
			b, _ := strconv.ParseInt(w.text, 10, 64)
			if sum := a + b; (err == nil || value == "") && (b >= 0) == (sum >= a) {
				value = strconv.FormatInt(sum, 10)
			}
		case sequencer.OpUnion:
			lines := strings.Fields(value + "\n" + w.text)
			slices.Sort(lines)
			value = strings.Join(slices.Compact(lines), "\n") + "\n"
		}
	}
	return value
}

// TestWrites feeds long histories of one shard, in which deltas are taken out again, contents come back, some writes
// come twice and what can no longer be taken out is made one content. Each value is that of the writes that stand.
func TestWrites(t *testing.T) {
	wholes := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(16, seed))
		var x sequencer.Writes
		var stands []written
		keep := sequencer.Seq(0) // nothing up to here is taken back
		op := sequencer.Op(1 + seed%3)
		for seq := sequencer.Seq(1); seq < 400; seq++ {
			w := sequencer.ShardWrite{Op: op, Content: []byte(strconv.Itoa(rng.IntN(50) - 9))}
			if op == sequencer.OpUnion {
				w.Content = append(w.Content, '\n')
			}
			late := slices.IndexFunc(stands, func(s written) bool { return s.seq > keep && s.op != sequencer.OpSet })
			switch n := rng.IntN(100); {
			case n == 0:
				w.Op = sequencer.OpSet
				stands = append(stands, written{seq, w.Op, string(w.Content)})
			case n < 15 && late >= 0:
				at := late + rng.IntN(len(stands)-late)
				if stands[at].op == sequencer.OpSet {
					at = late
				}
				w = sequencer.ShardWrite{Op: op, Removes: stands[at].seq}
				stands = slices.Delete(stands, at, at+1)
			case n < 17 && late > 0:
				w = sequencer.ShardWrite{Restored: stands[late].seq}
				stands = stands[:late+1]
			default:
				stands = append(stands, written{seq, op, string(w.Content)})
			}
			x.Apply(seq, &w)
			x.Apply(seq-min(seq, sequencer.Seq(rng.IntN(3))), &w)
			if rng.IntN(90) == 0 {
				keep = max(keep, seq-min(seq, sequencer.Seq(rng.IntN(80))))
				if err := x.Forget(keep, nil); err != nil {
					t.Fatal(err)
				}
			}
			v, err := x.Value(nil)
			if want := comesTo(stands); err != nil || string(v.Content) != want || v.Absent != (len(stands) == 0) {
				t.Fatalf("seed %d, seq %d, %s: %q (%v, %v), want %q", seed, seq, op, v.Content, v.Absent, err, want)
			}
			for i := range x.List {
				if x.List[i].Whole != nil && x.List[i].Seq == seq {
					wholes++
				}
			}
		}
	}
	if wholes == 0 {
		t.Error("no delta had the whole with it")
	}
}

// TestAddOverflows holds that a sum which leaves int64 is left out, by all alike, and counts once the one before it is
// gone.
func TestAddOverflows(t *testing.T) {
	var x sequencer.Writes
	value := func(want string) {
		t.Helper()
		if v, err := x.Value(nil); err != nil || string(v.Content) != want {
			t.Errorf("%q, %v, want %s", v.Content, err, want)
		}
	}
	add := func(seq sequencer.Seq, text string) {
		x.Apply(seq, &sequencer.ShardWrite{Op: sequencer.OpAdd, Content: []byte(text)})
	}
	most := strconv.FormatInt(math.MaxInt64, 10)
	add(1, most)
	add(2, "1")
	value(most)
	add(3, "-7")
	value(strconv.FormatInt(math.MaxInt64-7, 10))
	x.Apply(4, &sequencer.ShardWrite{Op: sequencer.OpAdd, Removes: 1})
	value("-6")
	for text, over := range map[string]bool{most: true, "": false, "x": true, "-5": false} {
		if got := sequencer.Overflows([]byte(text), []byte("1")); got != over {
			t.Errorf("%q overflows: %v", text, got)
		}
	}
}

// TestWritesByReference holds that content which is not here is asked for, and named where it is not known at all.
func TestWritesByReference(t *testing.T) {
	ref := &sequencer.Ref{Offset: 7}
	var x sequencer.Writes
	x.Apply(1, &sequencer.ShardWrite{Ref: ref, Type: "text/plain"})
	x.Apply(2, &sequencer.ShardWrite{Op: sequencer.OpAppend, Content: []byte("b")})
	if _, err := x.Value(nil); err == nil {
		t.Error("there is a value without the content")
	}
	v, err := x.Value(func(r *sequencer.Ref) ([]byte, error) { return fmt.Append(nil, "a", r.Offset), nil })
	if err != nil || !bytes.Equal(v.Content, []byte("a7b")) || v.Type != "text/plain" {
		t.Errorf("%+v, %v", v, err)
	}
	x.List = x.List[1:]
	x.Apply(5, &sequencer.ShardWrite{Restored: 1})
	if _, err := x.Value(nil); err == nil || x.Missing() != 1 {
		t.Errorf("%v: the content of %d is missing, want of 1", err, x.Missing())
	}
}

// TestWritesTwice gives writes of a shard once more, as two processors publish them: a delta that was taken out does
// not come back, and one that stands counts once.
func TestWritesTwice(t *testing.T) {
	log := []sequencer.ShardWrite{{Op: sequencer.OpAdd, Content: []byte("3")},
		{Op: sequencer.OpAdd, Content: []byte("7")}, {Op: sequencer.OpAdd, Removes: 1}}
	var x sequencer.Writes
	for i := range log {
		x.Apply(sequencer.Seq(i+1), &log[i])
	}
	for i := range log {
		x.Apply(sequencer.Seq(i+1), &log[i])
		if v, err := x.Value(nil); err != nil || string(v.Content) != "7" {
			t.Errorf("with write %d once more: %q, %v, want 7", i+1, v.Content, err)
		}
	}
}

// TestWritesHave gives a content by reference only once it was asked for.
func TestWritesHave(t *testing.T) {
	ref := &sequencer.Ref{Offset: 7}
	var x sequencer.Writes
	x.Apply(1, &sequencer.ShardWrite{Ref: ref})
	if v, err := x.Value(nil); err != nil || v.Ref == nil {
		t.Fatalf("%+v, %v", v, err)
	}
	x.Apply(2, &sequencer.ShardWrite{Op: sequencer.OpAppend, Content: []byte("b")})
	x.Have(ref, []byte("a"))
	if v, err := x.Value(nil); err != nil || string(v.Content) != "ab" {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestWritesLate gives a table the last writes of histories first, and then all of them in order: it ends with what
// one has that was given each once.
func TestWritesLate(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(17, seed))
		op := sequencer.Op(1 + seed%3)
		log := []sequencer.ShardWrite{{Content: []byte("5\n")}}
		if op == sequencer.OpAdd {
			log[0].Content = []byte("5")
		}
		stands := []sequencer.Seq{1}
		for seq := sequencer.Seq(2); seq < 40; seq++ {
			w := sequencer.ShardWrite{Op: op, Content: []byte(strconv.Itoa(rng.IntN(50)))}
			switch n := rng.IntN(10); {
			case n == 0:
				w.Op = sequencer.OpSet
				stands = append(stands, seq)
			case n < 3 && len(stands) > 1:
				at := 1 + rng.IntN(len(stands)-1)
				if log[stands[at]-1].Op == sequencer.OpSet {
					stands = append(stands, seq)
					break
				}
				w = sequencer.ShardWrite{Op: op, Removes: stands[at]}
				stands = slices.Delete(stands, at, at+1)
			case n == 4 && len(stands) > 1:
				stands = stands[:len(stands)-1]
				w = sequencer.ShardWrite{Restored: stands[len(stands)-1]}
			default:
				stands = append(stands, seq)
			}
			log = append(log, w)
		}
		var ordered, late sequencer.Writes
		first := 1 + rng.IntN(len(log))
		for i := first; i < len(log); i++ {
			late.Late(sequencer.Seq(i+1), &log[i])
		}
		for i := range log {
			ordered.Apply(sequencer.Seq(i+1), &log[i])
			late.Late(sequencer.Seq(i+1), &log[i])
		}
		want, err := ordered.Value(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := late.Value(nil); err != nil || !bytes.Equal(got.Content, want.Content) {
			t.Fatalf("seed %d, the last %d first: %q, %v, want %q", seed, len(log)-first, got.Content, err, want.Content)
		}
	}
}

// TestWritesBound holds that what is folded changes no value, that what may still be taken out is kept, and that what
// cannot be told any more is not shown.
func TestWritesBound(t *testing.T) {
	var x sequencer.Writes
	for seq := sequencer.Seq(1); seq <= 5000; seq++ {
		x.Apply(seq, &sequencer.ShardWrite{Op: sequencer.OpAppend, Content: fmt.Append(nil, seq, "\n")})
	}
	before, err := x.Value(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := string(before.Content)
	if err := x.Bound(4096, 1<<20, nil); err != nil || len(x.List) != sequencer.MostRemovable {
		t.Fatalf("%d entries, %v", len(x.List), err)
	}
	last := sequencer.Seq(5000 - sequencer.MostRemovable + 2)
	x.Apply(5001, &sequencer.ShardWrite{Op: sequencer.OpAppend, Removes: last})
	want = strings.Replace(want, fmt.Sprint("\n", last, "\n"), "\n", 1)
	if got, err := x.Value(nil); err != nil || string(got.Content) != want {
		t.Fatalf("%v", err)
	}
	x.Apply(5002, &sequencer.ShardWrite{Op: sequencer.OpAppend, Removes: 7})
	if _, err := x.Value(nil); err == nil || x.Missing() == 0 {
		t.Error("a delta that is folded was taken out")
	}
}

// TestMaxMerged holds that a delta which makes a content too long is left out, and a smaller one behind it is not.
func TestMaxMerged(t *testing.T) {
	for _, op := range []sequencer.Op{sequencer.OpAppend, sequencer.OpUnion} {
		var x sequencer.Writes
		full := slices.Repeat([]byte("x"), sequencer.MaxMerged-3)
		full = append(full, '\n')
		for i, delta := range [][]byte{full, []byte("yyy\n"), []byte("z\n")} {
			x.Apply(sequencer.Seq(i+1), &sequencer.ShardWrite{Op: op, Content: delta})
		}
		if v, err := x.Value(nil); err != nil || string(v.Content) != string(full)+"z\n" {
			t.Errorf("%s: %d bytes, %v", op, len(v.Content), err)
		}
	}
}
