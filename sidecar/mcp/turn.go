package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
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
	f     *Face
	asked time.Time
	calls []planned

	begin  sync.Once // by the first call; what follows is set there
	agent  Agent
	talk   once.Call
	tx     string
	failed error // why there is no transaction

	seal    sync.Once
	decided chan struct{}
	d       *api.Decision // Invariant: set before decided is closed, as err
	err     error

	mu      sync.Mutex
	missing int // calls that have not come
	running int // calls that have come and are being made
	pins    []api.Pin
	over    bool // no call joins it; it is sealed once none is being made
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
	t := &turn{f: f, decided: make(chan struct{}), asked: time.Now()}
	for _, u := range uses {
		if tool, found := f.named(u.Name); found {
			t.calls = append(t.calls, planned{tool: tool, args: canonical(u.Args)})
		}
	}
	if t.missing = len(t.calls); t.missing < 2 || t.missing > maxTurn {
		t = nil
	}
	for _, over := range f.turns.put([2]string{agent, session}, t) {
		over.end()
	}
}

// named is the public name of the tool that a model calls by a name. Clients put a prefix of their own before a public
// name, and know the tools of one server by their own names, which may be two servers' and are then not found.
func (f *Face) named(name string) (public string, found bool) {
	shown, _ := f.catalogue("")
	if _, exact := shown[name]; exact {
		return name, true
	}
	own := []string{}
	for p, tool := range shown {
		if strings.HasSuffix(name, "__"+p) && len(p) > len(public) {
			public = p
		}
		if tool.Name == name {
			own = append(own, p)
		}
	}
	if public == "" && len(own) == 1 {
		public = own[0]
	}
	return public, public != ""
}

// put makes a turn that of a conversation, nil: it has none. What it returns is over: the turn before, and the oldest
// one where there are too many, as of conversations that never went on.
func (ts *turns) put(key [2]string, t *turn) (over []*turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if before := ts.open[key]; before != nil {
		over = append(over, before)
		delete(ts.open, key)
	}
	if t == nil {
		return over
	}
	if len(ts.open) >= maxTurns {
		oldest := key
		for k, one := range ts.open {
			if oldest == key || one.asked.Before(ts.open[oldest].asked) {
				oldest = k
			}
		}
		over = append(over, ts.open[oldest])
		delete(ts.open, oldest)
	}
	ts.open[key] = t
	return over
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
	if err != nil {
		t.came(nil)
		return f.failed(in, t.tx, err), nil
	}
	t.came(pinOf(v, in))
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
	ctx, stop := context.WithTimeout(context.Background(), longest) // the others are to find it even if this one ends
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
	t.agent, t.tx = v.guest.Agent, d.Tx
}

// came says that a call has been made, or refused; the last one ends the turn.
func (t *turn) came(pins []api.Pin) {
	t.mu.Lock()
	t.pins = append(t.pins, pins...)
	t.running--
	t.over = t.over || t.missing == 0 && t.running == 0
	over := t.over && t.running == 0
	if !over && t.running == 0 {
		t.idle = time.AfterFunc(turnIdle, t.end)
	}
	t.mu.Unlock()
	if over {
		t.close()
	}
}

// end says that no further call joins the turn. One that is being made ends it.
func (t *turn) end() {
	t.mu.Lock()
	t.over = true
	running := t.running
	t.mu.Unlock()
	if running == 0 {
		t.close()
	}
}

// close seals what has come of the turn.
func (t *turn) close() {
	t.seal.Do(func() {
		t.f.turns.mu.Lock()
		maps.DeleteFunc(t.f.turns.open, func(_ [2]string, one *turn) bool { return one == t })
		t.f.turns.mu.Unlock()
		if t.tx == "" { // nothing has come
			return
		}
		t.f.working.Go(func() {
			defer close(t.decided)
			ctx, stop := context.WithTimeout(context.Background(), t.f.Decided)
			defer stop()
			t.d, t.err = t.agent.Seal(ctx, t.tx, &api.Seal{Pins: t.pins})
		})
	})
}
