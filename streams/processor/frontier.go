package processor

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/lovoo/goka"
	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// headerTable is the header of a move that names the table which it was made for, by its topic's id.
const headerTable = "hence-table"

// frontierProcessor keeps the table of scopes. A decision is split by scope into hence.scopes, because a callback may
// set only the row of its own key. All moves of a workspace, and all rows made of them, are in one partition in the
// order of the decisions, the workspace's own row last of each: a reader of the table to its end has every row up to
// that row's seq, and perhaps some of the next decisions.
type frontierProcessor struct {
	*base
	conn *nats.Conn

	// Guarded by base.mu.
	stopped []int32                  // partitions
	id      string                   // of the table's topic; another one is a table that was rebuilt
	stuck   map[string]sequencer.Seq // workspaces with a gap, and the last decision before it
}

func newFrontierProcessor(b *base, conn *nats.Conn) *frontierProcessor {
	b.name, b.group = "frontier", topology.GroupOf(topology.GroupFrontier, b.cfg.Replica)
	b.table, b.position = topology.TableOf(b.group), frontierPosition
	return &frontierProcessor{base: b, conn: conn, stuck: make(map[string]sequencer.Seq)}
}

func (f *frontierProcessor) common() *base { return f.base }

func (f *frontierProcessor) graph() *goka.GroupGraph {
	return goka.DefineGroup(goka.Group(f.group),
		goka.Input(goka.Stream(topology.TopicDecisions), rawCodec{}, f.decision),
		goka.Input(goka.Stream(topology.TopicScopes), rawCodec{}, f.move),
		goka.Output(goka.Stream(topology.TopicScopes), rawCodec{}),
		goka.Output(goka.Stream(topology.TopicParked), rawCodec{}),
		goka.Persist(rawCodec{}))
}

// decision splits one decision.
func (f *frontierProcessor) decision(ctx goka.Context, msg any) {
	o := f.readDecision(recordOf(ctx), bytesOf(msg))
	if o == nil {
		return
	}
	moves, values, reason := splitDecision(o)
	if reason != "" { // no sequencer of this release writes it; older ones may have
		f.park(recordOf(ctx), bytesOf(msg), reason)
		return
	}
	ours := goka.WithCtxEmitHeaders(goka.Headers{headerTable: []byte(f.tableID())})
	for i := range moves {
		ctx.Emit(goka.Stream(topology.TopicScopes), moves[i].Key(), values[i], ours)
	}
}

// splitDecision makes the records of a decision's moves, or says why there can be none.
func splitDecision(o *sequencer.Outcome) (moves []topology.ScopeMove, values [][]byte, reason string) {
	if topology.CheckScopes(o) != nil {
		// A scope that is not canonical has no row of its own: it would be split over two.
		return nil, nil, topology.ParkedMalformed
	}
	moves = topology.SplitByScope(o)
	for i := range moves {
		b, err := topology.EncodeScopeMove(&moves[i])
		if err != nil {
			// All of its moves or none: half of a decision in the rows would look whole behind the workspace's own row.
			return nil, nil, topology.ParkedOversize
		}
		values = append(values, b)
	}
	return moves, values, ""
}

// move applies one move to the row of its scope.
//
// The workspace's own row says "whole up to here", so it never jumps: a hole keeps it, and snapshots, where they are.
// It is written behind the rows it speaks of, in one partition, by one ordered producer. A broker that refuses such a
// row for good (one that is away does not: retries keep the order) and takes the ones behind it in the same few
// milliseconds could make a snapshot miss that row until the processor is built again, 0.1 s later. Only a change of
// permissions or limits under way does that.
func (f *frontierProcessor) move(ctx goka.Context, msg any) {
	value := bytesOf(msg)
	m, reason := f.readMove(ctx, value)
	if reason != "" {
		// A move of a foreign partition or form: the rows are whole without it or say a gap.
		f.park(recordOf(ctx), value, reason)
		return
	}
	row := &topology.FrontierRow{Workspace: m.Workspace, Scope: m.Scope}
	if had, _ := ctx.Value().([]byte); had != nil {
		r, err := topology.DecodeFrontierRow(had)
		switch {
		case err == nil:
			row = r
		case m.Last(), m.Scope.IsShard() && m.Shard == nil:
			// The move does not have all that the row had: made again from it, a shard would look absent and the workspace
			// whole.
			f.stop(recordOf(ctx), err)
			return
		default:
			f.brokenRow(ctx.Key(), err)
		}
	}
	switch {
	case m.Seq <= row.Seq:
		if !lateContent(row, m, func() sequencer.Seq { return f.wholeTo(ctx.Partition(), m.Workspace) }) {
			return // a second copy, or one of a processor that lags behind
		}
	case m.Last() && m.Seq != row.Seq+1:
		// What is missing comes again when the decision before it was refused by the broker; else the alarm stands, and
		// snapshots stay behind it. A move that the other group made, or that was made for a former table, says nothing of
		// what ours has yet to read.
		if string(ctx.Headers()[headerTable]) == f.tableID() {
			f.gap(m.Workspace, row.Seq, m.Seq)
		}
		return
	default:
		moveRow(row, m)
	}
	b, err := encodeRow(row)
	if err != nil { // a move without its row would be a hidden gap
		f.stop(recordOf(ctx), fmt.Errorf("its next version cannot be written: %w", err))
		return
	}
	ctx.SetValue(b, goka.WithCtxEmitHeaders(gokaAt(int64(row.Seq))))
}

