package processor

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/topology"
)

// sentKeys are the keys of the records that a producer was given, in order.
type sentKeys []string

// OnProduceRecordBuffered implements kgo.HookProduceRecordBuffered.
func (k *sentKeys) OnProduceRecordBuffered(r *kgo.Record) { *k = append(*k, string(r.Key)) }

// lazyBase is a base whose records stay in the producer: no server listens.
func lazyBase(t *testing.T) (*base, *sentKeys) {
	t.Helper()
	keys := new(sentKeys)
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.WithHooks(keys))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg := streams.Config{Logger: slog.New(slog.DiscardHandler), Partitions: 1}
	return &base{cfg: cfg, metrics: meters.New(prometheus.NewRegistry()), out: producer{client: client},
		fail:   func(error) {},
		stores: make(map[int32]*tableStore)}, keys
}

// A row is written when nothing has changed it for a while, or when it has waited long enough, and the records in it
// are not finished while Kafka has not said that it has the row.
func TestRowsRest(t *testing.T) {
	b, sent := lazyBase(t)
	c := newClosureProcessor(b, nil)
	p := c.newPart(0, newTableStore(streams.TableSpan{}, nil))
	l := newLedger(func(_ string, _ int32, next int64) { t.Errorf("offsets up to %d are let go", next) })
	offset := int64(-1)
	change := func(tx sequencer.TxID) {
		offset++
		e := l.begin("in", 0, offset)
		c.change(p, "w", tx, l, e, func(r *topology.ClosureRow) {
			r.Writes = append(r.Writes, sequencer.Scope(fmt.Sprint("shard:/", offset)))
		})
		l.done("in", 0, offset)
	}
	wrote := func(looks, want int) {
		t.Helper()
		for range looks {
			p.writeDue()
		}
		if len(*sent) != want {
			t.Fatalf("%d rows are written, want %d", len(*sent), want)
		}
	}
	change("rests")
	wrote(rowsRest-1, 0)
	wrote(1, 1)
	for range rowsWait - 1 {
		change("busy")
		wrote(1, 1)
	}
	change("busy")
	wrote(1, 2)
	for range maxHolds {
		change("too busy")
	}
	wrote(1, 3)
	change("rests") // what is with the producer is not changed, and is read from there
	value, _ := p.store.Get("w|rests")
	if row, err := topology.DecodeClosureRow(value); err != nil || len(row.Writes) != 1 {
		t.Errorf("the row that was sent is %+v, %v", row, err)
	}
	if row, err := p.row("w|rests"); err != nil || len(row.Writes) != 2 {
		t.Errorf("the row is %+v, %v", row, err)
	}
	p.leave(false)
	wrote(rowsWait, 3) // who is given up in haste writes nothing more
}

// However much an agent does in a second, a row in memory is not much larger than one that is written.
func TestRowsInMemoryAreBounded(t *testing.T) {
	b, _ := lazyBase(t)
	c := newClosureProcessor(b, nil)
	p := c.newPart(0, newTableStore(streams.TableSpan{}, nil))
	l := newLedger(func(string, int32, int64) {})
	for offset := range int64(5 * maxRowEdges) {
		c.change(p, "w", "t", l, l.begin("in", 0, offset), func(r *topology.ClosureRow) {
			scope := sequencer.Scope(fmt.Sprint("shard:/", offset))
			joinEvent(r, &topology.Event{Kind: topology.EventRead, Scope: scope}, offset)
		})
	}
	if row, err := p.row("w|t"); err != nil || len(row.Edges) > maxRowEdges+finishEvery {
		t.Errorf("a row in memory has %d edges, %v", len(row.Edges), err)
	}
}

