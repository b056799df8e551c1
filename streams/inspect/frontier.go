package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// inspectWorkspaces is how many workspaces' snapshots are looked at.
const inspectWorkspaces = 64

// snapshots looks for workspaces whose snapshots stand still before the newest decisions: one that is missing further
// back than those were read keeps them there, and every sidecar that starts.
func (i *inspection) snapshots(ctx context.Context, conn *nats.Conn) {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	client := streams.Asking(i.cfg, conn)
	workspaces := slices.Sorted(maps.Keys(i.lowest))
	for _, workspace := range workspaces[:min(len(workspaces), inspectWorkspaces)] {
		p := topology.PartitionOf(workspace, i.cfg.Partitions)
		if !i.NATS.Connected || !i.frontierHasRead(p) {
			continue
		}
		rows, err := client.Frontier(ctx, workspace, "", 1) // its own row is the first
		if err != nil {
			return // no processor answers, which the groups say
		}
		var whole sequencer.Seq
		if len(rows) > 0 && rows[0].Scope == "" {
			whole = rows[0].Seq
		}
		if low := i.lowest[workspace]; whole+1 < low {
			i.problem("decisions", topology.TopicDecisions, fmt.Sprintf("the snapshots of workspace %s end at %d, and what "+
				"came before %d has been read: decision %d is missing", workspace, whole, low, whole+1),
				fmt.Sprintf("if `hence tail --all --workspace %s --after %d --limit 1` shows it, stop the processors, delete the "+
					"tables and offsets of their groups %s and start them; else %s", workspace, whole, topology.GroupFrontier,
					i.fixOfGaps(ctx, p)))
		}
	}
}

// frontierHasRead says whether every frontier has read a partition but for fewer records than were looked at.
func (i *inspection) frontierHasRead(partition int32) bool {
	read := false
	for _, g := range i.Groups {
		if g.Name != topology.GroupOf(topology.GroupFrontier, g.Replica) || g.State == "Dead" {
			continue
		}
		left := int64(0)
		for _, l := range g.Lags {
			if l.Partition != partition {
				continue
			}
			if l.Lag < 0 {
				return false
			}
			left += l.Lag
		}
		if read = true; left >= inspectRecords {
			return false
		}
	}
	return read
}
