package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/view"
)

// lacks are the contents that a reading shows and that are not there yet.
func (r *reading) lacks() []view.Lack {
	list := []view.Named{{Scope: r.scope, Revision: r.rev}}
	if r.page != nil {
		list = append(append(list, r.page.Items...), r.page.Last)
	}
	return view.LacksOf(list)
}

// fetched waits until a reading of the view shows no content that is not there yet. Of what the log has no more a list
// says so, and a read of it is refused: no empty content may be taken for it.
func (s *Agent) fetched(ctx context.Context, look func() *reading) error {
	return s.view.Whole(ctx, func() []view.Lack { return look().lacks() })
}

// whole is a reading that binds nothing, once it shows no content that is not there yet.
func (s *Agent) whole(ctx context.Context, look func() *reading) (got *reading, err error) {
	err = s.fetched(ctx, func() *reading {
		got = look()
		return got
	})
	return got, err
}

// revisions are what is remembered of a shard, once each has its content.
func (s *Agent) revisions(ctx context.Context, scope sequencer.Scope,
) (list []view.Revision, at sequencer.Seq, err error) {
	err = s.view.Whole(ctx, func() []view.Lack {
		list, at = s.view.Revisions(scope)
		all := make([]view.Named, len(list))
		for i := range list {
			all[i] = view.Named{Scope: scope, Revision: list[i]}
		}
		return view.LacksOf(all)
	})
	return list, at, err
}
