package words

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// The nearest bound is the one that comes first at the rate of the last hour; of a burst there is no estimate.
func TestUndo(t *testing.T) {
	const hour = 4 * 3600
	for _, x := range []struct {
		left    sequencer.UndoLeft
		nearest string
		seconds uint64
		says    string
	}{
		{sequencer.UndoLeft{Commits: 10, Bytes: 1 << 20, Ticks: 48 * hour, Span: hour, Made: 20, Kept: 8_000}, "commits",
			1_800,
			"in about 30 minutes at the rate of the last 60 minutes (20 commits), an estimate"},
		{sequencer.UndoLeft{Commits: 900, Bytes: 4_000, Ticks: 48 * hour, Span: hour, Made: 20, Kept: 8_000}, "bytes", 1_800,
			"3 KiB more to remember"},
		{sequencer.UndoLeft{Commits: 900, Bytes: 1 << 20, Ticks: 3 * hour, Span: hour}, "time", 3 * 3600,
			"The nearest bound is the time."},
		{sequencer.UndoLeft{Commits: 1, Bytes: 512, Ticks: hour, Span: 8, Made: 40, Kept: 8_000}, "commits", 0,
			"for 1 more commit, 512 more bytes to remember"},
	} {
		u := Undo(&topology.Cone{Undo: &x.left})
		if u.Nearest != x.nearest || u.EstimateSeconds != x.seconds || !strings.Contains(u.Sentence, x.says) {
			t.Errorf("%+v: %+v, want %s in %d s and %q", x.left, u, x.nearest, x.seconds, x.says)
		}
	}
	if u := Undo(&topology.Cone{}); u != nil {
		t.Errorf("without an answer: %+v", u)
	}
}
