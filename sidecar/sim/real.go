package sim

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/once"
)

// The times of a schedule of real agents. All of it is virtual: it passes when nothing can go on.
const (
	realFaults   = 12 * time.Second  // the phase with faults, unless Options say otherwise
	realHeal     = 180 * time.Second // all must have come to rest by then
	realTick     = 250 * time.Millisecond
	realAway     = 40 * time.Second     // after the faults an agent that was gone for good is there again
	realStep     = realTick / tickSteps // of the judge's clock
	realCall     = 900 * time.Millisecond
	realPlan     = 700 * time.Millisecond // that a planned call waits for those before it
	realLeast    = 3                      // commits: fewer make the run void
	realPrograms = 2                      // that each client gets done after the faults
)

// bubble is a schedule of real agents: the agents, views, journals, gates and the fold are those of a sidecar; the
// log's brokers, the disks, the sinks, the clock and what agents ask for are the world's.
//
// What happens when is the seed's choice: what leaves a process, and what comes back, takes a virtual time that the
// seed draws, to the nanosecond. Between two such times everything runs until it waits. So one thing happens at a
// time, but for what one wake-up lets run inside of a process.
type bubble struct {
	opts  Options
	start time.Time
	dir   string
	log   *memlog.Log

	strays sync.WaitGroup // intents that arrive late, and processes that end

	mu      sync.Mutex // guards what follows, the judge (r) and its world
	r       *run
	rng     *rand.Rand
	fault   faults
	hosts   []*host
	given   map[talk]map[sequencer.Scope]readRecord // told to readers; all their commits rest on it
	loose   map[talk][]readRecord                   // told outside of transactions; the next one carries them
	keys    map[string]token
	refuses map[string]bool // keys that a sink has refused a call under
	under   map[token]string
	since   map[token]time.Time // when calls ran
	told    map[sequencer.TxID]string
	words   map[sequencer.TxID][]sequencer.Approval // that people have said, whatever became of them
	healing bool
	ops     int                        // passages through doors, up to the end of the faults
	hooked  bool                       // each footprint goes to a hook
	tokens  map[string]ownerToken      // of shards, by name
	pinned  map[string][]sequencer.Pin // that the policy has named for calls, by their arguments
	yes     map[string]bool            // footprints that the hook has said yes to
	reset   sequencer.Seq              // of the last reset
	keepers []*keeper
	grown   chan struct{}          // closed when the log grows
	avail   map[sequencer.Seq]bool // decisions that a processor has published, or made durable
	shown   sequencer.Seq          // all up to here are
	moved   chan struct{}          // closed when that changes
	actors  uint64                 // that were given dice
}

// talk is a conversation of an agent.
type talk struct{ agent, session string }

// faults is what a schedule draws: which faults it has at all, and how often.
type faults struct {
	hosts, clients              int
	lag, slow                   time.Duration
	lose, unknown, late, twice  float64 // appends
	events                      float64 // records of hence.events
	drop, again                 float64 // deliveries
	cut                         float64 // of answers to agents
	crash, power, empty, copies float64 // per life event
	partition, zombie, forGood  float64
	disk, full                  float64
	callLost, callMute, callNo  float64
	callDown, callTwice         float64
	keyed, effects, looks       float64
	retract, residue            float64
	every                       time.Duration // between two life events
	mode                        [3]float64
	plans                       float64 // of the calls of a transaction: they are made as a planned turn
	asks                        float64 // of calls: one that is held needs approval
	small                       bool    // journals are rewritten often, few transactions are remembered
	shift                       time.Duration
	// Of the processors: how many there are, how often they write their state (records), how slow they read, how
	// often they crash between two steps or pause, and what becomes of what they send.
	keepers, stateEvery      int
	keeperLag                time.Duration
	keeperCrash, keeperPause float64
	// What agents ask for besides, per program or operation, and what the hook and the registry do.
	branches, commits, expects, levels, watches, updates float64
	deltas, readers, resets, tokens                      float64
	pins, registry                                       float64
	hook, veto, hookMute                                 float64
	rules                                                float64
	observing, brief, caps, wide, may                    float64
	poison                                               float64 // records that cannot be read
	strikes                                              float64 // the chance that some operations are struck
	natsLose, tickLost, snapshotLag                      float64
}

