package runtimes

// pinned is the registry as an operation saw it when it read. With validate the commit asks that the planned tool is
// still registered under the signature that it had then, else it is refused. Without, calls go to the registry of the
// read: by the predicate no tool is missing, and where it is gone in the world the call goes to a removed tool, which
// is counted (Counts.Gone).
//
// Both exclude A2 and let through A1, A3 and A6.
type pinned struct {
	passive
	validate bool
}

func (p *pinned) commit(r *Runtime, o *Op) string {
	before, was := o.toolsRead[o.Plan]
	now, is := r.tools[o.Plan]
	switch {
	case !p.validate, o.Plan == "", !was: // a name that was never there has nothing to lose
		return ""
	case !is:
		return "the tool " + o.Plan + " was removed"
	case now != before:
		return "the tool " + o.Plan + " was changed"
	}
	return ""
}

func (p *pinned) registry(o *Op) map[string]string {
	if p.validate {
		return nil
	}
	return o.toolsRead
}
