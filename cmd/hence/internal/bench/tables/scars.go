package tables

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/lightcone"
	"github.com/hence-dev/hence/topology/lightcone/brute"
)

// positions is the order of one point of append.
func positions(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// byStamp is the order of timestamps.
func byStamp(stamps []float64) []int {
	order := positions(len(stamps))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(stamps[a], stamps[b]) })
	return order
}

// byVector is an order by what each message rests on, and then by name: it needs no clock and no point of append.
func byVector(h lightcone.History) []int {
	order := positions(len(h.Messages))
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(h.Ancestors(a)), len(h.Ancestors(b))),
			strings.Compare(h.Messages[b].Name, h.Messages[a].Name))
	})
	return order
}

func seams(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("seams"), e.of(100, 2_000)
	var scars [4]int
	const n = 20
	for range runs {
		h, stamps := posted(chance, n, 3, n/2)
		reset := make([]float64, n) // a counter that is reset at a failover
		halves := []int{}           // two halves that were ordered apart, one behind the other
		for i := range reset {
			reset[i] = float64(i % (n / 2))
		}
		for _, half := range []int{1, 0} {
			for i := range n {
				if i%2 == half {
					halves = append(halves, i)
				}
			}
		}
		for i, order := range [][]int{positions(n), byStamp(stamps), byStamp(reset), halves} {
			h.Order = order
			scars[i] += len(e.Subject.Scars(h))
		}
	}
	return Result{Ours: fmt.Sprintf("one point of append: %d scars in %d runs", scars[0], runs),
		Baseline: fmt.Sprintf("skewed clocks %d, a reset counter %d, two merged halves %d", scars[1], scars[2], scars[3]),
		Verdict:  holds(scars[0] == 0 && scars[1] > 0 && scars[2] > 0 && scars[3] > 0)}, nil
}

func detecting(_ context.Context, e *Env) (Result, error) {
	var words []string
	right, found := 0, 0
	for _, c := range []struct {
		name  string
		keeps lightcone.Keeps
		kept  func(brute.World) [4]uint8
	}{
		{"all causes", lightcone.Keeps{Causes: true}, func(w brute.World) [4]uint8 { return w.Past }},
		{"the order alone", lightcone.Keeps{OneAppend: true}, func(brute.World) [4]uint8 { return [4]uint8{} }},
		{"all but those of one message", lightcone.Keeps{}, func(w brute.World) [4]uint8 {
			w.Past[2] = 0
			return w.Past
		}},
	} {
		scarred := map[[2][4]uint8][2]bool{}
		twins := 0
		for g := range brute.Graphs(3) {
			for _, order := range brute.Permutations(7) {
				w := g
				for at, m := range order {
					w.Order[m] = uint8(at)
				}
				state := [2][4]uint8{c.kept(w), w.Order}
				both := scarred[state]
				i := 0
				if !w.Causal() {
					i = 1
				}
				if both[1-i] && !both[i] {
					twins++
				}
				both[i] = true
				scarred[state] = both
			}
		}
		if (twins == 0) == e.Subject.Detects(c.keeps) {
			right++
		}
		found += twins
		words = append(words, fmt.Sprintf("%s: %d", c.name, twins))
	}
	return Result{Ours: "kept states that a clean and a scarred history share: " + strings.Join(words, ", "),
		Verdict: holds(right == len(words) && found > 0),
		Note: "one point of append prevents scars without keeping causes, and cannot tell one: preventing and " +
			"detecting are " +
			"reported apart"}, nil
}

func clockStore(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("clock store"), e.of(200, 5_000)
	keeps := lightcone.Keeps{ClockBound: lightcone.Arbitration{Rule: lightcone.Clock, Uncertainty: 1, Distance: 2}}
	count := func(skew float64) (scars, named int) {
		for range runs {
			h, stamps := posted(chance, 20, 3, skew)
			h.Order = byStamp(stamps)
			scars += len(e.Subject.Scars(h))
			bare := h
			bare.Messages = make([]lightcone.Message, len(h.Messages)) // what the store keeps
			named += len(e.Subject.Scars(bare))
		}
		return scars, named
	}
	within, _ := count(.5)
	beyond, byStore := count(8)
	return Result{
		Ours:     fmt.Sprintf("with causes kept %d scars are named", beyond),
		Baseline: fmt.Sprintf("a clock store within its bound: %d scars; beyond it, of those it names %d", within, byStore),
		Verdict:  holds(within == 0 && beyond > 0 && byStore == 0 && keeps.Prevents() && !e.Subject.Detects(keeps))}, nil
}

