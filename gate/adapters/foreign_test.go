package adapters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
)

// line is the network of all tools of a policy; each check puts its own world behind it.
type line struct{ *foreign }

// foreignPolicy declares what must be known of a sink that is not ours.
func foreignPolicy(tb testing.TB, kind foreignKind, look bool, net http.RoundTripper) *policy.Policy {
	tb.Helper()
	says, asks := "", ""
	if look {
		asks = `lookup: {url: "http://sink.example:80/keys/{$key}"}`
	}
	if kind == errorsAs200 {
		says = "done_when: {ok: true}\n      refused_when: {ok: false, error: [declined, compensated, not now]}"
		if look {
			asks = `lookup: {url: "http://sink.example:80/keys/{$key}", absent: [200], absent_when: {error: no such key}, ` +
				`found_when: {ok: true}}`
		}
	}
	forbids, life := ", forbids: true", ""
	if kind == ignoresHeaders {
		forbids = ""
	}
	if kind == forgetsKeys {
		life = fmt.Sprintf("key_life_ms: %d", foreignLife.Milliseconds())
	}
	undo := "compensation: {tool: cancel, args: {id: \"{args.id}\"}" + forbids + "}"
	text := "version: 1\nserver: s\nhosts: [\"sink.example:80\"]\n" +
		"defaults: {max_time_ms: 1000, retry: {attempts: 3, backoff_ms: 100}}\ntools:\n"
	for _, tool := range []struct{ name, rest string }{
		{"order", "class: reversible\n    keyed: true\n    " + undo},
		{"reserve", "class: known_outcome\n    keyed: true"},
		{"pay", "class: irreversible\n    key: \"pay/{id}\"\n    " + undo},
		{"ping", "class: irreversible"},
		{"cancel", "class: known_outcome\n    keyed: true\n    undo_only: true"},
	} {
		own, asked := life, asks
		if tool.name == "ping" { // it has no key
			own, asked = "", ""
		}
		text += fmt.Sprintf("  - tool: %s\n    %s\n    %s\n    args: [id]\n    scopes: [\"thing:/{id}\"]\n    http:\n"+
			"      method: POST\n      url: \"http://sink.example:80/%s/{id}\"\n      %s\n      %s\n",
			tool.name, tool.rest, own, tool.name, says, asked)
	}
	p, err := policy.Load([]byte(text), policy.Options{Build: func(d gate.Decl) (gate.Adapter, error) {
		a, err := Build(d)
		if h, ok := a.(*httpAdapter); ok {
			h.client.Transport, h.asker.Transport = net, net
		}
		return a, err
	}})
	if err != nil {
		tb.Fatalf("%v in\n%s", err, text)
	}
	return p
}

// rig is a policy with the engine that uses it.
type rig struct {
	line   *line
	policy *policy.Policy
}

func newRig(tb testing.TB, kind foreignKind, look bool) *rig {
	r := &rig{line: &line{}}
	r.policy = foreignPolicy(tb, kind, look, r.line)
	return r
}

func (r *rig) engine() *gate.Engine {
	w := r.line.foreign
	return gate.New(gate.Options{Tools: r.policy, Marks: w, Lease: w, Clock: w})
}

func (r *rig) effect(tb testing.TB, index uint32, tool string) gate.Progress {
	tb.Helper()
	args := fmt.Appendf(nil, `{"id":"x%d"}`, index)
	t, err := r.policy.Find(tool, args)
	if err != nil {
		tb.Fatal(err)
	}
	return gate.Progress{Effect: gate.Effect{Tx: "a.1.1", Index: index, Tool: t, Args: args, At: r.line.now,
		Key: gate.Key(t, "o", "a.1.1", index, "")}}
}

// told counts what was said of effects.
type told map[string]int

// TestForeignSinks drives the gate against sinks that differ from ours, through lost requests and answers, late
// arrivals, errors after the effect, refused repetitions, crashes between marks and restarts by a successor or a
// stranger: what is told of an effect is what the sink's own record says, or that it is not known.
//
// HENCE_FOREIGN is how many checks are made in all (30000 for the full run); one that fails names its number, and
// HENCE_FOREIGN_ONLY makes that one alone.
func TestForeignSinks(t *testing.T) {
	n, first := 3000, 0
	for name, into := range map[string]*int{"HENCE_FOREIGN": &n, "HENCE_FOREIGN_ONLY": &first} {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*into = v
		}
	}
	if os.Getenv("HENCE_FOREIGN_ONLY") != "" {
		n = first + 1
	}
	rigs := map[[2]int]*rig{}
	said := map[foreignKind]told{}
	for i := first; i < n; i++ {
		kind, look := foreignKind(i%int(foreignKinds)), i/int(foreignKinds)%2
		at := [2]int{int(kind), look}
		if rigs[at] == nil {
			rigs[at] = newRig(t, kind, look == 1)
		}
		if said[kind] == nil {
			said[kind] = told{}
		}
		r := rigs[at]
		r.line.foreign = newForeign(kind)
		if wrong := r.check(t, rand.New(rand.NewPCG(1, uint64(i))), said[kind]); wrong != "" {
			t.Errorf("check %d (%s, look-up %v): %s", i, kind, look == 1, wrong)
		}
	}
	for kind, counts := range said {
		t.Logf("%s: %v", kind, counts)
		if first == 0 && counts["clean"] <= counts["unresolved"] {
			t.Errorf("%s: %v; to know nothing is always true, and here it is the rule", kind, counts)
		}
	}
}

