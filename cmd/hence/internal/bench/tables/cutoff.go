package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/lightcone"
)

// halves are two nodes of a workspace, of which the far one is harmed.
type halves struct {
	near, far *client.Client
	harm      Harm
}

func (e *Env) halves(ctx context.Context) (*halves, error) {
	harms, has := e.Ground.(Harms)
	if !has {
		return nil, errors.New("this ground harms no node")
	}
	h := &halves{}
	place, err := harms.Harmed(ctx, &h.harm)
	if err == nil {
		h.near, h.far = place.Agents[0], place.Agents[1]
	}
	return h, err
}

// put writes a shard at the near node; it is an error if it is not committed.
func (h *halves) put(ctx context.Context, cell, text string) (client.Decision, error) {
	d, err := h.near.Put(ctx, scope(cell), []byte(text), client.WriteOptions{})
	if ok, err := committed(d, err); err != nil || !ok {
		return d, errors.Join(err, fmt.Errorf("a write of %s is %s %s", cell, d.State, d.Code))
	}
	return d, nil
}

// reaches waits until the far node shows a shard as a decision left it.
func (h *halves) reaches(ctx context.Context, cell string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		now, err := h.far.Look(ctx, scope(cell))
		if err != nil || now.Version >= seq {
			return err
		}
		if _, err := h.far.Await(ctx, scope(cell), now.Version, time.Second); err != nil {
			return err
		}
	}
}

// declines reports whether a write at the far node is not committed within a time.
func (h *halves) declines(ctx context.Context, cell string) bool {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	ok, err := committed(h.far.Put(ctx, scope(cell), []byte("far"), client.WriteOptions{}))
	return err != nil || !ok
}

// chains counts the seqs of which two nodes know a chain hash, and those at which the hashes differ.
func (h *halves) chains(ctx context.Context) (both, differ int, err error) {
	one, err := h.near.Chain(ctx, 0, 1000)
	if err != nil {
		return 0, 0, err
	}
	two, err := h.far.Chain(ctx, 0, 1000)
	if err != nil {
		return 0, 0, err
	}
	at := map[uint64]string{}
	for _, link := range one.Links {
		at[link.Seq] = link.Chain
	}
	for _, link := range two.Links {
		if chain, known := at[link.Seq]; known {
			both++
			if chain != link.Chain {
				differ++
			}
		}
	}
	return both, differ, nil
}

func cutInTwo(ctx context.Context, e *Env) (Result, error) {
	n := e.of(2, 25)
	h, err := e.halves(ctx)
	if err != nil {
		return Result{}, err
	}
	goesOn, fromView, declined := 0, 0, 0
	for k := range n {
		cell := fmt.Sprint("cut/", k)
		before, err := h.put(ctx, cell, "before")
		if err == nil {
			err = h.reaches(ctx, cell, before.Seq)
		}
		if err != nil {
			return Result{}, err
		}
		h.harm.Cut(true)
		during, err := h.put(ctx, cell, "during")
		if err != nil {
			return Result{}, err
		}
		goesOn++
		seen, err := h.far.Look(ctx, scope(cell))
		if err != nil {
			return Result{}, err
		}
		if seen.Version == before.Seq {
			fromView++
		}
		if h.declines(ctx, cell+"/far") {
			declined++
		}
		h.harm.Cut(false)
		if err := h.reaches(ctx, cell, during.Seq); err != nil {
			return Result{}, fmt.Errorf("after the cut: %w", err)
		}
	}
	both, differ, err := h.chains(ctx)
	if err != nil {
		return Result{}, err
	}
	conflicts, err := e.lastWriters(ctx, n)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("with the log %s writes are committed; cut off %s are declined, and %s reads are answered from "+
			"the view; afterwards %d chain hashes of %d differ", of(goesOn, n), of(declined, n), of(fromView, n), differ, both),
		Baseline: fmt.Sprintf("two stores, %v: both halves answer, %s orders do not merge, each with a pair that they "+
			"order oppositely", lastWriter, of(conflicts, n)),
		Verdict: holds(goesOn == n && declined == n && fromView == n && differ == 0 && both > 0 && conflicts == n),
		Note: "order is kept, and answers are given up: a write at the half without the log is answered by nobody within " +
			"the time that its client waits, and is decided once the log is back; a read there says the seq of its view"}, nil
}

