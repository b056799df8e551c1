package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// realWord is how long a person lets pass between two looks at what waits, at most.
const realWord = 900 * time.Millisecond

// person approves and denies calls, through the sidecar of any agent.
type person struct {
	*client
	name string
	seen []api.Receipt // the last calls that it was shown
}

// people are those who may approve; two of them race for what waits.
func (b *bubble) people() (all []*person) {
	for _, name := range []string{"ann", "bob"} {
		all = append(all, &person{name: name, client: &client{dice: b.newDice(), talk: talk{name, name}}})
	}
	return all
}

// work says yes or no to what waits, and sometimes to what does not wait any more. After the faults it agrees to all.
func (p *person) work(ctx context.Context) {
	b := p.b
	for b.sleep(ctx, p.some(realWord)) {
		p.host = b.hosts[p.n(len(b.hosts))]
		list, err := ask(ctx, p.client, request[*api.EffectList]{wait: 5 * time.Second,
			run: func(ctx context.Context, at *proc, _ once.Call) (*api.EffectList, error) {
				return at.agent.Unapproved(ctx, api.Page{Limit: 20})
			}})
		if err != nil {
			continue
		}
		b.mu.Lock()
		healing := b.healing
		b.mu.Unlock()
		for _, one := range list.Items {
			p.seen = append(p.seen, one)
			p.shown(&one)
			switch n := p.n(10); {
			case healing || n < 6:
				p.word(ctx, &one, true, [...]string{"", one.ArgsSHA256}[p.n(2)])
			case n < 7:
				p.word(ctx, &one, false, "")
			case n < 8:
				wrong := sha256.Sum256([]byte(one.ArgsSHA256))
				p.word(ctx, &one, true, hex.EncodeToString(wrong[:]))
			}
		}
		p.seen = p.seen[max(0, len(p.seen)-8):]
		if len(p.seen) > 0 && p.n(4) == 0 {
			p.word(ctx, &p.seen[p.n(len(p.seen))], p.n(2) == 0, "")
		}
	}
}

// shown: the arguments that a person looks at are those that the word is about.
func (p *person) shown(one *api.Receipt) {
	if sum := sha256.Sum256(one.Args); one.Args != nil && hex.EncodeToString(sum[:]) != one.ArgsSHA256 {
		p.b.fail("%s is shown %s of %s, which is not what was sealed", p.name, one.Args, one.Tx)
	}
}

// word says yes or no to a call. Once its yes has let it commit, the sidecar that is to release it may die.
func (p *person) word(ctx context.Context, one *api.Receipt, yes bool, sum string) {
	b := p.b
	word := sequencer.Approval{Index: *one.Index, Yes: yes, By: p.name}
	if sum != "" {
		_, _ = hex.Decode(word.Args[:], []byte(sum))
	}
	tx := sequencer.TxID(one.Tx)
	b.mu.Lock()
	b.words[tx] = append(b.words[tx], word)
	b.mu.Unlock()
	p.host = b.hosts[p.n(len(b.hosts))]
	d, err := ask(ctx, p.client, request[*api.Decision]{wait: 8 * time.Second,
		run: func(ctx context.Context, at *proc, _ once.Call) (*api.Decision, error) {
			return at.agent.Approve(ctx, one.Tx, strconv.Itoa(int(*one.Index)),
				&api.Word{Yes: yes, By: p.name, ArgsSHA256: sum})
		}})
	p.say("says %v to call %d of %s, arguments %.8s: %v", yes, *one.Index, one.Tx, sum, err)
	if late := problem(err); late != nil && late.Decision != nil {
		d = late.Decision // it says what stands instead
	} else if err != nil {
		return
	} else if !yes && d.State != api.StateAborted {
		b.fail("%s has denied call %d of %s, and is told that it is %s", p.name, *one.Index, one.Tx, d.State)
	}
	if p.told(d) && yes && p.chance(hitKilledAtYes, func(f *faults) float64 { return f.crash / 5 }) {
		owner, _, _, _ := api.OwnerOf(tx)
		for _, h := range b.hosts {
			if h.agent == owner {
				h.stop(h.current())
			}
		}
	}
}

// hears notes what is said of calls that wait, as it enters the log: it counts while its sidecar's lease is alive, the
// transaction is sealed and nothing is decided. b.mu is held.
func (b *bubble) hears(in *sequencer.Intent) {
	if in.Kind != sequencer.IntentVerdict || in.Verdict == nil {
		return
	}
	for _, word := range in.Verdict.Approvals {
		if !slices.ContainsFunc(b.words[in.Tx], func(was sequencer.Approval) bool {
			return was == word || was.Args == (sequencer.Hash{}) && was.Index == word.Index && was.Yes == word.Yes &&
				was.By == word.By
		}) {
			b.r.fail("the log has a word of %s on call %d of %s, yes: %v, which was not said", word.By, word.Index, in.Tx,
				word.Yes)
		}
	}
	info := b.r.truth.txs[in.Tx]
	if info != nil && info.sealed && info.decision == 0 && b.r.truth.live[in.Agent] == in.Incarnation {
		info.words = append(info.words, in.Verdict.Approvals...)
	}
}

// agreed: a call that wants approval leaves after a yes to the arguments that arrive, and without a no. b.mu is held.
func (b *bubble) agreed(c gate.Call) {
	var in struct{ Ask bool }
	_ = json.Unmarshal(c.Args, &in)
	info := b.r.truth.txs[c.Tx]
	if !in.Ask || info == nil || !classOf(strings.TrimPrefix(c.Tool, "bare_")).Gated() {
		return
	}
	if a := b.r.attempts[c.Tx]; info.free || a != nil && a.begin.Observe {
		return // it only observes: nothing holds it
	}
	sum := sequencer.Hash(sha256.Sum256(c.Args))
	if !info.has(func(w sequencer.Approval) bool { return w.Yes && w.Index == c.Index && w.Args == sum }) {
		b.r.fail("call %d of %s leaves, and nobody has approved these arguments", c.Index, c.Tx)
	}
	if info.has(func(w sequencer.Approval) bool { return !w.Yes }) {
		b.r.fail("call %d of %s leaves, and somebody has denied a call of it", c.Index, c.Tx)
	}
}

// has reports whether such a word was said before the decision.
func (i *txInfo) has(which func(sequencer.Approval) bool) bool {
	return slices.ContainsFunc(i.words, which)
}

// unapproved: a call of a sealed transaction lacks the yes that it wants.
func (i *txInfo) unapproved() bool {
	return slices.ContainsFunc(i.seal.Effects, func(e sequencer.Effect) bool {
		return e.Approve && !i.has(func(w sequencer.Approval) bool {
			return w.Yes && w.Index == e.Index && w.Args == e.Args
		})
	})
}
