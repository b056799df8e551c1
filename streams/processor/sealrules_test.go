package processor

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// setClock stands at a time.
type setClock struct{ now time.Time }

func (c *setClock) Now() time.Time                       { return c.now }
func (c *setClock) After(time.Duration) <-chan time.Time { return nil }

// toSeal is a partition that seals every four decisions, and publishes into nothing.
func toSeal() (*partitionSeals, *setClock) {
	clock := &setClock{now: time.Unix(1000, 0)}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	cfg := streams.Config{Clock: clock, SealEvery: 4, SealKey: key, Health: new(streams.Health),
		Logger: slog.New(slog.DiscardHandler)}
	p := &seqProcessor{base: &base{cfg: cfg}, nats: &natsOut{log: "log"}, more: make(chan struct{}, 1)}
	return newPartitionSeals(p, 1), clock
}

func (s *partitionSeals) publishAll(seqs ...sequencer.Seq) *openSeal {
	for _, seq := range seqs {
		s.published("shop", seq, []byte{byte(seq)}, sequencer.Hash{byte(seq)})
	}
	return s.open["shop"]
}

func (o *openSeal) holds(from sequencer.Seq, n int) bool {
	for i, p := range o.published {
		if p.chain[0] != byte(from)+byte(i) {
			return false
		}
	}
	return o.from == from && len(o.published) == n
}

// What is open has no gaps and no copies: a seal counts its decisions from the first one.
func TestOpenSealHasNoGaps(t *testing.T) {
	s, clock := toSeal()
	if o := s.publishAll(3, 4, 4, 3, 5); !o.holds(3, 3) {
		t.Errorf("with copies: %+v", o)
	}
	clock.now = clock.now.Add(time.Minute)
	o := s.publishAll(9, 10)
	if !o.holds(9, 2) || o.since != clock.now {
		t.Errorf("behind what another owner has published: %+v", o)
	}
	first := clock.now
	clock.now = first.Add(time.Second)
	o.past(10, sequencer.Hash{1}, clock.now)
	if !o.holds(11, 0) || o.to != 10 || o.former != (sequencer.Hash{1}) {
		t.Errorf("behind a seal: %+v", o)
	}
	if o = s.publishAll(10, 9); len(o.published) > 0 {
		t.Errorf("what is sealed is open again: %+v", o)
	}
	clock.now = first.Add(time.Hour) // the workspace rested: two seconds count from its next decision
	if o = s.publishAll(11, 12, 13); !o.holds(11, 3) || o.since != clock.now {
		t.Errorf("after a rest: %+v", o)
	}
	o.past(9, sequencer.Hash{2}, clock.now) // an older one, looked up late
	if !o.holds(11, 3) || o.former != (sequencer.Hash{1}) {
		t.Errorf("behind an older seal: %+v", o)
	}
	o.past(12, sequencer.Hash{3}, clock.now)
	if !o.holds(13, 1) || o.former != (sequencer.Hash{3}) {
		t.Errorf("a seal of a part: %+v", o)
	}
	o.past(40, sequencer.Hash{4}, clock.now)
	if !o.holds(41, 0) {
		t.Errorf("a seal of more than is open: %+v", o)
	}
}

// What waits is bounded: while seals are refused the oldest decisions stay without one.
func TestUnsealedAreBounded(t *testing.T) {
	s, _ := toSeal()
	for seq := sequencer.Seq(1); seq <= unsealedMost+1; seq++ {
		s.published("shop", seq, nil, sequencer.Hash{})
	}
	if o := s.open["shop"]; len(o.published) != unsealedMost-3 || o.from != 5 {
		t.Errorf("%d wait from %d on", len(o.published), o.from)
	}
}

