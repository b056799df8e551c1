package processor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lovoo/goka"
	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Statuses of a closure row.
const (
	statusOpen       = "open"
	statusSealed     = "sealed"
	statusCommitted  = "committed"
	statusAborted    = "aborted"
	statusSettled    = "settled"
	statusRetracting = "retracting" // its retraction was accepted, or that of one that it follows from
	statusRetracted  = "retracted"  // its turn is settled
)

// statusRank is where a transaction passes through a status.
func statusRank(status string) int {
	return slices.Index([]string{statusOpen, statusSealed, statusAborted, statusCommitted, statusSettled,
		statusRetracting, statusRetracted}, status)
}

// maxRowEdges bounds what one transaction's row keeps of reads, and of effects; more than any footprint may have.
const maxRowEdges = 1024

// maxRowTexts bounds what one list of a row has in texts: three of them and what else there is are less than a record.
// An agent may read, and write, as many and as long scopes as it likes, and its row must not end the processor.
const (
	maxRowTexts = 512 << 10
	perRowText  = 16 // what an item counts beside its texts
)

// finishEvery is how many joins a row takes in memory before it is brought into its bounds.
const finishEvery = 64

// noOffset is where no event was seen yet.
const noOffset = -1

// closureProcessor keeps the table of transactions: what each rests on. Its inputs have no common order, so whatever
// changes a row is a join: sets grow, statuses rise, seqs are set once. Every order ends in the same row.
type closureProcessor struct {
	*lazyTable[topology.ClosureRow]
	conn *nats.Conn
}

func newClosureProcessor(b *base, conn *nats.Conn) *closureProcessor {
	b.name, b.group = "closure", topology.GroupOf(topology.GroupClosure, b.cfg.Replica)
	b.table, b.position = topology.TableOf(b.group), closurePosition
	c := &closureProcessor{conn: conn}
	c.lazyTable = newLazyTable(b, rowForm[topology.ClosureRow]{
		read: topology.DecodeClosureRow,
		write: func(row *topology.ClosureRow) ([]byte, error) {
			c.finish(row)
			return topology.EncodeClosureRow(row)
		},
		unitOf: func(key string) string { return key },
		header: func(row *topology.ClosureRow) []kgo.RecordHeader { return atHeader(rowWeight(row)) },
	})
	return c
}

func (c *closureProcessor) graph() *goka.GroupGraph {
	return goka.DefineGroup(goka.Group(c.group), append(c.carried(topology.TopicTxs),
		goka.Input(goka.Stream(topology.TopicDecisions), rawCodec{}, c.decision),
		goka.Input(goka.Stream(topology.TopicEvents), rawCodec{}, c.event),
		goka.Output(goka.Stream(topology.TopicParked), rawCodec{}),
		goka.Persist(rawCodec{}))...)
}

// gained joins what a former release carried over and did not read, before goka brings anything.
func (c *closureProcessor) gained(partition int32, store *tableStore) error {
	p := c.newPart(partition, store)
	err := p.takeCarried(topology.TopicTxs, func(key string, value []byte, l *ledger, e *entry) error {
		o, err := topology.DecodeOutcome(value)
		if err == nil && topology.EventKey(o.Workspace, o.Tx) == key {
			c.change(p, o.Workspace, o.Tx, l, e, func(r *topology.ClosureRow) { joinOutcome(r, o) })
		}
		return err
	})
	if err == nil {
		c.gain(p)
	}
	return err
}

// decision joins a decision into its transaction's row.
func (c *closureProcessor) decision(ctx goka.Context, msg any) {
	rec := recordOf(ctx)
	if o := c.readDecision(rec, bytesOf(msg)); o != nil && o.Tx != "" {
		c.take(rec, o.Workspace, o.Tx, func(r *topology.ClosureRow) { joinOutcome(r, o) })
	}
}

