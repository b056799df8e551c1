package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

const testMax = time.Second

// crashed is what a process that dies at an operation panics with.
type crashed struct{}

// fault is what a call meets.
type fault uint8

const (
	faultNone    fault = iota
	faultDown          // certainly not sent
	faultLost          // it takes effect, the answer is lost
	faultLate          // no answer, and it lands later, within the maximum time
	faultVanish        // no answer, and it never lands
	faultRefuse        // the sink says no, and keeps that under the key
	faultTurned        // what stands before the keys says no: credentials, limits, a standby
	faultTimeout       // as late, and all of the maximum time is gone
	faultDiffers       // of a compensation: under this key the sink has one with other arguments
)

// landing is a call on its way.
type landing struct {
	due  time.Time
	call Call
}

// world is a clock, a lease, a journal, a policy and a sink; operations are counted, and one can be the last.
type world struct {
	now      time.Time
	leaseEnd time.Time
	effects  map[string]*Effect // by tool
	undoKey  map[string]bool    // by tool: its compensation's sink takes a key
	lookups  bool
	needs    bool // a compensation can be made of an answer's result only
	foreign  bool // the sink takes keys, and knows nothing of compensations: it does what it is sent

	marks  []Mark
	faults []fault // of the calls to come; none left: faultNone
	ops    int
	failAt int // the n-th operation fails; zero: none
	dieAt  int // the process dies at the n-th operation; zero: never

	flying  []landing
	sent    map[string]int // calls that left, by tool
	done    map[string]int // executions by "tool/index"
	order   []uint32       // of releases and calls, as they took effect
	seen    map[string]bool
	said    map[string]bool // keys under which a no is kept
	refused map[string]bool // keys that were compensated
}

func newWorld() *world {
	start := time.Unix(1_000_000, 0)
	return &world{now: start, leaseEnd: start.Add(time.Hour), effects: map[string]*Effect{}, undoKey: map[string]bool{},
		sent: map[string]int{}, done: map[string]int{}, seen: map[string]bool{}, said: map[string]bool{},
		refused: map[string]bool{}}
}

func (w *world) engine() *Engine { return New(Options{Tools: w, Marks: w, Lease: w, Clock: w}) }

func (w *world) Now() time.Time      { return w.now }
func (w *world) Left() time.Duration { return w.leaseEnd.Sub(w.now) }

func (w *world) Sleep(_ context.Context, d time.Duration) error {
	w.pass(d)
	return nil
}

func (w *world) Within(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// pass lets time go by; what is due lands.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	var left []landing
	for _, l := range w.flying {
		if l.due.After(w.now) {
			left = append(left, l)
			continue
		}
		w.execute(l.call)
	}
	w.flying = left
}

var errInjected = errors.New("injected")

// op counts an operation; it dies or fails when its time has come.
func (w *world) op() error {
	w.ops++
	if w.ops == w.dieAt {
		panic(crashed{})
	}
	if w.ops == w.failAt {
		return errInjected
	}
	return nil
}

func (w *world) Mark(m Mark) error {
	if err := w.op(); err != nil {
		return err
	}
	w.marks = append(w.marks, m)
	if w.ops++; w.ops == w.dieAt {
		panic(crashed{})
	}
	return nil
}

func (w *world) Find(tool string, _ json.RawMessage) (Tool, error) {
	if e := w.effects[tool]; e != nil {
		return e.Tool, nil
	}
	return Tool{Name: tool, Keyed: w.undoKey[tool], MaxTime: testMax, Retry: Retry{Attempts: 3}}, nil
}

func (w *world) Undo(e Effect, a Answer) (Call, error) {
	if w.needs && a.Result == nil {
		return Call{}, errors.New("the answer has no result")
	}
	return Call{Tool: e.Tool.Name + "-undo"}, nil
}

func (w *world) Adapter(string) (Adapter, error) { return w, nil }

// execute is the sink: it takes a key once, and refuses one that was compensated. What it has no record of it undoes
// all the same unless it is told not to: its records may not be those of the call.
func (w *world) execute(c Call) (Answer, bool) {
	if c.Compensates != "" && c.Key != "" && !w.foreign {
		w.refused[c.Compensates] = true
		if c.ForbidOnly && !w.seen[c.Compensates] {
			return Answer{}, true // nothing to undo, and it never will be
		}
	}
	if c.Key != "" {
		if w.refused[c.Key] || w.said[c.Key] {
			return Answer{Refused: true, AboutKey: true}, true
		}
		if w.seen[c.Key] {
			return Answer{}, true
		}
		w.seen[c.Key] = true
	}
	w.done[c.Tool]++
	w.order = append(w.order, c.Index)
	return Answer{Result: json.RawMessage(`{}`)}, true
}

