// Package audit verifies the decisions of one workspace from records alone: that they are what the fold makes of the
// intents, that each follows from the one before it by its chain hash, and that the published bytes are those that the
// processors have signed. It reads records from a Source and does no other I/O.
package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Record is a record of one of the three topics, as it stands there.
type Record struct {
	Offset    int64
	Value     []byte
	Signature []byte // of a record of hence.seals: its header
}

// Place says what of a workspace's partition of a topic a source has.
type Place struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start"` // records before it are deleted
	End       int64 `json:"end"`   // records from here on are not in the source
	Absent    bool  `json:"absent,omitempty"`
}

// Source gives the records of one workspace.
type Source interface {
	// Head says which workspace it is of, and of which log: the id that Kafka gave hence.intents.
	Head() (workspace, log string)
	// Place says what Each will give of a topic.
	Place(topic string) Place
	// Each calls f for each of the workspace's records in a topic, in order, with every copy.
	Each(ctx context.Context, topic string, f func(Record) error) error
}

// The kinds of findings: what of a record does not hold.
const (
	KindUnreadable = "unreadable" // it is no decision, or no seal
	KindChanged    = "changed"    // its content is not the one that belongs there
	KindBytes      = "bytes"      // its content holds, its bytes are not those that were published
	KindMissing    = "missing"    // it is not there
	KindSecond     = "second"     // another decision with the same seq
	KindOrder      = "order"      // it stands behind a later one
	KindSignature  = "signature"  // a seal is not signed by a trusted key: its decisions may have been changed with it
	KindLink       = "link"       // the seal before it is not there
	KindUnsealed   = "unsealed"   // no seal of a trusted key covers any decision
	KindFile       = "file"       // the bundle is not as it was written
)

// Finding is one thing that does not hold.
type Finding struct {
	Kind      string        `json:"kind"`
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"` // of the record; -1: it is not there
	Seq       sequencer.Seq `json:"seq"`    // the first decision that it is about
	To        sequencer.Seq `json:"to"`     // the last one
	Text      string        `json:"text"`
}

// Range is a range of decisions.
type Range struct {
	From sequencer.Seq `json:"from"`
	To   sequencer.Seq `json:"to"`
}

// Used is a key that has signed seals.
type Used struct {
	Key     string        `json:"key"` // its SHA-256, hexadecimal
	Trusted bool          `json:"trusted"`
	Seals   int           `json:"seals"`
	Through sequencer.Seq `json:"through"`
}

// Report is what an audit found.
type Report struct {
	Workspace  string        `json:"workspace"`
	Log        string        `json:"log"`
	Decisions  Range         `json:"decisions"`            // those that are there
	Records    int           `json:"records"`              // of hence.decisions
	Copies     int           `json:"copies"`               // of them that repeat a decision
	Unvouched  int           `json:"unvouched_copies"`     // of them with bytes that no seal has, and an equal decision
	Intents    int           `json:"intents"`              // records
	Recomputed Range         `json:"recomputed"`           // decisions that were compared with the fold's
	NotFolded  string        `json:"not_folded,omitempty"` // why not all were
	Seals      int           `json:"seals"`                // records
	Vouched    sequencer.Seq `json:"vouched"`              // up to where a signed chain hash covers every decision
	Unsealed   []Range       `json:"unsealed,omitempty"`   // decisions whose bytes no signed seal covers
	Keys       []Used        `json:"keys,omitempty"`       //
	Notes      []string      `json:"notes,omitempty"`      // what is no finding and ought to be known
	Findings   []Finding     `json:"findings"`             // by seq
	More       int           `json:"more_findings"`        // that are not listed
	Unchecked  bool          `json:"signatures_unchecked"` // no trusted keys were given
}

// maxNotes bounds what a report lists beside its findings.
const maxNotes = 100

// maxEarly bounds the decisions that wait for the one before them to be read.
const maxEarly = 4096

// Run audits a source, and lists so many findings at most; zero: all. trust nil leaves the signatures alone. An error
// says that the source could not be read.
func Run(ctx context.Context, src Source, trust Keys, limit int) (*Report, error) {
	a := &auditor{src: src, trust: trust, seen: map[sequencer.Seq][]candidate{}, early: map[sequencer.Seq]early{}}
	a.report.Workspace, a.report.Log = src.Head()
	a.report.Unchecked = trust == nil
	// Seals first: which bytes were published decides between two copies that differ.
	if err := src.Each(ctx, topology.TopicSeals, a.takeSeal); err != nil {
		return nil, err
	}
	if err := src.Each(ctx, topology.TopicDecisions, a.takeDecision); err != nil {
		return nil, err
	}
	if err := a.fold(ctx); err != nil {
		return nil, err
	}
	a.judge()
	if a.report.Records == 0 && a.report.Intents == 0 && len(a.found) == 0 {
		return nil, Nothing(a.report.Workspace)
	}
	return a.finish(limit), nil
}