// event joins what a record says that an agent did into its transaction's row. Loose reads of a session have no row.
func (c *closureProcessor) event(ctx goka.Context, msg any) {
	value, rec := bytesOf(msg), recordOf(ctx)
	reason := checkKey(ctx.Key(), ctx.Partition(), c.cfg.Partitions)
	var events []*topology.Event
	switch {
	case reason != "":
	case len(value) == 0:
		reason = topology.ParkedEmpty
	case len(value) > topology.MaxEventBytes:
		reason = topology.ParkedOversize
	default:
		var err error
		if events, err = topology.DecodeEvents(value); err != nil {
			reason = reasonOf(err)
		} else if topology.EventKey(events[0].Workspace, events[0].Tx) != ctx.Key() { // all have the first one's
			reason = topology.ParkedKey
		}
	}
	if reason != "" {
		// Put aside and not refused: one producer's bad record must not keep all others' rows from being kept.
		c.park(rec, value, reason)
		return
	}
	if first := events[0]; first.Tx != "" && first.Kind != topology.EventContent { // which is alone in its record
		c.take(rec, first.Workspace, first.Tx, func(r *topology.ClosureRow) {
			for _, ev := range events {
				joinEvent(r, ev, ctx.Offset())
			}
		})
	}
}

// take joins something of a record into a row, unless the partition has stopped.
func (c *closureProcessor) take(rec *tracked, workspace string, tx sequencer.TxID, join func(*topology.ClosureRow)) {
	p := c.part(rec.Partition())
	// Between two looks at what is due, and between questions.
	p.mu.Lock()
	stopped := p.stopped != nil
	if !stopped {
		c.change(p, workspace, tx, rec.ledger, rec.entry, join)
	}
	p.mu.Unlock()
	if stopped {
		refuse(rec)
	}
}

// change joins something into a row in memory; p.mu is held, or p is not shared yet.
func (c *closureProcessor) change(p *lazyPart[topology.ClosureRow], workspace string, tx sequencer.TxID, l *ledger,
	e *entry, join func(*topology.ClosureRow),
) {
	key := topology.EventKey(workspace, tx)
	row, err := p.row(key)
	if row == nil {
		row = &topology.ClosureRow{Workspace: workspace, Tx: tx, Status: statusOpen,
			Events: &topology.EventSpan{First: noOffset}}
	}
	if err != nil {
		c.brokenRow(key, err)
		// It begins again with this record: a derived row is a help, and must not stop the partition.
		row.Events = nil // what the row knew may have been earlier
	}
	join(row)
	u := p.changed(key, l, e)
	u.rows[key] = row
	if len(u.held)%finishEvery == 0 {
		// A row has its bounds in its one form only, and many large events may come before it is written.
		c.finish(row)
	}
}

// finish brings a row into its one form and counts a scar that is new in it.
func (c *closureProcessor) finish(row *topology.ClosureRow) {
	scar := row.Scar
	if finishRow(row); row.Scar && !scar {
		c.metrics.Scars.Inc()
		c.cfg.Logger.Error("the commit order violates causality", "workspace", row.Workspace, "tx", row.Tx, "seq", row.Seq)
	}
}

func joinEvent(r *topology.ClosureRow, ev *topology.Event, offset int64) {
	if r.Seq == 0 { // see joinAgent
		r.Agent = ev.Agent
	}
	r.Events = joinSpans(r.Events, &topology.EventSpan{First: offset})
	switch ev.Kind {
	case topology.EventEffect:
		if ev.Effect != nil && ev.Effect.Class != sequencer.ClassRead { // the index of a read is no call's
			r.Effects = append(r.Effects, topology.EffectSeen{Index: ev.Effect.Index, Class: ev.Effect.Class,
				Event: ev.Index})
		}
	case topology.EventRead:
		r.Edges = append(r.Edges, topology.ClosureEdge{Scope: ev.Scope, Writer: ev.Writer, Version: ev.Version,
			View: ev.View})
	case topology.EventWrite:
		r.Writes = append(r.Writes, ev.Scope)
	case topology.EventSeal:
		r.Status = laterStatus(r.Status, statusSealed)
		if ev.Seal == nil {
			return
		}
		for _, read := range ev.Seal.Reads {
			r.Edges = append(r.Edges, topology.ClosureEdge{Scope: read.Scope, Writer: read.Writer,
				Version: read.Version, View: read.View})
		}
		for _, s := range ev.Seal.Shards {
			r.Writes = append(r.Writes, s.Scope)
		}
		for _, e := range ev.Seal.Effects {
			if e.Absent { // nothing was called
				continue
			}
			r.Effects = append(r.Effects, topology.EffectSeen{Index: e.Index, Class: e.Class, Event: ev.Index})
		}
	}
}

