package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/sidecar/client"
)

// meeters is how many agents of a run meet at two orders.
const meeters = 4

// meeting are the errands of one run: each agent reads both orders, thinks, writes a note into one of them that says
// how many notes each had, and sends a confirmation.
func meeting(set *retail.Dataset, room string) []errand {
	ids := slices.Sorted(maps.Keys(set.Orders))
	a, b := ids[0], ids[1]
	all := make([]errand, meeters)
	for i := range all {
		own := []string{a, b}[i%2]
		name := fmt.Sprint("agent-", i)
		read := func(id string) shopCall {
			return shopCall{tool: "get_order_details", args: map[string]any{"order_id": id}}
		}
		all[i] = errand{room: room, who: name, effects: map[int]bool{2: true, 3: true}, calls: []shopCall{read(a), read(b),
			{tool: "annotate_order", acts: true, fill: func(answers []string) map[string]any {
				note := fmt.Sprint(name, " ", notes(answers[0]), " ", notes(answers[1]))
				return map[string]any{"order_id": own, "text": note}
			}}, {tool: toolConfirm, acts: true}}}
	}
	return all
}

// notes is how many notes an order has, as a call showed it.
func notes(text string) int {
	o, err := retail.DecodeOrder([]byte(text))
	if err != nil {
		return -1 // no order was shown
	}
	return o.LastNote()
}

// met is what runs of one way came to.
type met struct {
	runs, clean                   int // clean: every errand is committed, as in a serial run, once, and nothing is left
	leaks, twice, stale, reported int
	silent                        int
	refused                       int
	waited                        time.Duration
	committed, injected           int
}

// wait is how long an errand waits on average.
func (m met) wait() time.Duration { return m.waited / time.Duration(max(1, m.runs*meeters)) }

// meet lets runs take place one way, some at once.
func (e *Env) meet(ctx context.Context, set *retail.Dataset, runs int, open func(*shop) (errands, error),
	f sinks.Faults, p shopPace) (m met, err error) {
	s, err := openShop(set, f)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	way, err := open(s)
	if err != nil {
		return m, err
	}
	var mu sync.Mutex
	next := 0
	err = together(min(lanes, runs), func(int) error {
		for {
			mu.Lock()
			r := next
			next++
			mu.Unlock()
			if r >= runs {
				return nil
			}
			all := meeting(set, fmt.Sprint("run-", r))
			said := make([]ended, len(all))
			if err := together(len(all), func(i int) (err error) {
				said[i], err = way.run(ctx, &all[i], p)
				return err
			}); err != nil {
				return err
			}
			mu.Lock()
			s.judge(&m, all, said)
			mu.Unlock()
		}
	})
	i := s.Injected()
	m.injected = i.Refused + i.Lost + i.UndoFailed + i.Duplicated + i.Late
	m.refused, m.waited = way.cost().refused, way.cost().waited
	return m, err
}

// judge holds a run against a serial one of what was committed.
func (s *shop) judge(m *met, all []errand, said []ended) {
	m.runs++
	whole, stale := true, 0
	var sum found
	committed, kept := map[string]bool{}, 0
	for i := range all {
		f := s.counted(&all[i], said[i])
		sum.leaks, sum.twice, sum.absent = sum.leaks+f.leaks, sum.twice+f.twice, sum.absent+f.absent
		sum.unreported += f.unreported
		m.reported += len(said[i].reported)
		whole = whole && said[i].committed && len(said[i].reported) == 0
		if committed[all[i].who] = said[i].committed; said[i].committed {
			m.committed, kept = m.committed+1, kept+1
		}
	}
	// What is in the records: each note says what its writer had read, so there is at most one serial order.
	type note struct {
		who    string
		own    int
		counts [2]int
	}
	var written []note
	for own, id := range []string{text(all[0].calls[0].args["order_id"]), text(all[0].calls[1].args["order_id"])} {
		for _, n := range s.order(all[0].room, id).Notes {
			one := note{own: own}
			if _, err := fmt.Sscan(n.Text, &one.who, &one.counts[0], &one.counts[1]); err != nil {
				stale++
			}
			written = append(written, one)
		}
	}
	slices.SortStableFunc(written, func(x, y note) int {
		return x.counts[0] + x.counts[1] - y.counts[0] - y.counts[1]
	})
	var counts [2]int
	there := 0
	for _, n := range written {
		if n.counts != counts {
			stale++
		}
		counts[n.own]++
		if committed[n.who] {
			there++
		}
	}
	if there < kept {
		stale++ // a committed note was overwritten
	}
	m.leaks, m.twice, m.stale = m.leaks+sum.leaks, m.twice+sum.twice, m.stale+stale
	m.silent += sum.unreported
	if whole && stale+sum.leaks+sum.twice+sum.absent == 0 {
		m.clean++
	}
}