// lastWriters lets two stores take a write each of the same shard while they are apart, exchanges these, and counts
// how often what the two have done has no common order.
func (e *Env) lastWriters(ctx context.Context, n int) (conflicts int, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var stores [2]*bus
	for i := range stores {
		at, err := baseline(ctx, lastWriter)
		if err != nil {
			return 0, err
		}
		stores[i] = newBus(at)
	}
	for k := range n {
		key := fmt.Sprint("cut", k)
		var views [2]lightcone.View
		for i, own := range stores {
			if err := own.create(ctx, key); err != nil {
				return 0, err
			}
			for _, from := range []int{i, 1 - i} { // its own one, and after the cut that of the other
				if ok, err := own.commit(ctx, key, "", fmt.Sprint("of ", from), 0); err != nil || !ok {
					return 0, errors.Join(err, errors.New("a store has refused its writer"))
				}
				views[i].Seen = append(views[i].Seen, from)
			}
			views[i].By = lightcone.Everything
			last, err := own.get(ctx, key, "")
			if err != nil {
				return 0, err
			}
			if last.Content != fmt.Sprint("of ", views[i].Seen[1]) {
				return 0, fmt.Errorf("a store shows %q", last.Content)
			}
		}
		history := lightcone.History{Messages: make([]lightcone.Message, 2), Order: []int{0, 1}}
		got := e.Subject.Merge(history, views[0], views[1], lightcone.Config{Order: lightcone.Everything}, false)
		if got.Order == nil && len(got.Cycle) == 2 {
			conflicts++
		}
	}
	return conflicts, nil
}

func neverComes(ctx context.Context, e *Env) (Result, error) {
	const chain = 3
	n, chance := e.of(1, 40), e.chance("never")
	h, err := e.halves(ctx)
	if err != nil {
		return Result{}, err
	}
	short := 50 * time.Millisecond
	waits, part, named, undecided, after, wrong, filterless := 0, 0, 0, 0, 0, 0, 0
	for k := range n {
		// Each write rests on those before it; one of them does not come, and the last one is what a reader wants.
		cell := func(i int) string { return fmt.Sprintf("never/%d/%d", k, i) }
		lost := chance.IntN(chain - 1)
		h.harm.Lose(sequencer.Scope(scope(cell(lost))))
		applied := map[int]bool{} // by a replica that takes what comes
		var seqs []uint64
		for i := range chain {
			d, err := h.put(ctx, cell(i), "text")
			if err != nil {
				return Result{}, err
			}
			seqs = append(seqs, d.Seq)
			if i != lost {
				applied[i] = true
			}
		}
		if applied[chain-1] && !applied[lost] {
			filterless++
		}
		last := seqs[chain-1]
		got, err := h.far.Await(ctx, scope(cell(chain-1)), 0, short)
		if err != nil {
			return Result{}, err
		}
		if !got.Exists { // the time is over, and what it rests on has not come
			waits++
		}
		if got, err = h.far.Look(ctx, scope(cell(chain-1))); err != nil {
			return Result{}, err
		}
		for i := range chain {
			now, err := h.far.Look(ctx, scope(cell(i)))
			if err != nil {
				return Result{}, err
			}
			if now.Exists && i >= lost {
				wrong++
			}
		}
		if got.View == seqs[lost]-1 {
			part++
		}
		var p *client.Problem
		if _, err := h.far.Chain(ctx, last, 1); errors.As(err, &p) && p.Code == "seq_from_future" {
			named++
		}
		if h.declines(ctx, cell(chain)) {
			undecided++
		}
		h.harm.Lose("")
		if err := h.reaches(ctx, cell(chain-1), last); err != nil {
			return Result{}, fmt.Errorf("when the record comes: %w", err)
		}
		after++
	}
	return Result{
		Ours: fmt.Sprintf("of %d views before a missing decision %d wait, %d answer reads as of the seq before it, %d say "+
			"that the wanted seq is not reached, %d decide nothing; %d shards are shown that rest on it; %d go on when it "+
			"comes", n, waits, part, named, undecided, wrong, after),
		Baseline: fmt.Sprintf("a replica that takes what comes: %s show what rests on what they lack", of(filterless, n)),
		Verdict: holds(waits == n && part == n && named == n && undecided == n && wrong == 0 && after == n &&
			filterless > 0),
		Note: "so the view waits, its reads are answered in part and say as of which seq, and a wait ends at the reader's " +
			"bound. A decision that the log itself lacks is waited for half a minute and then the node ends, which go test " +
			"./streams -run TestHole holds"}, nil
}