// gap counts a gap that a decision met, and says it once.
func (f *frontierProcessor) gap(workspace string, after, next sequencer.Seq) {
	f.metrics.Gaps.Inc()
	// Callbacks of several partitions meet gaps.
	f.mu.Lock()
	at, said := f.stuck[workspace]
	f.stuck[workspace] = after
	f.mu.Unlock()
	if !said || at != after {
		f.cfg.Logger.Error("decisions are missing: snapshots stop before the gap; run hence doctor",
			"workspace", workspace, "after", after, "next", next)
	}
}

// stop ends the work on a partition before a move, whose row cannot be read and cannot be rebuilt from the move: the
// workspace's own row would never be whole again, and a shard would look absent. The record stays unfinished.
func (f *frontierProcessor) stop(ctx *tracked, err error) {
	err = fmt.Errorf("row %q of %s cannot be used: %w. If a newer release wrote it, start that one. Else stop the "+
		"processors of this group, delete %s and the offsets of group %s, and start them: the table is rebuilt from %s",
		ctx.Key(), f.table, err, f.table, f.group, topology.TopicDecisions)
	// As in gap.
	f.mu.Lock()
	f.stopped = append(f.stopped, ctx.Partition())
	f.mu.Unlock()
	f.metrics.Stopped.WithLabelValues(f.name).Inc()
	f.cfg.Health.Set(f.partName(ctx.Partition()), err)
	f.cfg.Logger.Error("this partition is not processed", "processor", f.name, "partition", ctx.Partition(), "error", err)
	ctx.ledger.hold(ctx.entry)
	// To return would let goka mark the record, and the partition go on without it.
	<-ctx.Context().Done()
}

// partName is a stopped partition's name in a health, beside the sequencer's.
func (f *frontierProcessor) partName(partition int32) string {
	return fmt.Sprintf("%s partition %d", f.name, partition)
}

func (f *frontierProcessor) readMove(ctx goka.Context, value []byte) (*topology.ScopeMove, string) {
	if reason := checkKey(ctx.Key(), ctx.Partition(), f.cfg.Partitions); reason != "" {
		return nil, reason
	}
	if len(value) == 0 {
		return nil, topology.ParkedEmpty
	}
	m, err := topology.DecodeScopeMove(value)
	if err != nil {
		return nil, reasonOf(err)
	}
	if m.Key() != ctx.Key() {
		return nil, topology.ParkedKey
	}
	return m, ""
}

// moveRow brings a row to the seq of a move.
func moveRow(row *topology.FrontierRow, m *topology.ScopeMove) {
	row.Seq = m.Seq
	for range m.Ended {
		if i := slices.IndexFunc(row.Open, func(o topology.OpenEpoch) bool { return o.Tx == m.Tx }); i >= 0 {
			row.Open = slices.Delete(row.Open, i, i+1)
		}
	}
	for range m.Added { // one entry for each hold: a transaction may have several on one scope
		row.Open = append(row.Open, topology.OpenEpoch{Epoch: m.Epoch, Tx: m.Tx, Since: m.Seq})
	}
	slices.SortStableFunc(row.Open, func(a, b topology.OpenEpoch) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), strings.Compare(string(a.Tx), string(b.Tx)))
	})
	row.Frontier = 0
	if len(row.Open) > 0 {
		row.Frontier = row.Open[0].Epoch
	}
	moveContent(row, m)
	if m.Last() {
		row.Chain, row.Time, row.Floor = m.Chain, m.Time, m.Floor
	}
}

// moveContent gives a row what a move says of its version and content.
func moveContent(row *topology.FrontierRow, m *topology.ScopeMove) {
	if m.Write != nil {
		row.Version, row.Writer = m.Seq, m.Write.Writer
	}
	if s := m.Shard; s != nil {
		row.Version = m.Seq
		if m.Write == nil { // a settlement that restores content names whose it is
			row.Writer = sequencer.Writer{Seq: m.Seq, Tx: m.Tx}
		}
		keepFormer(row)
		if row.Shard = nil; !s.Absent {
			row.Shard = &topology.ShardRow{Scope: s.Scope, Version: m.Seq, Writer: row.Writer, Type: s.Type,
				Content: s.Content, Ref: s.Ref, Restored: s.Restored}
			recall(row.Shard, row.Former)
		}
		trimFormer(row)
	}
}

