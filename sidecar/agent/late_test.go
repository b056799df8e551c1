package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// awayAtFirst is a log whose snapshots fail a few times, for one reason and then for another.
type awayAtFirst struct {
	*memlog.Door
	tries atomic.Int32
}

func (l *awayAtFirst) Snapshot(ctx context.Context, workspace string) (*topology.Snapshot, error) {
	switch n := l.tries.Add(1); {
	case n <= 4:
		return nil, errors.New("refused")
	case n <= 6:
		return nil, errors.New("no topic")
	}
	return l.Door.Snapshot(ctx, workspace)
}

// Brokers that are away are complained about once for each reason, not at every try.
func TestAwayIsSaidOnce(t *testing.T) {
	said := new(lines)
	start(t, "a", &awayAtFirst{Door: newLog().Door()}, said.config(t.TempDir()))
	got := said.with("the view has no snapshot yet")
	if len(got) != 2 || !strings.Contains(got[0], "refused") || !strings.Contains(got[1], "no topic") {
		t.Errorf("it said %q", got)
	}
}
