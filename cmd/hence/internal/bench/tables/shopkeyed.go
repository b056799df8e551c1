package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// keyed is what the ways with keys have in common: each call that acts has a key of its errand, try and step, and what
// was begun is taken back by its key, whether or not it was answered.
type keyed struct {
	*bare
	again    bool    // a call that failed is made again under its key
	held     bool    // confirmations leave when all else is done
	reserves bool    // what an errand writes is reserved first, and then confirmed
	locks    *memory // by room; nil: none
}

func (b keyed) run(ctx context.Context, w *errand, p shopPace) (out ended, err error) {
	if b.locks != nil {
		lock, began := b.locks.lock(w.room), time.Now()
		lock.Lock()
		defer lock.Unlock()
		b.spent.add(0, time.Since(began))
	}
	var left []int
	out, err = whole(p.tries, func(n int) error {
		name := func(step int) string {
			if w.calls[step].tool == toolConfirm {
				return w.room + "/" + w.who + "/" + toolConfirm
			}
			return fmt.Sprintf("%s/%s/%d/%d", w.room, w.who, n, step)
		}
		calls := 1
		if b.again {
			calls = p.tries
		}
		var begun, put []int
		bodies := make([]map[string]any, len(w.calls))
		do := func(step int) (a answered, err error) {
			key := ""
			if c := w.calls[step]; c.acts && (c.tool != toolConfirm || b.again) {
				begun, key = append(begun, step), name(step)
			}
			err = repeat(calls, func() error {
				a, err = b.post(ctx, w.calls[step].tool, bodies[step], p.most, key, "")
				return err
			})
			return a, err
		}
		failed := b.through(ctx, w, p, func(step int, body map[string]any) (answered, error) {
			bodies[step] = body
			c := w.calls[step]
			if b.reserves && c.acts && c.tool != toolConfirm {
				put = append(put, step)
				return b.reserve(ctx, body, p)
			}
			if b.held && c.tool == toolConfirm {
				put = append(put, step)
				return answered{}, nil
			}
			return do(step)
		})
		for _, step := range put {
			if failed == nil {
				_, failed = do(step)
			}
		}
		if b.reserves {
			for _, step := range put {
				_ = repeat(patience, func() error {
					_, err := b.post(ctx, toolFree, bodies[step], p.most, "", "")
					return err
				})
			}
		}
		if failed == nil {
			return nil
		}
		for _, step := range slices.Backward(begun) {
			if w.calls[step].tool == toolConfirm {
				continue // nothing takes it back
			}
			err := repeat(p.tries, func() error {
				_, err := b.post(ctx, toolUndo, map[string]any{"room": w.room, "who": w.who}, p.most, name(step)+"/back",
					name(step))
				return err
			})
			if errors.Is(err, errFailed) {
				left = append(left, step)
			}
		}
		return failed
	})
	out.reported = left
	return out, err
}

// patience is how often a reservation is given back.
const patience = 20

// reserve tries an order, and again while another one has it.
func (b keyed) reserve(ctx context.Context, body map[string]any, p shopPace) (a answered, err error) {
	for {
		a, err = b.post(ctx, toolReserve, body, p.most, "", "")
		if err != nil || !a.Refused {
			return answered{}, err
		}
		b.spent.add(1, time.Millisecond)
		if err := pause.Sleep(ctx, time.Millisecond); err != nil {
			return a, err
		}
	}
}
