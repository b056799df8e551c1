// Package view is the fold of a workspace's decisions as a sidecar reads it: shards with their former revisions,
// transactions, groups, rules. One view serves all agents of a process.
//
// Guarantees: a view is a gapless prefix of the decisions, verified by their chain hash; it answers no read before it
// has reached everything that its snapshot shows; a Revision that was handed out never changes; a wait is woken after
// the view has the decision it waits for.
//
// It knows no agent: nothing of sessions, of the journal or of tool calls is here. It decides nothing, and is told of
// decisions by one goroutine, Follow.
package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// ErrChain is returned by Sidecar.Run when a decision's chain hash is not the one that its predecessors lead to:
// this view and the rest of the world do not agree on what was decided, and nothing may be answered from it.
const ErrChain = api.ErrChain

// What a view remembers beyond the current shards; older entries are dropped.
const (
	keptChains    = 1 << 16
	keptTxs       = 1 << 14
	keptGroups    = 1 << 12
	keptRevisions = 16
	keptLeases    = 16
	keptTypes     = 1 << 10
)

// View is the fold of a workspace's decisions: always a gapless prefix. Readers run beside each other; one goroutine
// applies. It answers no read before it has reached everything that its snapshot shows.
type View struct {
	Workspace string
	oldBytes  int64 // bound on the contents of former revisions

	mu       sync.RWMutex
	started  bool
	seq      sequencer.Seq
	through  sequencer.Seq // Invariant: no read is answered while seq < through
	first    sequencer.Seq // smallest seq whose chain hash is known
	chain    sequencer.Hash
	time     sequencer.Tick
	floor    sequencer.Seq
	rules    sequencer.Rules
	rulesAt  bool // rules are those that decisions were made under; of version 0 the logic may be another
	logicAt  bool // their logic is, too
	leases   []formerLease
	shards   map[sequencer.Scope]*shard
	names    []sequencer.Scope // of shards; sorted when namesOK
	namesOK  bool
	types    map[string]bool                     // of scopes that decisions moved or granted
	odd      map[sequencer.Scope]sequencer.Scope // stored names that are not NFC, and their one spelling
	old      []sequencer.Scope                   // scopes of former revisions, oldest first
	oldSize  int64
	chains   []sequencer.Hash // by seq modulo keptChains
	txs      map[sequencer.TxID]*TxState
	txOrder  []sequencer.TxID            // by first appearance
	groups   map[string]sequencer.Writer // the branch that was chosen, and by which decision
	groupAge []string
	broken   error
	lacking  map[Lack]error            // contents put back that are to be fetched; why they were not yet
	unfolded map[sequencer.Scope]error // shards whose deltas rest on what is to be fetched; why it was not yet
	merged   []merged                  // decisions with deltas whose shards keep them one by one, oldest first

	Waits    waits
	Contents *contents // that are kept by reference
	line     line

	applying sync.Mutex // held around a decision and its watchers: between two of them, others come and go
	watchers map[*Watcher]struct{}
}

// Watcher is told of each decision that a view has applied, in order, by the goroutine that applies them.
type Watcher struct {
	Agent   string                     // is told first of what concerns it: a caller waits for that
	Begun   func()                     // the view has its snapshot
	Observe func(o *sequencer.Outcome) // the view has a decision
	Ended   func()                     // no wait goes on, here or at the watcher's; from any goroutine, more than once
}

// Watch adds a watcher, which is told of each decision that is applied from now on, until stop is called. When the
// view has its snapshot already, begun is called at once.
func (v *View) Watch(w Watcher) (stop func()) {
	v.applying.Lock()
	defer v.applying.Unlock()
	v.watchers[&w] = struct{}{}
	v.mu.RLock()
	started := v.started
	v.mu.RUnlock()
	if started {
		w.Begun()
	}
	return func() {
		v.applying.Lock()
		defer v.applying.Unlock()
		delete(v.watchers, &w)
	}
}

// begin starts the view from its snapshot and tells the watchers.
func (v *View) begin(s *topology.Snapshot) {
	v.applying.Lock()
	defer v.applying.Unlock()
	v.start(s)
	for w := range v.watchers {
		w.Begun()
	}
	v.Waits.Wake(WaitSeq)
}

