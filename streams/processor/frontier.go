package processor

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/lovoo/goka"
	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// frontierProcessor keeps the table of scopes. All rows of a workspace are in one partition, written in the order of
// the decisions, the workspace's own row behind the others: a reader of the table to its end has every row up to that
// row's seq, and perhaps some of the next decisions.
type frontierProcessor struct {
	*lazyTable[topology.FrontierRow]
	conn *nats.Conn

	stuck map[string]sequencer.Seq // guarded by base.mu: workspaces with a gap, and the last decision before it
	loads loads
}

// frontierPart is one partition of the table of scopes.
type frontierPart = lazyPart[topology.FrontierRow]

func newFrontierProcessor(b *base, conn *nats.Conn) *frontierProcessor {
	b.name, b.group = "frontier", topology.GroupOf(topology.GroupFrontier, b.cfg.Replica)
	b.table, b.position = topology.TableOf(b.group), frontierPosition
	t := newLazyTable(b, rowForm[topology.FrontierRow]{read: topology.DecodeFrontierRow, write: encodeRow,
		// Its own row's key is the beginning of all others, so it is written last.
		unitOf: topology.WorkspaceOfKey,
		header: func(row *topology.FrontierRow) []kgo.RecordHeader { return atHeader(int64(row.Seq)) }})
	return &frontierProcessor{lazyTable: t, conn: conn, stuck: make(map[string]sequencer.Seq)}
}

func (f *frontierProcessor) graph() *goka.GroupGraph {
	return goka.DefineGroup(goka.Group(f.group), append(f.carried(topology.TopicScopes),
		goka.Input(goka.Stream(topology.TopicDecisions), rawCodec{}, f.decision),
		goka.Output(goka.Stream(topology.TopicParked), rawCodec{}),
		goka.Persist(rawCodec{}))...)
}

// gained applies what a former release carried over and did not read, before goka brings anything.
func (f *frontierProcessor) gained(partition int32, store *tableStore) error {
	p := f.newPart(partition, store)
	err := p.takeCarried(topology.TopicScopes, func(key string, value []byte, l *ledger, e *entry) error {
		m, err := topology.DecodeScopeMove(value)
		if err == nil && m.Key() == key && p.stopped == nil {
			_ = f.apply(p, []topology.ScopeMove{*m}, l, e) // a gap is met again, and said, with the next decision
		}
		return err
	})
	if err == nil {
		f.gain(p)
	}
	return err
}

// decision brings the rows of its scopes to a decision.
func (f *frontierProcessor) decision(ctx goka.Context, msg any) {
	rec := recordOf(ctx)
	o := f.readDecision(rec, bytesOf(msg))
	if o == nil {
		return
	}
	if topology.CheckScopes(o) != nil { // no sequencer of this release writes it; older ones may have
		// A scope that is not canonical has no row of its own: it would be split over two.
		f.park(rec, bytesOf(msg), topology.ParkedMalformed)
		return
	}
	p := f.part(ctx.Partition())
	// Between two looks at what is due, and between questions.
	p.mu.Lock()
	after := sequencer.Seq(0)
	if p.stopped == nil {
		after = f.apply(p, topology.SplitByScope(o), rec.ledger, rec.entry)
	}
	stopped := p.stopped != nil
	p.mu.Unlock()
	if stopped {
		refuse(rec)
	} else if after+1 < o.Seq {
		f.gap(o.Workspace, after, o.Seq)
	}
}

// mostAhead bounds what a row counts behind a decision that is missing. A gap may last, and a row of more entries than
// a record may have could not be written: one workspace would stop the whole partition.
const mostAhead = 1 << 12

// apply brings rows to the moves of one decision, or stops the partition before it, and returns the seq of the
// workspace's own row, which a gap keeps where it is. mu is held, or p is not shared yet.
//
// The workspace's own row says "whole up to here", so it never jumps: a hole keeps it, and snapshots, where they are.
// It is written behind the rows it speaks of, in one partition, by one ordered producer. A broker that refuses such a
// row for good (one that is away does not: retries keep the order) and takes the ones behind it in the same few
// milliseconds could make a snapshot miss that row until the processor is built again, 0.1 s later. Only a change of
// permissions or limits under way does that.
func (f *frontierProcessor) apply(p *frontierPart, moves []topology.ScopeMove, l *ledger, e *entry) sequencer.Seq {
	rows := make([]*topology.FrontierRow, len(moves))
	for i := range moves {
		// All rows first: one that stops the partition leaves none of the decision in memory.
		if rows[i] = f.rowOf(p, &moves[i]); rows[i] == nil {
			return 0
		}
	}
	at := f.wholeTo(p, moves[0].Workspace)
	whole := func() sequencer.Seq { return at }
	load := f.loader(moves[0].Workspace)
	for i := range moves {
		m, row := &moves[i], rows[i]
		if m.TakesAway() && m.Seq > at {
			f.takeAway(p, m, at, l, e)
		}
		if m.Seq > at+1 && len(row.Count.Counted) >= mostAhead {
			// The own row can pass this decision only when it comes once more, behind the one that is missing: the row takes
			// it then.
			continue
		}
		had, changed := row.Shard, true
		switch {
		case m.Seq <= row.Seq:
			changed = lateContent(row, m, whole, load)
		case m.Last() && m.Seq != row.Seq+1:
			// What is missing comes again when the decision before it was refused by the broker; else the alarm stands, and
			// snapshots stay behind it.
			continue
		default:
			moveRow(row, m, load)
		}
		// A row that a broker has refused is made again from decisions that the workspace's own row is past: of such a row
		// only what comes before the decision is there, and its later writes are still to be counted.
		if counted := countWrite(row, had, m, min(at, m.Seq-1)); !changed && !counted {
			continue // a second copy, or one of a processor that lags behind
		}
		p.changed(m.Key(), l, e).rows[m.Key()] = row
	}
	return rows[len(rows)-1].Seq
}

