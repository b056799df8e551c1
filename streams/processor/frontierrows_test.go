package processor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// randomMoves are what decisions do to one scope, in order: writes, removals, writes that leave the content, and
// holds; of small contents also retractions, which put one back.
func randomMoves(rng *rand.Rand, n int, large bool) []topology.ScopeMove {
	var moves []topology.ScopeMove
	var wrote []sequencer.Seq
	for seq := sequencer.Seq(1); len(moves) < n; seq++ {
		m := topology.ScopeMove{Workspace: "w", Scope: "shard:/a", Seq: seq, Tx: sequencer.TxID(fmt.Sprint("t", seq))}
		written := &sequencer.Write{Scope: m.Scope, Writer: sequencer.Writer{Seq: seq, Tx: m.Tx}}
		switch rng.IntN(8) {
		case 0: // the decision is not of this scope
			continue
		case 1:
			m.Write = written
			content := []byte(m.Tx)
			if large {
				content = make([]byte, 1000+rng.IntN(1000))
			}
			m.Shard = &sequencer.ShardWrite{Scope: m.Scope, Content: content}
			wrote = append(wrote, seq)
		case 2:
			m.Write = &sequencer.Write{Scope: m.Scope}
			m.Shard = &sequencer.ShardWrite{Scope: m.Scope, Absent: true}
		case 3:
			m.Write = written
		case 4:
			if large || len(wrote) == 0 { // what is beyond the bounds may be put back in one of the tables only
				continue
			}
			m.Write = written
			m.Shard = &sequencer.ShardWrite{Scope: m.Scope, Restored: wrote[rng.IntN(len(wrote))]}
		default:
			m.Added, m.Ended = []sequencer.Hold{{}}, []sequencer.Hold{{}} // holds are not compared
		}
		moves = append(moves, m)
	}
	return moves
}

// feed gives a row a move as the processor does, while the workspace's own row is whole up to a seq.
func feed(row *topology.FrontierRow, m *topology.ScopeMove, whole sequencer.Seq) {
	had := row.Shard
	if m.Seq > row.Seq {
		moveRow(row, m, nil)
	} else {
		lateContent(row, m, func() sequencer.Seq { return whole }, nil)
	}
	countWrite(row, had, m, whole)
}

// A table that begins with the last moves, and is given all of them behind those, has the content of one that was
// given all in order; second copies that a lagging processor sends then change nothing.
func TestLateMovesMakeTheSameContent(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		moves := randomMoves(rng, 1+rng.IntN(12), seed%2 == 0)
		row := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
		kept := rng.IntN(len(moves) + 1)
		for i := kept; i < len(moves); i++ {
			feed(row, &moves[i], 0)
		}
		want := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
		for i := range moves {
			feed(row, &moves[i], moves[i].Seq-1)
			feed(want, &moves[i], moves[i].Seq-1)
		}
		for range 2 {
			row.Open, row.Frontier, want.Open, want.Frontier = nil, 0, nil, 0
			is, be := *row, *want
			is.Count.Counted, be.Count.Counted = nil, nil // how it was counted is another matter than how much
			if !reflect.DeepEqual(is, be) {
				t.Fatalf("seed %d: %d of %d were kept:\n%+v %+v\nwant\n%+v %+v", seed, len(moves)-kept, len(moves), row,
					row.Shard, want, want.Shard)
			}
			for i := range moves {
				feed(row, &moves[i], want.Seq)
			}
		}
	}
}

// applied gives a row what decisions write at its scope, from seq 1 on: a text, a content of so many bytes, a
// reference, or what the decision with a seq carries; nil takes the shard away.
func applied(t *testing.T, row *topology.FrontierRow, writes ...any) {
	t.Helper()
	for i, x := range writes {
		m := topology.ScopeMove{Workspace: "w", Scope: "shard:/a", Seq: sequencer.Seq(i + 1)}
		m.Shard = &sequencer.ShardWrite{Scope: m.Scope}
		m.Write = &sequencer.Write{Scope: m.Scope}
		switch x := x.(type) {
		case string:
			m.Shard.Type, m.Shard.Content = "text/x", []byte(x)
		case int:
			m.Shard.Content = make([]byte, x)
		case *sequencer.Ref:
			m.Shard.Ref = x
		case sequencer.Seq:
			m.Shard.Restored = x
		case nil:
			m.Shard.Absent = true
		}
		moveRow(row, &m, nil)
		b, err := encodeRow(row)
		if err != nil {
			t.Fatal(err)
		}
		back, err := topology.DecodeFrontierRow(b)
		if err != nil {
			t.Fatal(err)
		}
		*row = *back
	}
}