// advance applies a decision, and tells the watchers of it if the view did not have it.
func (v *View) advance(o *sequencer.Outcome) (fresh bool, err error) {
	v.applying.Lock()
	defer v.applying.Unlock()
	if fresh, err = v.apply(o); err != nil || !fresh {
		return fresh, err
	}
	if o.Tx != "" { // before the watchers are told: who saw it in the line is told of it after that
		v.Leave(o.Tx)
	}
	for _, concerned := range []bool{true, false} {
		for w := range v.watchers {
			if (w.Agent == o.Agent) == concerned {
				w.Observe(o)
			}
		}
	}
	// After the watchers: what waits here may look at what they have noted. What joins from now on looks at that first.
	if v.Waits.some() {
		keys := []string{WaitSeq}
		for _, scope := range v.touched(o) {
			keys = append(keys, WaitShard(scope))
		}
		v.Waits.Wake(keys...)
	}
	return true, nil
}

// End ends all waits, now and from now on, also those of the watchers.
func (v *View) End() {
	v.Waits.Close()
	v.applying.Lock()
	defer v.applying.Unlock()
	for w := range v.watchers {
		w.Ended()
	}
}

// New is the view of a workspace before its snapshot. It keeps so many bytes of contents of former revisions, and of
// contents that are kept by reference.
func New(workspace string, oldBytes, contentBytes int64) *View {
	return &View{
		Contents:  newContents(contentBytes),
		Workspace: workspace, oldBytes: oldBytes, rules: sequencer.DefaultRules(),
		shards: map[sequencer.Scope]*shard{}, odd: map[sequencer.Scope]sequencer.Scope{},
		chains: make([]sequencer.Hash, 0, 1024),
		txs:    map[sequencer.TxID]*TxState{}, groups: map[string]sequencer.Writer{}, types: map[string]bool{},
		lacking: map[Lack]error{}, unfolded: map[sequencer.Scope]error{}, watchers: map[*Watcher]struct{}{},
	}
}

// start lets the view begin from a snapshot. It is called once.
func (v *View) start(s *topology.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.started {
		panic("sidecar: view of " + v.Workspace + " started twice")
	}
	v.started = true
	v.seq, v.through, v.first = s.Seq, max(s.Seq, s.Through), s.Seq
	v.chain, v.time, v.floor = s.Chain, s.Time, s.Floor
	v.rulesAt, v.logicAt = s.Seq == 0, s.Seq == 0
	for _, kind := range s.Types {
		v.types[kind] = true
	}
	for i := range s.Shards {
		row := &s.Shards[i]
		if len(row.Writes) > 0 {
			v.startMerged(row, s.Seq)
			continue
		}
		v.put(row.Scope, Revision{
			Version: row.Version, At: row.Version, Writer: row.Writer.Tx, By: row.Writer.Tx, Media: row.Type,
			Content: row.Content, Ref: row.Ref, From: row.Restored, Lacks: row.Lacks(),
		}, countOf(row))
	}
	v.remember(s.Seq, s.Chain)
}

// countOf is the count that a snapshot has of a shard; one of an older release has none.
func countOf(row *topology.ShardRow) *topology.WriteCount {
	if row.Count.Known() {
		return &row.Count
	}
	first := topology.CountFrom(row.Version)
	return &first
}

// apply adds the next decision. One that is already there changes nothing.
func (v *View) apply(o *sequencer.Outcome) (fresh bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken != nil {
		return false, v.broken
	}
	if o.Workspace != v.Workspace {
		return false, fmt.Errorf("decision %d of workspace %q came to the view of %q", o.Seq, o.Workspace, v.Workspace)
	}
	if o.Seq <= v.seq {
		return false, nil
	}
	if o.Seq != v.seq+1 {
		return false, fmt.Errorf("decision %d came to a view that is at %d", o.Seq, v.seq)
	}
	if want := o.ChainAfter(v.chain); want != o.Chain {
		v.broken = fmt.Errorf("%w: workspace %s, decision %d carries %x, its predecessors lead to %x",
			ErrChain, v.Workspace, o.Seq, o.Chain[:6], want[:6])
		return false, v.broken
	}
	v.seq, v.chain, v.time, v.floor = o.Seq, o.Chain, o.Time, max(v.floor, o.Floor)
	v.remember(o.Seq, o.Chain)
	v.learn(o)
	v.noteTypes(o)
	v.take(o)
	v.note(o)
	return true, nil
}

