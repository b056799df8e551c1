package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/topology/pause"
)

// shopPace is how one goes about errands, whatever stands between.
type shopPace struct {
	tries int           // of what failed; one: it gives up
	think time.Duration // before the first call that acts
	turns bool          // think before every call
	most  time.Duration // a call's answer is waited for so long
}

// spent is what errands took beside their calls.
type spent struct {
	mu      sync.Mutex
	refused int
	waited  time.Duration
}

func (s *spent) add(refused int, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.waited = s.refused+refused, s.waited+waited
}

// errands is one way to run errands.
type errands interface {
	run(context.Context, *errand, shopPace) (ended, error)
	cost() *spent
}

// bare are the calls of an errand without anything between the agent and the shop. The baselines are made of it.
type bare struct {
	shop  *shop
	http  *http.Client
	spent *spent
}

func (b *bare) cost() *spent { return b.spent }

func bareAt(s *shop) *bare { return &bare{s, &http.Client{}, &spent{}} }

// errFailed is returned by post when no answer came, or one that says nothing: what was asked may have happened.
var errFailed = errors.New("the call failed")

// answered is what a call was answered.
type answered struct {
	reply
	entry int
}

// post makes one call. A key may be empty, and so may the one that it undoes.
func (b *bare) post(ctx context.Context, tool string, body map[string]any, most time.Duration, key, undoes string,
) (a answered, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return a, fmt.Errorf("write a call: %w", err)
	}
	bound, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	req, err := http.NewRequestWithContext(bound, http.MethodPost, b.shop.URL()+"/"+tool, bytes.NewReader(data))
	if err != nil {
		return a, fmt.Errorf("make a call: %w", err)
	}
	req.GetBody = nil // the transport sends nothing twice by itself
	for name, value := range map[string]string{"Idempotency-Key": key, "Hence-Compensates": undoes} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := b.http.Do(req)
	if ctx.Err() != nil {
		return a, context.Cause(ctx)
	}
	if err != nil {
		return a, errFailed
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return a, errFailed
	}
	var e sinks.Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return a, fmt.Errorf("read an answer of the shop: %w", err)
	}
	if err := json.Unmarshal(e.Result, &a.reply); err != nil {
		return a, fmt.Errorf("read an answer of the shop: %w", err)
	}
	a.entry = e.ID
	return a, nil
}

// repeat does what fails so often.
func repeat(tries int, f func() error) (err error) {
	for range tries {
		if err = f(); !errors.Is(err, errFailed) {
			return err
		}
	}
	return err
}

// act is a step of a way: it makes the call, or puts it off, and returns the answer.
type act func(step int, body map[string]any) (answered, error)

// through goes through an errand's calls, and thinks before the first that acts.
func (b *bare) through(ctx context.Context, w *errand, p shopPace, do act) error {
	answers, thought := make([]string, len(w.calls)), false
	for step, c := range w.calls {
		if p.turns || c.acts && !thought {
			thought = true
			if err := pause.Sleep(ctx, p.think); err != nil {
				return err
			}
		}
		a, err := do(step, w.body(step, answers))
		if err != nil {
			return err
		}
		answers[step] = a.Text
	}
	if w.stops {
		return errOver
	}
	return nil
}

// whole tries an errand as a whole until it is done. What failed, and was not taken back, is left as it is.
func whole(tries int, try func(n int) error) (ended, error) {
	for n := range tries {
		if err := try(n); err == nil {
			return ended{committed: true}, nil
		} else if errors.Is(err, errOver) {
			break
		} else if !errors.Is(err, errFailed) {
			return ended{}, err
		}
	}
	return ended{}, nil
}

// plainShop makes the calls as they come; what failed is begun again from the start.
type plainShop struct{ *bare }

func (b plainShop) run(ctx context.Context, w *errand, p shopPace) (ended, error) {
	return whole(p.tries, func(int) error {
		return b.through(ctx, w, p, func(step int, body map[string]any) (answered, error) {
			return b.post(ctx, w.calls[step].tool, body, p.most, "", "")
		})
	})
}

// replayShop keeps each step's result, and makes the one that failed again, as durable execution does.
type replayShop struct{ *bare }