func drawFaults(rng *rand.Rand) faults {
	some := func(limit float64) float64 {
		if rng.Float64() < 0.4 {
			return 0
		}
		return limit * rng.Float64()
	}
	f := faults{hosts: 2 + rng.IntN(2), clients: 1 + rng.IntN(2),
		lag: time.Duration(1+rng.IntN(300)) * time.Millisecond, slow: time.Duration(1+rng.IntN(80)) * time.Millisecond,
		lose: some(0.15), unknown: some(0.15), late: some(0.15), events: some(0.2), drop: some(0.03), again: some(0.1),
		cut: some(0.15), crash: some(1), power: some(1), empty: some(0.4), copies: some(0.5), partition: some(1),
		zombie: some(1), forGood: some(0.2), disk: some(0.02), full: some(0.3),
		callLost: some(0.15), callMute: some(0.2), callNo: some(0.1), callDown: some(0.1),
		keyed: some(1), effects: 0.2 + 0.6*rng.Float64(), looks: some(0.5),
		retract: some(0.15), residue: 0,
		every: time.Duration(1000+rng.IntN(5000)) * time.Millisecond,
		mode:  [3]float64{1 + 3*rng.Float64(), some(2), some(2)}, small: rng.Float64() < 0.3,
		shift: time.Duration(rng.IntN(3)) * 7 * time.Minute}
	f.plans, f.asks = some(1), some(0.7)
	f.twice, f.callTwice = some(0.1), some(0.2)
	f.keepers, f.stateEvery, f.keeperLag = 1+rng.IntN(3), 1+rng.IntN(60), time.Duration(1+rng.IntN(40))*time.Millisecond
	f.keeperCrash, f.keeperPause, f.natsLose = some(0.01), some(0.01), some(0.2)
	f.tickLost, f.snapshotLag = some(0.1), some(0.5)
	f.residue = some(0.3)
	f.branches, f.commits, f.expects, f.levels, f.watches = some(0.4), some(0.5), some(0.5), some(0.3), some(0.1)
	f.updates, f.deltas, f.readers, f.resets, f.tokens = some(0.3), some(0.4), some(0.5), some(0.1), some(0.3)
	f.pins, f.registry = some(0.5), some(0.3)
	f.hook, f.veto, f.hookMute = some(1), some(0.3), some(0.3)
	f.strikes, f.caps, f.wide, f.may, f.poison = some(1), some(0.3), some(0.3), some(0.5), some(0.3)
	f.rules, f.observing, f.brief = some(0.5), some(0.3), some(0.5)
	return f
}

// calm ends all faults.
func (f *faults) calm() {
	*f = faults{hosts: f.hosts, clients: f.clients, lag: 5 * time.Millisecond, slow: 2 * time.Millisecond,
		effects: f.effects, looks: f.looks, plans: f.plans, asks: f.asks, mode: f.mode, every: f.every, small: f.small,
		shift: f.shift, keyed: f.keyed, branches: f.branches, commits: f.commits,
		expects: f.expects, levels: f.levels, updates: f.updates, deltas: f.deltas, readers: f.readers, tokens: f.tokens,
		pins: f.pins, hook: f.hook, brief: f.brief, wide: f.wide, may: f.may, keepers: f.keepers, stateEvery: f.stateEvery,
		keeperLag: min(f.keeperLag, 2*time.Millisecond)}
}

// RunReal runs one schedule of real agents. It needs a test's T for its virtual time alone: what it finds is in the
// error, a *Violation.
func RunReal(t *testing.T, seed uint64, opts Options) (rep Report, err error) {
	t.Helper()
	dir := filepath.Join(realRoot(), fmt.Sprintf("hence-sim-%d", os.Getpid()))
	failed := os.MkdirAll(dir, 0o700)
	if failed != nil {
		return rep, failed
	}
	defer os.RemoveAll(dir)
	t.Run("", func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(*testing.T) {
			b := newBubble(seed, opts, dir)
			b.all()
			rep = b.r.report
			if b.r.failed != "" {
				err = &Violation{Seed: seed, Opts: opts, Step: b.r.now, What: b.r.failed, Trace: b.r.trace,
					Real: true}
			}
		})
	})
	return rep, err
}

// realRoot is where journals lie: in memory where the system has such a folder.
func realRoot() string {
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return ""
}

