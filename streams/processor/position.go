package processor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// errOffLog stops a partition whose states and whose log do not meet: what lies between them, or what comes, would be
// passed over without a word. States that begin in the middle are wrong, and beside another replica they would stop
// that one too.
var errOffLog = errors.New("the states of this group and the log do not meet")

// position is where a partition of the log and a group's states of it stand.
type position struct {
	start, end int64 // of the log: its first record, and where the next one will go
	committed  int64 // where the group reads on; -1: it has not said, or Kafka has forgotten it
	applied    int64 // the greatest offset that its rows say it has read; -1: they say none
	bare       bool  // it has no row, and has read records that make one
}

// reads is where the group reads on. Without a committed offset everything before the newest state counts as read:
// a group that stops writes all states, and what Kafka has forgotten cannot be asked for.
func (x position) reads() int64 {
	if x.committed >= 0 {
		return x.committed
	}
	return x.applied + 1
}

// offLog says why the states cannot go on with the log; nil: they can.
func (x position) offLog(group, table string) error {
	copied := copyTable(group, table)
	switch through := max(x.committed, x.applied+1); {
	case through > x.end:
		// New records would get offsets that the states take for replays, and so be passed over.
		return fmt.Errorf("%w: it ends at offset %d and they have read it up to %d, so it lost acknowledged records, or "+
			"%s was recreated without %s; new records would be taken for old ones. Stop processors and sidecars. "+
			"Then restore all topics from one instant, or delete all and begin again", errOffLog, x.end, through,
			topology.TopicIntents, table)
	case x.reads() < x.start:
		// What was decided on the deleted records is in no state: the fold would go on from the middle.
		return fmt.Errorf("%w: it begins at offset %d and they have read it up to %d, and what is between is deleted: %s",
			errOffLog, x.start, x.reads(), copied)
	case x.bare:
		// Folded from here on, the decisions would begin at seq 1 once more.
		return fmt.Errorf("%w: group %s has read it up to offset %d, and %s is empty: if the log begins at offset 0 (it "+
			"begins at %d), delete the group's offsets too, and it recomputes the log; else %s", errOffLog, group,
			x.committed, table, x.start, copied)
	}
	return nil
}

// copyTable is how a group takes over what the other one has computed.
func copyTable(group, table string) string {
	return fmt.Sprintf("copy the other group's table to %s and its offsets to group %s, then start this one", table,
		group)
}

// meetsLog compares the rows that the partition has with its log. A workspace that has stopped does not hold the
// group's offsets back, so its old state says nothing of how far the group has read, and its mark does.
func (p *seqPartition) meetsLog(applied int64, rows bool) (position, error) {
	ctx, cancel := context.WithTimeout(context.Background(), streams.RequestTimeout)
	defer cancel()
	x := position{committed: -1, applied: applied}
	committed, err := streams.CommittedOf(ctx, p.out.client, p.group, topology.TopicIntents, p.partition)
	if err != nil {
		return x, err
	}
	x.committed = committed.Offset
	if x.start, err = streams.StartOffset(ctx, p.out.client, topology.TopicIntents, p.partition); err != nil {
		// Not known is not the same as fine: goka asks for the partition again.
		return x, err
	}
	if x.end, err = streams.EndOffset(ctx, p.out.client, topology.TopicIntents, p.partition); err != nil {
		return x, err
	}
	if !rows {
		if x.bare, err = p.madeStates(ctx, x.start, min(x.committed, x.end)); err != nil {
			return x, err
		}
	}
	return x, x.offLog(p.group, p.table)
}

// madeStates looks for a record between two offsets that leads to a state: one that is of a workspace here.
func (p *seqPartition) madeStates(ctx context.Context, from, to int64) (found bool, err error) {
	err = p.cfg.ReadRange(ctx, topology.TopicIntents, p.partition, from, to, func(r *kgo.Record) error {
		workspace := string(r.Key)
		found = topology.ValidWorkspace(workspace) == nil && checkKey(workspace, p.partition, p.cfg.Partitions) == ""
		if found {
			return streams.ErrStop
		}
		return nil
	})
	return found, err
}