func (w *world) Call(_ context.Context, c Call) (Answer, error) {
	if w.Left() <= testMax {
		panic(fmt.Sprintf("%s/%d left with a lease of %s", c.Tx, c.Index, w.Left()))
	}
	if len(w.marks) == 0 {
		panic("a call left before its mark")
	}
	if w.op() != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrUnknown, errInjected)
	}
	w.sent[c.Tool]++
	f := faultNone
	if len(w.faults) > 0 {
		f, w.faults = w.faults[0], w.faults[1:]
	}
	var a Answer
	err := fmt.Errorf("%w: the line went dead", ErrUnknown)
	switch f {
	case faultNone:
		a, _ = w.execute(c)
		err = nil
	case faultDiffers:
		if a, err = (Answer{Refused: true, AboutKey: true}), nil; c.Compensates == "" || !w.seen[c.Key] {
			a, _ = w.execute(c)
		}
	case faultRefuse:
		if c.Key != "" && w.seen[c.Key] {
			return Answer{}, nil // a sink that takes keys answers as it did the first time
		}
		w.said[c.Key] = c.Key != ""
		return Answer{Refused: true, AboutKey: c.Key != "", Detail: "no"}, nil
	case faultTurned:
		return Answer{Refused: true, Detail: "not today"}, nil
	case faultDown:
		return Answer{}, fmt.Errorf("%w: connection refused", ErrNotSent)
	case faultLost:
		w.execute(c)
	case faultLate, faultTimeout:
		w.flying = append(w.flying, landing{w.now.Add(testMax - 1), c})
		if f == faultTimeout {
			w.pass(testMax)
		}
	}
	if w.ops++; w.ops == w.dieAt {
		panic(crashed{})
	}
	return a, err
}

func (w *world) LookUp(_ context.Context, c Call) (Answer, error) {
	if err := w.op(); err != nil {
		return Answer{}, err
	}
	switch {
	case !w.lookups:
		return Answer{}, ErrNoLookup
	case w.seen[c.Key]:
		return Answer{Result: json.RawMessage(`{}`)}, nil
	}
	return Answer{Absent: true}, nil
}

// add makes an effect of the world's only transaction.
func (w *world) add(class sequencer.Class, keyed, undo, undoKeyed bool) Progress {
	i := uint32(len(w.effects))
	name := fmt.Sprintf("tool%d", i)
	e := Effect{Tx: "t", Index: i, Tool: Tool{Name: name, Class: class, Keyed: keyed, MaxTime: testMax, Undo: undo,
		Forbids: undoKeyed && !w.foreign,
		Scopes:  []sequencer.Scope{sequencer.Scope("x:/" + name)}, Retry: Retry{Attempts: 3}}}
	if keyed {
		e.Key = fmt.Sprintf("t/%d", i)
	}
	w.effects[name], w.undoKey[name+"-undo"] = &e, undoKeyed
	return Progress{Effect: e}
}

// journal is what the marks say of the effects; a stranger's log has the answers only, and not all of them.
func (w *world) journal(effects []Progress, claim Claim) []Progress {
	out := make([]Progress, len(effects))
	for i := range effects {
		out[i] = Progress{Effect: effects[i].Effect, Committed: effects[i].Committed}
		for _, m := range w.marks {
			if m.Index != out[i].Index || !claim.whole() && m.Step != StepAnswered {
				continue
			}
			out[i].Apply(m)
		}
	}
	return out
}

// attempt runs f and reports whether the process lived.
func attempt(f func()) (lived bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crashed); !ok {
				panic(r)
			}
		}
	}()
	f()
	return true
}

// net is how often the effect took place and was not undone.
func (w *world) net(p *Progress) int { return w.done[p.Tool.Name] - w.done[p.Tool.Name+"-undo"] }

// checkOnce holds that nothing took place twice.
func (w *world) checkOnce(t interface{ Fatalf(string, ...any) }) {
	for name, n := range w.done {
		if n > 1 {
			t.Fatalf("%s took place %d times", name, n)
		}
	}
}

// checkTruth compares a settlement with the sink, after all that flew has landed.
func (w *world) checkTruth(t interface{ Fatalf(string, ...any) }, effects []Progress, s Settlement, released bool) {
	before := len(w.order)
	w.pass(testMax) // repetitions under a key may still be on their way
	if len(w.order) != before {
		t.Fatalf("effect %d took place after the settlement", w.order[before])
	}
	w.checkOnce(t)
	listed := map[uint32]sequencer.Result{}
	for _, e := range s.Effects {
		listed[e.Index] = e.Result
	}
	for i := range effects {
		p := &effects[i]
		r, found := listed[p.Index]
		if w.net(p) < 0 {
			t.Fatalf("effect %d was undone and was not there", p.Index)
		}
		want := 0
		switch {
		case released && !p.Tool.Class.Gated():
			continue
		case released && found && r == sequencer.ResultClean, !released && r == sequencer.ResultLeaked:
			want = 1
		case r == sequencer.ResultUnresolved:
			continue
		case released && !found:
			t.Fatalf("held effect %d is not in the settlement", p.Index)
		}
		if w.net(p) != want {
			t.Fatalf("effect %d (%s, key %q) settles as %s (listed %v), but took place %d times and was undone %d times",
				p.Index, p.Tool.Class, p.Key, r, found, w.done[p.Tool.Name], w.done[p.Tool.Name+"-undo"])
		}
	}
	if len(s.Residue) != countUnclean(s) {
		t.Fatalf("%d effects are unclean, the residue has %d", countUnclean(s), len(s.Residue))
	}
}

func countUnclean(s Settlement) (n int) {
	for _, e := range s.Effects {
		if e.Result != sequencer.ResultClean {
			n++
		}
	}
	return n
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
