package processor_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// markClock is one on which what comes once a second, or a look at changed rows, comes at once.
type markClock struct{}

func (markClock) Now() time.Time { return time.Now() }

func (markClock) After(d time.Duration) <-chan time.Time {
	switch d {
	case time.Second:
		d = 20 * time.Millisecond
	case 25 * time.Millisecond:
		d = time.Millisecond
	}
	return time.After(d)
}

// markTables are the groups whose tables are marked.
var markTables = []string{topology.GroupSequencer, topology.GroupClosure, topology.GroupFrontier}

// marked is a world with two workspaces' agents whose tables are marked often, and what is seen of that.
type marked struct {
	*teststreams.World
	client *streams.Client
	views  map[string]*teststreams.View
	agents []*teststreams.Agent
	reads  int                                              // of one transaction that nothing decides
	on     func(table string, partition int32, step string) // sees each step; set before a run

	mu        sync.Mutex
	kept      map[string]int // markers that Kafka has, by table
	gained    []gained
	committed int64 // where the sequencer was to read on before it was started
}

// gained is a partition of a table as a new owner has read it.
type gained struct {
	table       string
	from, bytes int64
	rows        map[string][]byte
}

func newMarked(t *testing.T) *marked {
	m := &marked{kept: make(map[string]int)}
	m.World = teststreams.New(t, func(c *streams.Config) {
		// One partition: all of the tables is gained, and marked, at once.
		c.Partitions, c.StateEvery, c.MarkAfter, c.Clock = 1, 1, 16<<10, markClock{}
		c.FetchWait = -1 // else a row that is written again and again would be written once
		c.Faults.Marking = m.marking
		c.Faults.Gained = func(table string, _ int32, from, bytes int64, rows map[string][]byte) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.gained = append(m.gained, gained{table, from, bytes, rows})
		}
	})
	return m
}

