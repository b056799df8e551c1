package runtimes

import (
	"fmt"

	"github.com/hence-dev/hence/topology/trace"
)

// Invariants says what does not hold in the state of a runtime: (a) of each cell, the times of the versions only grow
// and none is later than the clock, and each is of an operation that stands, (b) under locks no cell is read by two
// open operations, (c) under a cascade what stands rests on what stands alone, which was committed before it read.
func (r *Runtime) Invariants(k Kind) error {
	for cell, all := range r.cells {
		last := uint64(0)
		for _, v := range all {
			if v.at <= last || v.at > r.clock || v.by.state != Committed {
				return fmt.Errorf("cell %s at clock %d has a version of %s at %d behind %d", cell, r.clock, v.by.Name, v.at,
					last)
			}
			last = v.at
		}
	}
	readers := map[string]*Op{}
	for _, o := range r.ops {
		for _, cell := range o.Reads {
			if other := readers[cell]; o.state == Open && other != nil && k.Excludes().A1 && locking(k) {
				return fmt.Errorf("%s and %s both hold %s", other.Name, o.Name, cell)
			}
			if o.state == Open {
				readers[cell] = o
			}
		}
		for _, p := range o.preds {
			if k.Excludes().A3 && o.state == Committed && (p.state != Committed || p.writeTime > o.readTime) {
				return fmt.Errorf("%s stands and rests on %s, which is %s", o.Name, p.Name, p.state)
			}
		}
	}
	return nil
}

func locking(k Kind) bool { return k == PessimisticDrop || k == PessimisticWait }

// Mutant is a runtime of a kind with a part of its check taken out.
type Mutant struct {
	Name string
	Of   Kind
	New  func() *Runtime
	// Anomaly: it lets an anomaly through that the kind excludes. Else it only refuses or loses what that does not.
	Anomaly bool
}

// Mutants are all of them. Each guard embeds the real one and lets pass what that would not.
func Mutants() []Mutant {
	of := func(name string, k Kind, make func(guard) guard) Mutant {
		return Mutant{name, k, func() *Runtime { return with(make(k.guard())) }, true}
	}
	harmless := func(m Mutant) Mutant {
		m.Anomaly = false
		return m
	}
	return []Mutant{
		of("a begin asks for no lock", PessimisticDrop, func(g guard) guard { return beginsFreely{g.(*locks)} }),
		of("a begin waits for no lock", PessimisticWait, func(g guard) guard { return beginsFreely{g.(*locks)} }),
		of("a commit asks for no lock", PessimisticDrop, func(g guard) guard { return commitsFreely{g} }),
		harmless(of("locks are never freed", PessimisticWait, func(g guard) guard { return keepsLocks{g} })),
		harmless(of("snapshot asks nothing", Snapshot, func(g guard) guard { return commitsFreely{g} })),
		harmless(of("snapshot asks readers too", Snapshot, func(guard) guard { return &validation{readers: true} })),
		of("serializable asks writers alone", Serializable, func(guard) guard { return &validation{} }),
		of("serializable looks at writes, as databases do", Serializable, func(guard) guard { return firstCommitter{} }),
		of("cascade without fresh reads", Cascade, func(guard) guard { return provenance{} }),
		of("cascade without predecessors", Cascade, func(guard) guard { return freshAlone{} }),
		of("cascade takes nothing back", Cascade, func(g guard) guard { return takesNothing{g} }),
		of("cascade takes back direct ones alone", Cascade, func(guard) guard { return directAlone{} }),
		of("the twin of the published code", Cascade, func(guard) guard { return twin{} }),
		of("effects leave as they complete", Sequencer, func(guard) guard { return vanilla{} }),
		harmless(of("an effect out of turn is lost", Sequencer, func(guard) guard { return losing{} })),
		of("a saga starts all at once", Saga, func(guard) guard { return vanilla{} }),
		of("the registry is not asked", RegistryValidate, func(guard) guard { return vanilla{} }),
		of("the signature is not asked", RegistryValidate, func(guard) guard { return nameAlone{} }),
		of("calls go to the registry of the moment", RegistryPinned, func(guard) guard { return vanilla{} }),
	}
}

type beginsFreely struct{ *locks }

func (g beginsFreely) begin(_ *Runtime, o *Op) (bool, string) {
	g.take(o, o.Reads)
	return false, ""
}

type commitsFreely struct{ guard }

func (commitsFreely) commit(*Runtime, *Op) string { return "" }

type keepsLocks struct{ guard }

func (keepsLocks) ended(*Runtime, *Op) {}

type firstCommitter struct{ passive }

func (firstCommitter) commit(r *Runtime, o *Op) string {
	for _, cell := range o.writes() {
		if v, has := r.latest(cell); has && v.at > o.readTime {
			return "overwritten"
		}
	}
	return ""
}

// freshAlone is a cascade that does not ask whom an operation rests on.
type freshAlone struct{ cascade }

func (freshAlone) commit(r *Runtime, o *Op) string { return stale(r, o) }

type takesNothing struct{ guard }

func (takesNothing) retracted(*Runtime, *Op) []*Op { return nil }

type directAlone struct{ cascade }

func (directAlone) retracted(r *Runtime, o *Op) (all []*Op) {
	for _, other := range r.ops {
		for _, cell := range other.Reads {
			if other.state == Committed && o.written()[cell] != "" && other.values[cell] == o.written()[cell] {
				all = append(all, other)
				break
			}
		}
	}
	return all
}

// twin is what the published code does in place of a cascade: freshness is not asked of cells that are written too,
// and compares values; what is taken back leaves its values where they are.
type twin struct{ cascade }

func (t twin) commit(r *Runtime, o *Op) string {
	written := o.written()
	for _, cell := range o.Reads {
		now := trace.Null
		if v, has := r.latest(cell); has {
			now = v.value
		}
		if _, writes := written[cell]; !writes && now != o.values[cell] {
			return "another value"
		}
	}
	return t.provenance.commit(r, o)
}

func (t twin) retracted(r *Runtime, o *Op) []*Op {
	for cell, value := range o.written() {
		r.cells[cell] = append(r.cells[cell], version{value, o, r.clock})
	}
	return t.cascade.retracted(r, o)
}

type losing struct{ passive }

func (losing) leave(o *Op, k int) ([]int, bool) {
	if k == len(o.left) {
		return []int{k}, true
	}
	return nil, true
}

type nameAlone struct{ passive }

func (nameAlone) commit(r *Runtime, o *Op) string {
	if _, is := r.tools[o.Plan]; !is && o.Plan != "" {
		return "gone"
	}
	return ""
}