// learn takes over the rules and the choice of a branch.
func (v *View) learn(o *sequencer.Outcome) {
	if o.Rules != nil {
		if v.rulesAt || o.Rules.Version == 1 { // else those before are not known
			v.leases = append(v.leases, formerLease{o.Seq, o.Time, v.rules.LeaseTicks})
			v.leases = v.leases[max(0, len(v.leases)-keptLeases):]
		}
		v.rules, v.rulesAt, v.logicAt = *o.Rules, true, true
	} else if o.RulesVersion == 0 {
		v.rulesAt = true // all but the logic, which a workspace's first join may have set
	}
	if o.Kind != sequencer.OutcomeSelected {
		return
	}
	if _, known := v.groups[o.Group]; known {
		return
	}
	if len(v.groupAge) == keptGroups {
		delete(v.groups, v.groupAge[0])
		v.groupAge = append(v.groupAge[:0:0], v.groupAge[1:]...)
	}
	v.groups[o.Group] = sequencer.Writer{Seq: o.Seq, Tx: o.Winner}
	v.groupAge = append(v.groupAge, o.Group)
}

// formerLease is how long leases lasted up to a decision.
type formerLease struct {
	seq   sequencer.Seq
	time  sequencer.Tick
	ticks sequencer.Tick
}

// LeaseOf is how long from now an incarnation may believe that its lease lasts, in ticks, which it may have renewed
// last before the rules changed; zero: it is not known.
func (v *View) LeaseOf(inc sequencer.Seq) sequencer.Tick {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.rulesAt {
		return 0
	}
	most := v.rules.LeaseTicks
	for _, f := range v.leases {
		if left := f.time + f.ticks; f.seq > inc && left > v.time {
			most = max(most, left-v.time)
		}
	}
	return most
}

// SetRules takes over rules that were asked for, unless a change of them was seen meanwhile.
func (v *View) SetRules(r sequencer.Rules) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.logicAt {
		v.rules, v.rulesAt, v.logicAt = r, true, true
	}
}

func (v *View) remember(seq sequencer.Seq, chain sequencer.Hash) {
	if len(v.chains) < keptChains {
		v.chains = append(v.chains, chain)
		return
	}
	v.chains[uint64(seq-v.first)%keptChains] = chain
}

// chainAt is the chain hash at a seq, if it is remembered.
func (v *View) chainAt(seq sequencer.Seq) (sequencer.Hash, bool) {
	if seq > v.seq || seq < v.firstKept() {
		return sequencer.Hash{}, false
	}
	return v.chains[uint64(seq-v.first)%keptChains], true
}

func (v *View) firstKept() sequencer.Seq {
	if v.seq-v.first >= keptChains {
		return v.seq - keptChains + 1
	}
	return v.first
}

// chainFrom lists chain hashes beginning at a seq.
func (v *View) chainFrom(from sequencer.Seq, limit int) (links []chainLink, seq, first sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	first = v.firstKept()
	for s := max(from, first); s <= v.seq && len(links) < limit; s++ {
		h, _ := v.chainAt(s)
		links = append(links, chainLink{s, h})
	}
	return links, v.seq, first
}

type chainLink struct {
	seq  sequencer.Seq
	hash sequencer.Hash
}

// Ready says why no read can be answered; nil: it can.
func (v *View) Ready() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.readyLocked()
}

func (v *View) readyLocked() error {
	switch {
	case v.broken != nil:
		return v.broken
	case !v.started:
		return errors.New("the view has no snapshot yet")
	case v.seq < v.through:
		return fmt.Errorf("the view is at %d of the %d that its snapshot shows", v.seq, v.through)
	}
	return nil
}

// BrokenBy is what stopped the view for good; nil: nothing.
func (v *View) BrokenBy() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.broken
}

// At is the seq that the view has reached.
func (v *View) At() sequencer.Seq {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.seq
}

// Reach waits until the view has applied a seq.
func (v *View) Reach(ctx context.Context, seq sequencer.Seq) error {
	return v.Waits.Until(ctx, WaitSeq, func() bool { return v.At() >= seq })
}

