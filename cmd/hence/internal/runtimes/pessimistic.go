package runtimes

// locks are pessimistic: an exclusive lock on every cell that is read, taken when the operation begins, all of them or
// none, and on every further cell that is written when it commits; held until the operation is over. Reads conflict
// with reads. A conflict at the begin refuses the operation, or queues it where wait is set: the oldest that can have
// all its locks goes first. An operation that waits holds nothing, so no waits form a circle; for the same reason a
// conflict at the commit, where locks are held already, refuses in both.
//
// It excludes A1: no other agent's write fits between a read and its commit. It lets through A2, A6, and A3: locks
// end at the commit, and a later retraction does not ask for one.
type locks struct {
	passive
	wait   bool
	holder map[string]*Op // Invariant: an operation that is not over
}

func newLocks(wait bool) *locks { return &locks{wait: wait, holder: map[string]*Op{}} }

func (l *locks) begin(_ *Runtime, o *Op) (wait bool, refused string) {
	if cell, held := l.conflict(o, o.Reads); held != nil {
		if l.wait {
			return true, "" // until its holder is over
		}
		return false, cell + " is locked by " + held.Name
	}
	l.take(o, o.Reads)
	return false, ""
}

func (l *locks) commit(_ *Runtime, o *Op) string {
	if cell, held := l.conflict(o, o.writes()); held != nil {
		return cell + ", which it writes, is locked by " + held.Name
	}
	l.take(o, o.writes())
	return ""
}

func (l *locks) ended(_ *Runtime, o *Op) {
	for cell, held := range l.holder {
		if held == o {
			delete(l.holder, cell)
		}
	}
}

func (l *locks) conflict(o *Op, cells []string) (cell string, held *Op) {
	for _, cell := range cells {
		if held := l.holder[cell]; held != nil && held != o {
			return cell, held
		}
	}
	return "", nil
}

func (l *locks) take(o *Op, cells []string) {
	for _, cell := range cells {
		l.holder[cell] = o
	}
}
