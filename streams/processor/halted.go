package processor

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A record that a workspace cannot pass stops that workspace, and no other one: its decision cannot be written so that
// our own readers take it, its state cannot be written, or it asks for a logic that this binary does not have. The
// record is not refused: a binary that can take it would decide otherwise, and the log has one meaning.
//
// So the workspace's row stays the last one that could be written, and a mark beside it says from which record on the
// log must be read again. Once Kafka has the mark, the workspace's offsets go on with those of the others. Each group
// does this for itself: a state that stands still says no hashes, so it does not differ from another one's.

// halted is a workspace that has stopped. It is not in memory: its replica may have taken a record without an outcome,
// and must neither answer questions nor become a row.
type halted struct {
	name    string
	why     error
	fix     string // what else to do than to start a release that can; empty: nothing
	at      int64  // the record that it cannot pass; -1: its state cannot be used, and no record has come yet
	state   int64  // offset of the last record in its row, as far as that is known; -1: it has no row
	covered int64  // its row has the workspace's records up to here; -1: not known
	mark    *mark  // nil: no record has come that needs one
}

// mark is a Stopped row, on its way to Kafka or there.
type mark struct {
	row  topology.Stopped
	gone atomic.Bool // a later state made it void, and Kafka has deleted it

	mu       sync.Mutex // apart from the partition's, as acksMu is
	durable  bool
	replaced bool     // the workspace has stopped again: this mark is not to be deleted any more
	waiting  []func() // what to do once it is durable
}

// then runs f once the mark is durable.
func (m *mark) then(f func()) {
	// Its own lock: acknowledgements come while a callback with the partition's waits for the producer.
	m.mu.Lock()
	durable := m.durable
	if !durable {
		m.waiting = append(m.waiting, f)
	}
	m.mu.Unlock()
	if durable {
		// Outside of the lock, since what waits may look at the mark.
		f()
	}
}

// acknowledged says that Kafka has the mark.
func (m *mark) acknowledged() {
	m.mu.Lock()
	waiting := m.waiting
	m.durable, m.waiting = true, nil
	m.mu.Unlock()
	// Only now are the offsets let go: before, a crash would leave records that neither a state nor a mark covers.
	for _, f := range waiting {
		f()
	}
}

// halt ends the work on one workspace before a record; what of it is in no written state is let go once a mark covers
// it. mu is held.
func (p *seqPartition) halt(r *workspaceState, rec *logRecord, why error) {
	from := rec.offset
	if r.steps > 0 {
		from = min(from, r.first)
	}
	if r.mark != nil { // what it covers is committed already
		// The first of the two marks covers more, and what it covers is committed.
		from = min(from, r.mark.row.From)
		r.mark.replace()
	}
	// Its fold may have taken the record and published nothing: it must not become a row.
	delete(p.workspaces, r.name)
	h := &halted{name: r.name, why: why, at: rec.offset, state: r.kept.Load(), covered: -1}
	row := topology.Stopped{Workspace: r.name, From: from, At: rec.offset, State: h.state, Reason: why.Error()}
	if h.mark = r.mark; h.mark == nil || h.mark.row != row {
		h.mark = p.writeMark(row)
	}
	held, l := r.held, r.ledger
	if rec.ledger != nil {
		rec.hold()
		held, l = append(held, rec.entry), rec.ledger
	}
	if len(held) > 0 {
		h.mark.then(func() { l.release(held...) })
	}
	p.enterHalted(h)
}

// haltWithout ends the work on a workspace whose records are deleted from the log, up to its first; mu is held.
func (p *seqPartition) haltWithout(r *workspaceState, start int64) {
	delete(p.workspaces, r.name)
	p.enterHalted(&halted{name: r.name, at: r.mark.row.At, state: r.replica.Offset(), covered: r.replica.Offset(),
		mark: r.mark, why: fmt.Errorf("%s; and its records from offset %d on cannot be read again: the log begins at "+
			"offset %d now, what came before is deleted", r.mark.row.Reason, r.mark.row.From, start),
		fix: "If the other group goes on with this workspace: " + p.copyTable() + ". If no group does, none can: " +
			"restore all topics from a backup that has these records, or go on in another workspace"})
}

// passBy leaves a record of a stopped workspace to a later reader of the log from its mark on; mu is held.
func (p *seqPartition) passBy(h *halted, rec *logRecord) {
	if rec.offset <= h.covered {
		return // its row has it
	}
	if h.at < 0 {
		h.at = rec.offset
		p.cfg.Health.Note(h.part(), p.textOf(h))
	}
	// The first record of a workspace whose state cannot be read: until now no mark was needed.
	if h.mark == nil || rec.offset < h.mark.row.From {
		h.mark = p.writeMark(topology.Stopped{Workspace: h.name, From: rec.offset, At: h.at, State: h.state,
			Reason: h.why.Error()})
	}
	// Until Kafka has the mark the record's only trace is its own offset.
	rec.hold()
	h.mark.then(rec.release)
}

// replace keeps the mark from being deleted: an acknowledgement of a state that is still to come would delete the one
// that takes its place.
func (m *mark) replace() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaced = true
}

// writeMark writes the row that says where a workspace has stopped.
func (p *seqPartition) writeMark(row topology.Stopped) *mark {
	value, err := topology.EncodeStopped(&row)
	if err != nil {
		// Without a mark the offsets would go on and the records be lost; a process that ends keeps them.
		panic(fmt.Sprintf("streams: the mark of workspace %q cannot be written: %v", row.Workspace, err))
	}
	m, key := &mark{row: row}, topology.StoppedKey(row.Workspace)
	if err := p.store.Set(key, value); err != nil {
		panic(fmt.Sprintf("streams: the mark of workspace %q: %v", row.Workspace, err))
	}
	rec := &kgo.Record{Topic: p.table, Key: []byte(key), Value: value, Headers: atHeader(markPosition(&row))}
	p.out.send(rec, func(_ *kgo.Record, err error) {
		if err != nil {
			// The held offsets stay where they are, and the next run halts it again.
			p.fail(fmt.Errorf("write where workspace %q has stopped: %w", row.Workspace, err))
			return
		}
		m.acknowledged()
	})
	return m
}