func (m *marked) marking(table string, partition int32, step string) {
	if m.on != nil {
		m.on(table, partition, step)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if step == "kept" {
		m.kept[table]++
	}
}

// join makes the agents; processors must run.
func (m *marked) join() {
	m.client, m.views = m.Dial(m.Cfg), make(map[string]*teststreams.View)
	for _, workspace := range []string{"shop", "bank"} {
		v := m.Follow(m.client, workspace)
		m.views[workspace] = v
		rules := m.rules()
		_, err := m.client.Append(m.Context(), workspace, &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
		if err != nil {
			m.T.Fatal(err)
		}
		m.Until("the rules", func() bool { return v.Len() > 0 })
		m.agents = append(m.agents, m.Join(m.client, v, workspace, "ann"), m.Join(m.client, v, workspace, "bob"))
	}
}

// rules are those under which nothing is decided by time, since the machine may be busy, and the past is short.
func (m *marked) rules() sequencer.Rules {
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic, rules.LeaseTicks, rules.BoundTicks, rules.DeadlineTicks =
		1, sequencer.Logic, 1<<20, 1<<20, 1<<20
	rules.HorizonCommits, rules.CapSeqs = 100, 1000
	return rules
}

// work lets all agents do some transactions and waits until every processor has taken all of it.
func (m *marked) work(seed uint64, rounds int) {
	m.T.Helper()
	m.traffic(seed, rounds)
	for workspace, v := range m.views {
		tablesEqual(m.World, v, workspace)
	}
}

// marks waits until Kafka has so many more markers of each table, and lets agents work meanwhile.
func (m *marked) marks(more int) {
	m.T.Helper()
	m.mu.Lock()
	want := make(map[string]int)
	for _, group := range markTables {
		want[topology.TableOf(group)] = m.kept[topology.TableOf(group)] + more
	}
	m.mu.Unlock()
	seed := uint64(100)
	m.Until("markers", func() bool {
		m.mu.Lock()
		done := true
		for table, n := range want {
			done = done && m.kept[table] >= n
		}
		m.mu.Unlock()
		if !done {
			seed++
			m.traffic(seed, 2)
			m.rewritten()
		}
		return done
	})
}

// rewritten has one row of the closure written again and again, however fast the processors are: what they take at
// once is one row, and where rows grow as fast as their log it is never due to be marked.
func (m *marked) rewritten() {
	table, a, kafka := topology.TableOf(topology.GroupClosure), m.agents[0], m.Kafka()
	for range 10 {
		end := func() int64 {
			at, err := streams.EndOffset(m.Context(), kafka, table, 0)
			if err != nil {
				m.T.Fatal(err)
			}
			return at
		}
		before := end()
		publishAs(a, &topology.Event{Kind: topology.EventRead, Tx: "rewritten", Scope: "db:/hot",
			View: sequencer.Seq(m.reads)})
		m.reads++ // the same read again would leave the row as it is
		m.Until("the row is written", func() bool { return end() > before })
	}
}

// start runs the processors once more and returns what they gained, when they are ready.
func (m *marked) start() (stop func(), got map[string]gained) {
	m.T.Helper()
	m.mu.Lock()
	m.gained, m.committed = nil, m.Committed(0)
	m.mu.Unlock()
	stop = m.Run(m.Cfg)
	m.Until("the tables are read", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		got = make(map[string]gained)
		for _, g := range m.gained {
			got[g.table] = g
		}
		return len(got) == len(markTables)
	})
	return stop, got
}

// equalRebuild compares what a new owner read, after a graceful end of the former one, with rows made of the logs.
func (m *marked) equalRebuild(got map[string]gained) {
	m.T.Helper()
	for workspace := range m.views {
		frontier := rowsOf(m, got[topology.TableOf(topology.GroupFrontier)], workspace, topology.DecodeFrontierRow)
		if differ := same(frontier, frontierByHand(m.World, workspace)); differ != "" {
			m.T.Errorf("frontier, as read: %s", differ)
		}
		closure := rowsOf(m, got[topology.TableOf(topology.GroupClosure)], workspace, topology.DecodeClosureRow)
		if differ := same(closure, closureByHand(m.World, workspace)); differ != "" {
			m.T.Errorf("closure, as read: %s", differ)
		}
		m.equalFold(got[topology.TableOf(topology.GroupSequencer)].rows[workspace], workspace)
	}
	m.equalAnswers()
}

// equalAnswers compares what the owner has in memory, and what a sidecar that starts reads, with the logs.
func (m *marked) equalAnswers() {
	m.T.Helper()
	for workspace, v := range m.views {
		answersEqual(m.World, m.client, workspace)
		snapshotIsAPrefix(m.World, m.client, v, workspace)
	}
}

func rowsOf[R any](m *marked, g gained, workspace string, decode func([]byte) (*R, error)) map[string]R {
	m.T.Helper()
	rows := make(map[string]R)
	for key, value := range g.rows {
		if topology.WorkspaceOfKey(key) != workspace {
			continue
		}
		row, err := decode(value)
		if err != nil {
			m.T.Fatal(err)
		}
		rows[topology.RestOfKey(key)] = *row
	}
	return rows
}

// equalFold compares a state with a fold of the log up to its offset, and that offset with what is committed.
func (m *marked) equalFold(row []byte, workspace string) {
	m.T.Helper()
	is, err := topology.DecodeReplica(row)
	if err != nil {
		m.T.Fatalf("state of %s: %v", workspace, err)
	}
	r, last := sequencer.NewReplica(workspace), int64(-1)
	for _, rec := range m.Records(topology.TopicIntents) {
		if string(rec.Key) != workspace {
			continue
		}
		if rec.Offset < m.committed {
			last = rec.Offset
		}
		if rec.Offset > is.Offset {
			continue
		}
		in, err := topology.DecodeIntent(rec.Value)
		if err != nil {
			m.T.Fatal(err)
		}
		if _, err := r.Apply(rec.Offset, in); err != nil {
			m.T.Fatal(err)
		}
	}
	if is.Offset < last {
		m.T.Errorf("the state of %s is at offset %d, and its record at %d is committed", workspace, is.Offset, last)
	}
	want := r.State()
	is.Outbox, want.Outbox = nil, nil
	a, errA := topology.EncodeReplica(is)
	b, errB := topology.EncodeReplica(&want)
	if cmp.Or(errA, errB) != nil || !bytes.Equal(a, b) {
		m.T.Errorf("the state of %s at offset %d is not what the log gives (%v)", workspace, is.Offset, cmp.Or(errA, errB))
	}
}

// A new owner reads its table from the marker on, and what lies before the marker before is deleted.
func TestNewOwnersBeginAtTheMarker(t *testing.T) {
	m := newMarked(t)
	stop := m.Run(m.Cfg)
	m.join()
	m.work(1, 5)
	m.marks(2)
	m.settled()
	stop()
	starts, err := kadm.NewClient(m.Kafka()).ListStartOffsets(m.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop, got := m.start()
	m.equalRebuild(got)
	for _, group := range markTables {
		g := got[topology.TableOf(group)]
		start, _ := starts.Lookup(g.table, 0)
		if start.Offset == 0 || g.from <= start.Offset {
			t.Errorf("%s begins at %d and is read from %d on", g.table, start.Offset, g.from)
		}
	}
	m.marks(1)
	stop()
}

// A table of which more is deleted than a marker has passed is not taken for whole.
func TestTableCutBehindItsMarker(t *testing.T) {
	m := newMarked(t)
	m.Cfg.Health = new(streams.Health)
	stop := m.Run(m.Cfg)
	m.join()
	m.marks(1)
	stop()
	table := topology.TableOf(topology.GroupFrontier)
	end, err := streams.EndOffset(m.Context(), m.Kafka(), table, 0)
	if err != nil {
		t.Fatal(err)
	}
	var cut kadm.Offsets
	cut.AddOffset(table, 0, end-1, -1)
	if _, err := kadm.NewClient(m.Kafka()).DeleteRecords(m.Context(), cut); err != nil {
		t.Fatal(err)
	}
	m.Run(m.Cfg)
	m.Until("what to do about it", func() bool {
		err := m.Cfg.Health.Ready()["frontier"]
		return err != nil && strings.Contains(err.Error(), "records were deleted by hand")
	})
}

// zombie writes rows of a table as a former owner has them that has slept since it read them: row by row, and then
// all of them, as for a marker of its own.
type zombie struct {
	rows map[string][]*kgo.Record // by table, in their order: old ones
	cl   *kgo.Client
}

func newZombie(m *marked) *zombie {
	z := &zombie{rows: make(map[string][]*kgo.Record), cl: m.Kafka()}
	for _, group := range markTables {
		table := topology.TableOf(group)
		seen := make(map[string]bool)
		for _, r := range m.Records(table) {
			if !seen[string(r.Key)] {
				seen[string(r.Key)] = true
				z.rows[table] = append(z.rows[table], r)
			}
		}
	}
	return z
}

func (z *zombie) write(m *marked, table string) error {
	rows := z.rows[table]
	for _, r := range append(slices.Clone(rows[:1]), rows...) {
		late := &kgo.Record{Topic: table, Key: r.Key, Value: r.Value, Headers: r.Headers, Partition: r.Partition}
		if err := z.cl.ProduceSync(m.Context(), late).FirstErr(); err != nil {
			return fmt.Errorf("the former owner of %s: %w", table, err)
		}
	}
	return nil
}

// unmoved looks for longer than it takes to commit: the marker of rows that are not acknowledged stays where it is.
func (m *marked) unmoved(table string) {
	group, cl := strings.TrimSuffix(table, "-table"), m.Kafka()
	ask := func() string {
		of, err := streams.CommittedOf(m.Context(), cl, group, topology.MarkerTopic(group), 0)
		if err != nil {
			m.T.Error(err)
		}
		return of.Metadata
	}
	was := ask()
	for end := time.After(400 * time.Millisecond); ; {
		select {
		case <-end:
			return
		case <-time.After(20 * time.Millisecond):
			if is := ask(); is != was {
				m.T.Errorf("marker %q of %s is committed after %q, and its rows are not acknowledged", is, table, was)
				return
			}
		}
	}
}

// Whenever a former owner writes its rows, all of them, over its heir's: the next owner has what the logs give. The
// heir goes on, or ends at that very step.
func TestMarkerOutlivesAZombie(t *testing.T) {
	for _, ends := range []bool{false, true} {
		for _, step := range []string{"before", "begun", "sent", "written", "marked", "kept"} {
			t.Run(fmt.Sprintf("%s ends %v", step, ends), func(t *testing.T) {
				t.Parallel()
				outlive(t, step, ends)
			})
		}
	}
}

func outlive(t *testing.T, step string, ends bool) {
	m := newMarked(t)
	var z *zombie
	var mu sync.Mutex
	wrote := make(map[string]bool)
	m.on = func(table string, _ int32, at string) {
		mu.Lock()
		defer mu.Unlock()
		if z == nil || at != step || wrote[table] {
			return
		}
		if step == "begun" || step == "sent" || step == "written" {
			m.unmoved(table)
		}
		wrote[table] = true
		if err := z.write(m, table); err != nil {
			t.Error(err)
		}
	}
	stop := m.Run(m.Cfg)
	m.join()
	m.work(1, 5)
	young := newZombie(m)
	m.work(2, 5)
	if step == "before" {
		for _, group := range markTables {
			if err := young.write(m, topology.TableOf(group)); err != nil {
				t.Fatal(err)
			}
			wrote[topology.TableOf(group)] = true
		}
	}
	mu.Lock()
	z = young
	mu.Unlock()
	fired := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(wrote) == len(markTables)
	}
	for seed := uint64(3); !fired(); seed++ {
		m.traffic(seed, 5)
	}
	if !ends {
		m.traffic(50, 20)
		m.settled()
	}
	stop()
	stop, got := m.start()
	if ends {
		m.settled()
		m.equalAnswers()
	} else {
		m.equalRebuild(got)
	}
	if step == "kept" && !ends {
		for _, g := range got {
			if g.from == 0 {
				t.Errorf("%s is read from its start", g.table)
			}
		}
	}
	// The rows that are last in the log, which compaction leaves, are right again as well.
	m.work(60, 3)
	stop()
}

// traffic lets all agents do some transactions, and one that reads and reads: its row is written again and again.
func (m *marked) traffic(seed uint64, rounds int) {
	var wg sync.WaitGroup
	for i, a := range m.agents {
		wg.Go(func() {
			work(a, rand.New(rand.NewPCG(seed, uint64(i))), rounds)
			for view := range 20 {
				publishAs(a, &topology.Event{Kind: topology.EventRead, Tx: "reads-" + sequencer.TxID(a.Name), Scope: "db:/hot",
					View: sequencer.Seq(seed)*20 + sequencer.Seq(view)})
			}
		})
	}
	wg.Wait()
}

// settled waits until the processors have taken all that came.
func (m *marked) settled() {
	m.T.Helper()
	m.Until("nothing is left to be read", func() bool {
		for workspace, v := range m.views {
			m.Complete(v, workspace)
			rows, err := m.client.Frontier(m.Context(), workspace, "", 1)
			if err != nil || len(rows) == 0 || rows[0].Seq != sequencer.Seq(v.Len()) {
				return false
			}
			for tx, row := range closureByHand(m.World, workspace) {
				got, err := m.client.Closure(m.Context(), workspace, tx, 1)
				if err != nil || got.Rows[0].Status != row.Status || len(got.Rows[0].Edges) != len(row.Edges) {
					return false
				}
			}
		}
		return m.Count("hence_input_lag_records") == 0
	})
}

// Metadata that another tool or another release left is no marker, nor is that of another table or of records that are
// not there: the table is read from its start.
func TestForeignMarkersAreNone(t *testing.T) {
	m := newMarked(t)
	stop := m.Run(m.Cfg)
	m.join()
	m.work(1, 5)
	m.settled()
	stop()
	id, err := streams.TopicID(t.Context(), m.Kafka(), topology.TableOf(topology.GroupFrontier))
	if err != nil {
		t.Fatal(err)
	}
	for _, metadata := range []string{"", "hence9 " + id + " 7", "hence1 " + strings.ToLower(id[:21]) + "_ 7",
		topology.Marker{Table: id, From: 1 << 40}.String(), strings.Repeat("x", 4000)} {
		admin := kadm.NewClient(m.Kafka())
		group := topology.GroupFrontier
		m.Until("an empty group", func() bool {
			of, err := streams.CommittedOf(t.Context(), m.Kafka(), group, topology.TopicDecisions, 0)
			if err != nil {
				t.Fatal(err)
			}
			offsets := make(kadm.Offsets)
			offsets.Add(kadm.Offset{Topic: topology.TopicDecisions, Partition: 0, At: of.Offset, LeaderEpoch: -1,
				Metadata: metadata})
			return admin.CommitAllOffsets(t.Context(), group, offsets) == nil
		})
		stop, got := m.start()
		if g := got[topology.TableOf(group)]; g.from != 0 || len(g.rows) == 0 {
			t.Errorf("with metadata %.40q the table is read from %d on, %d rows", metadata, g.from, len(g.rows))
		}
		m.equalRebuild(got)
		stop()
	}
}
