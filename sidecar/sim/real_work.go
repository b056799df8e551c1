package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// realServer is the tool server that agents register, and counter a shard whose writes merge.
const (
	realServer = "up"
	counter    = "shard:/m/1"
)

// pinned is the registry's entry of a tool as the policy of the agent knows it: what its last registration said.
func (h *host) pinned(tool string) *sequencer.Pin {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.signature == "" {
		return nil
	}
	return &sequencer.Pin{Server: realServer, Name: tool, Signature: h.signature}
}

// tools registers the tools of the agent's server, the same or changed, or withdraws them.
func (c *client) tools(ctx context.Context) {
	signature := [...]string{"", "v1", "v2", "v3"}[c.n(4)]
	catalogue := map[string]string{}
	if signature != "" {
		for _, name := range []string{"look", "set", "charge", "mail", "stage"} {
			catalogue[name] = signature
		}
	}
	c.host.mu.Lock()
	c.host.signature = signature // before or after the log knows it: both happen
	c.host.mu.Unlock()
	_, err := ask(ctx, c, request[bool]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (bool, error) {
			return true, p.agent.SetTools(ctx, realServer, catalogue)
		}})
	c.say("registers %q: %v", signature, err)
	c.heard(err)
}

// commit makes a transaction in one request, of reads that were made before.
func (c *client) commit(ctx context.Context) bool {
	b := c.b
	leaf := numForeign + c.n(numLeaves-numForeign)
	scope := leaves()[leaf]
	seen, err := ask(ctx, c, request[*api.Seen]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Seen, error) {
			return p.agent.ReadAll(ctx, o, &api.Reads{Scopes: []string{string(scope)}})
		}})
	c.heard(err)
	if err != nil || len(seen.Items) != 1 {
		c.unanswered(scope)
		return false
	}
	one := seen.Items[0]
	text := ""
	if one.Content != nil {
		text = *one.Content
	} else if len(one.Value) > 0 {
		text = string(one.Value)
	}
	b.mu.Lock()
	told := b.readOf(scope, leaf, seen.View, one.Version, text)
	former := func(r readRecord) bool { return r.Scope == scope }
	b.loose[c.talk] = append(slices.DeleteFunc(b.loose[c.talk], former), told)
	b.mu.Unlock()
	in := &api.Commit{Reads: []api.SeenAt{{Scope: string(scope), Version: &one.Version}}}
	target, content := scope, b.content()
	if c.n(2) == 0 {
		target = leaves()[numForeign+c.n(numLeaves-numForeign)]
	}
	write := api.Write{Scope: string(target), Content: &content}
	if target == scope && c.wish(func(f *faults) float64 { return f.expects }) {
		write.IfVersion = &one.Version
	}
	in.Writes = append(in.Writes, write)
	if c.wish(func(f *faults) float64 { return f.effects }) {
		tool, args := c.newCall()
		in.Effects = append(in.Effects, api.Effect{Tool: tool, Args: args})
	}
	key := ""
	if c.keyedNow() {
		key = c.newKey()
	}
	done := again(ctx, c, request[*api.Committed]{key: key, wait: 20 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Committed, error) {
			return p.agent.Commit(ctx, o, in)
		},
		status: func(d *api.Committed) int {
			if d == nil {
				return http.StatusOK
			}
			return statusOf(&d.Decision)
		}})
	defer c.forget()
	if done == nil {
		return false
	}
	for i := range done.Effects {
		c.receipt(done.Tx, &done.Effects[i])
	}
	return c.told(&done.Decision)
}

// speculate tries several branches, of which one is chosen.
func (c *client) speculate(ctx context.Context) bool {
	b := c.b
	c.forget() // which of the branches carries what it was told before is nothing that it counts on
	g := again(ctx, c, request[*api.Group]{key: c.newKey(), wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Group, error) {
			return p.agent.BeginGroup(ctx, o, &api.BeginGroup{Branches: 2 + c.n(2)})
		}})
	if g == nil {
		return false
	}
	for _, tx := range g.Tx {
		c.begun(tx)
		c.operate(ctx, tx, []int{c.n(1000), c.n(1000)})
		if c.n(3) > 0 { // it waits for the choice
			d, err := ask(ctx, c, request[*api.Decision]{key: c.newKey(), wait: 300 * time.Millisecond, status: statusOf,
				run: func(ctx context.Context, p *proc, _ once.Call) (*api.Decision, error) {
					return p.agent.Seal(ctx, tx, &api.Seal{})
				}})
			if c.heard(err); err == nil {
				c.told(d)
			}
		}
	}
	winner := g.Tx[c.n(len(g.Tx))]
	chosen, err := ask(ctx, c, request[*api.Group]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Group, error) {
			return p.agent.Select(ctx, g.Group, &api.Select{Tx: winner})
		}})
	c.heard(err)
	c.say("chooses %s of %s: %v", winner, g.Group, err)
	if err == nil && chosen.Winner != winner {
		b.fail("%s is chosen in %s, and the agent is told that %q is", winner, g.Group, chosen.Winner)
	}
	done, enforced := false, ""
	for _, tx := range g.Tx {
		d := c.seal(ctx, tx)
		if d == nil || d.State != api.StateCommitted {
			continue
		}
		done = true
		if b.observed(tx) {
			continue
		}
		if enforced != "" {
			b.fail("two branches of %s have committed: %s and %s", g.Group, enforced, tx)
		}
		enforced = tx
	}
	c.forget()
	return done
}

// observed: nothing of the transaction was enforced.
func (b *bubble) observed(tx string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, a := b.r.truth.txs[sequencer.TxID(tx)], b.r.attempts[sequencer.TxID(tx)]
	return info == nil || info.free || a != nil && a.begin.Observe
}

