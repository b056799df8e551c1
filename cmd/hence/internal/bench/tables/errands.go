package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/client"
)

// errandRuns are the rows of Atomix whose agents do retail tasks at a shop with injected faults.
func errandRuns() map[string]run {
	return map[string]run{"A01": cleanTasks, "A02": allTasks, "A03": bursts, "A04": oneClass, "A05": fiveSteps,
		"A06": audited, "A25": stressed, "A26": stressedThinking, "A27": axes, "A29": endToEnd, "A31": logBytes,
		"A43": agentFaults}
}

// kind is a way of working that is opened at a shop.
type kind struct {
	name string
	open func(*shop) errands
}

// The ways that Hence is comparison with.
func noTxKind() kind {
	return kind{"no transactions", func(s *shop) errands { return plainShop{bareAt(s)} }}
}
func replayKind() kind { return kind{"replay", func(s *shop) errands { return replayShop{bareAt(s)} }} }
func sagaKind() kind   { return kind{"saga", func(s *shop) errands { return sagaShop{bareAt(s)} }} }

func occKind() kind {
	const budget = 3
	return kind{"optimistic", func(s *shop) errands { return occShop{bareAt(s), newMemory(), budget} }}
}

func confirmKind() kind {
	return kind{"try and confirm", func(s *shop) errands {
		return &keyed{bare: bareAt(s), again: true, held: true, reserves: true}
	}}
}

func logKind() kind {
	return kind{"one lock and a log", func(s *shop) errands {
		return &keyed{bare: bareAt(s), held: true, locks: newMemory()}
	}}
}

func keysKind() kind {
	return kind{"keys, no frontier", func(s *shop) errands { return &keyed{bare: bareAt(s), again: true, held: true} }}
}

// others are the baselines of tasks that do not meet, but replay.
func others() []kind {
	return []kind{confirmKind(), sagaKind(), logKind(), keysKind(), noTxKind(), occKind()}
}

// tally is what errands of one way came to.
type tally struct {
	found
	n, committed, successes, cleans, reported, injected int
	took                                                time.Duration // of all errands together
	calls                                               int
}

func (t tally) String() string { return of(t.successes, t.n) }

// answerTime is how long a call's answer is waited for where no fault delays it, and lateTime where one does.
const (
	answerTime = 2 * time.Second
	lateTime   = 150 * time.Millisecond
)

// shopTries is how often all who try again try.
const shopTries = 3

// lanes is how many errands are run at once where they do not meet.
const lanes = 4

// done runs errands one way at a new shop with faults, and holds the shop's record against what was said.
func (e *Env) done(ctx context.Context, set *retail.Dataset, all []errand, open func(*shop) (errands, error),
	f sinks.Faults, p shopPace, lanes int) (t tally, err error) {
	s, err := openShop(set, f)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	way, err := open(s)
	if err != nil {
		return t, err
	}
	mine, said := make([]errand, len(all)), make([]ended, len(all))
	var mu sync.Mutex
	next := 0
	err = together(min(lanes, len(all)), func(int) error {
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= len(all) {
				return nil
			}
			mine[i] = all[i]
			mine[i].room = fmt.Sprint("room-", i)
			began := time.Now()
			got, err := way.run(ctx, &mine[i], p)
			if err != nil {
				return err
			}
			said[i] = got
			mu.Lock()
			t.took += time.Since(began)
			mu.Unlock()
		}
	})
	if err == nil {
		err = s.Settled(ctx)
	}
	if err != nil {
		return t, err
	}
	i := s.Injected()
	t.injected = i.Refused + i.Lost + i.UndoFailed + i.Duplicated + i.Late
	for i := range mine {
		t.add(s.audit(&mine[i], said[i]), said[i])
		t.calls += len(mine[i].calls)
	}
	return t, nil
}

func (t *tally) add(f found, said ended) {
	t.n++
	t.reported += len(said.reported)
	for _, c := range []struct {
		is  bool
		sum *int
	}{{said.committed, &t.committed}, {f.success, &t.successes}, {f.clean, &t.cleans}} {
		if c.is {
			*c.sum++
		}
	}
	t.leaks, t.twice, t.absent = t.leaks+f.leaks, t.twice+f.twice, t.absent+f.absent
	t.unreported, t.idle = t.unreported+f.unreported, t.idle+f.idle
}

// paceOf is the pace of those who try so often.
func paceOf(tries int) shopPace { return shopPace{tries: tries, most: answerTime} }

// onHence runs errands on Hence, in several lanes or in one.
func (e *Env) onHence(ctx context.Context, set *retail.Dataset, all []errand, f sinks.Faults, p shopPace, lanes int,
) (tally, error) {
	return e.done(ctx, set, all, func(s *shop) (errands, error) {
		return e.gatedAt(ctx, s, p, lanes, client.BeginOptions{})
	}, f, p, lanes)
}