// check runs one transaction to its settlement and compares what is told with the sink's record.
func (r *rig) check(tb testing.TB, rng *rand.Rand, said told) string {
	w, ctx := r.line.foreign, context.Background()
	draw := func() {
		w.faults, w.closed = nil, rng.IntN(3)
		for range rng.IntN(7) {
			f := foreignFault(0)
			if rng.IntN(5) > 1 {
				f = foreignFault(rng.IntN(int(foreignFaults)))
			}
			w.faults = append(w.faults, f)
		}
	}
	var effects []gate.Progress
	for range 1 + rng.IntN(3) {
		tool := []string{"order", "reserve", "pay", "ping"}[rng.IntN(4)]
		effects = append(effects, r.effect(tb, uint32(len(effects)), tool))
	}
	claim := gate.ClaimOwn
	restart := func() {
		claim = max(claim, gate.Claim(1+rng.IntN(2)))
		w.pass([]time.Duration{0, 2 * time.Second, 2 * foreignLife}[rng.IntN(3)])
	}
	if draw(); rng.IntN(3) == 0 {
		w.dieAt = 1 + rng.IntN(15)
	}
	if !w.lives(func() {
		for i := range effects {
			if !effects[i].Tool.Class.Eager() {
				continue
			}
			if _, err := r.engine().Run(ctx, effects[i].Effect); err != nil && !errors.Is(err, gate.ErrGivenUp) {
				tb.Fatal(err)
			}
		}
	}) {
		restart()
	}
	settle := func(run func(*gate.Engine, context.Context, []gate.Progress, gate.Claim) (gate.Settlement,
		error)) (s gate.Settlement) {
		for crashes := rng.IntN(3); ; crashes-- {
			if effects = w.journal(effects, claim); crashes > 0 {
				w.dieAt = w.ops + 1 + rng.IntN(12)
			}
			var err error
			if w.lives(func() { s, err = run(r.engine(), ctx, effects, claim) }) {
				if err != nil {
					tb.Fatal(err)
				}
				return s
			}
			restart()
		}
	}
	effects = w.journal(effects, gate.ClaimOwn)
	committed := rng.IntN(2) == 0 && !slices.ContainsFunc(effects, func(p gate.Progress) bool {
		return p.Tool.Class.Eager() && (!p.Started || !p.Known() || p.GivenUp)
	})
	draw()
	if committed {
		for i := range effects {
			effects[i].Committed = true
		}
		if wrong := w.truth(effects, settle((*gate.Engine).Release), true, said); wrong != "" || rng.IntN(3) > 0 {
			return wrong
		}
		draw()
	}
	return w.truth(effects, settle((*gate.Engine).Undo), false, said)
}

// truth holds a settlement against the sink, once all that is late has arrived.
func (w *foreign) truth(effects []gate.Progress, s gate.Settlement, released bool, said told) string {
	w.pass(foreignMax)
	listed := map[uint32]sequencer.Result{}
	for _, e := range s.Effects {
		listed[e.Index] = e.Result
	}
	for i := range effects {
		p := &effects[i]
		name := nameOf(p)
		did, undid := w.did[name], w.undid[name]
		result, found := listed[p.Index]
		if result == sequencer.ResultUnresolved {
			said["unresolved"]++
			continue
		}
		want := 0
		switch {
		case released && p.Tool.Class.Eager() && p.Ran(), // it stands, as its agent was told
			released && found && result == sequencer.ResultClean, !released && result == sequencer.ResultLeaked:
			want = 1
		}
		if said[result.String()]++; did-undid != want || did > 1 {
			return fmt.Sprintf("%s %d settles as %s (listed %v, released %v), but was done %d times and undone %d times:\n%s",
				p.Tool.Name, p.Index, result, found, released, did, undid, strings.Join(w.trace, "\n"))
		}
	}
	return ""
}
