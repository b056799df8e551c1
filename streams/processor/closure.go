package processor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lovoo/goka"
	"github.com/nats-io/nats.go"

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

// noOffset is where no event was seen yet.
const noOffset = -1

// closureProcessor keeps the table of transactions: what each rests on. Its inputs have no common order, so whatever
// changes a row is a join: sets grow, statuses rise, seqs are set once. Every order ends in the same row.
type closureProcessor struct {
	*base
	conn *nats.Conn
}

func newClosureProcessor(b *base, conn *nats.Conn) *closureProcessor {
	b.name, b.group = "closure", topology.GroupOf(topology.GroupClosure, b.cfg.Replica)
	b.table = topology.TableOf(b.group)
	return &closureProcessor{base: b, conn: conn}
}

func (c *closureProcessor) common() *base { return c.base }

func (c *closureProcessor) graph() *goka.GroupGraph {
	return goka.DefineGroup(goka.Group(c.group),
		goka.Input(goka.Stream(topology.TopicDecisions), rawCodec{}, c.decision),
		goka.Input(goka.Stream(topology.TopicEvents), rawCodec{}, c.event),
		goka.Input(goka.Stream(topology.TopicTxs), rawCodec{}, c.outcome),
		goka.Output(goka.Stream(topology.TopicTxs), rawCodec{}),
		goka.Output(goka.Stream(topology.TopicParked), rawCodec{}),
		goka.Persist(rawCodec{}))
}

// decision carries a decision over to the key of its transaction; contents stay behind.
func (c *closureProcessor) decision(ctx goka.Context, msg any) {
	o := c.readDecision(recordOf(ctx), bytesOf(msg))
	if o == nil || o.Tx == "" {
		return
	}
	// The row says what a transaction rests on; contents would make it larger than a record.
	for i := range o.Shards {
		o.Shards[i].Content = nil
	}
	b, err := topology.EncodeOutcome(o)
	if err != nil {
		panic(fmt.Sprintf("streams: decision %s/%d cannot be carried over: %v", o.Workspace, o.Seq, err))
	}
	ctx.Emit(goka.Stream(topology.TopicTxs), topology.EventKey(o.Workspace, o.Tx), b)
}

// event joins what a record says that an agent did into its transaction's row. Loose reads of a session have no row.
func (c *closureProcessor) event(ctx goka.Context, msg any) {
	value := bytesOf(msg)
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
		c.park(recordOf(ctx), value, reason)
		return
	}
	if first := events[0]; first.Tx != "" && first.Kind != topology.EventContent { // which is alone in its record
		c.change(ctx, first.Workspace, first.Tx, func(r *topology.ClosureRow) {
			for _, ev := range events {
				joinEvent(r, ev, ctx.Offset())
			}
		})
	}
}

// outcome joins a decision into its transaction's row.
func (c *closureProcessor) outcome(ctx goka.Context, msg any) {
	value := bytesOf(msg)
	reason := checkKey(ctx.Key(), ctx.Partition(), c.cfg.Partitions)
	var o *sequencer.Outcome
	switch {
	case reason != "":
	case len(value) == 0:
		reason = topology.ParkedEmpty
	default:
		var err error
		if o, err = topology.DecodeOutcome(value); err != nil {
			reason = reasonOf(err)
		} else if topology.EventKey(o.Workspace, o.Tx) != ctx.Key() {
			reason = topology.ParkedKey
		}
	}
	if reason != "" {
		// As in event.
		c.park(recordOf(ctx), value, reason)
		return
	}
	c.change(ctx, o.Workspace, o.Tx, func(r *topology.ClosureRow) { joinOutcome(r, o) })
}

// change joins something into the row of the record's key.
func (c *closureProcessor) change(ctx goka.Context, workspace string, tx sequencer.TxID,
	join func(*topology.ClosureRow),
) {
	row := &topology.ClosureRow{Workspace: workspace, Tx: tx, Status: statusOpen,
		Events: &topology.EventSpan{First: noOffset}}
	had, _ := ctx.Value().([]byte)
	if had != nil {
		if r, err := topology.DecodeClosureRow(had); err != nil {
			c.brokenRow(ctx.Key(), err)
			// It begins again with this record: a derived row is a help, and must not stop the partition.
			row.Events = nil // what the row knew may have been earlier
		} else {
			row = r
		}
	}
	scar := row.Scar
	join(row)
	finishRow(row)
	b, err := topology.EncodeClosureRow(row)
	if err != nil {
		panic(fmt.Sprintf("streams: row %q of %s cannot be written: %v", ctx.Key(), c.table, err))
	}
	if row.Scar && !scar {
		c.metrics.Scars.Inc()
		c.cfg.Logger.Error("the commit order violates causality", "workspace", workspace, "tx", tx, "seq", row.Seq)
	}
	// A copy changes nothing, so nothing is written: replicas and restarts bring each record several times.
	if string(b) != string(had) {
		ctx.SetValue(b)
	}
}

func joinEvent(r *topology.ClosureRow, ev *topology.Event, offset int64) {
	r.Agent = ev.Agent
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
	if o.Agent != "" {
		r.Agent = o.Agent
	}
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
	slices.SortFunc(r.Effects, func(a, b topology.EffectSeen) int {
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
	a.Agent = cmp.Or(a.Agent, b.Agent)
	a.Code = cmp.Or(a.Code, b.Code)
	a.Seq = max(a.Seq, b.Seq)
	a.Final = a.Final || b.Final
	a.Retraction = cmp.Or(a.Retraction, b.Retraction)
	a.Events = joinSpans(a.Events, b.Events)
	a.Effects = append(a.Effects, b.Effects...)
	finishRow(a)
	return a
}

func (c *closureProcessor) gained(int32, *tableStore) error { return nil }

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

func (c *closureProcessor) dropped(bool) { c.forgetStores() }

// closureOf walks the table from a transaction, breadth first.
func (c *closureProcessor) closureOf(store *tableStore, q question) ([]byte, error) {
	out := &topology.Closure{Tx: sequencer.TxID(q.what), Limit: q.limit}
	seen := map[sequencer.TxID]bool{out.Tx: true}
	bytes := 0
	for queue := []sequencer.TxID{out.Tx}; len(queue) > 0; queue = queue[1:] {
		value, _ := store.Get(topology.EventKey(q.workspace, queue[0]))
		if value == nil {
			continue
		}
		if bytes += len(value); len(out.Rows) == q.limit || bytes > maxAnswerBytes {
			// The answer is one message, so it says that there is more rather than growing.
			out.Truncated = true
			break
		}
		row, err := topology.DecodeClosureRow(value)
		if err != nil {
			continue // starts again with the next record of its key
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
