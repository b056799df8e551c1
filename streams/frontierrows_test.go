package streams

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// randomMoves are what decisions do to one scope, in order: writes, removals, writes that leave the content, and
// holds.
func randomMoves(rng *rand.Rand, n int) []topology.ScopeMove {
	var moves []topology.ScopeMove
	for seq := sequencer.Seq(1); len(moves) < n; seq++ {
		m := topology.ScopeMove{Workspace: "w", Scope: "shard:/a", Seq: seq, Tx: sequencer.TxID(fmt.Sprint("t", seq))}
		written := &sequencer.Write{Scope: m.Scope, Writer: sequencer.Writer{Seq: seq, Tx: m.Tx}}
		switch rng.IntN(6) {
		case 0: // the decision is not of this scope
			continue
		case 1:
			m.Write = written
			m.Shard = &sequencer.ShardWrite{Scope: m.Scope, Content: []byte(m.Tx)}
		case 2:
			m.Write = &sequencer.Write{Scope: m.Scope}
			m.Shard = &sequencer.ShardWrite{Scope: m.Scope, Absent: true}
		case 3:
			m.Write = written
		default:
			m.Added, m.Ended = []sequencer.Hold{{}}, []sequencer.Hold{{}} // holds are not compared
		}
		moves = append(moves, m)
	}
	return moves
}

// feed gives a row a move as the processor does, while the workspace's own row is whole up to a seq.
func feed(row *topology.FrontierRow, m *topology.ScopeMove, whole sequencer.Seq) {
	if m.Seq > row.Seq {
		moveRow(row, m)
	} else {
		lateContent(row, m, func() sequencer.Seq { return whole })
	}
}

// A table that begins with the last moves, and is given all of them behind those, has the content of one that was
// given all in order; second copies that a lagging processor sends then change nothing.
func TestLateMovesMakeTheSameContent(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		moves := randomMoves(rng, 1+rng.IntN(12))
		row := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
		kept := rng.IntN(len(moves) + 1)
		for i := kept; i < len(moves); i++ {
			feed(row, &moves[i], 0)
		}
		want := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
		for i := range moves {
			feed(row, &moves[i], moves[i].Seq-1)
			moveRow(want, &moves[i])
		}
		for range 2 {
			row.Open, row.Frontier, want.Open, want.Frontier = nil, 0, nil, 0
			if !reflect.DeepEqual(row, want) {
				t.Fatalf("seed %d: %d of %d were kept:\n%+v %+v\nwant\n%+v %+v", seed, len(moves)-kept, len(moves), row,
					row.Shard, want, want.Shard)
			}
			for i := range moves {
				feed(row, &moves[i], want.Seq)
			}
		}
	}
}
