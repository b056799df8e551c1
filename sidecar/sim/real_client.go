package sim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// client is one conversation of an agent: it asks its sidecar for one thing after another, as over HTTP.
type client struct {
	*dice
	host *host
	talk talk
	done int // programs after the faults; guarded by the bubble
	keys int
	mine []string // transactions that it was told of

	had map[sequencer.Scope]uint64 // versions that its reads have shown in the transaction
}

// errGone is the end of a connection: what became of the request is not known.
var errGone = errors.New("sim: the connection is lost")

// request is what an agent asks; a key makes it one that is done once.
type request[T any] struct {
	key    string
	wait   time.Duration
	run    func(ctx context.Context, p *proc, c once.Call) (T, error)
	status func(T) int
}

// kept is an answer as it is remembered under a key.
type kept[T any] struct {
	Out     T
	Problem *api.Problem
}

// ask makes one request of the process that runs now.
func ask[T any](ctx context.Context, c *client, r request[T]) (out T, err error) {
	b := c.b
	if !c.slow(ctx) {
		return out, errGone
	}
	p := c.host.current()
	if !p.up() {
		b.sleep(ctx, c.some(400*time.Millisecond))
		return out, errGone
	}
	call := once.Call{Session: c.talk.session}
	req, cancel := context.WithTimeout(p.life, max(r.wait, time.Millisecond))
	defer cancel()
	if c.chance(hitClientLeaves, func(f *faults) float64 { return f.cut / 3 }) { // its client goes away
		t := time.AfterFunc(c.some(300*time.Millisecond), cancel)
		defer t.Stop()
	}
	if r.key == "" {
		out, err = r.run(req, p, call)
	} else {
		answer, slot, leave, failed := c.enter(p, r.key)
		switch {
		case failed != nil:
			err = failed
		case answer != nil:
			var k kept[T]
			if json.Unmarshal(answer.Body, &k) != nil {
				b.fail("an answer under a key is not one: %q", answer.Body)
			}
			if out = k.Out; k.Problem != nil {
				err = k.Problem
			}
		default:
			call.Slot = slot
			whole, end := context.WithTimeout(p.life, max(r.wait, time.Millisecond)) // its client may go away
			out, err = r.run(whole, p, call)
			end()
			status := http.StatusOK
			if r.status != nil && err == nil {
				status = r.status(out)
			}
			leave(keyedAnswer(out, err, status))
		}
	}
	if p.dead.Load() || p.passes(doorAnswer) != nil || !c.slow(ctx) || p.dead.Load() ||
		c.chance(hitAnswerLost, func(f *faults) float64 { return f.cut }) {
		return out, errGone
	}
	if err != nil && ctx.Err() == nil {
		return out, api.AsProblem(err)
	}
	return out, err
}

// keyedAnswer is an answer as it is kept under its key; nil: it may well be another one next time.
func keyedAnswer[T any](out T, err error, status int) *once.Answer {
	k := kept[T]{Out: out}
	if err != nil {
		p := api.AsProblem(err)
		if p.SafeSameKey || p.Status >= http.StatusInternalServerError {
			return nil
		}
		k.Problem = p
	} else if status == http.StatusAccepted {
		return nil
	}
	body, _ := json.Marshal(k)
	return &once.Answer{Status: 200, Body: body}
}

// enter finds a key's answer, or lets the caller work one out, as the HTTP interface does.
func (c *client) enter(p *proc, key string) (*once.Answer, *once.Slot, func(*once.Answer), error) {
	e, answer, err := p.keys.Enter(c.talk.session+"\n"+key, sha256.Sum256([]byte(key)), true)
	if err != nil || answer != nil {
		return answer, nil, nil, err
	}
	return nil, &e.Slot, func(a *once.Answer) { p.keys.Leave(e, a) }, nil
}

func (c *client) say(format string, args ...any) {
	if c.b.opts.Trace {
		c.b.note("  "+c.host.agent+"/"+c.talk.session+": "+format, args...)
	}
}