// rowOf is the row of a move; nil: it cannot be read nor made again, and the partition is stopped. The workspace's
// own row would never be whole again, and a shard without its content would look absent and the workspace whole.
func (f *frontierProcessor) rowOf(p *frontierPart, m *topology.ScopeMove) *topology.FrontierRow {
	row, err := p.row(m.Key())
	switch {
	case err == nil && row != nil:
		return row
	case err == nil:
	case m.Last(), m.Scope.IsShard() && m.Shard == nil:
		p.stop(m.Key(), err)
		return nil
	default:
		f.brokenRow(m.Key(), err)
	}
	return &topology.FrontierRow{Workspace: m.Workspace, Scope: m.Scope}
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

// loader fetches contents by reference, where so many deltas stand on one that the row can not keep all of them.
type loader = func(*sequencer.Ref) ([]byte, error)

// A partition waits for a content while all its shards wait for it: each next delta would ask again for one that
// cannot be had. So after a failure none is asked for in a while, and the row keeps more for a time.
const (
	loadWait  = time.Second
	loadPause = time.Minute
)

func (f *frontierProcessor) loader(workspace string) loader {
	return func(r *sequencer.Ref) ([]byte, error) {
		return f.loads.get(f.cfg.Clock, func(ctx context.Context) ([]byte, error) {
			return f.cfg.Content(ctx, workspace, *r)
		})
	}
}

// loads is when contents may be loaded.
type loads struct {
	mu        sync.Mutex
	notBefore time.Time // guarded by mu
}

// errLoadedLately is why a content is not asked for.
var errLoadedLately = errors.New("a content could not be loaded lately")

func (l *loads) get(clock streams.Clock, load func(context.Context) ([]byte, error)) ([]byte, error) {
	// Partitions load at the same time, and each for itself.
	l.mu.Lock()
	early := clock.Now().Before(l.notBefore)
	l.mu.Unlock()
	if early {
		return nil, errLoadedLately
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadWait)
	defer cancel()
	body, err := load(ctx)
	if err != nil {
		l.mu.Lock()
		l.notBefore = clock.Now().Add(loadPause)
		l.mu.Unlock()
	}
	return body, err
}

// takeAway takes the contents of all shards that a tombstone covers out of their rows.
func (f *frontierProcessor) takeAway(p *frontierPart, m *topology.ScopeMove, whole sequencer.Seq, l *ledger,
	e *entry) {
	prefix, covered := topology.ScopeKey(m.Workspace, "shard:/"), map[string]bool{}
	look := func(key string) {
		scope := sequencer.Scope(topology.RestOfKey(key))
		covered[key] = strings.HasPrefix(key, prefix) && scope != m.Scope && m.Scope.Covers(scope)
	}
	if u := p.units[m.Workspace]; u != nil {
		for key := range u.rows {
			look(key)
		}
	}
	p.store.prefixed(prefix, func(key string, _ []byte) bool {
		look(key)
		return true
	})
	for key, is := range covered {
		if !is {
			continue
		}
		row, err := p.row(key)
		if err != nil {
			f.brokenRow(key, err) // it is made again by the next write, and shows nothing until then
			continue
		}
		if row.Shard == nil && row.Count.Known() && row.Count.Writes == 0 && whole+1 == m.Seq {
			continue // it is gone, and nothing that was written before can still come
		}
		one := *m
		one.Scope = row.Scope
		one.Shard = &sequencer.ShardWrite{Scope: row.Scope, Absent: true}
		had, changed := row.Shard, false
		if row.Shard != nil && (row.Shard.Version < m.Seq || len(row.Shard.Writes) > 0) {
			changed = lateContent(row, &one, func() sequencer.Seq { return whole }, nil)
		}
		if counted := row.Count.Known() && countWrite(row, had, &one, whole); changed || counted {
			row.Seq = max(row.Seq, m.Seq)
			p.changed(key, l, e).rows[key] = row
		}
	}
}

// moveRow brings a row to the seq of a move.
func moveRow(row *topology.FrontierRow, m *topology.ScopeMove, load loader) {
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
	moveContent(row, m, load)
	if m.Last() {
		row.Chain, row.Time, row.Floor = m.Chain, m.Time, m.Floor
	}
}

// moveContent gives a row what a move says of its version and content.
func moveContent(row *topology.FrontierRow, m *topology.ScopeMove, load loader) {
	if m.Write != nil {
		row.Version, row.Writer = m.Seq, m.Write.Writer
	}
	if s := m.Shard; s != nil {
		row.Version = m.Seq
		if m.Write == nil { // a settlement that restores content names whose it is
			row.Writer = sequencer.Writer{Seq: m.Seq, Tx: m.Tx}
		}
		if row.Shard.Merges(s) {
			if row.Shard = row.Shard.Merge(m.Seq, s, row.Former, load); row.Shard != nil {
				row.Shard.Writer = row.Writer
			}
			return
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

// countWrite counts what a move has written, once, and reports whether it did; had is what stood there before. Every
// decision up to whole is in the table.
func countWrite(row *topology.FrontierRow, had *topology.ShardRow, m *topology.ScopeMove, whole sequencer.Seq) bool {
	if m.Shard == nil {
		return false
	}
	if !row.Count.Known() && had != nil {
		row.Count = topology.CountFrom(had.Version)
	}
	emptied := m.Shard.Removes != 0 && row.Shard == nil // its last delta is taken out
	return row.Count.Add(m.Seq, whole, m.Shard.Absent || emptied)
}

// lateContent gives a row the content of a decision that came behind later ones: one that a broker had refused, and
// those behind it not. Holds of such moves are not taken: who knows whether they have ended. A row without content may
// have lost it to a retraction, so an older one comes in only while the workspace's own row, which is whole up to the
// given seq, is before it: the retraction then comes once more too. So the table is whole once that row has come as
// far, but for such holds.
//
// Writes that merge are put in their place among the others, where the row may lack them or has them already.
func lateContent(row *topology.FrontierRow, m *topology.ScopeMove, whole func() sequencer.Seq, load loader) bool {
	merges := m.Shard != nil && row.Shard.Merges(m.Shard)
	switch {
	case m.Write == nil && m.Shard == nil:
		return false
	case m.Seq > row.Version:
		moveContent(row, m, load)
		return true
	case merges && m.Seq <= whole():
		return false
	case merges:
	case m.Shard == nil, row.Shard == nil && (m.Shard.Absent || m.Seq <= whole()):
		return false
	case row.Shard != nil && row.Shard.Version >= m.Seq:
		return lateFormer(row, m)
	}
	version, writer := row.Version, row.Writer // of a later write, that left the content as it was if it does not merge
	moveContent(row, m, load)
	if row.Version, row.Writer = version, writer; merges && row.Shard != nil {
		row.Shard.Writer = writer
	}
	return true
}

// wholeTo is the seq of a workspace's own row.
func (f *frontierProcessor) wholeTo(p *frontierPart, workspace string) sequencer.Seq {
	row, err := p.row(topology.ScopeKey(workspace, ""))
	if err != nil || row == nil {
		return 0 // one that cannot be read stops the partition with its next move
	}
	return row.Seq
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

func (f *frontierProcessor) keep(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.keepRows(ctx) })
	f.answer(ctx, f.conn, topology.AskFrontier, f.frontierOf)
}

// frontierOf lists rows under a prefix by scope, without contents, each behind its length.
func (f *frontierProcessor) frontierOf(q question) ([]byte, error) {
	p := f.part(topology.PartitionOf(q.workspace, f.cfg.Partitions))
	if p == nil {
		return nil, errNotOurs
	}
	rows := under(p, topology.ScopeKey(q.workspace, sequencer.Scope(q.what)))
	sort.Slice(rows, func(i, j int) bool { return rows[i].Scope < rows[j].Scope })
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

// under copies the rows whose keys begin with a prefix, without contents, in no order.
func under(p *frontierPart, prefix string) (rows []topology.FrontierRow) {
	// Rows that are not written yet are changed in place.
	p.mu.Lock()
	defer p.mu.Unlock()
	take := func(row topology.FrontierRow) {
		if row.Shard != nil {
			shard := *row.Shard
			shard.Content, shard.Writes, row.Shard = nil, nil, &shard
		}
		row.Former, row.Open = nil, slices.Clone(row.Open)
		rows = append(rows, row)
	}
	changed := make(map[string]*topology.FrontierRow)
	if u := p.units[topology.WorkspaceOfKey(prefix)]; u != nil {
		changed = u.rows
	}
	for key, row := range changed {
		if strings.HasPrefix(key, prefix) {
			take(*row)
		}
	}
	p.store.prefixed(prefix, func(key string, value []byte) bool {
		// One that cannot be read starts again with the next record of its key.
		if row, err := topology.DecodeFrontierRow(value); err == nil && changed[key] == nil {
			take(*row)
		}
		return true
	})
	return rows
}

// frontierPosition is the seq of a row.
func frontierPosition(row []byte) int64 {
	r, err := topology.DecodeFrontierRow(row)
	if err != nil {
		return -1
	}
	return int64(r.Seq)
}