func crossed(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("crossed"), e.of(500, 20_000)
	found, wrong, scars, inOne := 0, 0, 0, 0
	for range runs {
		h := lightcone.History{Messages: make([]lightcone.Message, 4), Order: positions(4)}
		one, two := chance.Perm(4), chance.Perm(4)
		h.Order = one
		scars += len(e.Subject.Scars(h))
		h.Order = two
		scars += len(e.Subject.Scars(h))
		cycle := e.Subject.Crossed(4, one, two)
		if slices.Equal(one, two) != (cycle == nil) {
			wrong++
		}
		if cycle != nil {
			found++
		}
		if e.Subject.Crossed(4, one, one[:2]) != nil { // prefixes of one log
			inOne++
		}
	}
	return Result{
		Ours: fmt.Sprintf("contradictions in %s; %d scars by causes; in views of one log %d", of(found, runs), scars,
			inOne),
		Baseline: fmt.Sprintf("%d of the pairs of orders are judged otherwise by comparing them", wrong),
		Verdict:  holds(found > 0 && wrong == 0 && scars == 0 && inOne == 0)}, nil
}

func sampling(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("sampling"), e.of(300, 10_000)
	out := Result{Verdict: Reproduced, Plots: []report.Plot{{Title: "share of the scars that a monitor of sampled " +
		"edges finds"}}}
	var x, y []float64
	var words []string
	whole := 0
	for _, share := range []float64{.01, .1, .5, 1} {
		all, found := 0, 0
		for range runs {
			h, stamps := posted(chance, 12, 3, 6)
			h.Order = byStamp(stamps)
			at := make([]int, len(h.Order))
			for i, m := range h.Order {
				at[m] = i
			}
			for m := range h.Messages { // direct edges: each is a scar by itself
				for _, c := range h.Messages[m].Causes {
					if at[c] < at[m] {
						continue
					}
					all++
					seen := lightcone.History{Messages: make([]lightcone.Message, len(h.Messages)), Order: h.Order}
					if chance.Float64() < share {
						seen.Messages[m].Causes = []int{c}
					}
					found += len(e.Subject.Scars(seen))
				}
			}
		}
		got := float64(found) / float64(max(1, all))
		if math.Abs(got-share) > 5*math.Sqrt(share*(1-share)/float64(max(1, all)))+1e-9 {
			out.Verdict = Missed
		}
		whole += all
		x, y, words = append(x, share), append(y, got), append(words, digits(100*got)+" %")
	}
	if whole == 0 {
		out.Verdict = Missed
	}
	out.Plots[0].Lines = []report.Line{{Name: "found", X: x, Y: y}}
	out.Ours = "with every edge kept " + words[len(words)-1]
	out.Baseline = "with one, ten and fifty in a hundred sampled: " + strings.Join(words[:len(words)-1], ", ")
	return out, nil
}

func retention(_ context.Context, e *Env) (Result, error) {
	there := lightcone.History{Messages: []lightcone.Message{{}, {Causes: []int{0}}, {Causes: []int{1}}}}
	back := lightcone.History{Messages: []lightcone.Message{{Causes: []int{1}}, {Causes: []int{2}}, {}}}
	left := func(h lightcone.History) string { // what is kept once the message between both is dropped
		var edges []string
		for m := range h.Messages {
			for _, c := range h.Messages[m].Causes {
				if m != 1 && c != 1 {
					edges = append(edges, fmt.Sprint(c, " ", m))
				}
			}
		}
		return strings.Join(edges, ",")
	}
	rightInBoth, rightInOne, orders := 0, 0, 0
	for _, order := range brute.Permutations(7) {
		there.Order, back.Order = order, order
		one, two := len(e.Subject.Scars(there)) == 0, len(e.Subject.Scars(back)) == 0
		orders++
		switch {
		case one && two:
			rightInBoth++
		case one || two:
			rightInOne++
		}
	}
	r := lightcone.Retention{Open: 24 * time.Hour, Lag: time.Hour}
	r.Kept = r.Needed()
	enough := e.Subject.Short(r)
	r.Kept--
	short := e.Subject.Short(r)
	return Result{
		Ours: fmt.Sprintf("orders that are right in both histories: %s; one unit short is refused: %v, enough is not: %v",
			of(rightInBoth, orders), short != "", enough == ""),
		Baseline: "right in one of both: " + of(rightInOne, orders),
		Verdict:  holds(left(there) == left(back) && rightInBoth == 0 && rightInOne > 0 && short != "" && enough == ""),
		Note: "the refusal shows two histories of ours that a place with too little kept cannot tell apart; that a read " +
			"older than the floor is refused as too_old is held by the fold's scripts"}, nil
}