// work does one program after another.
func (c *client) work(ctx context.Context) {
	b := c.b
	for b.sleep(ctx, c.some(700*time.Millisecond)) {
		b.mu.Lock()
		healing, done := b.healing, c.done
		b.mu.Unlock()
		if healing && done >= realPrograms {
			return
		}
		if c.program(ctx, healing) && healing {
			b.mu.Lock()
			c.done++
			b.mu.Unlock()
		}
	}
}

// program does one thing that an agent wants; it reports whether it has committed.
func (c *client) program(ctx context.Context, healing bool) bool {
	switch {
	case !healing && c.wish(func(f *faults) float64 { return f.retract }):
		c.retract(ctx)
		return false
	case !healing && c.wish(func(f *faults) float64 { return f.residue }):
		c.residue(ctx)
		return false
	}
	if c.n(3) == 0 {
		c.look(ctx)
	}
	switch {
	case c.wish(func(f *faults) float64 { return f.registry }):
		c.tools(ctx)
	case c.wish(func(f *faults) float64 { return f.readers }):
		return c.reader(ctx)
	case c.wish(func(f *faults) float64 { return f.commits }):
		return c.commit(ctx)
	case c.wish(func(f *faults) float64 { return f.branches }):
		return c.speculate(ctx)
	case c.wish(func(f *faults) float64 { return f.deltas }):
		return c.count(ctx)
	}
	switch n := c.n(10); {
	case n < 3:
		return c.put(ctx)
	case n < 5:
		return c.oneShot(ctx)
	}
	return c.transaction(ctx)
}

func (c *client) newKey() string {
	c.keys++
	return fmt.Sprintf("k%d", c.keys)
}

// problem is what a request was refused for; nil: the connection was lost, or there was an answer.
func problem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}

// heard takes a notice that the conversation's reads are lost.
func (c *client) heard(err error) {
	if p := problem(err); p != nil && p.Code == api.CodeSessionLost {
		c.b.mu.Lock()
		delete(c.b.loose, c.talk)
		c.b.mu.Unlock()
	}
}

// look reads a shard outside of transactions.
func (c *client) look(ctx context.Context) {
	b := c.b
	leaf := numForeign + c.n(numLeaves-numForeign)
	scope := leaves()[leaf]
	got, err := ask(ctx, c, request[*api.Content]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Content, error) {
			return p.agent.Get(ctx, o, string(scope), api.Look{Binds: true})
		}})
	c.heard(err)
	if err != nil {
		c.unanswered(scope)
		return
	}
	c.say("looks at %s: version %d at %d", scope, got.Version, got.View)
	b.mu.Lock()
	defer b.mu.Unlock()
	told := b.readOf(scope, leaf, got.View, got.Version, string(got.Body))
	former := func(r readRecord) bool { return r.Scope == scope } // who looks again decides by what it sees then
	b.loose[c.talk] = append(slices.DeleteFunc(b.loose[c.talk], former), told)
}

// unanswered: the sidecar may have counted a read whose answer is lost as one that was told. An agent that hears
// nothing when it looks again does not go on with what it saw there before.
func (c *client) unanswered(scope sequencer.Scope) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.loose[c.talk] = slices.DeleteFunc(c.b.loose[c.talk], func(r readRecord) bool { return r.Scope == scope })
}

// readOf is a read as it was answered, held against what the log says.
func (b *bubble) readOf(scope sequencer.Scope, leaf int, view, version uint64, content string) readRecord {
	truth := b.r.truth.shardAt(leaf, sequencer.Seq(view))
	var v token
	if content != "" {
		n, err := strconv.Atoi(content)
		if err != nil {
			b.r.fail("a read of %s is answered %q", scope, content)
		}
		v = token(n)
	}
	absent := version == 0 && v == 0 && truth.value == 0 // a retraction has taken it away
	if !absent && (uint64(truth.seq) != version || truth.value != v) {
		b.r.fail("a read of %s at %d is answered version %d, %s; the log has version %d, %s", scope, view, version,
			b.r.world.name(v), truth.seq, b.r.world.name(truth.value))
	}
	return readRecord{Read: sequencer.Read{Scope: scope, View: sequencer.Seq(view), Version: truth.seq,
		Writer: truth.tx}, leaves: []int{leaf}, values: []token{v}}
}

// forget: what the conversation was told was carried by a transaction, or is not meant any more.
func (c *client) forget() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	delete(c.b.loose, c.talk)
}

