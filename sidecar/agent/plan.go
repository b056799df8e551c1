package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// Bounds of a plan.
const (
	maxPlan      = 128 // calls of one request
	maxCallBytes = 128 // of a call's id
)

// Plan gives calls their indexes before any of them comes, in the order of their ids; behind those that there are.
func (s *Agent) Plan(ctx context.Context, id string, in *api.Plan) (*api.Planned, error) {
	return flow(s, func() (*api.Planned, error) {
		if err := plannable(in.Calls); err != nil {
			return nil, err
		}
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		if s.engine == nil {
			return nil, api.Problemf(api.CodeNoPolicy, "this sidecar was started without a policy file: it calls no tools")
		}
		if err := s.enter(ctx, t); err != nil { // a call that is being issued has taken its index
			return nil, err
		}
		defer s.leave(t)
		if err := s.usable(t); err != nil {
			return nil, err
		}
		return s.plan(ctx, t, in.Calls)
	})
}

// plannable says what is wrong with the ids of a plan.
func plannable(calls []string) error {
	if n := len(calls); n == 0 || n > maxPlan {
		return api.Problemf(api.CodeBadRequest, "calls has %d ids: give 1 to %d, and append the others by another plan", n,
			maxPlan)
	}
	for i, call := range calls {
		if err := validCall(call); err != nil {
			return err
		}
		if slices.Contains(calls[:i], call) {
			return api.Problemf(api.CodeBadRequest, "calls names %q twice: each call has an id of its own", call)
		}
	}
	return nil
}

// validCall says what is wrong with the id of a call.
func validCall(call string) error {
	if call == "" || len(call) > maxCallBytes {
		return api.Problemf(api.CodeBadRequest, "the id of a call has %d bytes: give 1 to %d", len(call), maxCallBytes)
	}
	for _, c := range call {
		if c <= ' ' || c > '~' {
			return api.Problemf(api.CodeBadRequest, "the id of a call, %q, has a character that is not printable ASCII, "+
				"or a space", call)
		}
	}
	return nil
}

// plan appends calls to a transaction that the caller has entered.
func (s *Agent) plan(ctx context.Context, t *tx, calls []string) (*api.Planned, error) {
	for _, call := range calls {
		if at := t.indexOf(call); at >= 0 { // which of the two places a call meant, its id could not say
			return nil, api.Problemf(api.CodeBadRequest, "%q is planned already, as call %d of %s: a further plan names "+
				"further calls", call, at, t.id)
		}
	}
	if n := t.size() + len(calls); n > s.view.FootprintLimit() { // each is in it, also one that never comes
		return nil, api.Problemf(api.CodeLimit, "the transaction would name %d scopes and calls; at most %d go into one", n,
			s.view.FootprintLimit())
	}
	first := t.next()
	err := s.delivery.Event(&topology.Event{ // the journal has it before any of the calls
		Kind: topology.EventPlan, Workspace: s.workspace, Tx: t.id, Agent: s.agent, Incarnation: t.incarnation,
		AtMs: s.clock.Now().UnixMilli(), Traceparent: traceOf(ctx),
		Plan: &topology.Plan{First: uint32(first), Calls: calls},
	}, func(sequencer.Place) { // outside of the loop
		s.loop.Run(func() {
			t.plans--
			s.loop.Moved(&t.changed)
		})
	})
	if err != nil {
		return nil, err
	}
	t.plans++
	for len(t.places) < first {
		t.places = append(t.places, &place{state: placeCome})
	}
	out := &api.Planned{Tx: string(t.id), Calls: []api.PlaceOfCall{}}
	for i, call := range calls {
		t.places = append(t.places, &place{call: call})
		out.Calls = append(out.Calls, api.PlaceOfCall{Call: call, Index: uint32(first + i)})
	}
	return out, nil
}