func newBubble(seed uint64, opts Options, dir string) *bubble {
	rng := rand.New(rand.NewPCG(seed, 0x7265616c))
	r := &run{seed: seed, opts: opts, rng: rng, attempts: map[sequencer.TxID]*attempt{}, tracing: opts.Trace, real: true}
	r.report = newReport(seed)
	r.swarm.logic = sequencer.Logic
	r.truth, r.world = newTruth(r), newWorld(r)
	b := &bubble{opts: opts, start: time.Now(), dir: dir, r: r, rng: rng, fault: drawFaults(rng),
		loose: map[talk][]readRecord{}, given: map[talk]map[sequencer.Scope]readRecord{}, keys: map[string]token{},
		refuses: map[string]bool{}, under: map[token]string{},
		since: map[token]time.Time{},
		told:  map[sequencer.TxID]string{},
		grown: make(chan struct{}), moved: make(chan struct{}), avail: map[sequencer.Seq]bool{},
		words: map[sequencer.TxID][]sequencer.Approval{}}
	if opts.Clean {
		b.fault.clean()
	}
	b.fault.mute(opts.Mute)
	if b.opts.Strikes == nil && b.r.chance(b.fault.strikes) {
		for range 1 + rng.IntN(3) {
			b.opts.Strikes = append(b.opts.Strikes, Strike{1 + rng.IntN(1500), How(1 + rng.IntN(int(lastHow)))})
		}
	}
	b.tokens, b.pinned = map[string]ownerToken{}, map[string][]sequencer.Pin{}
	b.hooked, b.yes = rng.Float64() < b.fault.hook, map[string]bool{}
	b.log = memlog.NewOver(workspace, sequencer.NewReplica(workspace), b.record)
	return b
}

// all runs the phase with faults, then the one without, and what is checked at the end.
func (b *bubble) all() {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.LeaseTicks = 1, sequencer.Logic, sequencer.Tick(24)
	rules.HorizonTicks, rules.HorizonCommits = 1000, 400
	rules.DeadlineTicks, rules.BoundTicks, rules.ApprovalTicks = 60, 16, 48
	if _, err := b.log.Add(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}); err != nil {
		b.fail("the first rules: %v", err)
	}
	for i := range b.fault.keepers {
		k := b.newKeeper(i)
		b.keepers = append(b.keepers, k)
		group.Go(func() { k.work(ctx) })
	}
	for i := range b.fault.hosts {
		h := b.newHost(string(rune('a' + i)))
		b.hosts = append(b.hosts, h)
		group.Go(func() { h.live(ctx) })
		for n := range b.fault.clients {
			c := &client{dice: b.newDice(), host: h, talk: talk{h.agent, fmt.Sprintf("s%d", n)}}
			h.clients = append(h.clients, c)
			group.Go(func() { c.work(ctx) })
		}
	}
	for _, p := range b.people() {
		group.Go(func() { p.work(ctx) })
	}
	group.Go(func() { (&governor{b.people()[0].client}).work(ctx) })
	length := realFaults
	if b.opts.Steps > 0 {
		length = time.Duration(b.opts.Steps) * realStep
	}
	b.sleep(ctx, length)
	b.mu.Lock()
	b.r.report.Void = b.r.report.Commits < realLeast
	b.fault.calm()
	b.healing = true
	b.r.report.Ops = b.ops
	b.r.note("-- heal --")
	b.mu.Unlock()
	for end := time.Now().Add(realHeal); !b.over(); b.sleep(ctx, 200*time.Millisecond) {
		if time.Now().After(end) {
			b.fail("not at rest %v after the last fault: %s", realHeal, b.unrest())
		}
	}
	b.askAll(ctx)
	stop() // each agent ends its own processes
	group.Wait()
	b.finish()
	b.strays.Wait()
}

func (b *bubble) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.r.failed != "" || b.unrestLocked() == ""
}

func (b *bubble) unrest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unrestLocked()
}

// unrestLocked names what is not done yet; empty: nothing.
func (b *bubble) unrestLocked() string {
	for _, h := range b.hosts {
		for _, c := range h.clients {
			if !h.gone.Load() && c.done < realPrograms {
				return fmt.Sprintf("%s of %s has committed %d of its last programs", c.talk.session, h.agent, c.done)
			}
		}
	}
	for _, info := range b.r.truth.list {
		if info.decision == 0 {
			return fmt.Sprintf("%s is not decided", info.id)
		}
		if !info.over() {
			return fmt.Sprintf("%s is decided at %d and not final", info.id, info.decision)
		}
	}
	if id := b.r.truth.pending(); id != "" {
		return fmt.Sprintf("%s is pending", id)
	}
	return b.behind()
}

