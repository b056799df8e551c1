package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// ErrChain is returned by Sidecar.Run when a decision's chain hash is not the one that its predecessors lead to:
// this view and the rest of the world do not agree on what was decided, and nothing may be answered from it.
var ErrChain = api.NewSentinel("sidecar: the chain of decisions is broken", api.CodeChain,
	"%v: stop this sidecar and look at the log")

// What a view remembers beyond the current shards; older entries are dropped.
const (
	keptChains    = 1 << 16
	keptTxs       = 1 << 14
	keptGroups    = 1 << 12
	keptRevisions = 16
	keptLeases    = 16
	keptTypes     = 1 << 10
)

// view is the fold of a workspace's decisions: always a gapless prefix. Readers run beside each other; one goroutine
// applies. It answers no read before it has reached everything that its snapshot shows.
type view struct {
	workspace string
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
	txs      map[sequencer.TxID]*txState
	txOrder  []sequencer.TxID            // by first appearance
	groups   map[string]sequencer.Writer // the branch that was chosen, and by which decision
	groupAge []string
	broken   error
	lacking  map[lack]error // contents that retractions put back and that are to be fetched; why they were not yet

	waits    waits
	contents *contents // that are kept by reference
	watchers []watcher // Invariant: set before follow; told of each decision once the view has it
}

// watcher is told of each decision that a view has applied, in order, by the goroutine that applies them.
type watcher struct {
	begun   func()                                     // the view has its snapshot
	observe func(o *sequencer.Outcome) (wake []string) // the view has a decision; wake are the keys of the waits to wake
}

// watch adds somebody who is told of decisions. It is called before the view is followed.
func (v *view) watch(begun func(), observe func(o *sequencer.Outcome) (wake []string)) {
	v.watchers = append(v.watchers, watcher{begun, observe})
}

// newView is the view of a workspace before its snapshot. It keeps so many bytes of contents of former revisions, and of
// contents that are kept by reference.
func newView(workspace string, oldBytes, contentBytes int64) *view {
	return &view{
		contents:  newContents(contentBytes),
		workspace: workspace, oldBytes: oldBytes, rules: sequencer.DefaultRules(),
		shards: map[sequencer.Scope]*shard{}, odd: map[sequencer.Scope]sequencer.Scope{},
		chains: make([]sequencer.Hash, 0, 1024),
		txs:    map[sequencer.TxID]*txState{}, groups: map[string]sequencer.Writer{}, types: map[string]bool{},
		lacking: map[lack]error{},
	}
}

// start lets the view begin from a snapshot. It is called once.
func (v *view) start(s *topology.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.started {
		panic("sidecar: view of " + v.workspace + " started twice")
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
		v.put(row.Scope, revision{
			version: row.Version, at: row.Version, writer: row.Writer.Tx, by: row.Writer.Tx, media: row.Type,
			content: row.Content, ref: row.Ref, from: row.Restored, lacks: row.Lacks(),
		})
	}
	v.remember(s.Seq, s.Chain)
}

// apply adds the next decision. One that is already there changes nothing.
func (v *view) apply(o *sequencer.Outcome) (fresh bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken != nil {
		return false, v.broken
	}
	if o.Workspace != v.workspace {
		return false, fmt.Errorf("decision %d of workspace %q came to the view of %q", o.Seq, o.Workspace, v.workspace)
	}
	if o.Seq <= v.seq {
		return false, nil
	}
	if o.Seq != v.seq+1 {
		return false, fmt.Errorf("decision %d came to a view that is at %d", o.Seq, v.seq)
	}
	if want := o.ChainAfter(v.chain); want != o.Chain {
		v.broken = fmt.Errorf("%w: workspace %s, decision %d carries %x, its predecessors lead to %x",
			ErrChain, v.workspace, o.Seq, o.Chain[:6], want[:6])
		return false, v.broken
	}
	v.seq, v.chain, v.time, v.floor = o.Seq, o.Chain, o.Time, max(v.floor, o.Floor)
	v.remember(o.Seq, o.Chain)
	v.learn(o)
	v.noteTypes(o)
	for i := range o.Shards {
		v.put(o.Shards[i].Scope, revisionOf(o, &o.Shards[i]))
	}
	v.note(o)
	return true, nil
}

// learn takes over the rules and the choice of a branch.
func (v *view) learn(o *sequencer.Outcome) {
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

// leaseOf is how long from now an incarnation may believe that its lease lasts, in ticks, which it may have renewed
// last before the rules changed; zero: it is not known.
func (v *view) leaseOf(inc sequencer.Seq) sequencer.Tick {
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

// setRules takes over rules that were asked for, unless a change of them was seen meanwhile.
func (v *view) setRules(r sequencer.Rules) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.logicAt {
		v.rules, v.rulesAt, v.logicAt = r, true, true
	}
}

func (v *view) remember(seq sequencer.Seq, chain sequencer.Hash) {
	if len(v.chains) < keptChains {
		v.chains = append(v.chains, chain)
		return
	}
	v.chains[uint64(seq-v.first)%keptChains] = chain
}

// chainAt is the chain hash at a seq, if it is remembered.
func (v *view) chainAt(seq sequencer.Seq) (sequencer.Hash, bool) {
	if seq > v.seq || seq < v.firstKept() {
		return sequencer.Hash{}, false
	}
	return v.chains[uint64(seq-v.first)%keptChains], true
}

func (v *view) firstKept() sequencer.Seq {
	if v.seq-v.first >= keptChains {
		return v.seq - keptChains + 1
	}
	return v.first
}

// chainFrom lists chain hashes beginning at a seq.
func (v *view) chainFrom(from sequencer.Seq, limit int) (links []chainLink, seq, first sequencer.Seq) {
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

// ready says why no read can be answered; nil: it can.
func (v *view) ready() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.readyLocked()
}

func (v *view) readyLocked() error {
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

// brokenBy is what stopped the view for good; nil: nothing.
func (v *view) brokenBy() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.broken
}

// at is the seq that the view has reached.
func (v *view) at() sequencer.Seq {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.seq
}

// reach waits until the view has applied a seq.
func (v *view) reach(ctx context.Context, seq sequencer.Seq) error {
	return v.waits.until(ctx, waitSeq, func() bool { return v.at() >= seq })
}

// reachWithin is reach, as long as within lasts.
func (v *view) reachWithin(ctx context.Context, seq sequencer.Seq, within time.Duration) error {
	if v.at() >= seq {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := v.reach(short, seq); err != nil {
		return notReached(seq, v.at())
	}
	return nil
}

func notReached(seq, at sequencer.Seq) error {
	return api.Problemf(api.CodeSeqFromFuture, "seq %d has not been reached: the view is at %d", seq, at)
}

// settings are what early answers depend on.
type settings struct {
	seq, floor sequencer.Seq
	rules      sequencer.Rules
	known      bool // rules are known, except perhaps their logic
	exact      bool // their logic, too
}

func (v *view) settings() settings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return settings{v.seq, v.floor, v.rules, v.rulesAt, v.logicAt}
}

// winner is the branch that was chosen in a group, if one was.
func (v *view) winner(group string) (sequencer.TxID, bool) {
	chosen, ok := v.choice(group)
	return chosen.Tx, ok
}

// choice is winner with the seq of the choice.
func (v *view) choice(group string) (sequencer.Writer, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	chosen, ok := v.groups[group]
	return chosen, ok
}

// transactions are those that decisions have shown, in the order of their first appearance, and since when.
func (v *view) transactions() (list []txState, seq, since sequencer.Seq) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, id := range v.txOrder {
		list = append(list, *v.txs[id])
	}
	return list, v.seq, v.first
}
