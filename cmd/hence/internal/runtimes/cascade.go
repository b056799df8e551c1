package runtimes

// cascade is serializable and provenance together: what was read is current, and whom it rests on stands. It excludes
// A1 and A3, and lets through A2 and A6.
type cascade struct{ provenance }

func (c cascade) commit(r *Runtime, o *Op) string {
	if why := stale(r, o); why != "" {
		return why
	}
	return c.provenance.commit(r, o)
}

// provenance asks at every commit that each operation that this one rests on stands: those whose writes it read, and
// those that these rest on, as it began. A retraction takes back all committed operations that rest on the retracted
// one; since the sets are closed, one level is all levels. Those that are still open are refused when they commit.
//
// It excludes A3 and lets through A1, A2 and A6.
type provenance struct{ passive }

func (provenance) commit(_ *Runtime, o *Op) string {
	for _, p := range o.preds {
		if p.state != Committed {
			return "it rests on " + p.Name + ", which was taken back"
		}
	}
	return ""
}

func (provenance) retracted(r *Runtime, o *Op) (all []*Op) {
	for _, other := range r.ops {
		if other.state == Committed && other.restsOn(o) {
			all = append(all, other)
		}
	}
	return all
}
