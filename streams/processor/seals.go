package processor

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// A group that has a key seals what it has published: every SealEvery decisions of a workspace, or SealAfter after the
// first of fewer, a signed record with the hash of each published record goes to hence.seals (topology.LogSeal). It is
// made from what this owner has handed to Kafka and Kafka has acknowledged, never from what it reads back: what is
// changed between the two would be signed.
//
// A seal is a true statement about records that are there, whatever other writers add. So nothing here fences:
// what a zombie seals late is a branch of the chain that ends, and an audit takes it for what it is.

const (
	sealIn       = 250 * time.Millisecond // between two looks at what is to be sealed
	sealAgain    = 5 * time.Second        // after a seal was refused, or the last one could not be looked up
	unsealedMost = 1 << 14                // decisions of a workspace that wait to be sealed
	sealsBack    = 1 << 10                // records before the end, of those that are looked at for the last seals
)

// partSeals is the name of a note in a health.
const partSeals = "seals"

// partitionSeals is what an owner knows of the seals of one partition. Its methods may be called on nil, which seals
// nothing.
type partitionSeals struct {
	*seqProcessor
	partition int32
	key       sequencer.Hash // that signs

	mu    sync.Mutex // apart from the partition's: acknowledgements arrive while a callback has that
	found bool       // the workspaces' last seals are looked up
	after time.Time  // no seal is tried before
	open  map[string]*openSeal
}

// openSeal is what is to be sealed of a workspace.
// Invariant: published has the decisions from `from` on, without gaps.
type openSeal struct {
	to        sequencer.Seq  // that the last seal covers; zero: there is none
	former    sequencer.Hash // of it; zero: the next one begins a chain
	from      sequencer.Seq
	published []published
	since     time.Time // when the first of them was published
	sending   bool      // Invariant: one seal of a workspace at a time: the next names it, and it might be refused
}

type published struct {
	digest sequencer.Hash // of the record's value
	chain  sequencer.Hash // of the decision
}

func newPartitionSeals(s *seqProcessor, partition int32) *partitionSeals {
	public, _ := s.cfg.SealKey.Public().(ed25519.PublicKey)
	return &partitionSeals{seqProcessor: s, partition: partition, key: topology.LogSealKey(public),
		open: make(map[string]*openSeal)}
}

// published notes a decision that Kafka has acknowledged. It is behind the decision's way, and costs it a SHA-256.
func (s *partitionSeals) published(workspace string, seq sequencer.Seq, value []byte, chain sequencer.Hash) {
	if s == nil {
		return
	}
	p := published{digest: sha256.Sum256(value), chain: chain}
	// Acknowledgements and the sealing goroutine share what is open.
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[workspace]
	if o == nil {
		o = new(openSeal)
		s.open[workspace] = o
	}
	next := o.from + sequencer.Seq(len(o.published))
	switch {
	case seq <= o.to || len(o.published) > 0 && seq < next:
		return // a copy: the first one that was acknowledged is sealed
	case len(o.published) == 0 || seq > next:
		// What lies between was published by a former owner, which has sealed it or not: this one has not seen its bytes.
		o.from, o.published, o.since = seq, nil, s.cfg.Clock.Now()
	}
	if o.published = append(o.published, p); len(o.published) > unsealedMost {
		// Seals are refused for long: the oldest stay without one, which the next seal says by where it begins.
		o.from, o.published = o.from+sequencer.Seq(s.cfg.SealEvery), o.published[s.cfg.SealEvery:]
	}
}

// keepSeals seals what is due in the owned partitions until ctx ends.
func (s *seqProcessor) keepSeals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		// Apart from the housekeeper: a signature, or a look-up of the last seals, must not keep ticks waiting.
		case <-s.cfg.Clock.After(sealIn):
		case <-s.more: // at a look each, one seal of a workspace, a busy one would be left without
		}
		for _, p := range s.owned() {
			p.seals.keep(ctx)
		}
	}
}

// keep seals what is due.
func (s *partitionSeals) keep(ctx context.Context) {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	waits, found := len(s.open) == 0 || now.Before(s.after), s.found
	s.mu.Unlock()
	if waits {
		return
	}
	if !found {
		// Once: no other process of this group seals while this owner has the partition, a zombie aside.
		if err := s.lookUp(ctx); err != nil {
			if ctx.Err() == nil {
				s.failed(err)
			}
			return
		}
	}
	s.write(func(o *openSeal) bool {
		return len(o.published) >= s.cfg.SealEvery || now.Sub(o.since) >= s.cfg.SealAfter
	})
}

// writeLast seals what is left: the partition is being given up.
func (s *partitionSeals) writeLast() {
	if s == nil {
		return
	}
	s.mu.Lock()
	found := s.found
	s.mu.Unlock()
	if found { // else the seal would begin a chain beside the one that may be there
		s.write(func(*openSeal) bool { return true })
	}
}