// askAll lets the clients ask how everything ended, unless something is wrong already.
func (b *bubble) askAll(ctx context.Context) {
	b.mu.Lock()
	ok := b.r.failed == ""
	b.mu.Unlock()
	if !ok {
		return
	}
	for _, h := range b.hosts {
		for _, c := range h.clients {
			c.askAll(ctx)
		}
	}
	c := b.hosts[0].clients[0]
	for _, h := range b.hosts {
		if !h.gone.Load() {
			c = h.clients[0]
		}
	}
	got, err := ask(ctx, c, request[*api.Content]{wait: 10 * time.Second,
		run: func(ctx context.Context, p *proc, o once.Call) (*api.Content, error) {
			return p.agent.Get(ctx, o, counter, api.Look{})
		}})
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := problem(err); p == nil && err != nil || p != nil && p.Code != api.CodeNotFound {
		b.r.fail("at the end nobody shows %s: %v", counter, err)
	} else if shown := ""; err == nil {
		shown = string(got.Body)
		b.checkCounter(shown)
	}
}

// finish makes the checks that need the whole history.
func (b *bubble) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.r
	r.now = b.step()
	r.report.Steps, r.report.Records = r.now, len(r.truth.log)
	if r.failed != "" {
		return
	}
	r.truth.checkReplay()
	r.truth.checkCycles()
	r.truth.checkRetracted()
	for _, k := range b.keepers { // each has ended; what it had not read yet it reads now
		for ; k.next < int64(len(r.truth.log)); k.next++ {
			if _, err := k.m.Apply(k.next, r.truth.log[k.next]); err != nil {
				r.fail("processor %d stops at offset %d: %v", k.id, k.next, err)
			}
		}
		if k.m.Fold().StateHash() != r.truth.fold.StateHash() {
			r.fail("processor %d ends with another state", k.id)
		}
	}
	r.world.checkEnd()
	for id, state := range b.told {
		info := r.truth.txs[id]
		if committed := info != nil && info.committed; committed != (state == "committed") {
			r.fail("the agent of %s was told that it is %s; it has committed: %v", id, state, committed)
		}
	}
	r.report.Hash = r.truth.chain
}

// record is told of each record of the log.
func (b *bubble) record(in *sequencer.Intent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r.now = b.step()
	if in == nil { // it cannot be read
		b.r.truth.apply(nil)
		b.grow()
		return
	}
	if in.Tx != "" && in.Kind != sequencer.IntentSettle && in.Kind != sequencer.IntentRetract {
		a := b.attempt(in.Tx)
		if in.Begin != nil {
			a.begin = in.Begin
		}
		if in.Seal != nil {
			b.sealed(a, in)
		}
	}
	if b.r.failed != "" {
		return
	}
	b.hears(in)
	live := maps.Clone(b.r.truth.live)
	seq := len(b.r.truth.out)
	b.r.truth.apply(in)
	for _, o := range b.r.truth.out[seq:] {
		b.allowed(o)
	}
	b.grow()
	if in.Kind != sequencer.IntentTick {
		return
	}
	for _, h := range b.hosts {
		if h.folders > 1 && live[h.agent] != 0 {
			b.overdue(h)
		}
	}
}

// grow wakes the processors. b.mu is held.
func (b *bubble) grow() {
	close(b.grown)
	b.grown = make(chan struct{})
}

// allowed: what a hook is to be asked about commits after its yes. b.mu is held.
func (b *bubble) allowed(o *sequencer.Outcome) {
	info := b.r.truth.txs[o.Tx]
	b.held(o)
	if o.Kind == sequencer.OutcomeCommitted && info != nil {
		b.asked(o, info)
	}
	if o.Kind != sequencer.OutcomeCommitted || info == nil || info.seal == nil || !info.seal.Hook || info.free {
		return
	}
	if a := b.r.attempts[o.Tx]; a != nil && a.begin.Observe {
		return
	}
	if sum := info.seal.Footprint(); !b.yes[hex.EncodeToString(sum[:])] {
		b.r.fail("%s commits at %d, and the hook has not said yes", o.Tx, o.Seq)
	}
}