// sealed are the calls as the footprint names them, each at its index. Where none was made the index stays, as one
// that nothing came of: settlement and log count on the indexes.
func (t *tx) sealed() []sequencer.Effect {
	out := make([]sequencer.Effect, t.next())
	for i := range out {
		out[i] = sequencer.Effect{Index: uint32(i), Class: sequencer.ClassRead, Absent: true}
	}
	for _, i := range t.effects {
		e := i.effect
		out[e.Index] = sequencer.Effect{Index: e.Index, Scopes: e.Tool.Scopes, Class: e.Tool.Class, Tool: e.Tool.Name,
			Key: e.Key, Known: e.Tool.Class.Eager()}
		if e.Tool.Approve {
			out[e.Index].Approve, out[e.Index].Args = true, argsSum(e.Args)
		}
	}
	return out
}

// absent are the indexes below the next one that no call has.
func (t *tx) absent() (out []uint32) {
	for _, e := range t.sealed() {
		if e.Absent {
			out = append(out, e.Index)
		}
	}
	return out
}

// comes takes a transaction for a call, in the call's turn; came is to be told what became of it. A call that came
// before is answered as it stands: first is that, and the transaction is not taken.
func (s *Agent) comes(ctx context.Context, t *tx, tool gate.Tool, c toolCall) (came func(*api.Receipt, error),
	first *api.Receipt, err error) {
	came = func(*api.Receipt, error) {}
	var p *place
	if c.call != "" {
		if p, first, err = s.placeOf(ctx, t, c); first != nil || err != nil {
			return nil, first, err
		}
		came = s.claim(t, p, sumOf(c))
	}
	var moves []sequencer.Scope
	if _, shard := s.shardTool(c.tool); tool.Class.Eager() || shard && tool.Class.Gated() {
		moves = slices.Concat(tool.Scopes, tool.May)
	}
	if p != nil {
		p.moves = moves
	}
	if len(moves) == 0 || len(t.places) == 0 { // what is held goes by its index, later; what only reads moves nothing
		err = s.enter(ctx, t)
	} else {
		err = s.waitTurn(ctx, t, p, moves)
	}
	if err != nil {
		came(nil, err)
		return nil, nil, err
	}
	return came, nil, nil
}

// claim gives a place to a request that works on its call, until came is told what became of it.
func (s *Agent) claim(t *tx, p *place, sum [sha256.Size]byte) (came func(*api.Receipt, error)) {
	p.claims++
	mine := p.claims
	p.state, p.sum = placeComing, sum
	s.loop.Moved(&t.changed) // some wait for it no longer, or for what it moves
	return func(out *api.Receipt, err error) {
		if p.claims != mine || p.state != placeComing { // it has its index, or was withdrawn and came again
			return
		}
		p.state, p.moves = placeMissing, nil // after an error it may come again
		if err == nil {
			p.state = placeCome
			if out.State == api.EffectStaged && out.Index == nil { // a shard's write: it is not made again
				p.answer = out
			}
		}
		s.loop.Moved(&t.changed)
	}
}

// placeOf is the place of a planned call, which is its own from now on; or the answer of the same call before it.
func (s *Agent) placeOf(ctx context.Context, t *tx, c toolCall) (*place, *api.Receipt, error) {
	at := t.indexOf(c.call)
	if at < 0 {
		if err := s.usable(t); err != nil {
			return nil, nil, err
		}
		return nil, nil, api.Problemf(api.CodeBadRequest, "no plan of %s names the call %.150q: plan it first, or leave "+
			"call out", t.id, c.call)
	}
	p, sum := t.places[at], sumOf(c)
	for {
		if (p.state == placeComing || p.state == placeCome) && p.sum != sum {
			// One id is one call: it is not known here which of the two the plan means.
			return nil, nil, api.Problemf(api.CodeKeyReused, "the call %q of %s came with another tool, other arguments or "+
				"another key: call %d is that one", c.call, t.id, at)
		}
		switch {
		case p.state == placePassed: // a later call has run, and this one would move what that one relied on
			return nil, nil, passedBy(t, at, fmt.Sprintf("did not come within %v after a later one, which went without it",
				s.limits.PlanWait))
		case p.state == placeComing: // what comes of the same call under way is the answer of this one, too
			err := s.through(ctx, t, func() bool { return p.state != placeComing || p.made != nil })
			if err != nil {
				return nil, nil, err
			}
		case p.made != nil:
			if err := s.enter(ctx, t); err != nil { // it has ended by then
				return nil, nil, err
			}
			i := p.made
			if i == nil { // it was withdrawn meanwhile: this one takes its place
				s.leave(t)
				continue
			}
			out, err := s.ranTool(ctx, t, i, errBrokenOff)
			s.leave(t)
			return nil, out, err
		case p.answer != nil:
			again := *p.answer
			return nil, &again, nil
		default: // missing, or a read: it is read again
			return p, nil, nil
		}
	}
}

