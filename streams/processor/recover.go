package processor

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// recover loads a partition that was gained: every replica is decoded, every outbox is published again, because the
// former owner may have gone before Kafka took it, and workspaces that had stopped are tried once more. An error says
// that Kafka could not be asked.
func (p *seqPartition) recover() error {
	// Before anything is published: a difference that both replicas said before the restart must stop this partition
	// again.
	p.states.await()
	p.mu.Lock()
	defer p.mu.Unlock()
	read, rows, err := p.loadRows()
	if err != nil {
		// An unreadable mark: where a workspace stopped is not known, so any record may be one that it must not take.
		p.stop(err)
		return nil
	}
	x, err := p.meetsLog(read, rows)
	if errors.Is(err, errOffLog) {
		p.stop(err)
		return nil
	} else if err != nil {
		return err
	}
	if p.checkReplicas(); p.stopped != nil {
		return nil
	}
	for _, r := range p.workspaces {
		p.publishOutbox(r)
	}
	// Last, with all outboxes out: what is read again is published behind what came before it.
	return p.reread(x)
}

// loadRows loads the workspaces of the table. It returns the greatest offset that the rows say was read, and whether
// there are rows at all. An error stops the partition: where a workspace has stopped is not known.
func (p *seqPartition) loadRows() (read int64, rows bool, err error) {
	read = -1
	marks := make(map[string]*mark)
	for key, row := range p.store.snapshot() {
		reason := checkKey(key, p.partition, p.cfg.Partitions)
		switch {
		case reason != "":
			p.metrics.Parked.WithLabelValues(p.table, reason).Inc() // not a workspace of ours
		case topology.IsStoppedKey(key):
			s, err := topology.DecodeStopped(row)
			if err != nil {
				return 0, true, fmt.Errorf("row %q of %s: %w", key, p.table, err)
			}
			marks[s.Workspace] = &mark{row: *s, durable: true}
			read, rows = max(read, s.At), true // the group has read on behind it, whatever its state has
		default:
			at := p.store.position(key)
			if r, err := p.load(key, row); err != nil {
				p.enterHalted(&halted{name: key, why: fmt.Errorf("its state in %s cannot be read: %w", p.table, err),
					at: -1, covered: at, state: max(at, 0), fix: p.fixUnreadable()})
			} else {
				at = r.replica.Offset()
			}
			read, rows = max(read, at), true
		}
	}
	for name, m := range marks {
		p.loadMark(name, m)
	}
	return read, rows, nil
}

// load makes the workspace of a table row.
func (p *seqPartition) load(workspace string, row []byte) (*workspaceState, error) {
	st, err := topology.DecodeReplica(row)
	if err != nil {
		return nil, err
	}
	if known := p.cfg.Faults.KnownLogic; known != 0 && st.State.Rules.Logic > known {
		// As RestoreReplica does for a logic that this binary really lacks.
		return nil, fmt.Errorf("%w: the state has logic %d", sequencer.ErrUnknownLogic, st.State.Rules.Logic)
	}
	replica, err := sequencer.RestoreReplica(*st)
	if err != nil {
		return nil, err
	}
	r := newWorkspaceState(workspace, replica)
	r.written, r.countAt = row, p.cfg.Clock.Now()
	_, r.pending = replica.NextTick()
	p.workspaces[workspace] = r
	return r, nil
}

// loadMark gives a stopped workspace its mark: one whose state can be read is loaded until it is tried again.
func (p *seqPartition) loadMark(name string, m *mark) {
	r := p.workspaces[name]
	switch h := p.halted[name]; {
	case h != nil: // its state cannot be read
		// The mark says where to read on, once a binary can read the state.
		h.mark, h.at = m, m.row.At
	case r != nil:
		r.mark = m
	case m.row.State >= 0:
		// An empty state would begin in the middle of the log, and decide everything before it once more.
		p.enterHalted(&halted{name: name, why: fmt.Errorf("its state, through offset %d, is gone from %s", m.row.State,
			p.table), at: m.row.At, covered: -1, state: m.row.State, mark: m, fix: p.fixUnreadable()})
	default:
		r = newWorkspaceState(name, sequencer.NewReplica(name))
		r.mark, r.countAt = m, p.cfg.Clock.Now()
		p.workspaces[name] = r
	}
}