// order is an order of a room as it stands.
func (s *shop) order(at, id string) retail.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, _, err := room{s.rooms[at], s.initial}.Read(retail.OrderKey(id))
	o, failed := retail.DecodeOrder(record)
	if err = errors.Join(err, failed); err != nil {
		panic("tables: the shop cannot read what it wrote: " + err.Error())
	}
	return o
}

// meetings are the ways of agents who meet.
func meetings() []kind {
	lock := func(name string, of func(*errand) string) kind {
		return kind{name, func(s *shop) errands { return &under{bareAt(s), of, newMemory()} }}
	}
	return []kind{occKind(), oneLockKind(), confirmKind(), logKind(), sagaKind(), noTxKind(),
		{"a lock for each call", func(s *shop) errands { return callLock{bareAt(s), newMemory()} }},
		lock("a lock for each order", func(w *errand) string {
			return w.room + text(w.body(2, []string{"", ""})["order_id"])
		}), replayKind()}
}

func oneLockKind() kind {
	return kind{"one lock", func(s *shop) errands {
		return &under{bareAt(s), func(w *errand) string { return w.room }, newMemory()}
	}}
}

// meetOnHence lets runs take place on Hence.
func (e *Env) meetOnHence(ctx context.Context, set *retail.Dataset, runs int, f sinks.Faults, p shopPace,
	begin client.BeginOptions) (met, error) {
	return e.meet(ctx, set, runs, func(s *shop) (errands, error) {
		return e.gatedAt(ctx, s, p, meeters*lanes, begin)
	}, f, p)
}

func (e *Env) meetBeside(ctx context.Context, set *retail.Dataset, runs int, k kind, f sinks.Faults, p shopPace,
) (met, error) {
	return e.meet(ctx, set, runs, func(s *shop) (errands, error) { return k.open(s), nil }, f, p)
}

// mixed are all faults of calls that have an answer at all, each with its part of a rate.
func (e *Env) mixed(rate float64) sinks.Faults {
	return sinks.Faults{Seed: e.Seed, Refuse: rate / 4, Lose: rate / 4, Undo: rate / 4, Duplicate: rate / 4}
}

// quickTime is how long a call's answer is waited for where agents meet: one that failed is settled after it, and
// others wait for that.
const quickTime = 500 * time.Millisecond

// careful is how Hence's agents begin where they meet: they lock what they read, so that none acts on what moves.
func careful() client.BeginOptions { return client.BeginOptions{Mode: "locked"} }

func stressed(ctx context.Context, e *Env) (Result, error) {
	set, _, err := e.errands(1)
	if err != nil {
		return Result{}, err
	}
	runs := e.of(2, 20)
	p := shopPace{tries: shopTries, most: quickTime, think: e.thought(50 * time.Millisecond)}
	const low, high, alone = .1, .3, .1
	cells := []sinks.Faults{e.mixed(high)}
	if e.Full {
		cells = append(cells, e.mixed(low), sinks.Faults{Seed: e.Seed, Lose: alone},
			sinks.Faults{Seed: e.Seed, Duplicate: alone})
	}
	var ours []met
	bad, silent, ran := 0, 0, true
	for _, f := range cells {
		m, err := e.meetOnHence(ctx, set, runs, f, p, careful())
		if err != nil {
			return Result{}, err
		}
		ours, silent = append(ours, m), silent+m.silent
		bad += m.leaks + m.stale + m.twice
		ran = ran && m.committed > 0 && m.injected > 0
	}
	var words, pays []string
	least, _ := anomaly.ClopperPearson(ours[0].clean, runs)
	above, apart := true, true
	for _, k := range meetings() {
		var parts []string
		for i, f := range cells {
			m, err := e.meetBeside(ctx, set, runs, k, f, p)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", k.name, err)
			}
			parts = append(parts, fmt.Sprint(m.clean))
			if i == 0 {
				_, most := anomaly.ClopperPearson(m.clean, runs)
				above, apart = above && m.clean <= ours[0].clean, apart && most < least
				pays = append(pays, fmt.Sprintf("%s %s ms, %d, %d, %d, %d", k.name, inMilliseconds(m.wait()), m.refused, m.leaks,
					m.twice, m.stale))
			}
		}
		words = append(words, k.name+" "+strings.Join(parts, "/"))
	}
	ablated, err := e.meetOnHence(ctx, set, runs, cells[0], p, client.BeginOptions{Levels: "L0"})
	if err != nil {
		return Result{}, err
	}
	var clean []string
	for _, m := range ours {
		clean = append(clean, fmt.Sprint(m.clean))
	}
	return Result{
		Ours: fmt.Sprintf("of %d runs clean %s; leaks, twice or stale %d; %s ms wait, %d refused", runs,
			strings.Join(clean, "/"), bad, inMilliseconds(ours[0].wait()), ours[0].refused),
		Baseline: strings.Join(words, ", ") + "; Hence without refusals of stale reads " + fmt.Sprint(ablated.clean),
		Verdict:  holds(bad == 0 && silent == 0 && ran && above && (apart || !e.Full)),
		Note: fmt.Sprintf("the definition is ours, since no script of it is published: %d agents read two orders, think, "+
			"note in one of them what they have read, and confirm; faults at %s of calls, and at full size at %s, only lost "+
			"answers, and only calls twice, in this order; clean is a run all of whose errands are committed, as a serial run "+
			"leaves them. All try again alike. Wait, refusals, leaks, twice and stale of the first: %s", meeters, digits(high),
			digits(low), strings.Join(pays, "; "))}, nil
}