// joinSpans is where the earlier of two begins; unknown stays unknown.
func joinSpans(a, b *topology.EventSpan) *topology.EventSpan {
	if a == nil || b == nil {
		return nil
	}
	first := min(a.First, b.First)
	if first < 0 {
		first = max(a.First, b.First)
	}
	return &topology.EventSpan{First: first}
}

func joinOutcome(r *topology.ClosureRow, o *sequencer.Outcome) {
	joinAgent(r, o)
	r.Final = r.Final || o.Final
	switch o.Kind {
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		r.Seq, r.Code = o.Seq, o.Code
		r.RestsOn = append(r.RestsOn, o.RestsOn...)
		for _, w := range o.Writes {
			r.Writes = append(r.Writes, w.Scope)
		}
		if o.Kind == sequencer.OutcomeCommitted {
			r.Status = laterStatus(r.Status, statusCommitted)
		} else {
			r.Status = laterStatus(r.Status, statusAborted)
		}
	case sequencer.OutcomeRetracting, sequencer.OutcomeTurn:
		r.Status = laterStatus(r.Status, statusRetracting)
		r.Retraction = cmp.Or(r.Retraction, o.Retraction)
	case sequencer.OutcomeSettled:
		if o.Retraction != "" {
			r.Retraction = o.Retraction
			r.Status = laterStatus(r.Status, statusRetracted)
		} else {
			r.Status = laterStatus(r.Status, statusSettled)
		}
	}
}

// joinAgent says whose transaction it is. A refusal names who asked, an adoption the new owner, and so do events after
// the decision: an agent of these would depend on the order of the inputs. The decision's is the transaction's own.
func joinAgent(r *topology.ClosureRow, o *sequencer.Outcome) {
	decides := o.Kind == sequencer.OutcomeCommitted || o.Kind == sequencer.OutcomeAborted
	others := o.Kind == sequencer.OutcomeRefused || o.Kind == sequencer.OutcomeAdopted
	if decides || r.Seq == 0 && !others {
		r.Agent = cmp.Or(o.Agent, r.Agent)
	} else {
		r.Agent = cmp.Or(r.Agent, o.Agent)
	}
}

// laterStatus is the one that a transaction reaches later.
func laterStatus(a, b string) string {
	if statusRank(a) > statusRank(b) {
		return a
	}
	return b
}

// finishRow brings a row into its one form and looks for a violated edge: a version that was read can only be older
// than the commit that rests on it.
func finishRow(r *topology.ClosureRow) {
	slices.SortFunc(r.Edges, compareEdges)
	r.Edges = slices.Compact(r.Edges)
	r.Edges = firstTexts(r.Edges[:min(len(r.Edges), maxRowEdges)], func(e topology.ClosureEdge) int {
		return len(e.Scope) + len(e.Writer)
	})
	slices.SortStableFunc(r.Effects, func(a, b topology.EffectSeen) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(b.Event, a.Event), cmp.Compare(a.Class, b.Class))
	})
	r.Effects = slices.CompactFunc(r.Effects, func(a, b topology.EffectSeen) bool { return a.Index == b.Index })
	r.Effects = r.Effects[:min(len(r.Effects), maxRowEdges)]
	slices.Sort(r.Writes)
	r.Writes = firstTexts(slices.Compact(r.Writes), func(s sequencer.Scope) int { return len(s) })
	slices.Sort(r.RestsOn)
	r.RestsOn = firstTexts(slices.Compact(r.RestsOn), func(tx sequencer.TxID) int { return len(tx) })
	committed := r.Code == "" && statusRank(r.Status) >= statusRank(statusCommitted)
	r.Scar = committed && r.Seq > 0 && slices.ContainsFunc(r.Edges, func(e topology.ClosureEdge) bool {
		return e.Version > r.Seq
	})
}

// firstTexts are the first items of a sorted list, as many as fit into a row. What one order of joins leaves
// out lies behind what fills the row, so every order leaves out the same.
func firstTexts[T any](list []T, size func(T) int) []T {
	left := maxRowTexts
	for i := range list {
		if left -= size(list[i]) + perRowText; left < 0 {
			return list[:i]
		}
	}
	return list
}

func compareEdges(a, b topology.ClosureEdge) int {
	return cmp.Or(strings.Compare(string(a.Scope), string(b.Scope)), cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.View, b.View), strings.Compare(string(a.Writer), string(b.Writer)))
}

