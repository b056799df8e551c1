package view

import (
	"context"
	"errors"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
)

// Level is what the last operations of the workspace leave of the levels.
func (w *Workspace) Level(ctx context.Context) (*api.Level, error) {
	ctx, cancel := context.WithTimeout(ctx, TableWait)
	defer cancel()
	got, err := w.log.Level(ctx, w.view.Workspace)
	switch {
	case errors.Is(err, streams.ErrAnomaliesOff):
		return nil, api.AnomaliesOff()
	case err != nil:
		return nil, api.Problemf(api.CodeLog,
			"no processor that looks for anomalies answers (hence streams --anomalies): %v", err)
	}
	out := &api.Level{Workspace: got.Workspace, Seq: uint64(got.Seq), Since: uint64(got.Since), Window: got.Window,
		Operations: got.Operations, Aborted: got.Aborted, Spanning: got.Spanning, OwnOverlaps: got.OwnOverlaps,
		Least: got.Least, Most: got.Most,
		PointLeast: got.PointLeast, PointMost: got.PointMost, Serializable: got.Serializable,
		Kinds: []api.LevelCount{}, Undecided: []api.LevelUndecided{}}
	for _, k := range got.Kinds {
		out.Kinds = append(out.Kinds, api.LevelCount(k))
	}
	for _, u := range got.Undecided {
		out.Undecided = append(out.Undecided, api.LevelUndecided(u))
	}
	return out, nil
}
