package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// sealEvery is how many decisions a seal of the tests' logs covers.
const sealEvery = 64

// made is a log in memory.
type made struct {
	topics map[string][]Record
	starts map[string]int64
}

func (m *made) Head() (workspace, log string) { return "shop", "log" }

func (m *made) Place(topic string) Place {
	return Place{Partition: 3, Start: m.starts[topic], End: int64(len(m.topics[topic])), Absent: m.topics[topic] == nil}
}

func (m *made) Each(_ context.Context, topic string, f func(Record) error) error {
	for _, r := range m.topics[topic] {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// clone is a log that can be changed.
func (m *made) clone() *made {
	c := &made{topics: map[string][]Record{}, starts: map[string]int64{}}
	for topic, records := range m.topics {
		c.topics[topic] = slices.Clone(records)
		c.starts[topic] = m.starts[topic]
	}
	return c
}

// number gives the records of a topic their offsets, as somebody who can write the broker's disk would.
func (m *made) number(topic string) {
	for i := range m.topics[topic] {
		m.topics[topic][i].Offset = int64(i)
	}
}

func key(seed byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)) }

func trusted(seeds ...byte) Keys {
	keys := Keys{}
	for _, seed := range seeds {
		public, _ := key(seed).Public().(ed25519.PublicKey)
		keys[topology.LogSealKey(public)] = public
	}
	return keys
}

var appended = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// newLog is a log of at least so many decisions of one group, sealed to its end.
func newLog(tb testing.TB, decisions int) *made {
	tb.Helper()
	m := &made{topics: map[string][]Record{}, starts: map[string]int64{}}
	r, sessions := sequencer.NewReplica("shop"), map[string]sequencer.Seq{}
	var tick uint64
	apply := func(in *sequencer.Intent) {
		value, err := topology.EncodeIntent(in)
		if err != nil {
			tb.Fatal(err)
		}
		offset := int64(len(m.topics[topology.TopicIntents]))
		m.topics[topology.TopicIntents] = append(m.topics[topology.TopicIntents], Record{Offset: offset, Value: value})
		applied, err := r.Apply(offset, in)
		if err != nil {
			tb.Fatal(err)
		}
		for _, o := range applied.Outcomes {
			m.publish(tb, &o)
		}
		r.Acknowledged(r.Fold().Seq())
	}
	for i := 0; int(r.Fold().Seq()) < decisions; i++ {
		agent := []string{"ann", "bob", "eve"}[i%3]
		if sessions[agent] == 0 {
			apply(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent, Join: &sequencer.Join{ID: agent, Logic: 4}})
			sessions[agent] = r.Fold().Seq()
		}
		base := r.Fold().Seq()
		apply(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: sequencer.TxID(fmt.Sprintf("%s-%d", agent, i)), N: 1,
			Agent: agent, Incarnation: sessions[agent], Base: base - min(base-sessions[agent], sequencer.Seq(i%5)),
			Begin: &sequencer.Begin{}, Seal: &sequencer.Seal{
				Reads: []sequencer.Read{{Scope: sequencer.Scope(fmt.Sprintf("db:/orders/%d", i%7)), View: base}},
				Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(fmt.Sprintf("shard:/orders/%d", i%11)),
					Type: "text/plain", Content: []byte(strconv.Itoa(i))}}}})
		if i%16 == 15 {
			tick++
			apply(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: agent, Incarnation: sessions[agent],
				Watermark: &sequencer.Watermark{Seq: base}})
		}
	}
	m.seal(tb, "a", key(1), 1, sealEvery)
	return m
}

func (m *made) publish(tb testing.TB, o *sequencer.Outcome) {
	tb.Helper()
	b, err := topology.EncodeCloudEvent(o, appended.Add(time.Duration(o.Offset)*time.Millisecond), "")
	if err != nil {
		tb.Fatal(err)
	}
	m.topics[topology.TopicDecisions] = append(m.topics[topology.TopicDecisions],
		Record{Offset: int64(len(m.topics[topology.TopicDecisions])), Value: b})
}

