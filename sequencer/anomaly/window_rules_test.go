package anomaly_test

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer/anomaly"
)

func opOf(name string, time uint64, preds ...string) anomaly.Op {
	return anomaly.Op{Name: name, Agent: name, ReadTime: time - 1, WriteTime: time, HasPreds: true, Preds: preds}
}

// TestWindowTakesBackOnce: what is taken back twice is found once, and a name that the window does not have takes
// nothing back.
func TestWindowTakesBackOnce(t *testing.T) {
	w := anomaly.NewWindow(3, 0)
	w.Add(opOf("p", 1))
	w.Add(opOf("i", 2, "p"))
	if _, found := w.Abort("nobody"); len(found) > 0 || w.History().Check().Aborted != 0 {
		t.Errorf("who is not there is taken back: %+v", found)
	}
	for n, want := range []int{1, 0} {
		if h, found := w.Abort("p"); len(found) != want || (h == nil) != (want == 0) {
			t.Errorf("taken back for the %d. time: %+v", n+1, found)
		}
	}
}

// TestWindowForgets: what an operation rests on may have left the window, and the level is that of what it holds.
func TestWindowForgets(t *testing.T) {
	w := anomaly.NewWindow(2, 0)
	for i := range uint64(4) {
		w.Add(opOf(fmt.Sprint("t", i), i+1))
	}
	if h, found, _ := w.Add(opOf("late", 5, "t0")); h != nil || len(found) > 0 {
		t.Errorf("of one that has left: %+v", found)
	}
	r := w.History().Check()
	for _, u := range r.Undecided {
		if u.Kind == anomaly.A3 && u.Open {
			t.Errorf("the level rests on what has left: %+v", u)
		}
	}
	if r.Ops != 2 {
		t.Errorf("it holds %d", r.Ops)
	}
	null := opOf("null", 6)
	null.Writes = []anomaly.Write{{Cell: "y", Value: anomaly.Null}}
	if h, found, _ := w.Add(null); h != nil || len(found) > 0 {
		t.Errorf("nothing was there to be overwritten: %+v", found)
	}
	if n := anomaly.NewWindow(0, 0).Size(); n != 1 {
		t.Errorf("a window of none holds %d", n)
	}
}