// publishOutbox publishes again what may not be in Kafka. An older release may have written an outcome that cannot
// be read: the workspace stops then, and its row stays as it is.
func (p *seqPartition) publishOutbox(r *workspaceState) {
	messages, err := p.encode(r, r.replica.Outbox(), nil, "", time.Time{})
	if err != nil {
		// No workspace any more: a fold whose outcomes cannot be published must neither step on nor answer.
		delete(p.workspaces, r.name)
		h := &halted{name: r.name, why: err, at: -1, covered: r.replica.Offset(), state: r.replica.Offset(), mark: r.mark}
		if r.mark != nil {
			h.at = r.mark.row.At
		}
		p.enterHalted(h)
		return
	}
	for i := range messages {
		p.publish(r, &messages[i], nil)
	}
}

// reread applies the records of stopped workspaces from their marks up to the log's end, before any record that goka
// brings. Those that can go on are in memory afterwards as if they had never stopped; the others stop again.
//
// No record is lost, and none is applied out of order. The offset of a record is committed only when a written state
// has the record or a mark covers it (a mark covers its workspace's records from mark.From on), so each one that is
// neither in the state nor covered is at or behind the committed offset. All that the state lacks is therefore between
// min(mark.From, committed) and the end, is read here in the log's order, and what the state has is passed over by its
// offset. goka begins at the committed offset, which is not behind the end: what it brings from before the end the
// replica knows by its offset, and what it brings from there on comes next. A former owner that still lives cannot
// move the committed offset: Kafka fences its generation. Without one goka begins at the log's start, and so does
// this.
//
// Until then no state is written: one that has but some of the records, without its mark, would lose the others. When
// the next state is written it has all of them, and the mark is deleted behind its acknowledgement; if the process
// ends in between, the next owner reads them once more for nothing.
func (p *seqPartition) reread(x position) error {
	from, again := x.end, make(map[string]*workspaceState)
	for _, r := range p.workspaces {
		switch {
		case r.mark == nil:
		case max(r.mark.row.From, r.replica.Offset()+1) < x.start:
			// Records that neither its state nor the log has: to go on would decide without them, and differ from a replica
			// that has them. A mark alone proves none: Kafka may have refused the deletion of one that is void.
			p.haltWithout(r, x.start)
		default:
			from, again[r.name] = min(from, r.mark.row.From), r
		}
	}
	if len(again) == 0 {
		return nil
	}
	from = max(min(from, x.committed), x.start)
	session := p.store.session // not the present one: this recovery may have outlived its own
	take := func(rec *kgo.Record) error {
		r := again[string(rec.Key)]
		if r == nil || rec.Offset <= r.replica.Offset() {
			// In its state already, or of a workspace that never stopped.
			return nil
		}
		if p.checkReplicas(); p.stopped != nil {
			return streams.ErrStop // the replicas differ: what comes is in doubt
		}
		p.drainAcks()
		in, _ := readIntent(r.name, p.partition, p.cfg.Partitions, rec.Value) // what it cannot read was parked before
		p.apply(r, &logRecord{offset: rec.Offset, at: rec.Timestamp, headers: headersOf(rec)}, in)
		if p.halted[r.name] != nil {
			delete(again, r.name)
		}
		if len(again) == 0 {
			return streams.ErrStop // none can go on
		}
		return nil
	}
	err := p.cfg.ReadRange(session.Context(), topology.TopicIntents, p.partition, from, x.end, take)
	if err != nil {
		return fmt.Errorf("read the records of stopped workspaces: %w", err)
	}
	start, err := streams.StartOffset(session.Context(), p.out.client, topology.TopicIntents, p.partition)
	if err != nil {
		return err
	}
	if start > from {
		// Retention ran while it read, so a record may be missing from the middle; the next try finds that out by the mark.
		return fmt.Errorf("records of stopped workspaces were deleted while they were read: %s/%d begins at offset %d now",
			topology.TopicIntents, p.partition, start)
	}
	// What was applied is in doubt, so no state of it may be written.
	if p.stopped != nil {
		return nil
	}
	for _, r := range again {
		p.cfg.Logger.Info("a stopped workspace resumes", "workspace", r.name, "from", r.mark.row.From)
		p.dirty(r, r.replica.Offset(), true) // its state is written again, and its mark deleted
	}
	return nil
}
