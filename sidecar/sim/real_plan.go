package sim

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// plannedCall is one call of a planned turn, as its agent makes it, perhaps twice at the same time.
type plannedCall struct {
	*client
	tx   string
	at   api.PlaceOfCall
	asks []api.Effect // as it comes, and as it comes again where that was refused
	keys []string     // of the requests, one for each of asks
}

// turn plans some calls and makes them side by side: in any order, some twice, some never, and some that were refused
// once more with other arguments. Held ones and such as run at once are mixed. It reports whether the transaction may
// go on.
func (c *client) turn(ctx context.Context, tx string) bool {
	b := c.b
	in := &api.Plan{}
	for range 2 + c.n(4) {
		in.Calls = append(in.Calls, c.newKey())
	}
	plan, err := ask(ctx, c, request[*api.Planned]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Planned, error) {
			return p.agent.Plan(ctx, tx, in)
		}})
	c.heard(err)
	if err != nil {
		return problem(err) == nil
	}
	c.say("plans %v in %s", plan.Calls, tx)
	var calls sync.WaitGroup
	for _, at := range plan.Calls {
		never, twice := c.n(10) == 0, c.n(10) == 0
		one := &plannedCall{client: &client{dice: b.newDice(), host: c.host, talk: c.talk}, tx: tx, at: at}
		for range 2 {
			tool, args := c.newCall()
			if c.n(8) == 0 {
				tool = "look"
			}
			one.asks = append(one.asks, api.Effect{Tool: tool, Args: args, Call: at.Call})
			one.keys = append(one.keys, [...]string{"", c.newKey()}[c.n(2)]) // its id makes it one call, also without
		}
		if never {
			continue
		}
		calls.Go(func() { one.comes(ctx) })
		if twice {
			other := *one
			other.client, other.keys = &client{dice: b.newDice(), host: c.host, talk: c.talk}, []string{"", ""}
			calls.Go(func() { other.comes(ctx) })
		}
	}
	calls.Wait()
	return true
}

// comes makes the call after a while, which may be longer than later ones wait for it.
func (c *plannedCall) comes(ctx context.Context) {
	b := c.b
	b.sleep(ctx, c.some(2*realPlan))
	for i := range c.asks {
		r := request[*api.Receipt]{key: c.keys[i], wait: 10 * time.Second,
			run: func(ctx context.Context, p *proc, o once.Call) (*api.Receipt, error) {
				return p.agent.Effect(ctx, o, c.tx, &c.asks[i])
			}}
		var got *api.Receipt
		var err error
		for range 1 + c.n(5) {
			if got, err = ask(ctx, c.client, r); err == nil || problem(err) != nil && !problem(err).SafeSameKey {
				break
			}
			b.sleep(ctx, c.some(400*time.Millisecond))
		}
		c.heard(err)
		if err == nil {
			b.placed(c.tx, c.at, got)
			c.called(c.tx, got)
			return
		}
		if p := problem(err); p != nil && p.Code == api.CodePlanPassed {
			c.say("is told that %s of %s is passed", c.at.Call, c.tx)
			b.mu.Lock()
			a := b.attempt(sequencer.TxID(c.tx))
			b.absent(a, b.effect(a, c.at.Index))
			b.mu.Unlock()
			return
		}
	}
}

// placed holds the answer of a planned call against the plan.
func (b *bubble) placed(tx string, at api.PlaceOfCall, got *api.Receipt) {
	if got.Call != at.Call || got.Index != nil && *got.Index != at.Index {
		text, _ := json.Marshal(got)
		b.fail("call %s of %s is planned as %d, and answered with %s", at.Call, tx, at.Index, text)
	}
}

// absent: nothing comes of a planned call, even if it is sent from now on. b.mu is held.
func (b *bubble) absent(a *attempt, e *effect) {
	if e.absent = true; b.r.world.ran(e.token) {
		b.r.fail("call %d of %s has run; the agent or the footprint says that it did not come", e.index, a.id)
	}
}

// inOrder: what moves the same runs in the order of the plan, what is held leaves in it, and what does not come any
// more does neither. A call has just done so; b.mu is held.
func (b *bubble) inOrder(a *attempt, e *effect) {
	if e.absent {
		b.r.fail("call %d of %s runs, and does not come any more", e.index, a.id)
	}
	for _, later := range a.effects[e.index+1:] {
		meets := e.gated() || slices.ContainsFunc(e.leaves, func(leaf int) bool {
			return slices.Contains(later.leaves, leaf)
		})
		if b.r.world.ran(later.token) && later.gated() == e.gated() && meets {
			b.r.fail("call %d of %s runs behind call %d", e.index, a.id, later.index)
		}
	}
}
