package processor

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
)

// Whatever the order in which records finish, the mark is the end of the gapless run of finished ones.
func TestLedgerMarksGaplessRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		marked := int64(0)
		l := newLedger(func(_ string, _ int32, next int64) {
			if next <= marked {
				t.Fatalf("the mark goes from %d to %d", marked, next)
			}
			marked = next
		})
		n := rapid.IntRange(1, 40).Draw(t, "records")
		offset, offsets := int64(0), make([]int64, n)
		open := make(map[int64]int)
		var todo []func()
		for i := range offsets {
			offset += rapid.Int64Range(1, 3).Draw(t, "distance") // topics have holes
			offsets[i] = offset
			e := l.begin("t", 0, offset)
			holds := rapid.IntRange(0, 2).Draw(t, "holds")
			open[offset] = 1 + holds
			at := offset
			todo = append(todo, func() { l.done("t", 0, at); open[at]-- })
			for range holds {
				l.hold(e)
				todo = append(todo, func() { l.release(e); open[at]-- })
			}
		}
		seed := rapid.Uint64().Draw(t, "order")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for _, do := range todo {
			do()
			want := int64(0)
			for _, at := range offsets {
				if open[at] > 0 {
					break
				}
				want = at + 1
			}
			if marked != want {
				t.Fatalf("the mark is %d, want %d", marked, want)
			}
		}
		if l.next(place{"t", 0}) != offset+1 {
			t.Fatalf("next is %d after %d", l.next(place{"t", 0}), offset)
		}
	})
}

func TestLedgerPartsPartitions(t *testing.T) {
	marks := make(map[place]int64)
	l := newLedger(func(topic string, p int32, next int64) { marks[place{topic, p}] = next })
	l.begin("a", 0, 5)
	l.begin("a", 1, 5)
	l.begin("b", 0, 5)
	l.done("a", 0, 5)
	l.done("a", 0, 7) // was never begun: a mark of nothing
	if len(marks) != 1 || marks[place{"a", 0}] != 6 {
		t.Errorf("marks %v", marks)
	}
}

// An acknowledgement behind a refused decision must not push that decision out of its outbox.
func TestAcknowledgementsStopAtARefusal(t *testing.T) {
	p := &seqPartition{acks: make(map[string]sequencer.Seq)}
	if !p.acknowledge("shop", 1, nil) {
		t.Error("the first was taken")
	}
	if p.acknowledge("shop", 2, errors.New("refused")) || p.acknowledge("shop", 3, nil) || p.acks["shop"] != 1 {
		t.Errorf("acknowledged up to %d, want 1", p.acks["shop"])
	}
}