func (b replayShop) run(ctx context.Context, w *errand, p shopPace) (ended, error) {
	return whole(1, func(int) error {
		return b.through(ctx, w, p, func(step int, body map[string]any) (a answered, err error) {
			err = repeat(p.tries, func() error {
				a, err = b.post(ctx, w.calls[step].tool, body, p.most, "", "")
				return err
			})
			return a, err
		})
	})
}

// sagaShop makes the calls as they come, and takes back those that were answered, the latest first, when one fails.
type sagaShop struct{ *bare }

func (b sagaShop) run(ctx context.Context, w *errand, p shopPace) (ended, error) {
	var left []int
	out, err := whole(p.tries, func(int) error {
		type one struct{ step, entry int }
		var made []one
		failed := b.through(ctx, w, p, func(step int, body map[string]any) (answered, error) {
			a, err := b.post(ctx, w.calls[step].tool, body, p.most, "", "")
			if c := w.calls[step]; err == nil && c.acts && c.tool != toolConfirm {
				made = append(made, one{step, a.entry})
			}
			return a, err
		})
		if failed == nil {
			return nil
		}
		for _, m := range slices.Backward(made) {
			err := repeat(p.tries, func() error {
				_, err := b.post(ctx, toolUndo, map[string]any{"room": w.room, "who": w.who, "entry": m.entry}, p.most, "", "")
				return err
			})
			if errors.Is(err, errFailed) {
				left = append(left, m.step)
			} else if err != nil {
				return err
			}
		}
		return failed
	})
	out.reported = left
	return out, err
}

// occShop reads at once and puts off what acts, looks again at what it read when it is about to act, and then acts,
// all under the lock of its store.
type occShop struct {
	*bare
	commits *memory // by room
	budget  int     // of refusals
}

func (b occShop) run(ctx context.Context, w *errand, p shopPace) (ended, error) {
	refused := 0
	return whole(p.tries+b.budget, func(n int) error {
		var put []int
		answers := make([]string, len(w.calls))
		bodies := make([]map[string]any, len(w.calls))
		err := b.through(ctx, w, p, func(step int, body map[string]any) (a answered, err error) {
			bodies[step] = body
			if w.calls[step].acts {
				put = append(put, step)
				return a, nil
			}
			a, err = b.post(ctx, w.calls[step].tool, body, p.most, "", "")
			answers[step] = a.Text
			return a, err
		})
		if err != nil {
			return b.over(err, n-refused, p)
		}
		lock := b.commits.lock(w.room)
		lock.Lock()
		defer lock.Unlock()
		for step, body := range bodies {
			if w.calls[step].acts {
				continue
			}
			a, err := b.post(ctx, w.calls[step].tool, body, p.most, "", "")
			if err != nil {
				return b.over(err, n-refused, p)
			}
			if a.Text != answers[step] {
				refused++
				b.spent.add(1, 0)
				if refused > b.budget {
					return errOver
				}
				return errFailed
			}
		}
		for _, step := range put {
			if _, err := b.post(ctx, w.calls[step].tool, bodies[step], p.most, "", ""); err != nil {
				return b.over(err, n-refused, p)
			}
		}
		return nil
	})
}

// errOver ends an errand that is not tried again.
var errOver = errors.New("no try is left")

// over ends an errand whose tries are used up.
func (b occShop) over(err error, n int, p shopPace) error {
	if errors.Is(err, errFailed) && n+1 >= p.tries {
		return errOver
	}
	return err
}

// callLock holds a lock for each call alone, as a tool server with a mutex does.
type callLock struct {
	*bare
	locks *memory
}

func (b callLock) run(ctx context.Context, w *errand, p shopPace) (ended, error) {
	return whole(p.tries, func(int) error {
		return b.through(ctx, w, p, func(step int, body map[string]any) (answered, error) {
			lock, began := b.locks.lock(w.room+text(body["order_id"])), time.Now()
			lock.Lock()
			defer lock.Unlock()
			b.spent.add(0, time.Since(began))
			return b.post(ctx, w.calls[step].tool, body, p.most, "", "")
		})
	})
}

// under runs errands under a lock that is held from the first call to the last.
type under struct {
	*bare
	name  func(*errand) string
	locks *memory
}

func (b under) run(ctx context.Context, w *errand, p shopPace) (ended, error) {
	lock, began := b.locks.lock(b.name(w)), time.Now()
	lock.Lock()
	defer lock.Unlock()
	b.spent.add(0, time.Since(began))
	return plainShop{b.bare}.run(ctx, w, p)
}

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