// Nothing says that a log has nothing of a workspace, and why that may be.
func Nothing(workspace string) error {
	return fmt.Errorf("the log has no decision of a workspace %s: is it the right name, and is --partitions that of the "+
		"cluster?", workspace)
}

// auditor is one audit. It keeps some 150 bytes of each decision, and 40 of each sealed one.
type auditor struct {
	src    Source
	trust  Keys
	report Report

	groups  map[string]*group
	foreign bool // a seal of another log was met
	seals   []*sealed

	first []candidate // by seq, from lowest on: the first copy; none: offset -1
	// seen are further copies that are not equal to the first, by seq.
	seen   map[sequencer.Seq][]candidate
	lowest sequencer.Seq // of first
	early  map[sequencer.Seq]early
	found  []Finding
}

// candidate is a decision that is there under a seq.
type candidate struct {
	offset int64
	digest sequencer.Hash // of the record's bytes
	body   sequencer.Hash // of the decision: two copies are equal when theirs are
	chain  sequencer.Hash // as it says itself
	made   sequencer.Hash // the chain hash that it has after the one before it; zero: that one is not there
	behind sequencer.Hash // the chain hash of the one that it follows; zero: of none that is there
	input  int64          // offset of its intent
	folded bool           // the fold has made the same
	there  bool
}

// early is a decision that stands before the one that it follows.
type early struct {
	outcomes []*sequencer.Outcome
}

func (a *auditor) find(f Finding) {
	f.Partition = a.src.Place(f.Topic).Partition
	f.To = max(f.To, f.Seq)
	a.found = append(a.found, f)
}

func (a *auditor) note(format string, args ...any) {
	if len(a.report.Notes) < maxNotes {
		a.report.Notes = append(a.report.Notes, fmt.Sprintf(format, args...))
	}
}

// at is the first copy of a decision; nil: there is none.
func (a *auditor) at(seq sequencer.Seq) *candidate {
	if seq < a.lowest || seq >= a.lowest+sequencer.Seq(len(a.first)) || len(a.first) == 0 {
		return nil
	}
	if c := &a.first[seq-a.lowest]; c.there {
		return c
	}
	return nil
}

// maxJump bounds what a record may claim to be ahead of the others: space is made for all decisions between.
const maxJump = 1 << 20

func (a *auditor) takeDecision(r Record) error {
	a.report.Records++
	o, err := topology.DecodeCloudEvent(r.Value)
	next := a.lowest + sequencer.Seq(len(a.first))
	switch {
	case err != nil:
		a.find(Finding{Kind: KindUnreadable, Topic: topology.TopicDecisions, Offset: r.Offset, Seq: next,
			Text: fmt.Sprintf("the record is no decision: %v", err)})
		return nil
	case o.Workspace != a.report.Workspace:
		a.find(Finding{Kind: KindChanged, Topic: topology.TopicDecisions, Offset: r.Offset, Seq: next,
			Text: fmt.Sprintf("the record is under this workspace's key, and speaks of %q", o.Workspace)})
		return nil
	case len(a.first) > 0 && (o.Seq >= next+maxJump || o.Seq+maxJump < a.lowest) || o.Seq == 0:
		a.find(Finding{Kind: KindChanged, Topic: topology.TopicDecisions, Offset: r.Offset, Seq: next,
			Text: fmt.Sprintf("the record says that it is decision %d, and stands behind %d", o.Seq, next-1)})
		return nil
	}
	body, err := topology.EncodeOutcome(o)
	if err != nil { // it was decoded
		return err
	}
	c := candidate{offset: r.Offset, digest: sha256.Sum256(r.Value), body: sha256.Sum256(body), chain: o.Chain,
		input: o.Offset, there: true}
	a.follow(&c, o)
	a.enter(o.Seq, c)
	// Those that stood before the one that they follow.
	if w, ok := a.early[o.Seq+1]; ok {
		delete(a.early, o.Seq+1)
		for _, later := range w.outcomes {
			a.refollow(later, o.Chain)
		}
	}
	return nil
}

// follow computes the chain hash that a decision has behind the one before it.
func (a *auditor) follow(c *candidate, o *sequencer.Outcome) {
	before := a.at(o.Seq - 1)
	switch {
	case o.Seq == 1:
		c.made = o.ChainAfter(sequencer.Hash{})
	case before != nil:
		chains := []sequencer.Hash{before.chain}
		for _, other := range a.seen[o.Seq-1] {
			chains = append(chains, other.chain)
		}
		if before.made != (sequencer.Hash{}) {
			chains = append(chains, before.made) // it may say a wrong chain hash while its content holds
		}
		for _, c.behind = range chains {
			if c.made = o.ChainAfter(c.behind); c.made == c.chain {
				return
			}
		}
		c.behind = sequencer.Hash{}
	case len(a.early) < maxEarly:
		a.early[o.Seq] = early{append(a.early[o.Seq].outcomes, o)}
	}
}