// beside runs errands on a baseline, one after the other.
func (e *Env) besideHence(ctx context.Context, set *retail.Dataset, all []errand, k kind, f sinks.Faults, p shopPace,
) (tally, error) {
	return e.done(ctx, set, all, func(s *shop) (errands, error) { return k.open(s), nil }, f, p, 1)
}

// exceptions are faults of calls at a rate: half of them before the call's effect, half after it.
func (e *Env) exceptions(rate float64) sinks.Faults {
	return sinks.Faults{Seed: e.Seed, Refuse: rate / 2, Lose: rate / (2 - rate)}
}

// comparison are Hence, replay and the others under faults: as the paper has it Hence and replay try again, and the
// others give up.
type comparison struct {
	ours, replay tally
	others       []tally
}

// compare runs them; all says that the others try again, too.
func (e *Env) compare(ctx context.Context, set *retail.Dataset, todo []errand, f sinks.Faults, lanes int, all bool,
) (c comparison, err error) {
	if c.ours, err = e.onHence(ctx, set, todo, f, paceOf(shopTries), lanes); err != nil {
		return c, fmt.Errorf("on Hence: %w", err)
	}
	if c.replay, err = e.besideHence(ctx, set, todo, replayKind(), f, paceOf(shopTries)); err != nil {
		return c, err
	}
	c.others, err = e.eachOther(ctx, set, todo, f, all)
	return c, err
}

func (e *Env) eachOther(ctx context.Context, set *retail.Dataset, todo []errand, f sinks.Faults, all bool,
) (each []tally, err error) {
	n := 1
	if all {
		n = shopTries
	}
	for _, k := range others() {
		t, err := e.besideHence(ctx, set, todo, k, f, paceOf(n))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		each = append(each, t)
	}
	return each, nil
}

// most and least successes of the others.
func extremes(all []tally) (most, least int) {
	least = math.MaxInt
	for _, t := range all {
		most, least = max(most, t.successes), min(least, t.successes)
	}
	return most, least
}

// names are the others with what they came to.
func names(all []tally) string {
	var words []string
	for i, k := range others() {
		words = append(words, k.name+" "+all[i].String())
	}
	return strings.Join(words, ", ")
}

// honest says whether ours ran, met faults where there are some, and reported everything that is not clean.
func (t tally) honest(faults bool) bool {
	return t.committed > 0 && t.unreported == 0 && (t.injected > 0) == faults
}

func cleanTasks(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(6, 30))
	if err != nil {
		return Result{}, err
	}
	const highest, theirs = .3, .57
	rates := []float64{0, highest}
	if e.Full {
		rates = []float64{0, .1, highest}
	}
	var ours []string
	var c comparison
	whole, honest := true, true
	for _, rate := range rates {
		if rate == highest {
			c, err = e.compare(ctx, set, todo, e.exceptions(rate), lanes, false)
		} else {
			c.ours, err = e.onHence(ctx, set, todo, e.exceptions(rate), paceOf(shopTries), lanes)
		}
		if err != nil {
			return Result{}, err
		}
		ours = append(ours, fmt.Sprintf("%s at %s", c.ours, digits(rate)))
		whole = whole && c.ours.successes == c.ours.n
		honest = honest && c.ours.honest(rate > 0)
		if rate == 0 {
			honest = honest && c.ours.successes == c.ours.n
		}
	}
	once, err := e.onHence(ctx, set, todo, e.exceptions(highest), paceOf(1), lanes)
	if err != nil {
		return Result{}, err
	}
	same, err := e.eachOther(ctx, set, todo, e.exceptions(highest), true)
	if err != nil {
		return Result{}, err
	}
	most, _ := extremes(c.others)
	return Result{Ours: "clean: " + strings.Join(ours, ", "),
		Baseline: fmt.Sprintf("at %s, replay with the same tries %s; giving up at once: %s", digits(highest), c.replay,
			names(c.others)),
		Verdict: beats(honest && float64(c.ours.successes) >= theirs*float64(c.ours.n) && c.ours.successes > most &&
			c.replay.successes >= most && c.ours.successes >= c.replay.successes, whole),
		Note: fmt.Sprintf("%d tasks of %s data, as scripted calls: a model's skill is out of it, so that all are clean "+
			"without faults is no win over the paper; of ours at the highest rate %d are given up and undone, and %d effects "+
			"are on the list of residue; as there, Hence and replay try again, others do not. Where nobody "+
			"does, Hence has %s; where all do: %s. A way that gives each call a key and takes back what failed needs no "+
			"frontier as long as agents do not meet", len(todo), set.Name,
			c.ours.n-c.ours.committed, c.ours.reported, once, names(same))}, nil
}