// unmark deletes a mark that a written state has made void. It is called when Kafka has that state, not with it: Kafka
// may refuse a batch and take the next one. A mark that stays is deleted behind the next state.
func (p *seqPartition) unmark(m *mark) {
	m.mu.Lock() // else a mark that takes this one's place could be sent before its deletion
	defer m.mu.Unlock()
	if m.replaced {
		return
	}
	key := topology.StoppedKey(m.row.Workspace)
	_ = p.store.Delete(key) // of a map: it cannot fail
	rec := &kgo.Record{Topic: p.table, Key: []byte(key)}
	p.out.trySend(rec, func(_ *kgo.Record, err error) { m.gone.Store(err == nil) })
}

// enterHalted notes a stopped workspace; mu is held.
func (p *seqPartition) enterHalted(h *halted) {
	p.halted[h.name] = h
	p.cfg.Logger.Error(p.textOf(h))
	if p.told {
		p.tellHalted(h)
	}
}

// tellHalted says where people look that a workspace has stopped; mu is held.
func (p *seqPartition) tellHalted(h *halted) {
	p.metrics.Workspaces.Inc()
	p.cfg.Health.Note(h.part(), p.textOf(h))
}

// leaveHalted forgets the stopped workspaces: the partition is not ours any more; mu is held.
func (p *seqPartition) leaveHalted() {
	for _, h := range p.halted {
		p.metrics.Workspaces.Dec()
		p.cfg.Health.Unnote(h.part())
	}
}

// part is the workspace's name in a health.
func (h *halted) part() string { return "workspace " + h.name }

// textOf says where a workspace has stopped, why, and what to do.
func (p *seqPartition) textOf(h *halted) string {
	f := p.factOf(h)
	return f.What + ". " + f.Fix
}

// factOf is a stopped workspace as a doctor tells it.
func (p *seqPartition) factOf(h *halted) topology.StoppedFact {
	f := topology.StoppedFact{Workspace: h.name, Replica: p.replica(), Instance: p.cfg.Instance, Partition: p.partition,
		At: h.at, From: h.at, Reason: h.why.Error(), Fix: h.fix}
	where := ""
	if h.mark != nil {
		f.From = h.mark.row.From
	}
	if h.at >= 0 {
		where = fmt.Sprintf(" at offset %d of %s/%d", h.at, topology.TopicIntents, p.partition)
	}
	f.What = fmt.Sprintf("workspace %q has stopped%s in replica %s, the other workspaces go on: %v", h.name, where,
		f.Replica, h.why)
	if f.Fix == "" {
		f.Fix = fmt.Sprintf("Start a newer release of hence streams in this group: it reads the workspace's records from "+
			"offset %d on again and goes on by itself. Until then keep %s from there on (its retention.ms)", f.From,
			topology.TopicIntents)
	}
	return f
}

// fixUnreadable is what to do about a state that cannot be used.
func (p *seqPartition) fixUnreadable() string {
	return "If a newer release wrote it, start that one in this group: it goes on by itself. Else, where the other " +
		"group goes on: " + p.copyTable() + ". Or, while the log begins at offset 0, stop this group and let it compute " +
		"the log again: `" + p.cfg.ForgetCommand(p.replica()) + "`"
}

// copyTable is how to give this group what the other one has computed.
func (p *seqPartition) copyTable() string { return copyTable(p.group, p.table) }

// replica is the name of this group's replica.
func (b *base) replica() string {
	if b.cfg.Replica == "" {
		return topology.ReplicaA
	}
	return b.cfg.Replica
}

// errFold wraps what a step panicked with.
var errFold = errors.New("the fold failed")

// step applies a record to a replica. A panic is an error: the replica is forgotten then, and one workspace must not
// take the process down at each start.
func (p *seqPartition) step(r *workspaceState, offset int64, in *sequencer.Intent) (
	applied sequencer.Applied, err error,
) {
	defer func() {
		if v := recover(); v != nil {
			// One workspace stops, and not the process: it would die at this record at every start, with all other workspaces.
			err = fmt.Errorf("%w: %v", errFold, v)
		}
	}()
	if known := p.cfg.Faults.KnownLogic; known != 0 && asksLogic(r.replica, in) > known {
		return applied, fmt.Errorf("%w: logic %d, this one is %d", sequencer.ErrUnknownLogic, asksLogic(r.replica, in),
			known)
	}
	return r.replica.Apply(offset, in)
}

// asksLogic is the logic that a record asks for, zero: none. It is for a fault of the tests only: the fold knows.
func asksLogic(r *sequencer.Replica, in *sequencer.Intent) uint32 {
	switch {
	case in == nil:
	case in.Kind == sequencer.IntentRules && in.Rules != nil:
		return in.Rules.Logic
	case in.Kind == sequencer.IntentJoin && in.Join != nil && r.Fold().Seq() == 0:
		return in.Join.Logic
	}
	return 0
}

// markPosition makes the mark that begins earlier the newer one: a former owner's late mark could begin behind records
// that the heir's has let go, and one that begins too early only makes a reader read more.
func markPosition(s *topology.Stopped) int64 { return math.MaxInt64 - s.From }
