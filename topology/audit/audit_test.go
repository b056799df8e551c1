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
	"sync"
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

// number gives the records of a topic their offsets, as an attacker who can write the broker's disk would.
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
	logs.Lock()
	defer logs.Unlock()
	if logs.made[decisions] == nil {
		logs.made[decisions] = makeLog(tb, decisions)
	}
	return logs.made[decisions].clone()
}

// logs are made once.
var logs = struct {
	sync.Mutex
	made map[int]*made
}{made: map[int]*made{}}

func makeLog(tb testing.TB, decisions int) *made {
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

// forge is a decision by an attacker who can compute chain hashes.
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

// damage is one change by an attacker without a key; it returns the offset of the record to be named, or -1 and
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

// envTries asks for so many logs of 2,000 decisions with one damage each, of each kind; 1,000 take ten minutes.
const envTries = "HENCE_IT_AUDIT_TRIES"

// times is how often each damage is done, and size how many decisions the log has.
func times(t *testing.T) (size, n int) {
	if n, err := strconv.Atoi(os.Getenv(envTries)); err == nil {
		return 2000, n
	}
	return 200, 20
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

// rebuilt changes decision i and everything that follows from it: chain hashes, digests, links, and the signatures
// with a key that is not the group's. The intents are as they were.
func rebuilt(t *testing.T, m *made, i int, with byte, from int) {
	t.Helper()
	var before sequencer.Hash
	for j := range m.topics[topology.TopicDecisions] {
		o := decode(t, m.topics[topology.TopicDecisions][j])
		if j == i {
			o.Agent = "mallory"
		}
		if j >= i {
			o.Chain = o.ChainAfter(before)
			b, err := topology.EncodeCloudEvent(o, appended.Add(time.Duration(o.Offset)*time.Millisecond), "")
			if err != nil {
				t.Fatal(err)
			}
			m.topics[topology.TopicDecisions][j].Value = b
		}
		before = o.Chain
	}
	seals := m.topics[topology.TopicSeals]
	m.topics[topology.TopicSeals] = slices.Clone(seals[:from])
	for _, old := range seals[from:] {
		was, err := topology.DecodeLogSeal(old.Value)
		if err != nil {
			t.Fatal(err)
		}
		n := len(m.topics[topology.TopicSeals])
		if n > 0 {
			was.Former = topology.HashLogSeal(m.topics[topology.TopicSeals][n-1].Value)
		}
		was.Chain = decode(t, m.topics[topology.TopicDecisions][was.To-1]).Chain
		for k := range was.Digests {
			was.Digests[k] = sha256.Sum256(m.topics[topology.TopicDecisions][int(was.From)+k-1].Value)
		}
		value, err := topology.EncodeLogSeal(was)
		if err != nil {
			t.Fatal(err)
		}
		m.topics[topology.TopicSeals] = append(m.topics[topology.TopicSeals], Record{Offset: old.Offset, Value: value,
			Signature: topology.SignLogSeal(key(with), value)})
	}
}

// TestRebuilt holds that a rebuild of every hash without the key is found: the decisions between two
// signatures are named. With the key nothing is found, which docs/audit.md says.
func TestRebuilt(t *testing.T) {
	size, n := times(t)
	whole := newLog(t, size)
	delete(whole.topics, topology.TopicIntents) // rebuilt as well
	rnd, named := rand.New(rand.NewPCG(17, 1)), 0
	for range n {
		m, i := whole.clone(), rnd.IntN(len(whole.topics[topology.TopicDecisions]))
		rebuilt(t, m, i, 9, i/sealEvery)
		r, seq := run(t, m, trusted(1)), sequencer.Seq(i+1)
		if len(r.Findings) == 0 {
			t.Fatalf("decision %d: not found", seq)
		}
		f := r.Findings[0]
		if f.Kind == KindSignature && f.Topic == topology.TopicSeals && f.Offset == int64(i/sealEvery) && f.Seq <= seq &&
			f.To >= seq && f.To-f.Seq < sealEvery && int(r.Vouched) == i/sealEvery*sealEvery {
			named++
		} else {
			t.Errorf("decision %d: vouched for up to %d, %+v", seq, r.Vouched, f)
		}
	}
	t.Logf("%d of %d: the seal over the changed decision is the first finding", named, n)
	m := whole.clone()
	rebuilt(t, m, 100, 1, 100/sealEvery)
	if r := run(t, m, trusted(1)); len(r.Findings) > 0 {
		t.Errorf("with the key itself: %+v", r.Findings)
	}
	m = whole.clone()
	rebuilt(t, m, 100, 1, 100/sealEvery)
	m.topics[topology.TopicIntents] = newLog(t, size).topics[topology.TopicIntents]
	r := run(t, m, trusted(1))
	if len(r.Findings) != 1 || r.Findings[0].Topic != topology.TopicIntents || r.Findings[0].Seq != 101 {
		t.Errorf("with the key, and the intents as they were: %+v", r.Findings)
	}
	m = whole.clone()
	m.topics[topology.TopicIntents] = newLog(t, size).topics[topology.TopicIntents]
	rebuilt(t, m, 100, 9, 100/sealEvery)
	m.topics[topology.TopicSeals] = m.topics[topology.TopicSeals][:100/sealEvery]
	if r := run(t, m, nil); len(r.Findings) != 1 || r.Findings[0].Seq != 101 || r.Findings[0].Offset != 100 {
		t.Errorf("rebuilt, without seals, the intents as they were: %+v", r.Findings)
	}
}

// TestSealsDamaged holds that damage to a seal names that seal, or the next one, which names it.
func TestSealsDamaged(t *testing.T) {
	whole := newLog(t, 6*sealEvery)
	for name, do := range map[string]func(m *made, i int) (kind string, offset int64){
		"a byte changed": func(m *made, i int) (string, int64) {
			r := &m.topics[topology.TopicSeals][i]
			r.Value = slices.Clone(r.Value)
			r.Value[len(r.Value)/2] ^= 1
			return KindSignature, int64(i)
		},
		"the signature changed": func(m *made, i int) (string, int64) {
			r := &m.topics[topology.TopicSeals][i]
			r.Signature = slices.Clone(r.Signature)
			r.Signature[7] ^= 1
			return KindSignature, int64(i)
		},
		"no record": func(m *made, i int) (string, int64) {
			m.topics[topology.TopicSeals][i].Value = []byte("seal")
			return KindUnreadable, int64(i)
		},
		"dropped": func(m *made, i int) (string, int64) {
			m.topics[topology.TopicSeals] = slices.Delete(m.topics[topology.TopicSeals], i, i+1)
			m.number(topology.TopicSeals)
			return KindLink, int64(i)
		},
		"inserted": func(m *made, i int) (string, int64) {
			forged := m.topics[topology.TopicSeals][i]
			s, _ := topology.DecodeLogSeal(forged.Value)
			s.Instance = "mallory"
			forged.Value, _ = topology.EncodeLogSeal(s)
			forged.Signature = topology.SignLogSeal(key(9), forged.Value)
			m.topics[topology.TopicSeals] = slices.Insert(m.topics[topology.TopicSeals], i, forged)
			m.number(topology.TopicSeals)
			return KindSignature, int64(i)
		},
		"swapped": func(m *made, i int) (string, int64) {
			s := m.topics[topology.TopicSeals]
			s[i], s[i+1] = s[i+1], s[i]
			m.number(topology.TopicSeals)
			return KindLink, int64(i)
		},
	} {
		for i := range 5 { // of the last one only what it covers tells
			m := whole.clone()
			kind, offset := do(m, i)
			r := run(t, m, trusted(1))
			if len(r.Findings) == 0 || r.Findings[0].Kind != kind || r.Findings[0].Offset != offset ||
				r.Findings[0].Topic != topology.TopicSeals {
				t.Errorf("%s at %d: want %s at offset %d: %+v", name, i, kind, offset, r.Findings)
			}
		}
	}
	m := whole.clone()
	m.topics[topology.TopicSeals] = m.topics[topology.TopicSeals][:5]
	if r := run(t, m, trusted(1)); len(r.Findings) > 0 || r.Vouched != 5*sealEvery || len(r.Unsealed) != 1 ||
		r.Unsealed[0] != (Range{5*sealEvery + 1, r.Decisions.To}) {
		t.Errorf("the last seal is dropped: %+v", r)
	}
	delete(m.topics, topology.TopicSeals)
	if r := run(t, m, trusted(1)); len(r.Findings) != 1 || r.Findings[0].Kind != KindUnsealed {
		t.Errorf("no seal is there: %+v", r.Findings)
	}
	m = whole.clone()
	m.topics[topology.TopicDecisions] = m.topics[topology.TopicDecisions][:5*sealEvery]
	if r := run(t, m, trusted(1)); len(r.Findings) != 1 || r.Findings[0].Kind != KindMissing ||
		r.Findings[0].Seq != 5*sealEvery+1 {
		t.Errorf("the last decisions are dropped: %+v", r.Findings)
	}
	m = whole.clone()
	m.topics[topology.TopicDecisions] = m.topics[topology.TopicDecisions][3:]
	if r := run(t, m, trusted(1)); len(r.Findings) == 0 || r.Findings[0].Kind != KindMissing || r.Findings[0].Seq != 1 ||
		r.Findings[0].To != 3 {
		t.Errorf("the first decisions are dropped: %+v", r.Findings)
	}
}

// TestNoFinding holds what crashes, second groups, zombies, new keys and retention leave: it is said, and no finding.
func TestNoFinding(t *testing.T) {
	again := func(t *testing.T, m *made, i int, traced string) Record {
		t.Helper()
		o := decode(t, m.topics[topology.TopicDecisions][i])
		b, err := topology.EncodeCloudEvent(o, time.Time{}, traced)
		if err != nil {
			t.Fatal(err)
		}
		return Record{Value: b}
	}
	for name, c := range map[string]struct {
		do    func(t *testing.T, m *made)
		notes int
		holds func(r *Report) bool
	}{
		"an owner publishes decisions again": {func(t *testing.T, m *made) {
			m.topics[topology.TopicDecisions] = slices.Insert(m.topics[topology.TopicDecisions], 60, again(t, m, 57, ""),
				again(t, m, 58, ""), again(t, m, 59, "00-ab-cd-01"))
			m.number(topology.TopicDecisions)
		}, 1, func(r *Report) bool { return r.Copies == 3 && r.Unvouched == 3 && len(r.Unsealed) == 0 }},
		"the second group's copies": {func(t *testing.T, m *made) {
			m.seal(t, "b", key(2), 1, 50)
			var both []Record
			for _, r := range m.topics[topology.TopicDecisions] {
				both = append(both, r, r)
			}
			m.topics[topology.TopicDecisions] = both
			m.number(topology.TopicDecisions)
		}, 0, func(r *Report) bool { return r.Copies == r.Records/2 && r.Unvouched == 0 && len(r.Keys) == 2 }},
		"an owner that went before it had sealed": {func(t *testing.T, m *made) {
			m.topics[topology.TopicSeals] = m.topics[topology.TopicSeals][:1]
			m.seal(t, "a", key(1), sealEvery+11, sealEvery)
		}, 1, func(r *Report) bool {
			return len(r.Unsealed) == 1 && r.Unsealed[0] == Range{sealEvery + 1, sealEvery + 10}
		}},
		"a zombie's seal": {func(t *testing.T, m *made) {
			late := m.clone()
			late.topics[topology.TopicSeals] = late.topics[topology.TopicSeals][:1]
			late.seal(t, "a", key(1), sealEvery+1, 20)
			m.topics[topology.TopicSeals] = append(m.topics[topology.TopicSeals], late.topics[topology.TopicSeals][1])
			m.number(topology.TopicSeals)
		}, 1, func(r *Report) bool { return len(r.Unsealed) == 0 }},
		"an equal copy of a seal": {func(_ *testing.T, m *made) {
			m.topics[topology.TopicSeals] = slices.Insert(m.topics[topology.TopicSeals], 2, m.topics[topology.TopicSeals][0])
			m.number(topology.TopicSeals)
		}, 0, func(r *Report) bool { return len(r.Unsealed) == 0 }},
		"another key": {func(t *testing.T, m *made) {
			m.topics[topology.TopicSeals] = m.topics[topology.TopicSeals][:1]
			second := m.clone()
			second.topics[topology.TopicSeals] = nil
			second.seal(t, "a", key(2), sealEvery+1, sealEvery)
			m.topics[topology.TopicSeals] = append(m.topics[topology.TopicSeals], second.topics[topology.TopicSeals]...)
			m.number(topology.TopicSeals)
		}, 1, func(r *Report) bool { return len(r.Keys) == 2 && len(r.Unsealed) == 0 }},
		"seals deleted by retention": {func(_ *testing.T, m *made) {
			m.topics[topology.TopicSeals] = m.topics[topology.TopicSeals][1:]
			m.starts[topology.TopicSeals] = 1
		}, 1, func(r *Report) bool { return len(r.Unsealed) == 1 && r.Unsealed[0] == Range{1, sealEvery} }},
		"decisions and intents deleted by retention": {func(_ *testing.T, m *made) {
			m.topics[topology.TopicDecisions] = m.topics[topology.TopicDecisions][30:]
			m.topics[topology.TopicIntents] = m.topics[topology.TopicIntents][9:]
			m.starts[topology.TopicDecisions], m.starts[topology.TopicIntents] = 30, 9
		}, 0, func(r *Report) bool { return r.Decisions.From == 31 && r.NotFolded != "" && r.Recomputed.To == 0 }},
		"seals of a log that is gone": {func(_ *testing.T, m *made) {
			s, _ := topology.DecodeLogSeal(m.topics[topology.TopicSeals][0].Value)
			s.Log, s.Former = "former", topology.HashLogSeal(nil)
			value, _ := topology.EncodeLogSeal(s)
			m.topics[topology.TopicSeals] = slices.Insert(m.topics[topology.TopicSeals], 0, Record{Value: value})
			m.number(topology.TopicSeals)
		}, 1, func(r *Report) bool { return len(r.Unsealed) == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newLog(t, 200)
			last := decode(t, m.topics[topology.TopicDecisions][len(m.topics[topology.TopicDecisions])-1]).Seq
			c.do(t, m)
			r := run(t, m, trusted(1, 2))
			if len(r.Findings) > 0 || len(r.Notes) != c.notes || r.Vouched != last || !c.holds(r) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestBytes holds that a change which the chain hash does not cover is found by the seal, with and without its key.
func TestBytes(t *testing.T) {
	for _, trust := range []Keys{nil, trusted(1)} {
		m := newLog(t, 100)
		r := &m.topics[topology.TopicDecisions][41]
		o := decode(t, *r)
		var err error
		if r.Value, err = topology.EncodeCloudEvent(o, appended.Add(time.Hour), ""); err != nil {
			t.Fatal(err)
		}
		got := run(t, m, trust)
		if len(got.Findings) != 1 || got.Findings[0].Kind != KindBytes || got.Findings[0].Offset != 41 {
			t.Errorf("%+v", got.Findings)
		}
	}
}

// TestIntents holds that a changed intent is said to be one where the decisions are sealed, and that one which a newer
// release has written keeps the fold from going on, and is no finding.
func TestIntents(t *testing.T) {
	m := newLog(t, 100)
	at := 30
	in, err := topology.DecodeIntent(m.topics[topology.TopicIntents][at].Value)
	if err != nil {
		t.Fatal(err)
	}
	in.Agent = "mallory"
	changed, err := topology.EncodeIntent(in)
	if err != nil {
		t.Fatal(err)
	}
	m.topics[topology.TopicIntents][at].Value = changed
	r := run(t, m, trusted(1))
	if len(r.Findings) != 1 || r.Findings[0].Topic != topology.TopicIntents || r.Findings[0].Offset != int64(at) {
		t.Errorf("sealed: %+v", r.Findings)
	}
	if r := run(t, m, nil); len(r.Findings) != 1 || r.Findings[0].Topic != topology.TopicDecisions {
		t.Errorf("no keys: %+v", r.Findings)
	}
	newer := slices.Clone(changed)
	newer[0] = 9 // the format version
	m.topics[topology.TopicIntents][at].Value = newer
	if r := run(t, m, trusted(1)); len(r.Findings) > 0 || r.NotFolded == "" || r.Recomputed.To >= r.Decisions.To {
		t.Errorf("a newer release's: %+v", r)
	}
}

// TestChainAlone holds that the chain hashes name a changed decision by themselves, and what else is under the key and
// no decision of this workspace or place.
func TestChainAlone(t *testing.T) {
	whole := newLog(t, 200)
	delete(whole.topics, topology.TopicIntents)
	delete(whole.topics, topology.TopicSeals)
	for name, c := range map[string]struct {
		change func(o *sequencer.Outcome)
		kind   string
	}{
		"its content":       {func(o *sequencer.Outcome) { o.Agent = "mallory" }, KindChanged},
		"its chain hash":    {func(o *sequencer.Outcome) { o.Chain[3]++ }, KindChanged},
		"another workspace": {func(o *sequencer.Outcome) { o.Workspace = "other" }, KindChanged},
		"far ahead":         {func(o *sequencer.Outcome) { o.Seq += 2 * maxJump }, KindChanged},
	} {
		m := whole.clone()
		o := decode(t, m.topics[topology.TopicDecisions][50])
		c.change(o)
		var err error
		if m.topics[topology.TopicDecisions][50].Value, err = topology.EncodeCloudEvent(o, appended, ""); err != nil {
			t.Fatal(err)
		}
		r := run(t, m, nil)
		if len(r.Findings) == 0 || r.Findings[0].Kind != c.kind || r.Findings[0].Offset != 50 {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
	m := newLog(t, 200)
	s, err := topology.DecodeLogSeal(m.topics[topology.TopicSeals][0].Value)
	if err != nil {
		t.Fatal(err)
	}
	s.Chain[0]++
	value, err := topology.EncodeLogSeal(s)
	if err != nil {
		t.Fatal(err)
	}
	m.topics[topology.TopicSeals] = []Record{{Value: value, Signature: topology.SignLogSeal(key(1), value)}}
	r := run(t, m, trusted(1)) // beside it nothing is sealed by it
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == KindChanged && f.Seq == sealEvery }) {
		t.Errorf("a sealed chain hash that is not the decision's: %+v", r.Findings)
	}
}
