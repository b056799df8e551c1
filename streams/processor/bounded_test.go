package processor_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// envCommits is how many commits the two tables of TestRecoveryIsBoundedByTheState have had, separated by a comma.
const envCommits = "HENCE_TABLE_COMMITS"

// What a new owner reads depends on the rows that there are, and not on how often they were written, beside a former
// owner that goes on writing old ones: at most three times their bytes, or what a log may have at any rate, and what
// came in while the last marker was made. The closure's rows are those of the last 65,536 seqs.
func TestRecoveryIsBoundedByTheState(t *testing.T) {
	text, after := os.Getenv(envCommits), int64(4<<20)
	if text == "" {
		text, after = "1000,10000", 64<<10 // smaller logs, so that they come to be marked
	}
	small, large, _ := strings.Cut(text, ",")
	few, many := recovery(t, number(t, small), after), recovery(t, number(t, large), after)
	for _, group := range markTables {
		table := topology.TableOf(group)
		a, b := few.read[table], many.read[table]
		t.Logf("%-22s read %9d and %9d bytes, of rows %9d and %9d; logs of %9d and %9d records", table, a.bytes, b.bytes,
			a.rowBytes(), b.rowBytes(), few.ends[table], many.ends[table])
		for _, g := range []gained{a, b} {
			// One state more: it is written when the partition is given up.
			if bound := max(after, 3*g.rowBytes()); g.bytes > bound*11/10+g.rowBytes() {
				t.Errorf("%s: %d bytes are read, and the bound is %d", table, g.bytes, bound)
			}
		}
	}
	t.Logf("ready after %v and %v", few.ready, many.ready)
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatalf("%s: %v", envCommits, err)
	}
	return n
}

func (g gained) rowBytes() (n int64) {
	for key, row := range g.rows {
		n += int64(len(key) + len(row))
	}
	return n
}

// recovered is what a new owner had to do.
type recovered struct {
	read  map[string]gained
	ends  map[string]int64 // of the tables' logs
	ready time.Duration
}

// recovery lets a workspace commit, with a former owner that writes meanwhile, ends its processors when no marker is
// due, and starts new ones.
func recovery(t *testing.T, commits int, after int64) recovered {
	m := newMarked(t)
	m.Cfg.StateEvery, m.Cfg.MarkAfter, m.Cfg.Health = 256, after, new(streams.Health)
	// Written under load a row has decisions in it that are not acknowledged; that of the end is written soon.
	m.Cfg.StateAfter = 50 * time.Millisecond
	stop := m.Run(m.Cfg)
	m.join()
	m.traffic(1, 2)
	m.settled()
	z, done := newZombie(m), make(chan struct{})
	m.Until("rows of each table", func() bool {
		z = newZombie(m)
		return len(z.rows) == len(markTables)
	})
	var zombies sync.WaitGroup
	zombies.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond): // rows of many an owner, for as long as it takes
			}
			for _, group := range markTables {
				if err := z.write(m, topology.TableOf(group)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	began := time.Now()
	b := newBulk(m)
	b.commit(commits)
	close(done)
	zombies.Wait()
	m.rested()
	stop()
	t.Logf("%d commits in %v", b.n, time.Since(began).Round(time.Millisecond))
	r := recovered{ends: make(map[string]int64)}
	for _, group := range markTables {
		end, err := streams.EndOffset(m.Context(), z.cl, topology.TableOf(group), 0)
		if err != nil {
			t.Fatal(err)
		}
		r.ends[topology.TableOf(group)] = end
	}
	begins := time.Now()
	stop, r.read = m.start()
	m.Well(m.Cfg.Health)
	r.ready = time.Since(begins).Round(time.Millisecond)
	stop()
	return r
}

// rested waits until no table has been marked for ten looks.
func (m *marked) rested() {
	steps := func() (n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, kept := range m.kept {
			n += kept
		}
		return n
	}
	was, since := steps(), time.Now()
	m.Until("the last marker", func() bool {
		if is := steps(); is != was {
			was, since = is, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// bulk commits in a workspace of its own as fast as the processors decide: each transaction writes one of 64 shards.
// What is decided is counted and not kept.
type bulk struct {
	*marked
	cl          *kgo.Client
	incarnation sequencer.Seq
	others      int64 // decisions of other workspaces
	n           int
}

// Of a bulk: its workspace and agent, and how many of its intents may be undecided.
const (
	bulkIn   = "bulk"
	bulkBy   = "ann"
	bulkOpen = 2000
)

func newBulk(m *marked) *bulk {
	b := &bulk{marked: m, cl: m.Kafka()}
	rules := m.rules()
	b.put(b.record(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}),
		b.record(&sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Join: &sequencer.Join{ID: "j"}}))
	m.Until("the join", func() bool {
		decisions, _ := m.Published(bulkIn)
		b.incarnation = sequencer.Seq(len(decisions))
		return len(decisions) > 0 && decisions[b.incarnation].Kind == sequencer.OutcomeJoined
	})
	b.others = int64(b.decided()) - int64(b.incarnation)
	return b
}

// decided is the seq that the workspace has come to.
func (b *bulk) decided() sequencer.Seq {
	end, err := streams.EndOffset(b.Context(), b.cl, topology.TopicDecisions, 0)
	if err != nil {
		b.T.Fatal(err)
	}
	return sequencer.Seq(end - b.others)
}

func (b *bulk) commit(n int) {
	b.T.Helper()
	for to := b.n + n; b.n < to; {
		head := b.decided()
		var batch []*kgo.Record
		for range min(500, to-b.n) {
			b.n++
			batch = append(batch, b.record(&sequencer.Intent{Kind: sequencer.IntentSeal,
				Tx: sequencer.TxID(fmt.Sprint("bulk-", b.n)), N: 1, Base: head, Begin: &sequencer.Begin{},
				Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(fmt.Sprint("shard:/bulk/", b.n%64)),
					Type: "text/plain", Content: []byte(fmt.Sprintf("%08d", b.n))}}}}))
		}
		// What is older than the head is of no use to anyone: so the state stays as large as it is.
		b.put(append(batch, b.record(&sequencer.Intent{Kind: sequencer.IntentWatermark, N: 1,
			Watermark: &sequencer.Watermark{Seq: head}}))...)
		least := b.incarnation + sequencer.Seq(max(b.n-bulkOpen, 0))
		b.Until("decisions and rows", func() bool {
			return b.decided() >= least && b.Count("hence_input_lag_records") < 5*bulkOpen
		})
	}
	b.Until("the rows of the last decision", func() bool {
		return b.decided() >= b.incarnation+sequencer.Seq(b.n) && b.Count("hence_input_lag_records") == 0
	})
}

func (b *bulk) put(records ...*kgo.Record) {
	b.T.Helper()
	if err := b.cl.ProduceSync(b.Context(), records...).FirstErr(); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bulk) record(in *sequencer.Intent) *kgo.Record {
	in.Agent, in.Incarnation = bulkBy, b.incarnation
	value, err := topology.EncodeIntent(in)
	if err != nil {
		b.T.Fatal(err)
	}
	return &kgo.Record{Topic: topology.TopicIntents, Key: []byte(bulkIn), Value: value}
}