// Copies change nothing, so nothing is written, and their records are finished.
func TestCopiesWriteNothing(t *testing.T) {
	b, sent := lazyBase(t)
	c := newClosureProcessor(b, nil)
	store := newTableStore(streams.TableSpan{}, nil)
	p := c.newPart(0, store)
	finished := int64(0)
	l := newLedger(func(_ string, _ int32, next int64) { finished = next })
	o := &sequencer.Outcome{Workspace: "w", Tx: "t", Seq: 3, Kind: sequencer.OutcomeCommitted, Agent: "ann"}
	row := &topology.ClosureRow{Workspace: "w", Tx: "t", Status: statusOpen, Events: &topology.EventSpan{First: noOffset}}
	joinOutcome(row, o)
	value, err := p.form.write(row)
	if err == nil {
		err = store.Set("w|t", value)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.change(p, "w", "t", l, l.begin("in", 0, 0), func(r *topology.ClosureRow) { joinOutcome(r, o) })
	l.done("in", 0, 0)
	for range rowsRest {
		p.writeDue()
	}
	if len(*sent) != 0 || finished != 1 {
		t.Errorf("rows %v are written, offsets up to %d are let go", *sent, finished)
	}
}

// Questions are answered with rows that are not written yet, and the workspace's own row is written behind the rows
// that it speaks of.
func TestFrontierInMemory(t *testing.T) {
	b, sent := lazyBase(t)
	f := newFrontierProcessor(b, nil)
	p := f.newPart(0, newTableStore(streams.TableSpan{}, nil))
	b.stores[0] = p.store
	f.gain(p)
	l := newLedger(func(string, int32, int64) {})
	decide := func(o *sequencer.Outcome) {
		o.Workspace = "w"
		e := l.begin("in", 0, int64(o.Seq))
		f.apply(p, topology.SplitByScope(o), l, e)
	}
	write := func(scope sequencer.Scope) *sequencer.ShardWrite {
		return &sequencer.ShardWrite{Scope: scope, Content: []byte("content")}
	}
	decide(&sequencer.Outcome{Seq: 1, Shards: []sequencer.ShardWrite{*write("shard:/a"), *write("shard:/b")}})
	ask := func(prefix string) []topology.FrontierRow { return under(p, "w|"+prefix) }
	if rows := ask(""); len(rows) != 3 || len(ask("shard:/b")) != 1 || rows[0].Seq != 1 {
		t.Errorf("before they are written the rows are %+v", rows)
	}
	for range rowsRest {
		p.writeDue()
	}
	decide(&sequencer.Outcome{Seq: 2, Shards: []sequencer.ShardWrite{*write("shard:/b")}})
	byScope := make(map[sequencer.Scope]topology.FrontierRow)
	for _, row := range ask("") {
		if byScope[row.Scope] = row; row.Shard != nil && row.Shard.Content != nil {
			t.Errorf("an answer has contents: %+v", row)
		}
	}
	if len(byScope) != 3 || byScope[""].Seq != 2 || byScope["shard:/a"].Seq != 1 || byScope["shard:/b"].Seq != 2 {
		t.Errorf("half written the rows are %+v", byScope)
	}
	if row, err := p.row("w|shard:/b"); err != nil || !bytes.Equal(row.Shard.Content, []byte("content")) {
		t.Errorf("an answer took the content from the row: %+v, %v", row, err)
	}
	if got := fmt.Sprint(*sent); got != "[w|shard:/b w|shard:/a w|]" {
		t.Errorf("written are %s, want the workspace's own row last", got)
	}
}

// A tombstone writes no row of a shard that one before it has taken away: a bench resets thousands of times. Where a
// decision between the two is missing, which may have written it, the row says that it is gone as of the later one.
func TestTombstoneSkipsRowsThatAreGone(t *testing.T) {
	b, _ := lazyBase(t)
	f := newFrontierProcessor(b, nil)
	p := f.newPart(0, newTableStore(streams.TableSpan{}, nil))
	b.stores[0] = p.store
	f.gain(p)
	l := newLedger(func(string, int32, int64) {})
	decide := func(seq sequencer.Seq, w sequencer.ShardWrite) {
		o := &sequencer.Outcome{Workspace: "w", Kind: sequencer.OutcomeCommitted, Seq: seq,
			Shards: []sequencer.ShardWrite{w}}
		f.apply(p, topology.SplitByScope(o), l, l.begin("in", 0, int64(seq)))
	}
	gone := sequencer.ShardWrite{Scope: "shard:/", Absent: true}
	at := func(want sequencer.Seq) {
		t.Helper()
		row, err := p.row("w|shard:/a")
		if err != nil || row.Seq != want || row.Shard != nil || row.Count.Writes != 0 {
			t.Errorf("the row is %+v, %v; want it at seq %d", row, err, want)
		}
	}
	decide(1, sequencer.ShardWrite{Scope: "shard:/a", Content: []byte("content")})
	decide(2, gone)
	at(2)
	decide(3, gone)
	at(2)
	decide(5, gone)
	at(5)
}

// A row that a broker has refused, while it took that of the workspace behind it, is made again from the same
// decisions: it counts each of its writes.
func TestLostRowCountsAgain(t *testing.T) {
	b, _ := lazyBase(t)
	f := newFrontierProcessor(b, nil)
	store := newTableStore(streams.TableSpan{}, nil)
	decide := func(p *frontierPart) {
		l := newLedger(func(string, int32, int64) {})
		for seq := sequencer.Seq(1); seq <= 5; seq++ {
			o := &sequencer.Outcome{Workspace: "w", Kind: sequencer.OutcomeCommitted, Seq: seq,
				Shards: []sequencer.ShardWrite{{Scope: "shard:/a", Content: []byte("content")}}}
			f.apply(p, topology.SplitByScope(o), l, l.begin("in", 0, int64(seq)))
		}
	}
	first := f.newPart(0, newTableStore(streams.TableSpan{}, nil))
	b.stores[0] = first.store
	f.gain(first)
	decide(first)
	whole, err := first.row("w|")
	if err != nil || whole.Seq != 5 {
		t.Fatalf("%+v, %v", whole, err)
	}
	row, err := topology.EncodeFrontierRow(whole)
	if err != nil {
		t.Fatal(err)
	}
	store.newer("w|", row, 1)
	again := f.newPart(0, store)
	b.stores[0] = store
	f.gain(again)
	decide(again)
	if made, err := again.row("w|shard:/a"); err != nil || made.Count.Writes != 5 {
		t.Errorf("it counts %+v, %v; want 5 writes", made.Count, err)
	}
}

// A gap that lasts, behind which one shard is written more often than a row can count, stops neither the partition nor
// the shard: once what is missing comes, and what is behind it once more, the row is what all of it comes to.
func TestRowsBehindALastingGap(t *testing.T) {
	b, _ := lazyBase(t)
	f := newFrontierProcessor(b, nil)
	p := f.newPart(0, newTableStore(streams.TableSpan{}, nil))
	l := newLedger(func(string, int32, int64) {})
	const last = 1<<16 + 10 // more than a list of a record has
	offset := int64(0)
	decide := func(from sequencer.Seq) {
		for seq := from; seq <= last; seq++ {
			o := &sequencer.Outcome{Workspace: "w", Kind: sequencer.OutcomeCommitted, Seq: seq, Tx: "t",
				Writes: []sequencer.Write{{Scope: "shard:/a", Writer: sequencer.Writer{Seq: seq, Tx: "t"}}},
				Shards: []sequencer.ShardWrite{{Scope: "shard:/a", Content: fmt.Append(nil, seq)}}}
			offset++
			f.apply(p, topology.SplitByScope(o), l, l.begin("in", 0, offset))
		}
		p.writeAll()
		if p.stopped != nil {
			t.Fatal(p.stopped)
		}
	}
	decide(2) // and 1 is missing
	decide(1)
	whole, err := p.row("w|")
	if err != nil || whole.Seq != last {
		t.Errorf("the workspace's own row is at %d, %v", whole.Seq, err)
	}
	row, err := p.row("w|shard:/a")
	if err != nil || row.Seq != last || row.Count.Writes != last || string(row.Shard.Content) != fmt.Sprint(last) {
		t.Errorf("the shard is at %d, has %q and counts %d writes of %d, %v", row.Seq, row.Shard.Content, row.Count.Writes,
			last, err)
	}
}
