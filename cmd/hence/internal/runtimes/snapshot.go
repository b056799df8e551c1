package runtimes

// validation is snapshot isolation as agent frameworks that offer it have it: at the commit no cell that was read has
// a version newer than the read. What is written is not validated, so a blind overwrite passes; databases do it the
// other way round.
//
// The default asks only of operations that write. It excludes A1 where every operation writes, and lets through A1 of
// operations that only read, A2, A3 and A6. With readers it asks of every commit (serializable) and excludes A1
// always; it also refuses where the newer version has an equal value, which is no A1.
type validation struct {
	passive
	readers bool
}

func (v *validation) commit(r *Runtime, o *Op) string {
	if len(o.effects) == 0 && !v.readers {
		return "" // nothing of it becomes visible
	}
	return stale(r, o)
}

// stale names a cell that was overwritten since the operation read it.
func stale(r *Runtime, o *Op) string {
	for _, cell := range o.Reads {
		if v, has := r.latest(cell); has && v.at > o.readTime {
			return cell + ", which it read, was overwritten by " + v.by.Name
		}
	}
	return ""
}
