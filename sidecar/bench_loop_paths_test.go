package sidecar

import (
	"context"
	"encoding/json"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// answerOver is settledAnswer over the loop; asked is called when its condition is.
func (w *bothWays) answerOver(ctx context.Context, t *overLoop, asked func()) error {
	mine := t.seal
	cond := func() bool {
		asked()
		return t.decided() || t.phase != phaseSealed || t.seal != mine
	}
	wait := func() error { return w.loop.Await(ctx, cond) }
	if w.watched {
		wait = func() error { return w.loop.AwaitOn(ctx, &t.changed, cond) }
	}
	if err := wait(); err != nil || !t.decided() {
		return err
	}
	_ = w.decision(t.tx)
	return nil
}

// take gives the transaction to one call.
func (w *bothWays) take(ctx context.Context, t *overLoop) error {
	err := w.loop.AwaitOn(ctx, &t.changed, func() bool { return !t.busy })
	t.busy = t.busy || err == nil
	return err
}

func (w *bothWays) give(t *overLoop) {
	t.busy = false
	w.loop.Moved(&t.changed)
}

// readOver is read over the loop.
func (w *bothWays) readOver(ctx context.Context, t *overLoop, scope sequencer.Scope) (got *reading, err error) {
	w.loop.Run(func() {
		if err = w.take(ctx, t); err != nil {
			return
		}
		defer w.give(t)
		got, err = w.readInOver(ctx, t, scope)
	})
	return got, err
}

func (w *bothWays) readInOver(ctx context.Context, t *overLoop, scope sequencer.Scope) (*reading, error) {
	if err := w.usable(t.tx); err != nil {
		return nil, err
	}
	want := sequencer.Want{Scope: scope, Access: sequencer.ReadAccess}
	if len(t.first) > 0 || t.begin.Mode == sequencer.Locked && !t.holds(want) {
		return nil, w.touch(ctx, t.tx, append(t.first, want))
	}
	if w := t.write(scope); w != nil {
		own := revision{writer: t.id, media: w.Type, content: w.Content, ref: w.Ref}
		return &reading{scope: scope, rev: own, pending: true, overtaken: t.overtaken}, nil
	}
	if t.size()+1 > w.footprintLimit() {
		return nil, problem(codeLimit, "the transaction names %d scopes already; read a pattern instead", t.size())
	}
	got := w.look(scope, 0)
	if len(got.lacks()) > 0 {
		return nil, beingFetched(got.lacks()[0])
	}
	entries, err := w.deliverAll(ctx, t.id, got)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		t.reads = addRead(t.reads, entry)
	}
	got.overtaken = t.overtaken
	return got, nil
}

// callOver is effect over the loop, for a tool that only reads. What takes the session's lock inside still does.
func (w *bothWays) callOver(ctx context.Context, t *overLoop, c toolCall) (out *api.Receipt, err error) {
	w.loop.Run(func() {
		var tool gate.Tool
		if tool, err = w.toolOf(ctx, c); err != nil {
			return
		}
		if err = w.take(ctx, t); err != nil {
			return
		}
		defer w.give(t)
		if err = w.usable(t.tx); err != nil {
			return
		}
		if _, ok := w.shardTool(c.tool); ok {
			return
		}
		var e gate.Effect
		if e, err = w.effectOf(ctx, t.tx, tool, c); err != nil {
			return
		}
		if out, err = w.sameKey(t.tx, e); out != nil || err != nil {
			return
		}
		out, err = w.readToolOver(ctx, t, e)
	})
	return out, err
}

func (w *bothWays) readToolOver(ctx context.Context, t *overLoop, e gate.Effect) (*api.Receipt, error) {
	view := w.view.at()
	bound, cancel := context.WithTimeout(ctx, e.Tool.MaxTime)
	defer cancel()
	var answer gate.Answer
	var err error
	w.loop.Do(func() { answer, err = w.engine.Read(bound, e) })
	if err != nil {
		return nil, problem(codeToolUnreachable, "%s did not answer: %v", e.Tool.Name, err)
	}
	if err := w.usable(t.tx); err != nil {
		return nil, err
	}
	for _, scope := range e.Tool.Scopes {
		entry, err := w.deliver(ctx, t.id, &reading{scope: scope, view: view})
		if err != nil {
			return nil, err
		}
		t.reads = addRead(t.reads, entry)
	}
	w.metrics.effect(e.Tool.Class, "done")
	out := receipt(gate.Progress{Effect: e, Started: true, Answer: &answer}, standing{state: api.StateOpen})
	out.Index, out.View, out.Overtaken = nil, uint64(view), t.overtaken
	return out, nil
}

// benchTools are tools whose sinks answer at once.
type benchTools struct{ testTools }

func (*benchTools) Adapter(string) (gate.Adapter, error) { return atOnce{}, nil }

type atOnce struct{}

func (atOnce) Call(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{Result: json.RawMessage(`"x"`)}, nil
}

func (atOnce) LookUp(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, gate.ErrNoLookup
}
