package tables

import (
	"context"
	"errors"
	"sync"
)

// The ways without Hence, each with what has to be written once and, in functions that are named for it and a tool,
// what has to be written for each tool. This file is also counted: see the row about lines to declare a tool.

// work is what a way is to do: steps of tools, and then something that may go wrong.
type work struct {
	out   *outside
	run   string
	sink  string
	wrong func(context.Context) error // nil: nothing goes wrong
}

func (w work) goesOn(ctx context.Context) error {
	if w.wrong == nil {
		return nil
	}
	return w.wrong(ctx)
}

// noTx calls tools as they come, and looks at nothing.
func noTx(ctx context.Context, w work) error {
	send := map[string]func(context.Context) error{"mail": noTxMail(w), "web": noTxWeb(w)}[w.sink]
	if err := errors.Join(w.out.take(ctx, w.run, 0), send(ctx)); err != nil {
		return err
	}
	_ = w.goesOn(ctx)
	return nil
}

func noTxMail(w work) func(context.Context) error {
	return func(context.Context) error { return w.out.letter(w.run) }
}

func noTxWeb(w work) func(context.Context) error {
	return func(ctx context.Context) error { return w.out.web(ctx, w.run) }
}

// step is a step of a saga; without undo nothing takes it back.
type step struct{ do, undo func(context.Context) error }

// saga makes each step at once, and undoes those that it can, the latest first.
func saga(ctx context.Context, w work) error {
	send := map[string]func(work) step{"mail": sagaMail, "web": sagaWeb}[w.sink]
	_, err := sagaOf(ctx, []step{sagaTake(w, 0), send(w), {do: w.goesOn}})
	return err
}

// sagaOf returns which steps it reports as left, because undoing them was refused. An error is of such a one.
func sagaOf(ctx context.Context, steps []step) (left []int, err error) {
	for i, s := range steps {
		if s.do(ctx) == nil {
			continue
		}
		for k := i - 1; k >= 0; k-- {
			if steps[k].undo == nil {
				continue
			}
			if failed := steps[k].undo(ctx); failed != nil {
				left, err = append(left, k), errors.Join(err, failed)
			}
		}
		return left, err
	}
	return nil, nil
}

func sagaTake(w work, part int) step {
	return step{
		do:   func(ctx context.Context) error { return w.out.take(ctx, w.run, part) },
		undo: func(ctx context.Context) error { return w.out.give(ctx, w.run, part) },
	}
}

func sagaMail(w work) step {
	return step{do: func(context.Context) error { return w.out.letter(w.run) }}
}

func sagaWeb(w work) step {
	return step{do: func(ctx context.Context) error { return w.out.web(ctx, w.run) }}
}

// replay makes each step at once, with a checkpoint after it, and on a failure goes on from the last one, at most so
// often.
func replay(ctx context.Context, w work) error {
	const tries = 3
	send := map[string]func(work) step{"mail": sagaMail, "web": sagaWeb}[w.sink]
	steps, made := []step{sagaTake(w, 0), send(w), {do: w.goesOn}}, 0
	for range tries {
		for made < len(steps) && steps[made].do(ctx) == nil {
			made++ // the checkpoint
		}
	}
	return nil
}

// tried is a tool in three parts.
type tried struct{ try, confirm, cancel func(context.Context) error }

// tcc tries every tool, and confirms or cancels all of them.
func tcc(ctx context.Context, w work) error {
	send := map[string]func(work) tried{"mail": tccMail, "web": tccWeb}[w.sink]
	tools := []tried{tccTake(w, 0), send(w)}
	for i, t := range tools {
		if t.try(ctx) != nil {
			return cancelAll(ctx, tools[:i])
		}
	}
	if w.goesOn(ctx) != nil {
		return cancelAll(ctx, tools)
	}
	var err error
	for _, t := range tools {
		err = errors.Join(err, t.confirm(ctx))
	}
	return err
}

func cancelAll(ctx context.Context, tools []tried) (err error) {
	for i := len(tools) - 1; i >= 0; i-- {
		err = errors.Join(err, tools[i].cancel(ctx))
	}
	return err
}

func tccTake(w work, part int) tried {
	return tried{
		try:     func(ctx context.Context) error { return w.out.take(ctx, w.run, part) },
		confirm: func(context.Context) error { return nil },
		cancel:  func(ctx context.Context) error { return w.out.give(ctx, w.run, part) },
	}
}

func tccMail(w work) tried {
	held := false
	return tried{
		try: func(context.Context) error {
			held = true
			return nil
		},
		confirm: func(context.Context) error {
			if !held {
				return errors.New("a mail is confirmed that was not tried")
			}
			return w.out.letter(w.run)
		},
		cancel: func(context.Context) error {
			held = false
			return nil
		},
	}
}

func tccWeb(w work) tried {
	held := false
	return tried{
		try: func(context.Context) error {
			held = true
			return nil
		},
		confirm: func(ctx context.Context) error {
			if !held {
				return errors.New("a request is confirmed that was not tried")
			}
			return w.out.web(ctx, w.run)
		},
		cancel: func(context.Context) error {
			held = false
			return nil
		},
	}
}

// logged is a call as a log of what is to be done has it.
type logged struct{ now, undo, later func(context.Context) error }

// wal holds a lock over the work, and makes what it has noted for later at the end, or undoes what was made.
type wal struct{ mu sync.Mutex }

func (l *wal) do(ctx context.Context, w work) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	send := map[string]func(work) logged{"mail": walMail, "web": walWeb}[w.sink]
	calls, failed := []logged{walTake(w, 0), send(w)}, false
	for i, c := range calls {
		if c.now != nil && c.now(ctx) != nil {
			calls, failed = calls[:i], true
			break
		}
	}
	if failed || w.goesOn(ctx) != nil {
		for i := len(calls) - 1; i >= 0; i-- {
			if calls[i].undo != nil {
				err = errors.Join(err, calls[i].undo(ctx))
			}
		}
		return err
	}
	for _, c := range calls {
		if c.later != nil {
			err = errors.Join(err, c.later(ctx))
		}
	}
	return err
}

func walTake(w work, part int) logged {
	return logged{
		now:  func(ctx context.Context) error { return w.out.take(ctx, w.run, part) },
		undo: func(ctx context.Context) error { return w.out.give(ctx, w.run, part) },
	}
}

func walMail(w work) logged {
	return logged{later: func(context.Context) error { return w.out.letter(w.run) }}
}

func walWeb(w work) logged {
	return logged{later: func(ctx context.Context) error { return w.out.web(ctx, w.run) }}
}