func inMilliseconds(d time.Duration) string { return digits(milliseconds(d)) }

func stressedThinking(ctx context.Context, e *Env) (Result, error) {
	set, _, err := e.errands(1)
	if err != nil {
		return Result{}, err
	}
	const rate = .1
	runs, think := e.of(2, 30), e.thought(700*time.Millisecond)
	p := shopPace{tries: shopTries, most: quickTime, think: think}
	ours, err := e.meetOnHence(ctx, set, runs, e.mixed(rate), p, careful())
	if err != nil {
		return Result{}, err
	}
	var words []string
	var locked met
	for _, k := range []kind{confirmKind(), sagaKind(), replayKind(), oneLockKind()} {
		m, err := e.meetBeside(ctx, set, runs, k, e.mixed(rate), p)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", k.name, err)
		}
		locked = m
		words = append(words, fmt.Sprintf("%s %s, %s ms wait", k.name, of(m.clean, runs), inMilliseconds(m.wait())))
	}
	bad := ours.leaks + ours.stale + ours.twice + ours.silent
	return Result{
		Ours: fmt.Sprintf("%s clean, %s ms wait, %d refused", percent(ours.clean, runs), inMilliseconds(ours.wait()),
			ours.refused),
		Baseline: strings.Join(words, "; "),
		Verdict: beats(bad == 0 && ours.committed > 0 && 10*ours.clean >= 9*runs && locked.wait() >= think*(meeters-1)/2,
			ours.clean == runs),
		Note: fmt.Sprintf("as in the row before, with %s ms of thinking: who waits, waits for others' thinking",
			inMilliseconds(think))}, nil
}

// axes are what the paper compares systems in, each by a row whose rule also needs that it fails without.
func axes(ctx context.Context, e *Env) (Result, error) {
	axes := []struct{ name, row string }{{"progress", "A09"}, {"classes", "A05"}, {"speculation", "A15"},
		{"gating", "A19"}, {"stale plans", "A08"}, {"unmodified tools", "A01"}, {"repetitions", "A04"}}
	var words, absent []string
	ok := true
	for _, axis := range axes {
		v, err := e.verdict(ctx, axis.row)
		if err != nil {
			return Result{}, err
		}
		if v == NotRun {
			absent = append(absent, axis.name)
		}
		ok = ok && (v == Reproduced || v == Beaten)
		words = append(words, fmt.Sprintf("%s (%s) %s", axis.name, axis.row, v))
	}
	note := "each axis is a row that is measured, in the same invocation where it was asked for"
	if len(absent) > 0 {
		note += "; without a run are " + strings.Join(absent, ", ")
	}
	return Result{Ours: strings.Join(words, "; "),
		Baseline: "in each of these rows the ways without it are run, and fail", Verdict: holds(ok), Note: note}, nil
}

// verdict is that of another row: the one it came to before in this invocation, or what it comes to now.
func (e *Env) verdict(ctx context.Context, id string) (Verdict, error) {
	if v, has := e.came[id]; has {
		return v, nil
	}
	for _, row := range Rows() {
		if row.ID == id && row.run != nil {
			got, err := row.run(ctx, e)
			return got.Verdict, err
		}
	}
	return NotRun, nil
}