// write seals the workspaces that are due, each once.
func (s *partitionSeals) write(due func(*openSeal) bool) {
	s.mu.Lock()
	records := make(map[string]*topology.LogSeal)
	for name, o := range s.open {
		if n := min(len(o.published), s.cfg.SealEvery); n > 0 && !o.sending && due(o) {
			o.sending = true
			records[name] = s.sealOf(name, o, n)
		}
	}
	s.mu.Unlock() // sending may wait for space in the producer, and acknowledgements take the lock
	for name, seal := range records {
		value, err := topology.EncodeLogSeal(seal)
		if err != nil { // the names were written before
			s.sealed(name, seal, nil, err)
			continue
		}
		rec := &kgo.Record{Topic: topology.TopicSeals, Key: []byte(name), Value: value, Headers: []kgo.RecordHeader{
			{Key: topology.HeaderSignature, Value: topology.SignLogSeal(s.cfg.SealKey, value)}}}
		s.out.send(rec, func(_ *kgo.Record, err error) { s.sealed(name, seal, value, err) })
	}
}

// sealOf is the seal of the first decisions that are open; mu is held.
func (s *partitionSeals) sealOf(workspace string, o *openSeal, n int) *topology.LogSeal {
	seal := &topology.LogSeal{Workspace: workspace, Replica: s.replica(), Log: s.nats.log, From: o.from,
		To: o.from + sequencer.Seq(n-1), Former: o.former, Chain: o.published[n-1].chain, Key: s.key,
		AtMs: s.cfg.Clock.Now().UnixMilli(), Instance: s.cfg.Instance, Digests: make([]sequencer.Hash, n)}
	for i := range seal.Digests {
		seal.Digests[i] = o.published[i].digest
	}
	return seal
}

// sealed notes that Kafka has a seal, or has refused it.
func (s *partitionSeals) sealed(workspace string, seal *topology.LogSeal, value []byte, err error) {
	if err != nil {
		s.mu.Lock()
		s.open[workspace].sending = false
		// It may be there all the same: the next one must name it then, and must not cover the same decisions.
		s.found = false
		s.mu.Unlock()
		s.failed(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[workspace]
	o.sending = false
	if o.past(seal.To, topology.HashLogSeal(value), s.cfg.Clock.Now()); len(o.published) < s.cfg.SealEvery {
		return
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// past goes on behind a seal.
func (o *openSeal) past(to sequencer.Seq, hash sequencer.Hash, now time.Time) {
	if to < o.to {
		return
	}
	o.to, o.former = to, hash
	if to >= o.from {
		n := min(int(to-o.from)+1, len(o.published))
		o.from, o.published, o.since = to+1, o.published[n:], now
	}
}

// failed says that nothing is sealed for now. Decisions go on: a seal is a later look at them.
func (s *partitionSeals) failed(err error) {
	s.mu.Lock()
	s.after = s.cfg.Clock.Now().Add(sealAgain)
	s.mu.Unlock()
	s.cfg.Logger.Error("decisions are published and not sealed: an audit will not vouch for their bytes", "partition",
		s.partition, "again_in", sealAgain, "error", err)
	s.cfg.Health.Note(partSeals, fmt.Sprintf("partition %d: decisions are published and not sealed: %v: allow this user "+
		"to read and write %s", s.partition, err, topology.TopicSeals))
}

// lookUp finds the last seal of each workspace that this group has signed with this key, so that the next one
// continues its chain. Others' seals are no place to go on from: any writer of the topic could stop the sealing by
// one that covers decisions which are not there yet.
func (s *partitionSeals) lookUp(ctx context.Context) error {
	start, err := streams.StartOffset(ctx, s.out.client, topology.TopicSeals, s.partition)
	if err != nil {
		return err
	}
	end, err := streams.EndOffset(ctx, s.out.client, topology.TopicSeals, s.partition)
	if err != nil {
		return err
	}
	last := make(map[string]*kgo.Record)
	// Bounded: a workspace whose last seal is further back begins a chain, which an audit says.
	err = s.cfg.ReadRange(ctx, topology.TopicSeals, s.partition, max(start, end-sealsBack), end,
		func(r *kgo.Record) error {
			if s.own(r) != nil {
				last[string(r.Key)] = r
			}
			return nil
		})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, r := range last {
		o := s.open[name]
		if o == nil {
			o = new(openSeal)
			s.open[name] = o
		}
		o.past(s.own(r).To, topology.HashLogSeal(r.Value), s.cfg.Clock.Now())
	}
	s.found = true
	s.cfg.Health.Unnote(partSeals)
	return nil
}

// own is the seal in a record, if this group has signed it with this key; else nil.
func (s *partitionSeals) own(r *kgo.Record) *topology.LogSeal {
	seal, err := topology.DecodeLogSeal(r.Value)
	if err != nil || seal.Workspace != string(r.Key) || seal.Replica != s.replica() || seal.Log != s.nats.log ||
		seal.Key != s.key {
		return nil
	}
	public, _ := s.cfg.SealKey.Public().(ed25519.PublicKey)
	if !topology.SignedLogSeal(public, r.Value, headersOf(r)[topology.HeaderSignature]) {
		return nil
	}
	return seal
}
