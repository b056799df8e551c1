package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// calledTools is a policy that tells of each call after its sink has taken it.
type calledTools struct {
	*testTools
	called func()
}

func (p calledTools) Adapter(string) (gate.Adapter, error) { return p, nil }

func (p calledTools) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	defer p.called()
	return p.sink.Call(ctx, c)
}

func (p calledTools) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	return p.sink.LookUp(ctx, c)
}

// unavailable tells of each answer that says so.
type unavailable struct {
	http.RoundTripper
	told func()
}

func (u unavailable) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := u.RoundTripper.RoundTrip(r)
	if err == nil && out.StatusCode == http.StatusServiceUnavailable {
		u.told()
	}
	return out, err
}

// openResidue leaves a call without a key on the list, and lets its sink work again.
func openResidue(t *testing.T, a *rig, world *sink) string {
	t.Helper()
	ctx := background(t)
	world.set(func() { world.down["unmail"] = 1 << 20 })
	done := must(a.client.Do(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	a.final(ctx, t, done.Tx)
	world.set(func() { clear(world.down) })
	return done.Tx
}

// A try that the list cannot be told of is not made again when it is asked for again, and the list says before it that
// it is made.
func TestRetryNotListed(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	var once sync.Once
	var before []int
	armed := false
	called := func() {
		world.mu.Lock()
		now := armed
		world.mu.Unlock()
		if now { // only a retry calls by now, and a client asks for one at a time
			before = append(before, log.Residue()[0].Tries)
			once.Do(func() { door.Silence(true) })
		}
	}
	a := start(t, "a", door, quick(world), func(c *setup) { c.Tools = calledTools{c.Tools.(*testTools), called} })
	ctx := background(t)
	tx := openResidue(t, a, world)
	first := log.Residue()[0].Tries
	world.set(func() { armed = true })
	transport := &http.Transport{}
	seen := 0
	mine := client.New(a.URL(), a.Token(), client.WithHTTPClient(&http.Client{
		Transport: unavailable{transport, func() { seen++; door.Silence(false) }}}))
	defer mine.Close()
	r, err := mine.RetryResidue(ctx, tx, 0, true)
	if err != nil || r.State != "resolved" || r.Tries != first+1 || seen != 1 {
		t.Errorf("tried again: %+v, %v, unavailable %d times", r, err, seen)
	}
	world.expect(t, "unmail x")
	if len(before) != 1 || before[0] != first+1 {
		t.Errorf("during the calls the list had tries %v, before %d", before, first)
	}
	if list := log.Residue(); len(list) != 1 || list[0].State != "resolved" {
		t.Errorf("the list: %+v", list)
	}
	if _, err := a.client.RetryResidue(ctx, tx, 0, true); problemIn(t, err).Code != api.CodeNotResidue {
		t.Errorf("once more: %v", err)
	}
}

// A call without a key that is tried again and not answered is on the list as such, and so is one that did not leave.
func TestRetryAnnounced(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	world.set(func() { world.deny["mail"] = true })
	for _, tool := range []string{"mail", "unmail"} {
		must(tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{}))(t)
	}
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	second := func() (result sequencer.Result, tries int) {
		for _, r := range log.Residue() {
			if r.Index == 1 {
				result, tries = r.Result, r.Tries
			}
		}
		return result, tries
	}
	if result, tries := second(); result != sequencer.ResultPartial || tries != 0 {
		t.Fatalf("at first: %v, %d tries", result, tries)
	}
	world.set(func() { world.lose["unmail"] = 1 })
	if _, err := a.client.RetryResidue(ctx, tx.ID(), 1, true); problemIn(t, err).Code != api.CodeToolUnreachable {
		t.Errorf("not answered: %v", err)
	}
	world.expect(t, "unmail x")
	if result, tries := second(); result != sequencer.ResultUnresolved || tries != 1 {
		t.Errorf("after it: %v, %d tries", result, tries)
	}
}

// A held call that did not leave is not made once its transaction is retracted, whichever sidecar is asked and
// whatever it has seen.
func TestRetryAfterRetraction(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.down["mail"] = 1 << 20 })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for _, tool := range []string{"mail", "mail", "unmail", "stage"} {
		must(tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{}))(t)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	if list := log.Residue(); len(list) != 4 || list[0].Result != sequencer.ResultPartial ||
		list[3].Result != sequencer.ResultUnresolved {
		t.Fatalf("the list: %+v", list)
	}
	retractNow(t, log, a, tx.ID())
	retracted(t, log, tx.ID())
	world.set(func() { clear(world.down) })
	refused(t, a, tx.ID())
	for _, agent := range []string{"b", "a"} {
		refused(t, start(t, agent, log.Door(), quick(world)), tx.ID())
	}
	world.expect(t)
}