// refollow is follow for a decision whose former one has come behind it.
func (a *auditor) refollow(o *sequencer.Outcome, before sequencer.Hash) {
	set := func(c *candidate) {
		if c.chain == o.Chain && c.made == (sequencer.Hash{}) {
			if c.made = o.ChainAfter(before); c.made == c.chain {
				c.behind = before
			}
		}
	}
	if c := a.at(o.Seq); c != nil {
		set(c)
	}
	for i := range a.seen[o.Seq] {
		set(&a.seen[o.Seq][i])
	}
}

// enter keeps a decision under its seq.
func (a *auditor) enter(seq sequencer.Seq, c candidate) {
	switch {
	case len(a.first) == 0:
		a.lowest, a.first = seq, append(a.first, c)
		return
	case seq < a.lowest:
		a.first = append(make([]candidate, a.lowest-seq), a.first...)
		a.lowest = seq
	}
	for seq >= a.lowest+sequencer.Seq(len(a.first)) {
		a.first = append(a.first, candidate{})
	}
	f := &a.first[seq-a.lowest]
	if !f.there {
		*f = c
		return
	}
	a.report.Copies++
	if f.digest == c.digest || slices.ContainsFunc(a.seen[seq], func(o candidate) bool { return o.digest == c.digest }) {
		return
	}
	a.seen[seq] = append(a.seen[seq], c)
}

// fold recomputes the decisions from the intents, as far as these are there.
func (a *auditor) fold(ctx context.Context) error {
	place := a.src.Place(topology.TopicIntents)
	if place.Absent {
		a.report.NotFolded = "the intents are not there"
		return nil
	}
	whole := place.Start == 0
	if one := a.at(1); one != nil && one.input >= place.Start {
		whole = true // each decision names its intent: nothing of this workspace was before
	}
	if !whole {
		a.report.NotFolded = fmt.Sprintf("the intents before offset %d of %s/%d are deleted", place.Start,
			topology.TopicIntents, place.Partition)
		return nil
	}
	r, lost := sequencer.NewReplica(a.report.Workspace), false
	return a.src.Each(ctx, topology.TopicIntents, func(rec Record) error {
		a.report.Intents++
		if lost {
			return nil
		}
		var in *sequencer.Intent
		if len(rec.Value) <= topology.MaxIntentBytes {
			var err error
			in, err = topology.DecodeIntent(rec.Value) // nil: a step of nothing, as for the processors
			if errors.Is(err, topology.ErrForeignVersion) {
				a.report.NotFolded, lost = fmt.Sprintf("the intent at offset %d: %v", rec.Offset, err), true
				return nil
			}
		}
		applied, err := step(r, rec.Offset, in)
		if err != nil {
			// Another release knows what follows; this one must not say that the decisions are wrong.
			a.report.NotFolded, lost = fmt.Sprintf("the intent at offset %d: %v", rec.Offset, err), true
			return nil
		}
		for i := range applied.Outcomes {
			if o := &applied.Outcomes[i]; o.Offset == rec.Offset { // others repeat what was decided before
				a.compare(o)
			}
		}
		r.Acknowledged(r.Fold().Seq())
		return nil
	})
}

// step applies a record. A panic is an error: a forged intent must not end the audit.
func step(r *sequencer.Replica, offset int64, in *sequencer.Intent) (applied sequencer.Applied, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the fold failed: %v", v)
		}
	}()
	return r.Apply(offset, in)
}

// compare holds what the fold has made against what was published.
func (a *auditor) compare(o *sequencer.Outcome) {
	b, err := topology.EncodeOutcome(o)
	if err != nil {
		return // it was not published either: the workspace stopped there
	}
	body := sequencer.Hash(sha256.Sum256(b))
	if c := a.at(o.Seq); c != nil {
		c.folded = c.body == body
		if !c.folded && c.made == (sequencer.Hash{}) {
			c.made = o.Chain // the one before it is not there, and the fold knows what it would be
		}
	}
	for i := range a.seen[o.Seq] {
		c := &a.seen[o.Seq][i]
		c.folded = c.body == body
	}
	if a.report.Recomputed.From == 0 {
		a.report.Recomputed.From = o.Seq
	}
	a.report.Recomputed.To = o.Seq
}

func (a *auditor) finish(limit int) *Report {
	r := &a.report
	// By seq; of one decision the record itself before the seal over it, which has its consequence.
	slices.SortStableFunc(a.found, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(rank(x.Kind), rank(y.Kind)))
	})
	if b, ok := a.src.(*Bundle); ok {
		for _, name := range b.Damaged { // last: the record itself says more, where one does not hold
			a.found = append(a.found, Finding{Kind: KindFile, Topic: name, Offset: -1,
				Text: "the file is not as the manifest has it: the bundle was changed after it was written"})
		}
	}
	if r.Findings = a.found; r.Findings == nil {
		r.Findings = []Finding{}
	}
	if limit > 0 && len(a.found) > limit {
		r.Findings, r.More = a.found[:limit], len(a.found)-limit
	}
	return r
}

func rank(kind string) int {
	switch kind {
	case KindSignature, KindLink, KindUnsealed:
		return 1
	}
	return 0
}