// waitTurn takes a transaction for a call that runs now, once no earlier one that moves the same is to come. Those
// that have not come within the bound are passed; of those that have, each is under way, and none is left behind. The
// bound is one for all of it: a call that is refused and sent again and again does not hold up the later ones.
func (s *Agent) waitTurn(ctx context.Context, t *tx, p *place, moves []sequencer.Scope) error {
	bound, cancel := s.clock.Within(ctx, s.limits.PlanWait)
	defer cancel()
	free := func() bool {
		missing, coming := t.before(p, moves)
		return t.phase != phaseOpen || t.decided() || !missing && !coming // where it is over, the caller says why
	}
	for {
		err := s.untilTx(bound, t, free)
		if err != nil && ctx.Err() == nil && bound.Err() != nil {
			s.pass(t, p)
			err = s.untilTx(ctx, t, func() bool {
				missing, _ := t.before(p, moves)
				return missing || free()
			})
		}
		if err != nil {
			return err
		}
		if err := s.enter(ctx, t); err != nil {
			return err
		}
		if free() {
			return s.notOvertaken(t, p, moves)
		}
		s.leave(t) // one that had come was refused meanwhile: its request may be sent again within the bound
	}
}

// notOvertaken gives the transaction back where a later call has run that moves the same: this one was to move
// something else when that one went, was refused, and comes again. Run now, it would be undone too late.
func (s *Agent) notOvertaken(t *tx, p *place, moves []sequencer.Scope) error {
	if p == nil {
		return nil
	}
	at := t.indexOf(p.call)
	for _, i := range t.effects {
		e := &i.effect
		if int(e.Index) > at && e.Tool.Class.Eager() && api.Meet(slices.Concat(e.Tool.Scopes, e.Tool.May), moves) {
			p.state = placePassed
			s.leave(t)
			return passedBy(t, at, fmt.Sprintf("was refused, and came again behind call %d, which moves the same", e.Index))
		}
	}
	return nil
}

// passedBy refuses a call that later ones have gone without.
func passedBy(t *tx, at int, how string) error {
	return api.Problemf(api.CodePlanPassed, "the call %q, call %d of %s, %s: it was not made. Plan it again under "+
		"another id, or make it without one", t.places[at].call, at, t.id, how)
}

// before says of the calls before a place, or of all where it is nil, whether one is missing, which may move anything,
// and whether one that moves the same has come and not run yet.
func (t *tx) before(p *place, moves []sequencer.Scope) (missing, coming bool) {
	for _, q := range t.earlier(p) {
		missing = missing || q.call != "" && q.state == placeMissing
		coming = coming || q.state == placeComing && api.Meet(q.moves, moves)
	}
	return missing, coming
}

// earlier are the places before one, or all where it is nil.
func (t *tx) earlier(p *place) []*place {
	if at := slices.Index(t.places, p); at >= 0 {
		return t.places[:at]
	}
	return t.places
}

// pass closes the places before one, or all where it is nil, to which no call has come.
func (s *Agent) pass(t *tx, p *place) {
	for _, q := range t.earlier(p) {
		if q.call != "" && q.state == placeMissing {
			q.state = placePassed
		}
	}
	s.loop.Moved(&t.changed)
}

// sumOf tells calls of one id apart.
func sumOf(c toolCall) [sha256.Size]byte {
	text, err := json.Marshal([]any{c.tool, c.key, exact(c.args)})
	if err != nil {
		panic(fmt.Sprintf("sidecar: arguments of %s that were read as JSON cannot be written: %v", c.tool, err))
	}
	return sha256.Sum256(text)
}
