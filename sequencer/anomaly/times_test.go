package anomaly

import "testing"

// TestTimesAcrossCut: an operation spans a cut with the first of its reads, and what that one read before the cut is
// not known.
func TestTimesAcrossCut(t *testing.T) {
	h := NewHistory(10)
	for _, o := range []Op{
		{Agent: "b", ReadTime: 10, WriteTime: 11, HasPreds: true, Writes: []Write{{"x", "2"}}},
		{Agent: "a", ReadTime: 12, WriteTime: 13, HasPreds: true, Writes: []Write{{"x", "3"}},
			Reads: []Read{{Cell: "x", Value: "1", Timed: true, Time: 5}, {Cell: "y", Value: "1"}}},
	} {
		if err := h.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	r := h.Check()
	if r.Spanning != 1 {
		t.Errorf("%d operations span the cut, not 1", r.Spanning)
	}
	for _, f := range r.Findings {
		if f.Kind != A1 { // what came meanwhile is known
			t.Errorf("it has %s", h.Sentence(&f))
		}
	}
	if len(r.Findings) != 1 || h.Who(1).ReadTime != 12 || h.readAt(1, h.cells.number["x"]) != 5 {
		t.Errorf("it has %v", r.Findings)
	}
}

// TestFirstOfTwoReads: a cell that stands twice in an operation counts once, with its first time.
func TestFirstOfTwoReads(t *testing.T) {
	for first, want := range map[Read]uint64{{Cell: "x"}: 7, {Cell: "x", Timed: true, Time: 3}: 3} {
		h := NewHistory(0)
		err := h.Add(Op{Agent: "a", ReadTime: 7, WriteTime: 9, Reads: []Read{first, {Cell: "x", Timed: true, Time: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.readAt(0, h.cells.number["x"]); got != want {
			t.Errorf("%+v: it was read at %d, not %d", first, got, want)
		}
	}
}