// refused asks for every call of a transaction, which must not be made.
func refused(t *testing.T, r *rig, tx string) {
	t.Helper()
	for i := range uint32(4) {
		if _, err := r.client.RetryResidue(background(t), tx, i, true); problemCode(err) != api.CodeTool {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// A turn does not settle what it cannot say in the log: no sidecar could know that its calls are not to be made.
func TestRetractionIsSaid(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	world.set(func() { world.deny["mail"] = true }) // it stays as it is: the turn leaves no residue of its own
	tx := must(a.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t).Tx
	a.final(ctx, t, tx)
	world.set(func() { clear(world.deny) })
	door.Silence(true)
	retractNow(t, log, a, tx)
	short, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
	defer cancel()
	settled := func() bool {
		turned := false
		for _, o := range log.Outcomes() {
			if turned = turned || o.Kind == sequencer.OutcomeTurn; turned && o.Kind == sequencer.OutcomeSettled {
				return true
			}
		}
		return false
	}
	if log.Until(short, settled) == nil {
		t.Error("the turn is settled, and the log does not say that its call is not to be made")
	}
	door.Silence(false)
	retracted(t, log, tx)
	b := start(t, "b", log.Door(), quick(world))
	if _, err := b.client.RetryResidue(ctx, tx, 0, false); problemCode(err) != api.CodeTool {
		t.Errorf("tried again: %v", err)
	}
	world.expect(t)
}

// A call by hand that is not answered and then refused may have happened: the refusal is about the newest try alone.
// So is that of a compensation, which is no longer known to be missing.
func TestRetryRefusedAfterUnknown(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.deny["unmail"] = true })
	held := must(a.client.Do(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t).Tx
	a.final(ctx, t, held)
	world.set(func() { clear(world.deny) })
	undone := must(a.client.Do(ctx, "stage", at{At: "y"}, client.EffectOptions{}))(t).Tx
	a.final(ctx, t, undone)
	world.set(func() { world.deny["back"] = true })
	retractNow(t, log, a, undone)
	retracted(t, log, undone)
	world.set(func() { clear(world.deny) })
	for _, c := range []struct{ tx, tool, first string }{
		{held, "unmail", "partial"}, {undone, "back", "leaked"},
	} {
		listed := func() (result, detail string) {
			for _, r := range log.Residue() {
				if string(r.Tx) == c.tx {
					result, detail = r.Result.String(), r.Detail
				}
			}
			return result, detail
		}
		if result, _ := listed(); result != c.first {
			t.Fatalf("%s at first: %s", c.tool, result)
		}
		world.set(func() { world.lose[c.tool] = 1 })
		if _, err := a.client.RetryResidue(ctx, c.tx, 0, true); problemIn(t, err).Code != api.CodeToolUnreachable {
			t.Errorf("%s, not answered: %v", c.tool, err)
		}
		world.set(func() { world.deny[c.tool] = true })
		r := must(a.client.RetryResidue(ctx, c.tx, 0, true))(t)
		if r.State == "resolved" {
			t.Errorf("%s, refused: %+v", c.tool, r)
		}
		result, detail := listed()
		if result != "unresolved" || !strings.Contains(detail, "an earlier try was not answered") {
			t.Errorf("%s, refused: %s: %s", c.tool, result, detail)
		}
	}
}

// A key that its sink may have forgotten does not keep a second call from happening: it needs force.
func TestRetryForgottenKey(t *testing.T) {
	log, world := newLog(), newSink()
	brief := func(c *setup) { c.Tools = forgetful{c.Tools.(*testTools), time.Nanosecond} }
	a := start(t, "a", log.Door(), quick(world), brief)
	ctx := background(t)
	world.set(func() { world.down["mail"] = 1 << 20 })
	tx := must(a.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t).Tx
	a.final(ctx, t, tx)
	world.set(func() { clear(world.down) })
	if _, err := a.client.RetryResidue(ctx, tx, 0, false); problemIn(t, err).Code != api.CodeUnkeyed {
		t.Errorf("without force: %v", err)
	}
	world.expect(t)
	if r := must(a.client.RetryResidue(ctx, tx, 0, true))(t); r.State != "resolved" {
		t.Errorf("with force: %+v", r)
	}
}

// forgetful are tools whose sinks know keys for a while.
type forgetful struct {
	*testTools
	life time.Duration
}

func (f forgetful) Find(name string, args json.RawMessage) (gate.Tool, error) {
	t, err := f.testTools.Find(name, args)
	t.KeyLife = f.life
	return t, err
}

// A forced try whose process dies is not made a second time under its Idempotency-Key: its sink could not tell.
func TestForcedTryAcrossRestart(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := openResidue(t, a, world)
	gateway := make(chan struct{})
	world.set(func() { world.block["unmail"] = gateway })
	request := with(post("/v1/residue/"+tx+"/0/retry", `{"force":true}`), "Idempotency-Key", "k")
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		a.send(t, request)
	}()
	<-world.entered
	journal := must(os.ReadFile(a.journalPath()))(t)
	door.FailAppends(1 << 30)
	door.Silence(true)
	close(gateway) // it happens, and the log hears nothing of it
	<-tried
	_ = a.stop()
	world.expect(t, "unmail x")
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	for range 2 {
		if status, p, _ := b.send(t, request); p == nil || p.Code != api.CodeUnkeyed {
			t.Errorf("the same request: %d %+v", status, p)
		}
	}
	world.expect(t, "unmail x")
}