// content is what a write leaves.
func (b *bubble) content() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strconv.Itoa(int(b.r.world.newToken("", 100)))
}

// put writes one shard in a transaction of its own.
func (c *client) put(ctx context.Context) bool {
	b := c.b
	scope := string(leaves()[numForeign+c.n(numLeaves-numForeign)])
	in := &api.Put{Scope: scope, MediaType: "text/plain", Body: []byte(b.content())}
	key := ""
	if c.keyedNow() {
		key = c.newKey()
	}
	d := again(ctx, c, request[*api.Decision]{key: key, wait: 20 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Decision, error) {
			d, _, err := p.agent.Put(ctx, o, in)
			return d, err
		}, status: statusOf})
	defer c.forget()
	return d != nil && c.told(d)
}

func statusOf(d *api.Decision) int {
	if d != nil && d.State != api.StateCommitted && d.State != api.StateAborted {
		return http.StatusAccepted
	}
	return http.StatusOK
}

func (c *client) keyedNow() bool { return c.wish(func(f *faults) float64 { return 0.3 + f.keyed }) }

// again asks until there is an answer that ends the request; without a key only what surely did nothing is repeated.
func again[T any](ctx context.Context, c *client, r request[T]) (out T) {
	var none T
	folders := c.host.made()
	for range 40 {
		// A key is in the journal: the same request on another folder is another one, and may be done again.
		if r.key != "" && c.host.made() != folders {
			return none
		}
		got, err := ask(ctx, c, r)
		c.heard(err)
		p := problem(err)
		switch {
		case err == nil && (r.status == nil || r.status(got) != http.StatusAccepted || r.key == ""):
			return got
		case ctx.Err() != nil:
			return none
		case r.key == "" && err != nil && (p == nil || !p.Retryable && !p.SafeSameKey):
			return none
		case p != nil && r.key != "" && !p.SafeSameKey && p.Status < 500 && p.Code != api.CodeKeyInFlight &&
			p.Code != api.CodeSessionLost:
			c.say("refused: %v", p)
			return none
		case p != nil && p.Code == api.CodeSessionLost && c.n(3) == 0:
			return none
		}
		c.b.sleep(ctx, c.some(600*time.Millisecond))
	}
	return none
}

// told is an answer about a transaction: it is so. It reports whether it says that it has committed.
func (c *client) told(d *api.Decision) bool {
	b := c.b
	c.say("is told that %s is %s %s", d.Tx, d.State, d.Code)
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.State != api.StateCommitted && d.State != api.StateAborted {
		return false
	}
	if was := b.told[sequencer.TxID(d.Tx)]; was != "" && was != d.State {
		b.r.fail("the agent of %s was told that it is %s, and then %s %s", d.Tx, was, d.State, d.Code)
	}
	b.told[sequencer.TxID(d.Tx)] = d.State
	if d.State == api.StateAborted {
		b.attempt(sequencer.TxID(d.Tx)).givenUp = true
	}
	if info := b.r.truth.txs[sequencer.TxID(d.Tx)]; d.State == api.StateCommitted && (info == nil || !info.committed) {
		b.r.fail("the agent of %s is told that it is committed, and the log does not say so", d.Tx)
	}
	return d.State == api.StateCommitted
}

// newCall draws a tool and its arguments.
func (c *client) newCall() (tool string, args json.RawMessage) {
	at := string(leaves()[c.n(numForeign)])[len("res:"):]
	if c.wish(func(f *faults) float64 { return f.wide }) {
		at = string(wide()[c.n(2)])[len("res:"):]
	}
	names := [...]string{"set", "bare_set", "charge", "mail", "bare_mail", "stage"}
	asks := c.wish(func(f *faults) float64 { return f.asks })
	pin := c.wish(func(f *faults) float64 { return f.pins })
	brief := c.wish(func(f *faults) float64 { return f.brief })
	return names[c.n(len(names))], fmt.Appendf(nil, `{"at":%q,"key":"%s-%s-%s","ask":%v,"pin":%v,"brief":%v}`, at,
		c.host.agent, c.talk.session, c.newKey(), asks, pin, brief)
}

