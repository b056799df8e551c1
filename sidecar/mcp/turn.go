package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/words"
)

// Bounds of a turn.
const (
	maxTurn   = 128                    // calls
	maxTurns  = 1024                   // of all conversations
	turnIdle  = 5 * time.Second        // without a call the turn is over: a client may refuse one, or make it elsewhere
	turnAwait = 300 * time.Millisecond // a held call waits for its siblings, which a client may make one by one
)

// turn is what one answer of a model asks for: several calls, which take effect together, in the answer's order.
//
// Its transaction begins with the first call that comes and is sealed once all have come, once none has come for
// turnIdle, or when the next answer of the conversation asks for calls.
type turn struct {
	f       *Face
	talk    once.Call
	calls   []planned
	begin   sync.Once
	tx      string
	failed  error // why there is no transaction
	decided chan struct{}
	d       *api.Decision // Invariant: set before decided is closed, as err
	err     error

	mu      sync.Mutex
	missing int // calls that have not come
	running int // calls that have come and are being made
	pins    []api.Pin
	seal    func([]api.Pin) (*api.Decision, error) // nil: it has no transaction yet
	over    bool                                   // it is being sealed, or was: no call joins it
	idle    *time.Timer
}

// planned is one call of a turn.
type planned struct {
	tool, args string
	come       bool
}

// turns are those that are not over, by agent and conversation. A conversation has one at most.
type turns struct {
	mu   sync.Mutex
	open map[[2]string]*turn
}

// Answered says which calls a model's answer asks for. Calls of other tools than those served here count for nothing;
// one call alone needs no turn.
func (f *Face) Answered(agent, session string, uses []api.ToolUse) {
	shown, _ := f.catalogue("")
	t := &turn{f: f, decided: make(chan struct{})}
	for _, u := range uses {
		for public, tool := range shown {
			// Clients put a prefix of their own before a name, and know the tools of one server by their own names.
			if u.Name == public || u.Name == tool.Name || strings.HasSuffix(u.Name, "__"+public) {
				t.calls = append(t.calls, planned{tool: public, args: canonical(u.Args)})
				break
			}
		}
	}
	if t.missing = len(t.calls); t.missing < 2 || t.missing > maxTurn {
		t = nil
	}
	key := [2]string{agent, session}
	f.turns.mu.Lock()
	before := f.turns.open[key]
	delete(f.turns.open, key)
	if t != nil && len(f.turns.open) < maxTurns {
		f.turns.open[key] = t
	}
	f.turns.mu.Unlock()
	if before != nil {
		before.end()
	}
}

// canonical is one text for equal arguments: neither the order of keys nor white space tells two calls apart.
func canonical(args json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber() // 1 and 1.0 are two texts, and a large number is not rounded
	var v any
	if d.Decode(&v) != nil || v == nil {
		return "{}"
	}
	return string(mustJSON(v))
}

// claim finds the place of a call in the conversation's turn: the first equal call that has not come. Without one it
// comes last (place is negative). nil: there is no turn, and the call is made alone.
func (f *Face) claim(v *visit, in made) (t *turn, place int) {
	f.turns.mu.Lock()
	t = f.turns.open[[2]string{v.guest.Name, v.session}]
	f.turns.mu.Unlock()
	if t == nil {
		return nil, -1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, -1
	}
	args := canonical(in.args)
	place = slices.IndexFunc(t.calls, func(p planned) bool { return !p.come && p.tool == in.t.Public && p.args == args })
	if place >= 0 {
		t.calls[place].come = true
		t.missing--
	}
	t.running++
	if t.idle != nil {
		t.idle.Stop()
	}
	return t, place
}

// inTurn makes a call as part of its answer.
func (f *Face) inTurn(ctx context.Context, v *visit, t *turn, place int, in made) (*sdk.CallToolResult, error) {
	t.begin.Do(func() { t.open(v) })
	if t.failed != nil {
		t.came(nil)
		return refused(t.failed), nil
	}
	e := &api.Effect{Tool: in.t.Public, Args: in.args}
	if place >= 0 {
		e.Call = callOf(place)
	}
	receipt, err := v.guest.Effect(ctx, t.talk, t.tx, e)
	t.came(pinOf(v, in))
	if err != nil {
		return f.failed(in, t.tx, err), nil
	}
	if !in.class.Gated() {
		return f.receipt(in, receipt)
	}
	wait := time.NewTimer(turnAwait)
	defer wait.Stop()
	select {
	case <-t.decided:
	case <-wait.C:
		return heldResult(in, receipt), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case t.err != nil && api.AsProblem(t.err).Code != api.CodeUndecided:
		return refused(t.err), nil
	case t.err != nil:
		return heldResult(in, receipt), nil
	case t.d.State == api.StateAborted:
		return refused(words.Refusal(t.d)), nil
	}
	return f.receipt(in, f.released(ctx, v, receipt))
}

func callOf(place int) string { return fmt.Sprintf("c%d", place) }

// open begins the turn's transaction, with the places of all calls.
func (t *turn) open(v *visit) {
	ctx, stop := context.WithTimeout(context.Background(), longest) // the others are to find it, whoever gives up
	defer stop()
	t.talk = once.Call{Session: "mcp-" + rand.Text()}
	if v.guest.Relies {
		t.talk.Session = v.session
	}
	d, err := v.guest.Begin(ctx, t.talk, &api.Begin{})
	if err != nil {
		t.failed = err
		return
	}
	ids := make([]string, len(t.calls))
	for i := range ids {
		ids[i] = callOf(i)
	}
	if _, err := v.guest.Plan(ctx, d.Tx, &api.Plan{Calls: ids}); err != nil {
		_, _ = v.guest.Abort(ctx, d.Tx, "its calls could not be planned")
		t.failed = err
		return
	}
	t.mu.Lock()
	t.tx = d.Tx
	t.mu.Unlock()
	agent := v.guest.Agent
	t.seal = func(pins []api.Pin) (*api.Decision, error) {
		ctx, stop := context.WithTimeout(context.Background(), t.f.Decided)
		defer stop()
		return agent.Seal(ctx, t.tx, &api.Seal{Pins: pins})
	}
}

// came says that a call has been made, or refused; the last one ends the turn.
func (t *turn) came(pins []api.Pin) {
	t.mu.Lock()
	t.pins = append(t.pins, pins...)
	t.running--
	last := t.missing == 0 && t.running == 0
	if !last && t.running == 0 {
		t.idle = time.AfterFunc(turnIdle, t.end)
	}
	t.mu.Unlock()
	if last {
		t.end()
	}
}

// end seals what has come of the turn. A call that is still being made keeps it open: it ends it then.
func (t *turn) end() {
	t.mu.Lock()
	if t.over || t.running > 0 {
		t.missing = 0 // what has not come does not join any more
		t.mu.Unlock()
		return
	}
	t.over = true
	seal, pins := t.seal, t.pins
	t.mu.Unlock()
	t.f.turns.mu.Lock()
	for key, one := range t.f.turns.open {
		if one == t {
			delete(t.f.turns.open, key)
		}
	}
	t.f.turns.mu.Unlock()
	if seal != nil { // else nothing has come
		t.f.working.Go(func() {
			t.d, t.err = seal(pins)
			close(t.decided)
		})
	}
}