// asked: a commit keeps what its agent asked for: versions that it expected, entries of the registry that its calls
// rely on. b.mu is held.
func (b *bubble) asked(o *sequencer.Outcome, info *txInfo) {
	a := b.r.attempts[o.Tx]
	if a == nil || info.seal == nil || info.free || a.begin.Observe {
		return
	}
	for _, w := range info.seal.Shards {
		want, named := a.expected[w.Scope]
		if !named {
			continue
		}
		was := b.r.truth.shardAt(leavesOf(w.Scope)[0], o.Seq-1)
		if now := was.seq; !was.absent && now != want || was.absent && want != 0 && want != now {
			b.r.fail("%s commits at %d over version %d of %s; its agent named %d", o.Tx, o.Seq, now, w.Scope, want)
		}
	}
	for _, p := range a.relies {
		b.relied(a, info, p)
	}
}

// overdue: only a journal that is missing for a session whose lease is alive makes the agent read again. Who comes
// later, on another folder, is told nothing; nor is one whose first start there ended between join and session.
func (b *bubble) overdue(h *host) {
	if b.r.truth.live[h.agent] != 0 {
		return
	}
	for _, c := range h.clients {
		delete(b.loose, c.talk)
		delete(b.given, c.asReader())
	}
}

// sealed completes what is known of a transaction by its footprint.
func (b *bubble) sealed(a *attempt, in *sequencer.Intent) {
	a.seal = in.Seal
	for _, e := range in.Seal.Effects {
		x := b.effect(a, e.Index)
		if e.Absent {
			b.absent(a, x)
			continue
		}
		x.scope, x.leaves, x.class, x.key = e.Scopes[0], foreign(e.Scopes[0]), e.Class, e.Key
		x.idle = x.eager() && !b.r.world.ran(x.token)
	}
	for _, w := range in.Seal.Shards {
		var v token
		if len(leavesOf(w.Scope)) == 0 {
			continue
		}
		if _, err := fmt.Sscan(string(w.Content), &v); err == nil && b.r.world.tokens[v].tx == "" {
			b.r.world.tokens[v].tx = in.Tx
		}
		if !containsWrite(a.writes, w.Scope) {
			a.writes = append(a.writes, w)
		}
	}
}

// carries notes what the conversation was told before a transaction, as its seal is tried for the first time: what it
// is told afterwards, the next one carries, however late this seal comes.
func (b *bubble) carries(in *sequencer.Intent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.attempt(in.Tx)
	if in.Begin != nil {
		a.begin = in.Begin
	}
	if a.carried {
		return
	}
	a.carried = true
	agent, _, _, _ := api.OwnerOf(in.Tx)
	b.rests(a, agent, in)
	for _, r := range b.loose[talk{agent, a.begin.Session}] {
		if r.View <= in.Base { // else it was told after the transaction began
			a.reads = append(a.reads, r)
		}
	}
}

func containsWrite(list []sequencer.ShardWrite, s sequencer.Scope) bool {
	for _, w := range list {
		if w.Scope == s {
			return true
		}
	}
	return false
}

// attempt is what really happened in a transaction.
func (b *bubble) attempt(id sequencer.TxID) *attempt {
	a := b.r.attempts[id]
	if a == nil {
		a = &attempt{id: id, begin: &sequencer.Begin{}, aborting: true}
		_, a.incarnation, _, _ = api.OwnerOf(id)
		b.r.attempts[id] = a
	}
	return a
}

// effect is a call of a transaction; its token is the value that it leaves.
func (b *bubble) effect(a *attempt, index uint32) *effect {
	for len(a.effects) <= int(index) {
		n := len(a.effects)
		a.effects = append(a.effects, &effect{index: n, token: b.r.world.newToken(a.id, n)})
	}
	return a.effects[index]
}

func (b *bubble) step() int { return int(time.Since(b.start) / realStep) }

func (b *bubble) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r.fail(format, args...)
}

func (b *bubble) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r.now = b.step()
	b.r.note(format, args...)
}

// sleep reports false when ctx ended first.
func (b *bubble) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// logger is of an agent: into the trace, or nowhere.
func (b *bubble) logger(name string) *slog.Logger {
	level := slog.LevelInfo
	if !b.opts.Trace {
		level = slog.LevelError + 1
	}
	return slog.New(slog.NewTextHandler(noteWriter{b, name}, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}

// noteWriter puts log lines into the trace.
type noteWriter struct {
	b    *bubble
	name string
}

func (w noteWriter) Write(p []byte) (int, error) {
	w.b.r.noteAt(w.b.step(), fmt.Sprintf("      %s: %s", w.name, bytes.TrimSpace(p)))
	return len(p), nil
}

func (b *bubble) folder(name string) string { return filepath.Join(b.dir, name) }