// oneShot makes one call in a transaction of its own.
func (c *client) oneShot(ctx context.Context) bool {
	tool, args := c.newCall()
	in := &api.OneShot{Tool: tool, Args: args}
	key := ""
	if c.keyedNow() {
		key = c.newKey()
	}
	out := again(ctx, c, request[*api.Done]{key: key, wait: 20 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Done, error) { return p.agent.OneShot(ctx, o, in) },
		status: func(d *api.Done) int {
			if d == nil {
				return http.StatusOK
			}
			return statusOf(&d.Decision)
		}})
	defer c.forget()
	if out == nil {
		return false
	}
	c.receipt(out.Tx, &out.Effect)
	return c.told(&out.Decision)
}

// receipt holds what an agent is told of a call against its sink.
func (c *client) receipt(tx string, r *api.Receipt) {
	if r == nil || r.Index == nil {
		return
	}
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.r.world.deed(b.effect(b.attempt(sequencer.TxID(tx)), *r.Index).token)
	wrong := false
	switch r.State {
	case api.EffectDone, api.EffectReleased:
		wrong = !d.ran
	case api.EffectFailed, api.EffectNotSent, api.EffectDropped, api.EffectHeld, api.EffectIssued:
		wrong = d.ran && r.State != api.EffectHeld && r.State != api.EffectIssued
	case api.EffectUndone:
		wrong = d.ran && !d.undone
	}
	wrong = wrong && !b.r.world.hand[b.effect(b.attempt(sequencer.TxID(tx)), *r.Index).token]
	if wrong {
		b.r.fail("the agent of %s is told that its call %d (%s) is %s; it ran: %v, it was undone: %v", tx, *r.Index, r.Tool,
			r.State, d.ran, d.undone)
	}
}

// transaction does some reads, writes and calls, and seals them, in a few attempts.
func (c *client) transaction(ctx context.Context) bool {
	b := c.b
	mode := [...]string{"optimistic", "ordered", "locked"}[c.weighed(b.fault.mode[:]...)]
	in := &api.Begin{Mode: mode, Observe: c.wish(func(f *faults) float64 { return f.watches })}
	if c.n(4) == 0 {
		in.DeadlineMs = 2000 + c.n(6000)
	}
	if mode == "ordered" && c.wish(func(f *faults) float64 { return f.may }) {
		for _, leaf := range leaves() { // nearly all: a footprint that goes beyond them is refused
			if c.n(6) > 0 {
				in.May = append(in.May, api.Want{Scope: string(leaf), Access: "write"})
			}
		}
	}
	if c.wish(func(f *faults) float64 { return f.levels }) {
		in.Levels = [...]string{"L0", "L1", "L2", "L3", "A1,A2", "A3"}[c.n(6)]
	}
	d := again(ctx, c, request[*api.Decision]{key: c.newKey(), wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Decision, error) {
			return p.agent.Begin(ctx, o, in)
		}})
	if d == nil {
		return false
	}
	steps := 1 + c.n(4)
	plan := make([]int, steps)
	for i := range plan {
		plan[i] = c.n(1000)
	}
	for range 4 {
		out := c.attempt(ctx, d.Tx, plan)
		c.forget()
		if out == nil {
			return false
		}
		if out.State == api.StateCommitted {
			return true
		}
		next := again(ctx, c, request[*api.Decision]{key: c.newKey(), wait: 10 * time.Second,
			run: func(ctx context.Context, p *proc, _ once.Call) (*api.Decision, error) {
				n, _, err := p.agent.Retry(ctx, out.Tx)
				return n, err
			}})
		if next == nil {
			return false
		}
		d = next
	}
	return false
}

// attempt works on one transaction and seals it; nil: it is lost, or nothing is known of it.
func (c *client) attempt(ctx context.Context, tx string, plan []int) *api.Decision {
	c.begun(tx)
	c.operate(ctx, tx, plan)
	if c.n(12) == 0 {
		return c.abort(ctx, tx)
	}
	return c.seal(ctx, tx)
}

// begun notes a transaction that the agent was told of.
func (c *client) begun(tx string) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.mine = append(c.mine, tx)
	c.b.attempt(sequencer.TxID(tx))
	c.had = nil
}