// lateContent gives a row the content of a move that came behind later ones. hence.scopes is kept for days and
// hence.decisions for a year: a table that is rebuilt reads the last days' moves first, and all moves from the first
// decision on behind them. Holds of such moves are not taken: who knows whether they have ended. A row without content
// may have lost it to a retraction, so an older one comes in only while the workspace's own row, which is whole up to
// the given seq, is before it: the retraction then comes once more too. So the table is whole once that row has come
// as far, but for a hold that is older than the days that hence.scopes is kept. That is no gap: a move names the table
// that it was made for (headerTable), and hence_frontier_gaps_total counts only what moves of the same table jump
// over.
func lateContent(row *topology.FrontierRow, m *topology.ScopeMove, whole func() sequencer.Seq) bool {
	switch {
	case m.Write == nil && m.Shard == nil:
		return false
	case m.Seq > row.Version:
		moveContent(row, m)
		return true
	case m.Shard == nil, row.Shard == nil && (m.Shard.Absent || m.Seq <= whole()):
		return false
	case row.Shard != nil && row.Shard.Version >= m.Seq:
		return lateFormer(row, m)
	}
	version, writer := row.Version, row.Writer // of a later write that left the content as it was
	moveContent(row, m)
	row.Version, row.Writer = version, writer
	return true
}

// wholeTo is the seq of a workspace's own row.
func (f *frontierProcessor) wholeTo(partition int32, workspace string) sequencer.Seq {
	value, _ := f.store(partition).Get(topology.ScopeKey(workspace, ""))
	if value == nil {
		return 0
	}
	row, err := topology.DecodeFrontierRow(value)
	if err != nil {
		return 0 // its next move stops the partition
	}
	return row.Seq
}

// gained asks for the table's id: its moves are told by it.
func (f *frontierProcessor) gained(int32, *tableStore) error {
	ctx, cancel := context.WithTimeout(context.Background(), streams.RequestTimeout)
	defer cancel()
	id, err := streams.TopicID(ctx, f.out.client, f.table)
	if err != nil {
		return fmt.Errorf("id of %s: %w", f.table, err)
	}
	// See tableID.
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
	return nil
}

func (f *frontierProcessor) tableID() string {
	// Set when a partition is gained, read by callbacks.
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

func (f *frontierProcessor) merge(key string, value []byte, at int64, into *tableStore) {
	if had := into.rowAt(key, at); had != nil && overtakes(had, value) {
		// Two images of one seq: the one with the content stays, and is written again behind the other.
		into.joined(key, had, true)
		return
	}
	into.newer(key, value, at)
}

// overtakes reports whether a row is of a later version than another one of the same seq.
func overtakes(row, other []byte) bool {
	a, err := topology.DecodeFrontierRow(row)
	if err != nil {
		return false
	}
	b, err := topology.DecodeFrontierRow(other)
	return err == nil && a.Version > b.Version
}

func (f *frontierProcessor) dropped(bool) {
	// Callbacks of a lost session may still note that they stop.
	f.mu.Lock()
	for _, partition := range f.stopped {
		f.metrics.Stopped.WithLabelValues(f.name).Dec()
		f.cfg.Health.Drop(f.partName(partition))
	}
	f.stopped = nil
	f.mu.Unlock()
	f.forgetStores()
}

func (f *frontierProcessor) keep(ctx context.Context) {
	f.answer(ctx, f.conn, topology.AskFrontier, f.frontierOf)
}

// frontierOf lists rows under a prefix by scope, without contents, each behind its length.
func (f *frontierProcessor) frontierOf(store *tableStore, q question) ([]byte, error) {
	var rows []topology.FrontierRow
	store.prefixed(topology.ScopeKey(q.workspace, sequencer.Scope(q.what)), func(_ string, value []byte) bool {
		row, err := topology.DecodeFrontierRow(value)
		if err != nil {
			return true // starts again with the next record of its key
		}
		if row.Shard != nil {
			row.Shard.Content = nil
		}
		row.Former = nil
		rows = append(rows, *row)
		return true
	})
	slices.SortFunc(rows, func(a, b topology.FrontierRow) int { return cmp.Compare(a.Scope, b.Scope) })
	var out []byte
	var more error
	if len(rows) > q.limit {
		rows, more = rows[:q.limit], streams.ErrTruncated
	}
	for i := range rows {
		b, err := topology.EncodeFrontierRow(&rows[i])
		if err != nil {
			return nil, err
		}
		if len(out)+len(b) > maxAnswerBytes {
			// One message has a bound: part of the list, and said to be one.
			more = streams.ErrTruncated
			break
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out, more
}

// frontierPosition is the seq of a row.
func frontierPosition(row []byte) int64 {
	r, err := topology.DecodeFrontierRow(row)
	if err != nil {
		return -1
	}
	return int64(r.Seq)
}
