package sim

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// A client is also a name on S-Bus: each commit of it rests on all that it was given since its log began, and names
// the version of what it replaces.

// readers' conversations begin with it, in the log.
const readerPrefix = "reader/"

func (c *client) readerName() string { return "r." + c.host.agent + "." + c.talk.session }

// reader does something as that name: it is given some shards, commits to one, takes or drops a token, starts over.
func (c *client) reader(ctx context.Context) bool {
	switch {
	case c.wish(func(f *faults) float64 { return f.resets }):
		_, err := ask(ctx, c, request[int]{wait: 8 * time.Second,
			run: func(ctx context.Context, p *proc, _ once.Call) (int, error) { return p.agent.Reset(ctx) }})
		c.say("resets all shards: %v", err)
		return false
	case c.n(12) == 0:
		c.open(ctx)
	}
	for range 1 + c.n(2) {
		c.give(ctx, numForeign+c.n(numLeaves-numForeign))
	}
	leaf := numForeign + c.n(numLeaves-numForeign)
	one := c.give(ctx, leaf)
	if one == nil {
		return false
	}
	if one.Seq == 0 { // a shard is created before anything is committed to it
		return c.create(ctx, leaf)
	}
	if c.wish(func(f *faults) float64 { return f.tokens }) {
		c.token(ctx, leaf)
	}
	return c.commitKeyed(ctx, leaf, one.Version)
}

// open clears the name's delivery log.
func (c *client) open(ctx context.Context) {
	b := c.b
	b.mu.Lock()
	delete(b.given, c.asReader()) // before or after: it counts on nothing from before
	b.mu.Unlock()
	_, err := ask(ctx, c, request[bool]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (bool, error) {
			return true, p.agent.OpenReader(ctx, c.readerName(), 0)
		}})
	c.heard(err)
}

func (c *client) asReader() talk { return talk{c.host.agent, readerPrefix + c.readerName()} }

// give asks for a shard; nil: there is no answer.
func (c *client) give(ctx context.Context, leaf int) *api.Counted {
	b := c.b
	scope := leaves()[leaf]
	view := sequencer.Seq(0)
	one, err := ask(ctx, c, request[*api.Counted]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Counted, error) {
			out, answered, err := p.agent.Give(ctx, c.readerName(), string(scope))
			view = p.view.At()
			answered()
			return out, err
		}})
	b.mu.Lock()
	defer b.mu.Unlock()
	who := c.asReader()
	if err != nil || one.Seq == 0 { // it has no answer: what counts is nothing that it relies on
		delete(b.given[who], scope)
		if err != nil {
			return nil
		}
		return one
	}
	v, failed := strconv.Atoi(string(one.Body))
	info, at := (*shard)(nil), -1
	for i := range b.r.truth.shards[leaf] {
		if b.r.truth.shards[leaf][i].seq == sequencer.Seq(one.Seq) {
			info, at = &b.r.truth.shards[leaf][i], i
		}
	}
	if failed != nil || info == nil || info.value != token(v) {
		b.r.fail("%s is given %s version %d of decision %d: %q; the log has none such there (%d)", c.readerName(), scope,
			one.Version, one.Seq, one.Body, at)
		return nil
	}
	if b.given[who] == nil {
		b.given[who] = map[sequencer.Scope]readRecord{}
	}
	b.given[who][scope] = readRecord{Read: sequencer.Read{Scope: scope, View: sequencer.Seq(one.Seq),
		Version: sequencer.Seq(one.Seq)}, leaves: []int{leaf}, values: []token{token(v)}}
	b.r.note("  %s is given %s at %d: version %d, decision %d", c.readerName(), scope, view, one.Version, one.Seq)
	return one
}

// rests notes what a reader was given before its commit, as its seal is tried for the first time. b.mu is held.
func (b *bubble) rests(a *attempt, agent string, in *sequencer.Intent) {
	if !strings.HasPrefix(a.begin.Session, readerPrefix) || in.Seal == nil || in.Seal.Hook && len(in.Seal.Shards) == 0 {
		return
	}
	for scope, r := range b.given[talk{agent, a.begin.Session}] {
		if len(in.Seal.Shards) == 1 && in.Seal.Shards[0].Scope == scope || r.View > in.Base {
			continue // what it replaces it names by version
		}
		if r.View < b.reset && in.Base >= b.reset { // given by a view that had not seen the reset yet; it has ended since
			continue
		}
		a.reads = append(a.reads, r)
	}
}