// mergeRows joins two images of one row, so that an old one written late by another processor takes nothing away.
func mergeRows(a, b *topology.ClosureRow) *topology.ClosureRow {
	a.Edges = append(a.Edges, b.Edges...)
	a.Writes = append(a.Writes, b.Writes...)
	a.RestsOn = append(a.RestsOn, b.RestsOn...)
	a.Status = laterStatus(a.Status, b.Status)
	if a.Agent == "" || b.Seq != 0 { // see joinAgent
		a.Agent = cmp.Or(b.Agent, a.Agent)
	}
	a.Code = cmp.Or(a.Code, b.Code)
	a.Seq = max(a.Seq, b.Seq)
	a.Final = a.Final || b.Final
	a.Retraction = cmp.Or(a.Retraction, b.Retraction)
	a.Events = joinSpans(a.Events, b.Events)
	a.Effects = append(a.Effects, b.Effects...)
	finishRow(a)
	return a
}

// merge joins what the table topic has of a row; when its last record lacks something, the join is written again.
func (c *closureProcessor) merge(key string, value []byte, _ int64, into *tableStore) {
	had, _ := into.Get(key)
	a, errA := topology.DecodeClosureRow(had)
	b, errB := topology.DecodeClosureRow(value)
	switch {
	case had == nil || errA != nil:
		// Nothing that can be read is lost by taking the later one.
		into.joined(key, value, false)
		return
	case errB != nil:
		// The one that can be read stays, and is written again behind the broken one.
		into.joined(key, had, true)
		return
	}
	whole, err := topology.EncodeClosureRow(mergeRows(a, b))
	if err != nil {
		panic(fmt.Sprintf("streams: row %q of %s cannot be written: %v", key, c.table, err))
	}
	into.joined(key, whole, string(whole) != string(value))
}

// rowWeight tells a row from what it was before: a join never weighs less than its parts, but where a row has reached
// its bounds. Reading needs none, since rows are joined; the owner's look for late rows does.
func rowWeight(r *topology.ClosureRow) int64 {
	n := len(r.Edges) + len(r.Writes) + len(r.RestsOn) + len(r.Effects) + statusRank(r.Status)
	for _, has := range []bool{r.Seq > 0, r.Final, r.Retraction != "", r.Events != nil && r.Events.First >= 0} {
		if has {
			n++
		}
	}
	return int64(n)
}

// closurePosition is the weight of a row.
func closurePosition(row []byte) int64 {
	r, err := topology.DecodeClosureRow(row)
	if err != nil {
		return -1
	}
	return rowWeight(r)
}

// closureOf walks the table from a transaction, breadth first.
func (c *closureProcessor) closureOf(q question) ([]byte, error) {
	p := c.part(topology.PartitionOf(q.workspace, c.cfg.Partitions))
	if p == nil {
		return nil, errNotOurs
	}
	// Rows that are not written yet are changed in place.
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &topology.Closure{Tx: sequencer.TxID(q.what), Limit: q.limit}
	seen := map[sequencer.TxID]bool{out.Tx: true}
	bytes := 0
	for queue := []sequencer.TxID{out.Tx}; len(queue) > 0; queue = queue[1:] {
		row, err := p.row(topology.EventKey(q.workspace, queue[0]))
		if err != nil || row == nil {
			continue // one that cannot be read starts again with the next record of its key
		}
		c.finish(row)
		value, err := topology.EncodeClosureRow(row)
		if err != nil {
			return nil, err
		}
		if bytes += len(value); len(out.Rows) == q.limit || bytes > maxAnswerBytes {
			// The answer is one message, so it says that there is more rather than growing.
			out.Truncated = true
			break
		}
		out.Rows = append(out.Rows, *row)
		for _, next := range causes(row) {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	if len(out.Rows) == 0 {
		return nil, fmt.Errorf("%w: %s has no row in workspace %s", streams.ErrUnknownTx, q.what, q.workspace)
	}
	return topology.EncodeClosure(out)
}

// causes are the transactions that a row rests on, in order and once each.
func causes(row *topology.ClosureRow) []sequencer.TxID {
	txs := slices.Clone(row.RestsOn)
	for _, e := range row.Edges {
		if e.Writer != "" {
			txs = append(txs, e.Writer)
		}
	}
	slices.Sort(txs)
	return slices.Compact(txs)
}