// count adds to a shard whose writes merge: none refuses another, and none is lost.
func (c *client) count(ctx context.Context) bool {
	b := c.b
	in := &api.Begin{Mode: "optimistic"}
	d := again(ctx, c, request[*api.Decision]{key: c.newKey(), wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Decision, error) {
			return p.agent.Begin(ctx, o, in)
		}})
	if d == nil {
		return false
	}
	c.begun(d.Tx)
	one := strconv.Itoa(1 + c.n(9))
	_, err := ask(ctx, c, request[*api.Written]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Written, error) {
			return p.agent.Write(ctx, d.Tx, &api.Write{Scope: counter, Content: &one, Op: "add"})
		}})
	c.heard(err)
	out := c.seal(ctx, d.Tx)
	c.forget()
	b.mu.Lock()
	defer b.mu.Unlock()
	if out != nil && out.State == api.StateCommitted {
		b.r.probe(ProbeMerged)
	}
	return out != nil && out.State == api.StateCommitted
}

// checkCounter holds the merged shard, as a view shows it at the end, against the commits. b.mu is held.
func (b *bubble) checkCounter(shown string) {
	sum := 0
	for _, info := range b.r.truth.list {
		if !info.committed || info.undone != 0 || info.seal == nil {
			continue
		}
		for _, w := range info.seal.Shards {
			n, err := strconv.Atoi(string(w.Content))
			if err == nil && w.Scope == counter && w.Op == sequencer.OpAdd {
				sum += n
			}
		}
	}
	if n, err := strconv.Atoi(shown); (err != nil || n != sum) && !(shown == "" && sum == 0) && b.r.truth.resets == 0 {
		b.r.fail("%s shows %q at the end; the commits have added %d to it", counter, shown, sum)
	}
}

// governor changes the rules of the workspace, as a person does.
type governor struct{ *client }

// work changes rules now and then; after the faults it puts back those that do no harm.
func (g *governor) work(ctx context.Context) {
	b := g.b
	for b.sleep(ctx, g.some(3*time.Second)) {
		if g.chance(hitPoison, func(f *faults) float64 { return f.poison }) {
			if err := b.log.Unreadable(); err != nil {
				b.fail("a record that nobody can read: %v", err)
			}
			b.mu.Lock()
			b.r.probe(ProbePoison)
			b.mu.Unlock()
		}
		g.host = b.hosts[g.n(len(b.hosts))]
		healing := b.heals()
		b.mu.Lock()
		now, harmful := b.r.truth.rules, b.r.truth.rules.Observe || b.r.truth.rules.Levels != sequencer.L4 ||
			b.r.truth.rules.MaxOpen < 1000
		b.mu.Unlock()
		if healing && !harmful || !healing && !g.wish(func(f *faults) float64 { return f.rules }) {
			continue
		}
		observe, levels, open, live := false, "L4", uint32(1000), uint32(0)
		to := api.RulesChange{Observe: &observe, Levels: &levels, MaxOpen: &open, MaxSidecars: &live}
		if !healing {
			observe = g.wish(func(f *faults) float64 { return f.observing })
			levels = [...]string{"L4", "L4", "L3", "L2"}[g.n(4)]
			horizon := uint32(20 + g.n(400))
			to.HorizonCommits = &horizon
			if g.wish(func(f *faults) float64 { return f.caps }) {
				open, live = uint32(2+g.n(4)), uint32(2+g.n(2))
			}
		}
		_, err := ask(ctx, g.client, request[*api.Rules]{wait: 5 * time.Second,
			run: func(ctx context.Context, p *proc, _ once.Call) (*api.Rules, error) {
				return p.agent.Rules(ctx, &api.ChangeOfRules{Was: now.Version, To: &to})
			}})
		g.say("sets rules after version %d: observe %v, %s: %v", now.Version, observe, levels, err)
	}
}

// hookOf is the hook that a process asks about each footprint; a schedule has one or none.
func (b *bubble) hookOf(p *proc) agent.Hook {
	if !b.hooked {
		return agent.Hook{}
	}
	return agent.Hook{URL: "http://hook.invalid/", Timeout: 2 * time.Second, Transport: &hook{b, p}}
}

// hook is the hook's server: it says yes, no, nonsense, or nothing at all.
type hook struct {
	b *bubble
	p *proc
}

// RoundTrip is part of the hook's interface.
func (h *hook) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked struct{ Tx, Footprint string }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		h.b.fail("the hook is shown %q: %v", body, err)
	}
	ctx := r.Context()
	if !h.p.slow(ctx) || h.p.dead.Load() {
		return nil, errGone
	}
	if h.p.passes(doorHook) != nil || h.p.chance(hitHookMute, func(f *faults) float64 { return f.hookMute }) {
		h.b.sleep(ctx, time.Minute)
		return nil, errors.New("sim: no answer")
	}
	answer, status := `{"yes":true}`, http.StatusOK
	if h.p.chance(hitHookNo, func(f *faults) float64 { return f.veto }) {
		answer = [...]string{`{"yes":false,"reason":"no"}`, `{}`, `nonsense`}[h.p.n(3)]
	}
	said := strings.Contains(answer, "yes")
	if !said {
		status = [...]int{http.StatusOK, http.StatusBadGateway}[h.p.n(2)]
	}
	h.b.mu.Lock()
	if status == http.StatusOK && strings.Contains(answer, "true") {
		h.b.yes[asked.Footprint] = true
	}
	h.b.mu.Unlock()
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Request: r, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(answer))}, nil
}