func allTasks(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(16, math.MaxInt))
	if err != nil {
		return Result{}, err
	}
	const rate, level = .3, .05
	ours, err := e.onHence(ctx, set, todo, e.exceptions(rate), paceOf(shopTries), lanes)
	if err != nil {
		return Result{}, err
	}
	theirs, err := e.besideHence(ctx, set, todo, replayKind(), e.exceptions(rate), paceOf(shopTries))
	if err != nil {
		return Result{}, err
	}
	apart := fisher(ours.successes, ours.n, theirs.successes, theirs.n)
	return Result{Ours: percent(ours.successes, ours.n),
		Baseline: fmt.Sprintf("replay %s, apart with p = %s", percent(theirs.successes, theirs.n), digits(apart)),
		Verdict:  beats(ours.honest(true) && ours.successes > theirs.successes && apart < level, ours.successes == ours.n),
		Note: fmt.Sprintf("the tie is gone: replay repeats a call whose answer was lost, and %d effects of its "+
			"committed tasks are there twice", theirs.twice)}, nil
}

func bursts(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(6, 30))
	if err != nil {
		return Result{}, err
	}
	const entry, length, marginal = .04, 3, .1
	f := e.exceptions(entry)
	f.Burst = length
	c, err := e.compare(ctx, set, todo, f, 1, false) // one lane: a burst meets calls of one task
	if err != nil {
		return Result{}, err
	}
	alone, err := e.eachOther(ctx, set, todo, e.exceptions(marginal), false)
	if err != nil {
		return Result{}, err
	}
	most, least := extremes(c.others)
	mostAlone, leastAlone := extremes(alone)
	note := ""
	if most-least >= mostAlone-leastAlone {
		note = "; without bursts they fail alike here, since each gives up at its first fault, and bursts, which meet " +
			"fewer tasks, take them apart"
	}
	return Result{Ours: percent(c.ours.successes, c.ours.n),
		Baseline: fmt.Sprintf("replay %s; %s; the others %d apart, without bursts %d", c.replay, names(c.others),
			most-least, mostAlone-leastAlone),
		Verdict: beats(c.ours.honest(true) && c.ours.successes >= max(most, c.replay.successes) &&
			(!e.Full || most-least < mostAlone-leastAlone), c.ours.successes == c.ours.n),
		Note: fmt.Sprintf("a fault that is drawn meets %d calls in a row; that the ways which give up are closer together "+
			"than without bursts, at as many faults, is part of the verdict at full size only%s", length, note)}, nil
}

func oneClass(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(6, 30))
	if err != nil {
		return Result{}, err
	}
	rate := .1
	if !e.Full {
		rate = .3 // so that few tasks meet faults, too
	}
	lost, err := e.compare(ctx, set, todo, sinks.Faults{Seed: e.Seed, Lose: rate}, lanes, false)
	if err != nil {
		return Result{}, err
	}
	twice, err := e.compare(ctx, set, todo, sinks.Faults{Seed: e.Seed, Duplicate: rate}, lanes, false)
	if err != nil {
		return Result{}, err
	}
	most, _ := extremes(lost.others)
	seen := twice.replay.twice
	for _, t := range twice.others {
		seen += t.twice
	}
	return Result{Ours: fmt.Sprintf("answers lost %s, calls twice %s", percent(lost.ours.successes, lost.ours.n),
		percent(twice.ours.successes, twice.ours.n)),
		Baseline: fmt.Sprintf("lost: replay %s, %s; twice: replay %s, %s", lost.replay, names(lost.others), twice.replay,
			names(twice.others)),
		Verdict: beats(lost.ours.honest(true) && twice.ours.honest(true) && lost.ours.successes > most &&
			twice.ours.twice == 0 && seen > 0,
			lost.ours.successes == lost.ours.n && twice.ours.successes == twice.ours.n),
		Note: fmt.Sprintf("each fault at a rate of %s of calls; what is delivered twice is dropped by the shop where a "+
			"key came with it, so ways with keys have none either", digits(rate))}, nil
}