func decode(tb testing.TB, r Record) *sequencer.Outcome {
	tb.Helper()
	o, err := topology.DecodeCloudEvent(r.Value)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// seal seals the decisions from a seq on, as a group's owner does: behind its last seal.
func (m *made) seal(tb testing.TB, replica string, key ed25519.PrivateKey, from sequencer.Seq, every int) {
	tb.Helper()
	public, _ := key.Public().(ed25519.PublicKey)
	var former sequencer.Hash
	for _, r := range m.topics[topology.TopicSeals] {
		if s, err := topology.DecodeLogSeal(r.Value); err == nil && s.Replica == replica {
			former = topology.HashLogSeal(r.Value)
		}
	}
	var open []Record
	flush := func() {
		last := decode(tb, open[len(open)-1])
		s := &topology.LogSeal{Workspace: "shop", Replica: replica, Log: "log", Former: former, Chain: last.Chain,
			From: decode(tb, open[0]).Seq, To: last.Seq, Key: topology.LogSealKey(public), Instance: replica}
		for _, r := range open {
			s.Digests = append(s.Digests, sha256.Sum256(r.Value))
		}
		value, err := topology.EncodeLogSeal(s)
		if err != nil {
			tb.Fatal(err)
		}
		former = topology.HashLogSeal(value)
		m.topics[topology.TopicSeals] = append(m.topics[topology.TopicSeals], Record{
			Offset: int64(len(m.topics[topology.TopicSeals])), Value: value, Signature: topology.SignLogSeal(key, value)})
		open = nil
	}
	next := from
	for _, r := range m.topics[topology.TopicDecisions] {
		if o := decode(tb, r); o.Seq == next {
			next++
			if open = append(open, r); len(open) == every {
				flush()
			}
		}
	}
	if len(open) > 0 {
		flush()
	}
}

func run(tb testing.TB, m Source, trust Keys) *Report {
	tb.Helper()
	r, err := Run(tb.Context(), m, trust, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestWhole holds that a log as it was published has no finding, and what is said of it.
func TestWhole(t *testing.T) {
	m := newLog(t, 300)
	r := run(t, m, trusted(1))
	n := len(m.topics[topology.TopicDecisions])
	to := sequencer.Seq(n)
	if len(r.Findings) > 0 || len(r.Notes) > 0 || r.Vouched != to || r.Decisions != (Range{1, to}) || r.Records != n ||
		r.Recomputed != (Range{1, to}) || r.Copies != 0 || len(r.Unsealed) > 0 || r.NotFolded != "" ||
		r.Seals != (n+sealEvery-1)/sealEvery || len(r.Keys) != 1 || !r.Keys[0].Trusted || r.Keys[0].Through != to {
		t.Errorf("%+v", r)
	}
	if r := run(t, m, nil); len(r.Findings) > 0 || r.Vouched != 0 || !r.Unchecked {
		t.Errorf("without keys: %+v", r)
	}
}

// forge is a decision that somebody wrote who can compute chain hashes.
func forge(tb testing.TB, m *made, i int, before sequencer.Hash) (Record, *sequencer.Outcome) {
	tb.Helper()
	o := decode(tb, m.topics[topology.TopicDecisions][i])
	o.Agent = "mallory"
	o.Chain = o.ChainAfter(before)
	b, err := topology.EncodeCloudEvent(o, appended, "")
	if err != nil {
		tb.Fatal(err)
	}
	return Record{Value: b}, o
}

// damage is one change that somebody makes who has no key; it returns the offset of the record to be named, or -1 and
// its seq, and what else may be named instead.
type damage func(t testing.TB, m *made, at int, rnd *rand.Rand) (offset int64, seq sequencer.Seq, or int64)

func damages(topic string) map[string]damage {
	byteChanged := func(t testing.TB, m *made, at int, rnd *rand.Rand) (int64, sequencer.Seq, int64) {
		r := &m.topics[topic][at]
		r.Value = slices.Clone(r.Value)
		r.Value[rnd.IntN(len(r.Value))] ^= byte(1 + rnd.IntN(255))
		return r.Offset, 0, -2
	}
	dropped := func(t testing.TB, m *made, at int, _ *rand.Rand) (int64, sequencer.Seq, int64) {
		seq := decode(t, m.topics[topic][at]).Seq
		m.topics[topic] = slices.Delete(m.topics[topic], at, at+1)
		m.number(topic)
		return -1, seq, -2
	}
	inserted := func(t testing.TB, m *made, at int, rnd *rand.Rand) (int64, sequencer.Seq, int64) {
		of := rnd.IntN(len(m.topics[topic]))
		var before sequencer.Hash
		if of > 0 {
			before = decode(t, m.topics[topic][of-1]).Chain
		}
		r, _ := forge(t, m, of, before)
		m.topics[topic] = slices.Insert(m.topics[topic], at, r)
		m.number(topic)
		return int64(at), 0, -2
	}
	swapped := func(t testing.TB, m *made, at int, rnd *rand.Rand) (int64, sequencer.Seq, int64) {
		with := (at + 1 + rnd.IntN(len(m.topics[topic])-1)) % len(m.topics[topic])
		s := m.topics[topic]
		s[at], s[with] = s[with], s[at]
		m.number(topic)
		return int64(at), 0, int64(with)
	}
	return map[string]damage{"a byte changed": byteChanged, "a record dropped": dropped, "a record inserted": inserted,
		"two swapped": swapped}
}

// times is how often each damage is done, and size how many decisions the log has.
func times(t *testing.T) (size, n int) {
	if os.Getenv("HENCE_TEST_FULL") != "" {
		return 2000, 1000
	}
	return 200, 40
}

// TestDamage holds that each damage is found and the record named, with and without trusted keys, with and without the
// intents.
func TestDamage(t *testing.T) {
	size, n := times(t)
	whole := newLog(t, size)
	for name, do := range damages(topology.TopicDecisions) {
		t.Run(name, func(t *testing.T) {
			rnd, named := rand.New(rand.NewPCG(17, uint64(len(name)))), 0
			for i := range n {
				m := whole.clone()
				at := rnd.IntN(len(m.topics[topology.TopicDecisions]))
				offset, seq, or := do(t, m, at, rnd)
				if i%2 == 1 {
					delete(m.topics, topology.TopicIntents)
				}
				var trust Keys
				if i%4 < 2 {
					trust = trusted(1)
				}
				r := run(t, m, trust)
				if len(r.Findings) == 0 {
					t.Fatalf("try %d at %d: not found", i, at)
				}
				f := r.Findings[0]
				if f.Topic == topology.TopicDecisions && f.Partition == 3 &&
					(f.Offset == offset && offset >= 0 || f.Offset == or || offset < 0 && f.Kind == KindMissing && f.Seq == seq) {
					named++
				} else {
					t.Errorf("try %d at %d: want offset %d or %d, seq %d: %+v", i, at, offset, or, seq, f)
				}
			}
			t.Logf("%d of %d named in a log of %d decisions", named, n, len(whole.topics[topology.TopicDecisions]))
		})
	}
}
