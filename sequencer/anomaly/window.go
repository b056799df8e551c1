package anomaly

import "slices"

// Window judges operations as they come, each against the last ones before it: what a History of these operations
// finds for which the newest one had to come. It holds no more than its size of them, whatever their number.
//
// Operations come in the order of their WriteTime; an aborted one that was never visible comes where it was refused.
// What lies further apart than the window is not seen: Report says how many operations began before it.
type Window struct {
	size  int
	ops   []Op   // Invariant: in the order of Add, at most size
	first int    // of the oldest in ops: how many came before it
	since uint64 // greatest WriteTime of those that left the window

	latest  map[string]written // by cell: the newest standing write in the window, of equal ones the last that came
	at      map[string]int     // by name: its number among all operations
	named   map[string]int     // by name: how many operations of the window have it among their preds
	latestW uint64             // greatest WriteTime so far
	// broken is the number behind the last operation that names an aborted one, or is out of order: until it has left,
	// what comes may complete findings through it, and all of it is looked at.
	broken int
}

// written is a write: its time, and the number of its operation.
type written struct {
	at uint64
	by int
}

// NewWindow returns an empty window of so many operations, at least 1. Since is as NewHistory takes it.
func NewWindow(size int, since uint64) *Window {
	return &Window{size: max(size, 1), since: since, latest: map[string]written{}, at: map[string]int{},
		named: map[string]int{}}
}

// Size is the most operations that it holds, and Len how many it holds now.
func (w *Window) Size() int { return w.size }

// Len is how many operations it holds.
func (w *Window) Len() int { return len(w.ops) }

// Count is how many operations were added.
func (w *Window) Count() int { return w.first + len(w.ops) }

// Since is the greatest WriteTime of operations that left the window.
func (w *Window) Since() uint64 { return w.since }

// Add takes an operation, which it keeps, and returns what it completes: findings whose newest operation it is. The
// history is the window's, and nil where nothing was found. An operation of a name that is in the window is no new
// one: known is true, and nothing changes.
func (w *Window) Add(o Op) (h *History, found []Finding, known bool) {
	if _, known = w.at[o.Name]; known {
		return nil, nil, true
	}
	o.Line = w.Count() + 1
	suspect := w.suspect(&o)
	w.take(o)
	if len(w.ops) > w.size {
		w.drop()
	}
	if !suspect {
		return nil, nil, false
	}
	newest := uint32(len(w.ops) - 1)
	h, found = w.find(func(f *Finding) bool { return slices.Max(f.Records) == newest })
	return h, found, false
}

// Abort says that operations were taken back, all of them at once, and returns the findings that come from it: what
// stands and rests on one of them. Names that the window does not have are passed over.
func (w *Window) Abort(names ...string) (h *History, found []Finding) {
	back, rested := map[uint32]bool{}, false
	for _, name := range names {
		i, has := w.at[name]
		if !has || w.ops[i-w.first].Aborted {
			continue
		}
		w.ops[i-w.first].Aborted = true
		back[uint32(i-w.first)] = true
		rested = rested || w.named[name] > 0
	}
	if !rested {
		return nil, nil
	}
	w.broken = w.Count()
	return w.find(func(f *Finding) bool { return f.Kind == A3 && len(f.Records) > 1 && back[f.Records[1]] })
}

// History is what the window holds, as Check takes it: its level is that of the window, whatever came before. Report's
// Spanning says how much may have to do with that.
func (w *Window) History() *History {
	h := NewHistory(w.since)
	h.within = true
	for i := range w.ops {
		if err := h.Add(w.ops[i]); err != nil { // Add lets no name in twice
			panic("anomaly: a window holds one operation twice: " + err.Error())
		}
	}
	return h
}

func (w *Window) find(which func(*Finding) bool) (*History, []Finding) {
	h := w.History()
	r := h.Check()
	found := slices.DeleteFunc(r.Findings, func(f Finding) bool { return !which(&f) })
	if len(found) == 0 {
		return nil, nil
	}
	return h, found
}

// suspect reports whether an operation may complete a finding. It may say so for nothing, and never leaves one out:
// an operation that read what is current, in order, and rests on nothing that was aborted completes none.
func (w *Window) suspect(o *Op) bool {
	switch {
	case w.outOfOrder(o), w.broken > w.first:
		return true
	case o.Name != "" && w.named[o.Name] > 0: // an operation before it rests on it
		return true
	case o.Aborted: // it is judged as a predecessor only
		return false
	case o.Plan.Tool != "" && (o.Plan.AtWrite != Yes || o.Plan.ChangedSince):
		return true
	case o.Order.IssuedKnown && o.Order.HappenedKnown && !slices.Equal(o.Order.Issued, o.Order.Happened):
		return true
	}
	for _, r := range o.Reads {
		switch {
		case r.Replica != "": // another one may have said otherwise
			return true
		case !o.HasPreds && r.Value != "" && r.Value != Null: // nothing may have written it
			return true
		case w.latest[r.Cell].at > o.timeOf(&r): // overtaken
			return true
		}
	}
	for _, p := range o.Preds {
		if i, has := w.at[p]; has && w.ops[i-w.first].Aborted {
			return true
		}
	}
	return slices.ContainsFunc(o.Writes, func(write Write) bool { return write.Value == Null })
}

// outOfOrder: it was committed before another one that came earlier, or may have read what came after it.
func (w *Window) outOfOrder(o *Op) bool {
	late := func(r Read) bool { return o.timeOf(&r) >= o.WriteTime }
	return !o.Aborted && (o.WriteTime < w.latestW || slices.ContainsFunc(o.Reads, late))
}

// timeOf is when an operation read one of its cells.
func (o *Op) timeOf(r *Read) uint64 {
	if r.Timed {
		return r.Time
	}
	return o.ReadTime
}

// take enters an operation.
func (w *Window) take(o Op) {
	n := w.Count()
	if w.outOfOrder(&o) {
		w.broken = n + 1
	}
	w.ops = append(w.ops, o)
	if o.Name != "" {
		w.at[o.Name] = n
	}
	for _, p := range o.Preds {
		w.named[p]++
		if i, has := w.at[p]; has && w.ops[i-w.first].Aborted && p != o.Name {
			w.broken = n + 1
		}
	}
	if o.Name != "" && o.Aborted && w.named[o.Name] > 0 {
		w.broken = n + 1
	}
	if o.Aborted {
		return
	}
	w.latestW = max(w.latestW, o.WriteTime)
	for _, write := range o.Writes {
		if o.WriteTime >= w.latest[write.Cell].at {
			w.latest[write.Cell] = written{o.WriteTime, n}
		}
	}
}

// drop lets the oldest operation leave.
func (w *Window) drop() {
	o := w.ops[0]
	w.ops[0] = Op{} // its slices
	w.ops = w.ops[1:]
	w.first++
	delete(w.at, o.Name)
	for _, p := range o.Preds {
		if w.named[p]--; w.named[p] == 0 {
			delete(w.named, p)
		}
	}
	w.since = max(w.since, o.WriteTime)
	for _, write := range o.Writes {
		if w.latest[write.Cell].by < w.first { // an older one that is still here came out of order
			delete(w.latest, write.Cell)
		}
	}
}
