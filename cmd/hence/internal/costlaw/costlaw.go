// Package costlaw measures what a refused commit costs in tokens: agents read one of several cells, generate, and
// commit; who is refused reads again and generates again, once, one after the other. A scripted reader stands in for
// a model: one generation is one call of it.
//
// If nothing but that is spent again, the tokens spent beyond those of a run without guards are the share of
// operations that were refused: overhead = α + β·a with α = 0 and β = 1, where generations are of one size. What does
// more again has a greater β.
package costlaw

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/topology/trace"
)

// Shape is how many agents meet on how many cells.
type Shape struct{ Agents, Cells int }

// Shapes are the nine of the published measurement: fan-in on one cell, and eight agents on more and more cells.
func Shapes() []Shape {
	return []Shape{{2, 1}, {4, 1}, {8, 1}, {16, 1}, {8, 2}, {8, 4}, {8, 8}, {8, 16}, {8, 32}}
}

// Expected is the mean share of operations that are refused, if one commit on each cell goes through.
func (s Shape) Expected() float64 {
	w, c := float64(s.Agents), float64(s.Cells)
	return 1 - c/w*(1-math.Pow(1-1/c, w))
}

// Store is what the agents of one session work on.
type Store interface {
	// Begin reads a cell for an agent; both are counted from 0.
	Begin(ctx context.Context, agent, cell int) (Turn, error)
}

// Turn is one operation that has read.
type Turn interface {
	// Commit writes the cell; ok is false where it is refused.
	Commit(ctx context.Context, text string) (ok bool, err error)
}

// Redo is what is done again when a commit is refused.
type Redo uint8

const (
	// Own is the refused operation alone.
	Own Redo = iota
	// Everything is the whole session: each agent reads and generates again.
	Everything
)

// Spent is what a session came to.
type Spent struct {
	Operations  int // one for each agent
	Generations int
	Tokens      int
	Aborted     int // commits that were refused
}

// session is one run of a shape.
type session struct {
	Spent
	store Store
	shape Shape
	cells []int // by agent
	seed  uint64
}

// generate is one call of the scripted reader: 80 to 120 tokens, drawn by the session, the agent and the attempt.
func (s *session) generate(agent, attempt int) string {
	draw := rand.New(rand.NewPCG(s.seed, uint64(agent)<<32|uint64(attempt)))
	s.Generations++
	s.Tokens += 80 + draw.IntN(41)
	return fmt.Sprintf("agent %d, attempt %d", agent, attempt)
}

// Run runs a session: every agent reads, then every one generates, then they commit in an order that the seed draws.
func Run(ctx context.Context, store Store, shape Shape, seed uint64, redo Redo) (Spent, error) {
	s := &session{store: store, shape: shape, seed: seed, Spent: Spent{Operations: shape.Agents}}
	draw := rand.New(rand.NewPCG(seed, uint64(shape.Agents*1000+shape.Cells)))
	turns := make([]Turn, shape.Agents)
	texts := make([]string, shape.Agents)
	for agent := range turns {
		s.cells = append(s.cells, draw.IntN(shape.Cells))
		turn, err := store.Begin(ctx, agent, s.cells[agent])
		if err != nil {
			return s.Spent, fmt.Errorf("read: %w", err)
		}
		turns[agent], texts[agent] = turn, s.generate(agent, 0)
	}
	var refused []int
	for _, agent := range draw.Perm(shape.Agents) {
		ok, err := turns[agent].Commit(ctx, texts[agent])
		if err != nil {
			return s.Spent, fmt.Errorf("commit: %w", err)
		}
		if !ok {
			s.Aborted++
			refused = append(refused, agent)
		}
	}
	for attempt, agent := range refused {
		again := []int{agent}
		if redo == Everything {
			again = draw.Perm(shape.Agents)
		}
		for _, agent := range again {
			if err := s.again(ctx, agent, attempt+1); err != nil {
				return s.Spent, err
			}
		}
	}
	return s.Spent, nil
}

// again reads, generates and commits with no agent beside it, so that nothing refuses it.
func (s *session) again(ctx context.Context, agent, attempt int) error {
	turn, err := s.store.Begin(ctx, agent, s.cells[agent])
	if err != nil {
		return fmt.Errorf("read again: %w", err)
	}
	ok, err := turn.Commit(ctx, s.generate(agent, attempt))
	if err != nil {
		return fmt.Errorf("commit again: %w", err)
	}
	if !ok {
		return fmt.Errorf("agent %d was refused again, with nobody beside it", agent)
	}
	return nil
}

// Point is one session beside the same one without guards.
type Point struct {
	Shape
	Seed     uint64
	Aborts   float64 // refused commits for each operation
	Overhead float64 // tokens spent beyond those without guards, as a share of these
}

// Measure runs each shape with seeds 1 to seeds on the stores that open gives, and on one without guards.
func Measure(ctx context.Context, shapes []Shape, seeds int, redo Redo, open func(Shape, uint64) (Store, error),
) (all []Point, err error) {
	for _, shape := range shapes {
		for seed := uint64(1); seed <= uint64(seeds); seed++ {
			store, err := open(shape, seed)
			if err != nil {
				return nil, err
			}
			bare, err := Run(ctx, NewRuntime(runtimes.Vanilla), shape, seed, redo)
			if err != nil {
				return nil, err
			}
			guarded, err := Run(ctx, store, shape, seed, redo)
			if err != nil {
				return nil, fmt.Errorf("%d agents on %d cells, seed %d: %w", shape.Agents, shape.Cells, seed, err)
			}
			all = append(all, Point{shape, seed, float64(guarded.Aborted) / float64(guarded.Operations),
				float64(guarded.Tokens-bare.Tokens) / float64(bare.Tokens)})
		}
	}
	return all, nil
}

// Runtime is a Store on one of the runtimes.
type Runtime struct{ of *runtimes.Runtime }

// NewRuntime returns a store on a runtime that has run nothing.
func NewRuntime(kinds ...runtimes.Kind) *Runtime { return &Runtime{runtimes.New(kinds...)} }

// Begin reads a cell.
func (r *Runtime) Begin(_ context.Context, agent, cell int) (Turn, error) {
	name := fmt.Sprintf("cell%d", cell)
	op := r.of.Begin(runtimes.Begin{Agent: fmt.Sprintf("agent%d", agent), Reads: []string{name}})
	return &turn{op, name}, nil
}

// Stale reports whether the history of the store has an A1.
func (r *Runtime) Stale() bool {
	_, most := runtimes.Judge(r.of.Records()).Points()
	return !most.A1
}

type turn struct {
	op   *runtimes.Op
	cell string
}

func (t *turn) Commit(_ context.Context, text string) (ok bool, err error) {
	t.op.Write(t.cell, trace.Text(text))
	return t.op.Commit() == runtimes.Committed, nil
}
