package processor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/history"
)

// What a partition holds is bounded: workspaces that rest are forgotten, those that rested longest first, and keep
// their seqs, so that a late copy begins no window of its own. A window that was asked for is never all of it.
func TestWorkspacesThatRestAreForgotten(t *testing.T) {
	const size = heldMost // operations of a window
	p := &anomalyPart{anomalyProcessor: &anomalyProcessor{base: &base{cfg: streams.Config{Anomalies: size}}},
		workspaces: map[string]*watched{}}
	for i := range 4 {
		w := p.begin(fmt.Sprint("w", i))
		w.seq, w.turn, w.ops, w.window = 7, uint64(10-i), history.New(0), anomaly.NewWindow(size, 0)
		w.window.Add(anomaly.Op{Name: "t", WriteTime: 1})
	}
	p.held = 2*size + 2 // two of one operation each are too much
	p.forget()
	for name, held := range map[string]bool{"w0": true, "w1": true, "w2": false, "w3": false} {
		if w := p.workspaces[name]; (w.window != nil) != held || (w.ops != nil) != held || w.seq != 7 {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if p.held != 2*size {
		t.Errorf("%d are held", p.held)
	}
	p.held = heldMost + 1
	if p.forget(); p.workspaces["w1"].window == nil {
		t.Error("a window is forgotten while no more than two windows are held")
	}
}

// A partition that was given up answers no question that comes too late, and holds nothing.
func TestPartitionThatWasGivenUp(t *testing.T) {
	p := &anomalyPart{workspaces: map[string]*watched{}, held: 3}
	p.begin("w")
	p.close()
	if err := p.open(t.Context(), 0); !errors.Is(err, errNotOurs) || len(p.workspaces) != 0 || p.held != 0 {
		t.Errorf("%v, %d workspaces, %d operations", err, len(p.workspaces), p.held)
	}
}