// ReachWithin is reach, as long as within lasts.
func (v *View) ReachWithin(ctx context.Context, seq sequencer.Seq, within time.Duration) error {
	if v.At() >= seq {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := v.Reach(short, seq); err != nil {
		return NotReached(seq, v.At())
	}
	return nil
}

// NotReached is the problem of a request that names a seq which the view has not reached.
func NotReached(seq, at sequencer.Seq) error {
	return api.Problemf(api.CodeSeqFromFuture, "seq %d has not been reached: the view is at %d", seq, at)
}

// Settings are what early answers depend on.
type Settings struct {
	seq, Floor sequencer.Seq
	Time       sequencer.Tick // the log's, at that seq
	Rules      sequencer.Rules
	Known      bool // rules are known, except perhaps their logic
	Exact      bool // their logic, too
}

// TickLength is about how long one tick of the log's time takes.
const TickLength = 250 * time.Millisecond

// LeaseTime is how long a lease of the workspace lasts: by the default rules where the view does not know its own.
func (v *View) LeaseTime() time.Duration {
	return time.Duration(v.Settings().Rules.LeaseTicks) * TickLength
}

// FootprintLimit is how many scopes a footprint may name, with room for the loose reads that may join a seal as one of
// everything.
func (v *View) FootprintLimit() int { return int(v.Settings().Rules.MaxScopes) - 1 }

// Settings are those of the seq that the view has reached.
func (v *View) Settings() Settings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return Settings{v.seq, v.floor, v.time, v.rules, v.rulesAt, v.logicAt}
}

// Winner is the branch that was chosen in a group, if one was.
func (v *View) Winner(group string) (sequencer.TxID, bool) {
	chosen, ok := v.Choice(group)
	return chosen.Tx, ok
}

// Choice is winner with the seq of the choice.
func (v *View) Choice(group string) (sequencer.Writer, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	chosen, ok := v.groups[group]
	return chosen, ok
}

// Transactions are those that decisions have shown, in the order of their first appearance, and since when.
func (v *View) Transactions() (list []TxState, seq, since sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, id := range v.txOrder {
		list = append(list, *v.txs[id])
	}
	return list, v.seq, v.first
}

// noteTypes remembers of which types the scopes are that a decision moves or grants; v.mu is held.
func (v *View) noteTypes(o *sequencer.Outcome) {
	for _, w := range o.Writes {
		v.noteType(w.Scope)
	}
	for _, h := range o.Added {
		v.noteType(h.Scope)
	}
}

func (v *View) noteType(scope sequencer.Scope) {
	if len(v.types) < keptTypes { // what a workspace calls its things is a short list, or not a list of types
		v.types[scope.Type()] = true
	}
}

// TypesSeen are the types of scopes that decisions have moved or granted.
func (v *View) TypesSeen() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.types))
}

// AddWants adds those of more that are not there yet; the order stays.
func AddWants(to, more []sequencer.Want) []sequencer.Want {
	for _, w := range more {
		if !slices.Contains(to, w) {
			to = append(to, w)
		}
	}
	return to
}

// ReleasedAll reports whether a decision ends a release, or an undoing, that left no residue.
func ReleasedAll(o *sequencer.Outcome) bool {
	return o.Kind == sequencer.OutcomeSettled && o.Retraction == "" && len(o.Residue) == 0
}

// StateOf is how /v1 calls a decision: committed or aborted.
func StateOf(o *sequencer.Outcome) string {
	if o.Kind == sequencer.OutcomeCommitted {
		return api.StateCommitted
	}
	return api.StateAborted
}

// NotReady is the problem of a request that the view cannot answer: chain_broken is for good, not_ready is not.
func NotReady(err error) error {
	if p := api.AsProblem(err); p.Code == api.CodeChain {
		return p
	}
	return api.Problemf(api.CodeNotReady, "%v", err)
}

// Brief is what is remembered of a decision: not the contents and scopes, which may be large.
func Brief(o *sequencer.Outcome) *sequencer.Outcome {
	out := *o
	out.Shards, out.Writes, out.Added, out.Ended, out.May, out.RestsOn = nil, nil, nil, nil, nil, nil
	return &out
}