// operate reads, writes and calls in a transaction.
func (c *client) operate(ctx context.Context, tx string, plan []int) {
	b := c.b
	for _, what := range plan {
		b.sleep(ctx, c.some(120*time.Millisecond))
		b.mu.Lock()
		effects, looks := b.fault.effects, b.fault.looks
		b.mu.Unlock()
		ok := true
		switch x := float64(what%100) / 100; {
		case x < effects*looks:
			ok = c.call(ctx, tx, "look", nil)
		case x < effects && c.wish(func(f *faults) float64 { return f.plans }):
			ok = c.turn(ctx, tx)
		case x < effects:
			ok = c.call(ctx, tx, "", nil)
		case what%2 == 0:
			ok = c.write(ctx, tx)
		default:
			ok = c.read(ctx, tx)
		}
		if !ok {
			return
		}
	}
}

// seal asks for the decision until there is one.
func (c *client) seal(ctx context.Context, tx string) *api.Decision {
	b := c.b
	d := again(ctx, c, request[*api.Decision]{key: c.newKey(), wait: 10 * time.Second, status: statusOf,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Decision, error) {
			return p.agent.Seal(ctx, tx, &api.Seal{})
		}})
	for range 20 {
		if d != nil && (d.State == api.StateCommitted || d.State == api.StateAborted) {
			c.told(d)
			return d
		}
		if !b.sleep(ctx, c.some(time.Second)) {
			return nil
		}
		var err error
		if d, err = c.status(ctx, tx); d == nil && problem(err) != nil {
			return nil
		}
		if d != nil && d.State == api.StateOpen {
			return c.abort(ctx, tx)
		}
	}
	return nil
}

func (c *client) status(ctx context.Context, tx string) (*api.Decision, error) {
	d, err := ask(ctx, c, request[*api.Decision]{wait: 3 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Decision, error) { return p.agent.Status(ctx, tx) }})
	c.heard(err)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (c *client) abort(ctx context.Context, tx string) *api.Decision {
	d, err := ask(ctx, c, request[*api.Decision]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Decision, error) {
			return p.agent.Abort(ctx, tx, "no more")
		}})
	c.heard(err)
	if err != nil || d == nil {
		return nil
	}
	c.told(d)
	return d
}

// read reads a shard in a transaction.
func (c *client) read(ctx context.Context, tx string) bool {
	b := c.b
	leaf := numForeign + c.n(numLeaves-numForeign)
	scope := leaves()[leaf]
	update := c.wish(func(f *faults) float64 { return f.updates })
	got, err := ask(ctx, c, request[*api.Shard]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Shard, error) {
			out, _, err := p.agent.Read(ctx, tx, &api.Read{Scope: string(scope), ForUpdate: update})
			return out, err
		}})
	c.heard(err)
	if err != nil {
		return problem(err) == nil
	}
	if got.Pending {
		return true
	}
	text := ""
	if got.Content != nil {
		text = *got.Content
	}
	c.say("reads %s in %s: version %d at %d", scope, tx, got.Version, got.View)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.attempt(sequencer.TxID(tx))
	a.reads = append(a.reads, b.readOf(scope, leaf, got.View, got.Version, text))
	if c.had == nil {
		c.had = map[sequencer.Scope]uint64{}
	}
	c.had[scope] = got.Version
	return true
}

// write writes a shard in a transaction.
func (c *client) write(ctx context.Context, tx string) bool {
	b := c.b
	leaf := numForeign + c.n(numLeaves-numForeign)
	scope := leaves()[leaf]
	text := b.content()
	var expect *uint64
	was, known := c.had[scope]
	if c.n(2) == 0 { // it has the version from elsewhere, and has read nothing
		b.mu.Lock()
		now := b.r.truth.shardAt(leaf, sequencer.Seq(len(b.r.truth.out)))
		if was, known = uint64(now.seq), true; now.absent {
			was = 0
		}
		b.mu.Unlock()
	}
	if known && c.wish(func(f *faults) float64 { return f.expects }) {
		expect = &was
	}
	_, err := ask(ctx, c, request[*api.Written]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Written, error) {
			return p.agent.Write(ctx, tx, &api.Write{Scope: string(scope), Content: &text, IfVersion: expect})
		}})
	c.heard(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.attempt(sequencer.TxID(tx))
	if a.expected == nil {
		a.expected = map[sequencer.Scope]sequencer.Seq{}
	}
	delete(a.expected, scope) // the last write of a shard counts
	if err == nil && expect != nil {
		a.expected[scope] = sequencer.Seq(was)
	}
	return err == nil || problem(err) == nil
}

