package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// inspectNames is how many stored names of one workspace are told.
const inspectNames = 16

// workspaces looks at the rules and the names of each workspace that has decisions.
func (i *inspection) workspaces(ctx context.Context, conn *nats.Conn) {
	names := i.otherNames(ctx)
	client := streams.Asking(i.cfg, conn)
	all := maps.Clone(names)
	for workspace := range i.lowest {
		if _, ok := all[workspace]; !ok {
			all[workspace] = nil
		}
	}
	ask, asked := i.NATS.Connected, 0
	for _, workspace := range slices.Sorted(maps.Keys(all)) {
		f := WorkspaceFact{Name: workspace, OtherNames: names[workspace]}
		if more := len(f.OtherNames) - inspectNames; more > 0 {
			f.OtherNames, f.MoreNames = f.OtherNames[:inspectNames], more
		}
		if ask && asked < inspectWorkspaces {
			asked++
			rules, _, err := client.Rules(ctx, workspace)
			if err == nil {
				f.Logic = rules.Logic
			}
			ask = !errors.Is(err, streams.ErrNoAnswer) // the groups say that; each silence takes a while
		}
		i.Workspaces = append(i.Workspaces, f)
	}
}

// otherNames are the stored names that are not in NFC, by workspace and in order. The frontier's table has a row for
// each scope; most rows need not be decoded.
func (i *inspection) otherNames(ctx context.Context) map[string][]sequencer.Scope {
	group := topology.GroupOf(topology.GroupFrontier, i.cfg.Replica)
	out := make(map[string][]sequencer.Scope)
	for _, d := range i.Decisions {
		if d.End == 0 {
			continue // there is no row
		}
		tryCtx, cancel := context.WithTimeout(ctx, inspectIn)
		found, err := i.otherNamesIn(tryCtx, group, d.Partition)
		cancel()
		if err != nil {
			i.NamesUnread = append(i.NamesUnread, d.Partition)
		}
		for workspace, scopes := range found {
			out[workspace] = slices.Sorted(maps.Keys(scopes))
		}
	}
	slices.Sort(i.NamesUnread)
	return out
}

// otherNamesIn reads one partition of the table; what it returns beside an error is only part.
func (i *inspection) otherNamesIn(ctx context.Context, group string, partition int32,
) (map[string]map[sequencer.Scope]bool, error) {
	found := make(map[string]map[sequencer.Scope]bool)
	span, err := streams.SpanToRead(ctx, i.cl, group, partition)
	if err != nil {
		return found, err
	}
	newest := make(map[string]*topology.FrontierRow)
	err = i.cfg.ReadRange(ctx, topology.TableOf(group), partition, span.From(), span.End, func(r *kgo.Record) error {
		key := string(r.Key)
		scope := sequencer.Scope(topology.RestOfKey(key))
		if r.Value == nil || !scope.IsShard() || topology.IsNormal(scope) {
			return nil
		}
		row, err := topology.DecodeFrontierRow(r.Value)
		if err != nil {
			return nil // starts again with the next record of its key
		}
		had := newest[key] // as for a snapshot: the newest row counts, not the last one
		if had == nil || cmp.Or(cmp.Compare(had.Seq, row.Seq), cmp.Compare(had.Version, row.Version)) <= 0 {
			newest[key] = row
		}
		return nil
	})
	for key, row := range newest {
		if row.Shard == nil || len(row.Shard.Content) == 0 && row.Shard.Ref == nil && row.Shard.Restored == 0 {
			continue // it was taken away, or written empty: nothing is kept under that name
		}
		workspace := topology.WorkspaceOfKey(key)
		if found[workspace] == nil {
			found[workspace] = make(map[sequencer.Scope]bool)
		}
		found[workspace][row.Scope] = true
	}
	return found, err
}