// open counts, by drawing writes of objects, how many versions are held while forks stay open for so long, and how
// many
// objects were written meanwhile: the most at any time.
func open(chance *rand.Rand, rate, held float64, objects, steps int) (versions, distinct float64) {
	type write struct {
		at     float64
		object int
	}
	var all []write
	now := 0.0
	for range steps {
		now += chance.ExpFloat64() / (rate * float64(objects))
		all = append(all, write{now, chance.IntN(objects)})
	}
	from, samples := 0, 0.0
	for i, w := range all {
		for all[from].at < w.at-held {
			from++
		}
		if w.at < held {
			continue
		}
		seen := map[int]bool{}
		for _, one := range all[from : i+1] {
			seen[one.object] = true
		}
		versions, distinct, samples = versions+float64(i+1-from), distinct+float64(len(seen)), samples+1
	}
	return versions / max(1, samples), distinct / max(1, samples)
}

func keeping(_ context.Context, e *Env) (Result, error) {
	chance := e.chance("keeping")
	place := lightcone.Config{Closure: lightcone.Set{lightcone.Object}, Order: lightcone.Object, Wait: lightcone.Finite}
	var x, y, z []float64
	ok, below := true, true
	const rate = 2
	for _, objects := range []int{1, 8, 64} {
		for _, held := range []float64{2, 8, 32} {
			bound := place.Versions(rate, time.Duration(held*float64(time.Second)), objects)
			if !e.Subject.Holds(place) {
				bound = 0
			}
			steps := int(bound)*e.of(6, 40) + 2_000
			versions, distinct := open(chance, rate, held, objects, steps)
			ok = ok && math.Abs(versions/max(bound, 1)-1) < .25
			below = below && distinct <= float64(objects) && distinct <= versions
			x, y, z = append(x, math.Log(max(bound, 1))), append(y, math.Log(versions)), append(z, distinct)
		}
	}
	_, slope, _, around := fit(x, y)
	return Result{
		Ours: fmt.Sprintf("our window holds the last write of a scope: at most %s, never more than there are scopes",
			digits(slices.Max(z))),
		Baseline: fmt.Sprintf("all versions held: slope %s ± %s against rate × time × objects", digits(slope),
			digits(around)),
		Verdict: holds(ok && below && math.Abs(slope-1) < .05)}, nil
}

func keepingNothing(_ context.Context, e *Env) (Result, error) {
	object := lightcone.Set{lightcone.Object}
	kept := 0
	for _, c := range []lightcone.Config{
		{Closure: object, Order: lightcone.Object, Wait: lightcone.NoWait},
		{Closure: object, Wait: lightcone.Finite, Select: lightcone.Computed, Confluent: true},
	} {
		if e.Subject.Holds(c) {
			kept++
		}
	}
	versions, _ := open(e.chance("nothing"), 2, 0, 8, 2_000)
	holding := e.Subject.Holds(lightcone.Config{Closure: object, Order: lightcone.Object, Wait: lightcone.Finite})
	return Result{Ours: fmt.Sprintf("%d of two such places hold anything", kept),
		Baseline: fmt.Sprintf("drawn with no time open: %s beside the write itself", digits(versions-1)),
		Verdict:  holds(kept == 0 && holding && versions == 1)}, nil
}

func wider(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("wider"), e.of(200, 5_000)
	var held [3]int
	wrong := 0
	for range runs {
		h, _ := posted(chance, 16, 3, 0)
		for m := range h.Messages {
			h.Messages[m].Labels = map[lightcone.Label]string{lightcone.Object: fmt.Sprint(chance.IntN(3))}
		}
		var mine [3]int
		for a := range h.Messages {
			for b := range a {
				concurrent := !slices.Contains(h.Ancestors(a), b)
				for i, order := range lightcone.Scopes() {
					place := lightcone.Config{Closure: lightcone.Set{lightcone.Everything}, Order: order, Wait: lightcone.Finite}
					if concurrent && e.Subject.Holds(place) && order != "" && h.Alike(a, b, order) {
						mine[i]++
					}
				}
			}
		}
		if mine[0] > mine[1] || mine[1] > mine[2] {
			wrong++
		}
		for i := range held {
			held[i] += mine[i]
		}
	}
	return Result{Ours: fmt.Sprintf("open forks without order %d, of objects %d, of all %d; %d of %d runs the other "+
		"way round",
		held[0], held[1], held[2], wrong, runs),
		Verdict: holds(wrong == 0 && held[0] == 0 && held[1] > 0 && held[1] < held[2])}, nil
}

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