// What a retraction puts back is in the row, whatever becomes of the decision that carries it: one write or several
// are undone, a removal, a write after a retraction, an empty content, and one by reference.
func TestRowHoldsWhatIsPutBack(t *testing.T) {
	ref := &sequencer.Ref{Partition: 1, Offset: 7, Size: 9000}
	text := topology.ShardRow{Type: "text/x", Content: []byte("a")}
	for name, c := range map[string]struct {
		writes []any
		want   topology.ShardRow
	}{
		"one":          {[]any{"a", "b", sequencer.Seq(1)}, text},
		"several":      {[]any{"a", "b", "c", "d", sequencer.Seq(1)}, text},
		"a removal":    {[]any{"a", nil, sequencer.Seq(1)}, text},
		"twice":        {[]any{"a", "b", sequencer.Seq(1), "c", sequencer.Seq(1)}, text},
		"large ones":   {[]any{"a", 4096, sequencer.Seq(1), 4096, sequencer.Seq(1)}, text},
		"empty":        {[]any{0, "b", sequencer.Seq(1)}, topology.ShardRow{}},
		"by reference": {[]any{ref, "b", sequencer.Seq(1)}, topology.ShardRow{Ref: ref}},
	} {
		row := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
		applied(t, row, c.writes...)
		s := row.Shard
		if s == nil || s.Lacks() || s.Restored != 1 || s.Type != c.want.Type ||
			string(s.Content) != string(c.want.Content) || !reflect.DeepEqual(s.Ref, c.want.Ref) {
			t.Errorf("%s: the row is %+v", name, s)
		}
	}
}

// A row keeps as many former contents as one inline content can hold, and eight at most; what is put back beyond
// them stays a reference. One that would be too large with them goes without.
func TestFormerContentsAreBounded(t *testing.T) {
	for _, c := range []struct {
		writes []any
		kept   int
	}{
		{[]any{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", sequencer.Seq(2)}, formerMost},
		{[]any{"1", 3000, 2000, 1000, 1000, "now", sequencer.Seq(2)}, 4}, // 3, 4, 5 and the one that was taken back
		{[]any{"1", formerBytes + 1, "now", sequencer.Seq(1)}, 1},
	} {
		row := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
		applied(t, row, c.writes...)
		if row.Shard == nil || !row.Shard.Lacks() || len(row.Former) != c.kept {
			t.Errorf("after %v: %d kept, %+v", c.writes, len(row.Former), row.Shard)
		}
	}
	row := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
	applied(t, row, formerBytes, topology.MaxRecordBytes-200)
	if len(row.Former) != 0 || row.Shard == nil || len(row.Shard.Content) == 0 {
		t.Errorf("%d kept beside a content that fills the record", len(row.Former))
	}
}

// stopped is a clock that goes only where a test moves it.
type stopped struct{ now time.Time }

func (c *stopped) Now() time.Time                     { return c.now }
func (*stopped) After(time.Duration) <-chan time.Time { return nil }

// While a content cannot be loaded, a partition does not wait for it with each delta.
func TestLoadsPause(t *testing.T) {
	clock, asked := &stopped{now: time.Unix(1, 0)}, 0
	var l loads
	away := func(context.Context) ([]byte, error) {
		asked++
		return nil, errors.New("it is away")
	}
	for range 3 {
		if _, err := l.get(clock, away); err == nil {
			t.Fatal("it was loaded")
		}
	}
	if asked != 1 {
		t.Errorf("it was asked for %d times at once", asked)
	}
	clock.now = clock.now.Add(loadPause)
	for range 2 {
		body, err := l.get(clock, func(context.Context) ([]byte, error) { return []byte("x"), nil })
		if err != nil || string(body) != "x" {
			t.Errorf("behind the pause: %q, %v", body, err)
		}
	}
}
