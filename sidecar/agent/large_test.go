package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// wideTools are tools whose sink answers at length.
type wideTools struct {
	*testTools
	result json.RawMessage
}

func (w wideTools) Adapter(string) (gate.Adapter, error) { return wideSink{w.sink, w.result}, nil }

type wideSink struct {
	*sink
	result json.RawMessage
}

func (w wideSink) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	a, err := w.sink.Call(ctx, c)
	if err == nil && c.Compensates == "" {
		a.Result = w.result
	}
	return a, err
}

// A sink that answers at length is asked once, its transaction is settled, and everything is published.
func TestLargeAnswers(t *testing.T) {
	for name, text := range map[string]string{"1 MiB": "<", "600 KB": "a"} {
		for _, tool := range []string{"mail", "set"} {
			t.Run(fmt.Sprintf("%s/%s", tool, name), func(t *testing.T) {
				t.Parallel()
				size := 1 << 20
				if text == "a" {
					size = 600_000
				}
				largeAnswer(t, tool, json.RawMessage(`"`+strings.Repeat(text, size)+`"`))
			})
		}
	}
}

func sameText(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y string
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Error(err)
	}
	return x == y
}

func largeAnswer(t *testing.T, tool string, result json.RawMessage) {
	log, world := newLog(), newSink()
	dir := t.TempDir()
	a := start(t, "a", log.Door(), quick(world), func(c *setup) {
		c.Tools, c.DataDir = wideTools{c.Tools.(*testTools), result}, dir
	})
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	got := must(tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{}))(t)
	if tool == "set" && !sameText(t, got.Result, result) {
		t.Errorf("the call's own receipt has %d bytes of %d: %s", len(got.Result), len(result), got.Detail)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	if left := a.session.delivery.Drain(ctx); left > 0 {
		t.Errorf("%d events are not published", left)
	}
	list := must(tx.Effects(ctx))(t)
	if e := list.Effects[0]; e.Result != nil || len(result) > journal.MaxAnswer && !strings.Contains(e.Detail,
		"not kept") {
		t.Errorf("the list of calls: %d bytes, %q", len(e.Result), e.Detail)
	}
	want := []string{tool + " x"}
	if tool == "set" {
		retractNow(t, log, a, tx.ID())
		retracted(t, log, tx.ID())
		want = append(want, "back x")
	}
	world.expect(t, want...)
	if world.calls != len(want) {
		t.Errorf("%d calls were made", world.calls)
	}
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("the list of residues: %+v", list)
	}
}

// undoneByAnswer undoes a call by what its answer says.
type undoneByAnswer struct{ wideTools }

func (u undoneByAnswer) Undo(e gate.Effect, a gate.Answer) (gate.Call, error) {
	if len(a.Result) == 0 {
		return gate.Call{}, errors.New("the answer is not known")
	}
	return u.testTools.Undo(e, a)
}

// A large answer has its event once the topic has its content. A process that ends between the two leaves the answer
// to the next one, which tells it, and undoes the call by it when its transaction is retracted.
func TestLargeAnswerIsToldByTheNext(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	tools := func(c *setup) {
		quick(world)(c)
		result := json.RawMessage(`"` + strings.Repeat("a", 8000) + `"`)
		c.Tools = undoneByAnswer{wideTools{c.Tools.(*testTools), result}}
	}
	door := log.Door()
	a := start(t, "a", door, tools)
	tx, open, done := inSink(ctx, t, a, world)
	door.Silence(true) // no event is acknowledged
	close(open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	file := a.die(t, door)
	world.set(func() { clear(world.block) })
	b := reborn(t, log, "a", file, tools)
	comes(ctx, t, "the answer is told", func() bool {
		return hasEvent(log.Events(), topology.EventAnswer, tx.ID())
	})
	retractNow(t, log, b, tx.ID())
	retracted(t, log, tx.ID())
	world.expect(t, "set x", "back x")
}