// audited runs tasks under all faults at once, with one try, so that something is left, and holds the shop's record
// against what each way says of its errands.
func audited(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(4, 60))
	if err != nil {
		return Result{}, err
	}
	for _, stops := range []bool{false, true} { // tasks mostly read: these act, and some of them are given up
		five, err := fiveCalls(set, e.of(4, 60), stops)
		if err != nil {
			return Result{}, err
		}
		todo = append(todo, five...)
	}
	const rate = .1
	f := sinks.Evenly(rate, e.Seed, lateTime*3/2)
	p := shopPace{tries: 1, most: lateTime}
	ours, err := e.onHence(ctx, set, todo, f, p, 2*lanes)
	if err != nil {
		return Result{}, err
	}
	var words []string
	silent := 0
	for _, k := range append(others(), replayKind()) {
		t, err := e.done(ctx, set, todo, func(s *shop) (errands, error) { return k.open(s), nil }, f, p, 2*lanes)
		if err != nil {
			return Result{}, err
		}
		silent += t.unreported
		words = append(words, fmt.Sprintf("%s %d", k.name, t.unreported))
	}
	return Result{Ours: fmt.Sprintf("%d unreported differences; %d effects of tasks that did not commit, %d twice, %d "+
		"absent; %d on the list of residue", ours.unreported, ours.leaks, ours.twice, ours.absent, ours.reported),
		Baseline: "unreported: " + strings.Join(words, ", "),
		Verdict:  holds(ours.unreported == 0 && ours.committed > 0 && ours.injected > 0 && silent > 0),
		Note: fmt.Sprintf("all five classes of faults at once, with one try each; %d of the residue is not found to "+
			"differ: it is what could not be known, and is said to be so", ours.idle)}, nil
}

func endToEnd(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(4, 30))
	if err != nil {
		return Result{}, err
	}
	const think, most = 700 * time.Millisecond, .01
	p := shopPace{tries: 1, most: answerTime, turns: true, think: e.thought(think)}
	ours, err := e.onHence(ctx, set, todo, sinks.Faults{}, p, lanes)
	if err != nil {
		return Result{}, err
	}
	theirs, err := e.done(ctx, set, todo, func(s *shop) (errands, error) { return noTxKind().open(s), nil },
		sinks.Faults{}, p, lanes)
	if err != nil {
		return Result{}, err
	}
	added := (ours.took - theirs.took) / time.Duration(ours.calls)
	share := added.Seconds() / think.Seconds()
	return Result{
		Ours: fmt.Sprintf("%s s, %s ms more for each call: %s %% of the thinking", digits(ours.took.Seconds()),
			digits(added.Seconds()*1000), digits(100*share)),
		Baseline: fmt.Sprintf("bare calls %s s", digits(theirs.took.Seconds())),
		Verdict:  holds(share <= most && ours.successes == ours.n && theirs.successes == theirs.n),
		Note: fmt.Sprintf("a model's turn before each call is %s ms of thinking, less at the small size, where the share "+
			"is still of these; begin, seal and settlement are in the time", digits(think.Seconds()*1000))}, nil
}

// meter is a ground that says how many bytes of its log some work takes, by topic.
type meter interface {
	Written(context.Context, func() error) (topics []string, records, bytes []int64, err error)
}

func logBytes(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(6, 30))
	if err != nil {
		return Result{}, err
	}
	ground, has := e.Ground.(meter)
	if !has {
		return Result{}, errors.New("the ground does not measure its log")
	}
	var ours tally
	topics, records, bytes, err := ground.Written(ctx, func() (err error) {
		ours, err = e.onHence(ctx, set, todo, sinks.Faults{}, paceOf(1), lanes)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	var words []string
	all, sum := int64(0), int64(0)
	for i, topic := range topics {
		all, sum = all+records[i], sum+bytes[i]
		words = append(words, fmt.Sprintf("%s %s", topic, digits(float64(bytes[i])/float64(ours.n))))
	}
	if all == 0 {
		return Result{}, errors.New("nothing was written")
	}
	const theirs = 75
	entry := float64(sum) / float64(all)
	return Result{Ours: fmt.Sprintf("%s B for each record, %s for each transaction", digits(entry),
		digits(float64(sum)/float64(ours.n))),
		Baseline: fmt.Sprintf("answers and arguments alone, a call: %s B", digits(payload(todo))),
		Verdict:  holds(entry <= theirs),
		Note: fmt.Sprintf("bytes a transaction by topic: %s. A record of ours says what a transaction read and did, with "+
			"versions, keys, arguments and answers, and a decision also has its chain of hashes; the paper's entry is a line "+
			"of a library in one process", strings.Join(words, ", "))}, nil
}

// payload are the mean bytes of what calls say.
func payload(all []errand) float64 {
	bytes, calls := 0, 0
	for i := range all {
		for step, c := range all[i].calls {
			calls++
			bytes += len(fmt.Sprint(c.args))
			if step < len(all[i].want.Texts) {
				bytes += len(all[i].want.Texts[step])
			}
		}
	}
	return float64(bytes) / float64(calls)
}
