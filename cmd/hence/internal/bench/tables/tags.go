package tables

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/lightcone"
)

// labelled is an operation with what can tell its causes.
type labelled struct {
	replica int
	tx      sequencer.TxID
	rests   []int    // the operation of its replica before it, and the writers of what it read, by index, sorted
	clock   []uint64 // by replica
}

// operations draws rounds in which every replica reads all objects, as they were before the round, and writes one.
// Their order is that of a log.
func operations(chance *rand.Rand, replicas, objects, rounds int) (all []labelled) {
	wrote := make([]int, objects) // by object: one more than the index of its last writer
	last := make([]int, replicas)
	for range rounds {
		seen := slices.Clone(wrote)
		for _, r := range chance.Perm(replicas) {
			op := labelled{replica: r, tx: sequencer.TxID(fmt.Sprintf("%016x%08x", chance.Uint64(), chance.Uint32())),
				clock: make([]uint64, replicas)}
			for _, cause := range append(slices.Clone(seen), last[r]) {
				if cause > 0 {
					op.rests = append(op.rests, cause-1)
				}
			}
			slices.Sort(op.rests)
			op.rests = slices.Compact(op.rests)
			for _, cause := range op.rests {
				for i, count := range all[cause].clock {
					op.clock[i] = max(op.clock[i], count)
				}
			}
			op.clock[r]++
			all = append(all, op)
			wrote[chance.IntN(objects)], last[r] = len(all), len(all)
		}
	}
	return all
}

// tags are bits of an operation's tag: as a vector clock, as what its row of the closure table lists that it rests on,
// and as its position in the log.
type tags struct{ clock, rests, position float64 }

// tagOf measures the tag of one operation.
func tagOf(all []labelled, at int) (t tags, err error) {
	var clock []byte
	for _, count := range all[at].clock {
		clock = binary.AppendUvarint(clock, count)
	}
	row := topology.ClosureRow{Workspace: "w", Tx: all[at].tx, Agent: "agent", Status: "committed"}
	without, err := topology.EncodeClosureRow(&row)
	if err != nil {
		return t, fmt.Errorf("write a row without what it rests on: %w", err)
	}
	for _, cause := range all[at].rests {
		row.RestsOn = append(row.RestsOn, all[cause].tx)
	}
	with, err := topology.EncodeClosureRow(&row)
	if err != nil {
		return t, fmt.Errorf("write a row with what it rests on: %w", err)
	}
	return tags{8 * float64(len(clock)), 8 * float64(len(with)-len(without)),
		8 * float64(len(binary.AppendUvarint(nil, uint64(at+1))))}, nil
}

// tagsOf are the mean tags of the last round, when the counts are greatest.
func tagsOf(chance *rand.Rand, replicas, objects, rounds int) (t tags, err error) {
	all := operations(chance, replicas, objects, rounds)
	for at := len(all) - replicas; at < len(all); at++ {
		one, err := tagOf(all, at)
		if err != nil {
			return t, err
		}
		n := float64(replicas)
		t.clock, t.rests, t.position = t.clock+one.clock/n, t.rests+one.rests/n, t.position+one.position/n
	}
	return t, nil
}

// misled are the pairs of operations of which a tag says wrongly whether one is a cause of the other, held against
// vector clocks: what an operation rests on, and its position.
func (e *Env) misled(all []labelled) (rests, position int) {
	h := lightcone.History{}
	for i, op := range all {
		h.Messages, h.Order = append(h.Messages, lightcone.Message{Causes: op.rests}), append(h.Order, i)
	}
	for b, later := range all {
		past := e.Subject.Provenance(h, b, lightcone.Config{Closure: lightcone.Set{lightcone.Everything}})
		for a, earlier := range all[:b] {
			cause := later.clock[earlier.replica] >= earlier.clock[earlier.replica]
			if slices.Contains(past, a) != cause {
				rests++
			}
			if !cause { // the position says that all before is a cause
				position++
			}
		}
	}
	return rests, position
}

func tagBits(_ context.Context, e *Env) (Result, error) {
	chance, below, short := e.chance("tags"), 0, 0
	measure := func(replicas, objects, rounds int) (tags, error) {
		t, err := tagsOf(chance, replicas, objects, rounds)
		bound := float64(min(replicas, objects)) * math.Log2(float64(rounds))
		if t.clock < bound || t.rests < bound {
			below++
		}
		if t.position < bound {
			short++
		}
		return t, err
	}
	rounds := e.of(128, 2048)
	sizes := []int{2, 4, 8, 16, 32}
	var x, clockByReplica, restsByReplica, clockByObject, restsByObject, byRound, clockByRound, restsByRound []float64
	for _, n := range sizes {
		t, err := measure(n, 8, rounds)
		if err != nil {
			return Result{}, err
		}
		x, clockByReplica, restsByReplica = append(x, float64(n)), append(clockByReplica, t.clock),
			append(restsByReplica, t.rests)
		if t, err = measure(8, n, rounds); err != nil {
			return Result{}, err
		}
		clockByObject, restsByObject = append(clockByObject, t.clock), append(restsByObject, t.rests)
	}
	for k := 8; k <= rounds; k *= 4 {
		t, err := measure(8, 8, k)
		if err != nil {
			return Result{}, err
		}
		byRound, clockByRound, restsByRound = append(byRound, math.Log2(float64(k))), append(clockByRound, t.clock),
			append(restsByRound, t.rests)
	}
	slope := func(x, y []float64) float64 { _, slope, _, _ := fit(x, y); return slope }
	wrong, blind := e.misled(operations(chance, 4, 4, e.of(5, 12)))
	clocks, rests := slope(x, clockByReplica), slope(x, restsByObject)
	return Result{
		Ours: fmt.Sprintf("rests_on: %s bits more for each object, %s for each replica, %s for twice the operations; %d "+
			"pairs told wrongly", digits(rests), digits(slope(x, restsByReplica)), digits(slope(byRound, restsByRound)), wrong),
		Baseline: fmt.Sprintf("vector clocks: %s for each replica, %s for each object, %s for twice the operations; a "+
			"position in the log is below the bound in %d sizes, and takes %d pairs for causes that are none",
			digits(clocks), digits(slope(x, clockByObject)), digits(slope(byRound, clockByRound)), short, blind),
		Verdict: holds(below == 0 && wrong == 0 && short > 0 && blind > 0 && clocks > 0 && rests > 0 &&
			math.Abs(slope(x, clockByObject)) < clocks/10 && math.Abs(slope(x, restsByReplica)) < rests/2),
		Note: "bytes as they are written, held against min{replicas, objects} · lg operations of each; the bound itself " +
			"is cited. Each operation reads all objects; who reads fewer lists fewer",
		Plots: []report.Plot{{Title: "bits of a tag by replicas, of eight objects, or by objects, of eight replicas",
			Lines: []report.Line{{Name: "vector clock by replicas", X: x, Y: clockByReplica},
				{Name: "rests_on by replicas", X: x, Y: restsByReplica},
				{Name: "vector clock by objects", X: x, Y: clockByObject},
				{Name: "rests_on by objects", X: x, Y: restsByObject}}}}}, nil
}