// ownerToken is what the shard of a token holds.
type ownerToken struct {
	Shard, Owner string
	Until        sequencer.Tick
}

// held: while a name has the token of a shard, no other name's keyed commit to it counts. b.mu is held.
func (b *bubble) held(o *sequencer.Outcome) {
	a := b.r.attempts[o.Tx]
	for _, w := range o.Shards { // a token that was taken is taken back, for what was before it
		if o.Kind == sequencer.OutcomeSettled && len(leavesOf(w.Scope)) == 0 {
			clear(b.tokens)
		}
	}
	if o.Kind != sequencer.OutcomeCommitted || a == nil || a.seal == nil {
		return
	}
	for _, w := range o.Shards {
		name, keyed := strings.CutPrefix(a.begin.Session, readerPrefix)
		now := b.tokens[string(w.Scope)]
		if keyed && name != "" && now.Owner != "" && now.Owner != name && now.Until > b.r.truth.time && !a.begin.Observe &&
			!b.r.truth.rules.Observe {
			b.r.fail("%s of %s commits to %s at %d; %s has its token until tick %d, and it is tick %d", o.Tx, name, w.Scope,
				o.Seq, now.Owner, now.Until, b.r.truth.time)
		}
		var next ownerToken
		if len(leavesOf(w.Scope)) == 0 && json.Unmarshal(w.Content, &next) == nil && next.Shard != "" {
			b.tokens[next.Shard] = next
		}
		if w.Absent { // a reset takes tokens away, too, and ends what names were given before
			b.tokens = map[string]ownerToken{}
			clear(b.given)
			b.reset = o.Seq
		}
	}
}

func plainText(string) string { return "text/plain" }

// create writes a shard that is not there.
func (c *client) create(ctx context.Context, leaf int) bool {
	text := c.b.content()
	_, err := ask(ctx, c, request[*api.Counted]{wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.Counted, error) {
			return p.agent.WriteKeyed(ctx, string(leaves()[leaf]), []byte(text), plainText, true)
		}})
	c.heard(err)
	return err == nil
}

// token takes the shard's token for this name, or gives it back.
func (c *client) token(ctx context.Context, leaf int) {
	scope := string(leaves()[leaf])
	_, err := ask(ctx, c, request[bool]{wait: 5 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (bool, error) {
			if c.n(3) == 0 {
				return true, p.agent.DropToken(ctx, scope, c.readerName())
			}
			_, err := p.agent.TakeToken(ctx, scope, c.readerName(), c.some(4*time.Second))
			return true, err
		}})
	c.say("takes or drops the token of %s: %v", scope, err)
}

// commitKeyed replaces a shard; what it was given of others must be as it was.
func (c *client) commitKeyed(ctx context.Context, leaf int, version uint64) bool {
	b := c.b
	scope, text := leaves()[leaf], b.content()
	in := &api.KeyedCommit{Reader: c.readerName(), Scope: string(scope), Version: version, Content: []byte(text),
		MediaType: plainText, Revive: c.n(20) == 0}
	if in.Revive {
		b.mu.Lock()
		delete(b.given, c.asReader())
		b.mu.Unlock()
	}
	done, err := ask(ctx, c, request[*api.KeyedDone]{wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, _ once.Call) (*api.KeyedDone, error) {
			out, err := p.agent.CommitKeyed(ctx, in)
			var refused *api.KeyedRefusal
			if errors.As(err, &refused) && refused.Why == api.KeyedExpired {
				b.mu.Lock()
				delete(b.given, c.asReader()) // it is told, or the answer is lost: then it is told nothing more
				b.mu.Unlock()
			}
			return out, err
		}})
	c.say("commits %s to %s at version %d: %v", text, scope, version, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	v, _ := strconv.Atoi(text)
	who := c.asReader()
	delete(b.given[who], scope)
	if err != nil {
		return false
	}
	b.r.probe(ProbeKeyed)
	for _, s := range b.r.truth.shards[leaf] {
		if s.value == token(v) {
			return true
		}
	}
	b.r.fail("%s is told that its commit %s to %s counts (version %d), and the log has it not", in.Reader, text, scope,
		done.Version)
	return false
}