// Who publishes more than a seal takes between two looks is looked at again once the seal is there.
func TestMoreThanASeal(t *testing.T) {
	s, _ := toSeal()
	o := s.publishAll(1, 2, 3, 4, 5, 6, 7, 8, 9)
	for _, want := range []struct{ to, more int }{{4, 1}, {8, 0}} {
		seal := s.sealOf("shop", o, 4)
		if s.sealed("shop", seal, []byte("seal"), nil); len(s.more) != want.more || seal.To != sequencer.Seq(want.to) {
			t.Errorf("behind the seal of %d to %d: %d looks are due, want %d", seal.From, seal.To, len(s.more), want.more)
		}
		for len(s.more) > 0 {
			<-s.more
		}
	}
}

// A partition without decisions, and one whose last seal was refused a moment ago, asks Kafka nothing; nor does one
// that is given up before its last seals are known write one: it would begin a chain beside them.
func TestNothingToSeal(t *testing.T) {
	s, clock := toSeal() // it has no client: who asks panics
	s.keep(t.Context())
	s.publishAll(1, 2)
	s.after = clock.now.Add(time.Millisecond)
	s.keep(t.Context())
	s.writeLast()
	s.open["shop"].sending, s.found = true, true // one is on its way: the next names it
	s.writeLast()
	if o := s.open["shop"]; !o.holds(1, 2) {
		t.Errorf("%+v", o)
	}
}

// A seal that was refused may be there all the same: the last one is looked up before the next, which comes later, and
// what it covers stays open.
func TestRefusedSeal(t *testing.T) {
	s, clock := toSeal()
	o := s.publishAll(1, 2, 3)
	s.found, o.sending = true, true
	s.sealed("shop", s.sealOf("shop", o, 2), nil, errors.New("refused"))
	if s.found || o.sending || !o.holds(1, 3) || s.after != clock.now.Add(sealAgain) ||
		s.cfg.Health.Notes()[partSeals] == "" {
		t.Errorf("refused: %+v, %+v, %v", s, o, s.cfg.Health.Notes())
	}
	o.sending = true
	s.sealed("shop", s.sealOf("shop", o, 2), []byte("seal"), nil)
	if o.sending || !o.holds(3, 1) || o.former != topology.HashLogSeal([]byte("seal")) {
		t.Errorf("taken: %+v", o)
	}
}

// Only a seal of this workspace, group, log and key, with its signature, is one to go on from.
func TestOwnSeal(t *testing.T) {
	s, _ := toSeal()
	public, _ := s.cfg.SealKey.Public().(ed25519.PublicKey)
	record := func(change func(seal *topology.LogSeal, r *kgo.Record)) *kgo.Record {
		seal := &topology.LogSeal{Workspace: "shop", Replica: topology.ReplicaA, Log: "log", From: 1, To: 1,
			Key: topology.LogSealKey(public), Digests: make([]sequencer.Hash, 1)}
		r := &kgo.Record{Key: []byte("shop")}
		change(seal, r)
		var err error
		if r.Value, err = topology.EncodeLogSeal(seal); err != nil {
			t.Fatal(err)
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topology.HeaderSignature,
			Value: topology.SignLogSeal(s.cfg.SealKey, r.Value)})
		return r
	}
	if seal := s.own(record(func(*topology.LogSeal, *kgo.Record) {})); seal == nil || seal.To != 1 {
		t.Fatal("the group's own seal is none")
	}
	for name, change := range map[string]func(seal *topology.LogSeal, r *kgo.Record){
		"another workspace's": func(seal *topology.LogSeal, _ *kgo.Record) { seal.Workspace = "other" },
		"another group's":     func(seal *topology.LogSeal, _ *kgo.Record) { seal.Replica = topology.ReplicaB },
		"another log's":       func(seal *topology.LogSeal, _ *kgo.Record) { seal.Log = "former" },
		"another key's":       func(seal *topology.LogSeal, _ *kgo.Record) { seal.Key[0]++ },
	} {
		if s.own(record(change)) != nil {
			t.Errorf("%s seal is one to go on from", name)
		}
	}
	forged := record(func(*topology.LogSeal, *kgo.Record) {})
	forged.Headers[0].Value[3]++
	if s.own(forged) != nil || s.own(&kgo.Record{Key: []byte("shop"), Value: []byte("seal")}) != nil {
		t.Error("what nobody has signed is a seal to go on from")
	}
}