// call makes a tool call in a transaction; an empty name draws one.
func (c *client) call(ctx context.Context, tx, tool string, args json.RawMessage) bool {
	b := c.b
	drawn, with := c.newCall()
	if tool == "" {
		tool = drawn
	}
	in := &api.Effect{Tool: tool, Args: with}
	var got *api.Receipt
	var err error
	r := request[*api.Receipt]{key: c.newKey(), wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Receipt, error) {
			return p.agent.Effect(ctx, o, tx, in)
		}}
	for range 5 {
		if got, err = ask(ctx, c, r); err == nil || problem(err) != nil && !problem(err).SafeSameKey {
			break
		}
		b.sleep(ctx, c.some(400*time.Millisecond))
	}
	c.heard(err)
	if err != nil {
		return problem(err) == nil
	}
	c.called(tx, got)
	return true
}

// called takes the answer of a call: its receipt, or what it has read.
func (c *client) called(tx string, got *api.Receipt) {
	if got.Index != nil {
		c.receipt(tx, got)
		return
	}
	var seen []token
	if json.Unmarshal(got.Result, &seen) != nil {
		return
	}
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.attempt(sequencer.TxID(tx))
	scope := sequencer.Scope(got.Scopes[0])
	a.reads = append(a.reads, readRecord{Read: sequencer.Read{Scope: scope, View: sequencer.Seq(got.View)},
		leaves: foreign(scope), values: seen})
}

// retract asks for one of the newest commits to be taken back.
func (c *client) retract(ctx context.Context) {
	b := c.b
	b.mu.Lock()
	var id sequencer.TxID
	if list := b.r.truth.list; len(list) > 0 {
		id = list[len(list)-1-c.n(min(len(list), 10))].id
	}
	b.mu.Unlock()
	if id == "" {
		return
	}
	_, err := ask(ctx, c, request[*api.Retraction]{wait: 8 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Retraction, error) {
			return p.agent.Retract(ctx, string(id), &api.Retract{})
		}})
	c.heard(err)
}

// residue tries one residue again by hand, or takes it as it is.
func (c *client) residue(ctx context.Context) {
	list, err := ask(ctx, c, request[*api.ResidueList]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.ResidueList, error) {
			return p.agent.Residue(ctx, api.Page{Limit: 20})
		}})
	if err != nil || len(list.Items) == 0 {
		return
	}
	one := list.Items[c.n(len(list.Items))]
	if one.State != "open" {
		return
	}
	index := strconv.Itoa(int(one.Index))
	c.b.mu.Lock()
	c.b.r.world.hand[c.b.effect(c.b.attempt(sequencer.TxID(one.Tx)), one.Index).token] = true
	c.b.mu.Unlock()
	accept := c.n(4) == 0
	_, err = ask(ctx, c, request[*api.Residue]{key: c.newKey(), wait: 15 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Residue, error) {
			if accept {
				return p.agent.Resolve(ctx, o, one.Tx, index, &api.Resolve{Accept: &api.AcceptResidue{Note: "as it is"}})
			}
			return p.agent.Resolve(ctx, o, one.Tx, index, &api.Resolve{Retry: &api.RetryResidue{}})
		}})
	c.heard(err)
}

// askAll asks at the end what became of each call that it made.
func (c *client) askAll(ctx context.Context) {
	if c.host.gone.Load() {
		return
	}
	for _, tx := range c.mine[max(0, len(c.mine)-6):] {
		got, err := ask(ctx, c, request[*api.Effects]{wait: 5 * time.Second,
			run: func(ctx context.Context, p *proc, _ once.Call) (*api.Effects, error) { return p.agent.Effects(ctx, tx) }})
		if err != nil {
			continue
		}
		for i := range got.Effects {
			c.receipt(tx, &got.Effects[i])
		}
	}
}
