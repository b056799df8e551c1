package runtimes

import "github.com/hence-dev/hence/sequencer/anomaly"

// Kind names a runtime.
type Kind string

// The runtimes.
const (
	Vanilla          Kind = "vanilla"
	PessimisticDrop  Kind = "pessimistic-drop"
	PessimisticWait  Kind = "pessimistic-wait"
	Snapshot         Kind = "snapshot"
	Serializable     Kind = "serializable"
	Provenance       Kind = "provenance"
	Cascade          Kind = "cascade"
	Sequencer        Kind = "sequencer"
	Saga             Kind = "saga"
	RegistryValidate Kind = "registry-validate"
	RegistryPinned   Kind = "registry-pinned"
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{Vanilla, PessimisticDrop, PessimisticWait, Snapshot, Serializable, Provenance, Cascade, Sequencer,
		Saga, RegistryValidate, RegistryPinned}
}

// Excludes are the anomalies of the catalogue that no run under this runtime has.
func (k Kind) Excludes() anomaly.Point {
	switch k {
	case PessimisticDrop, PessimisticWait, Serializable:
		return anomaly.Point{A1: true}
	case Provenance:
		return anomaly.Point{A3: true}
	case Cascade:
		return anomaly.Point{A1: true, A3: true}
	case Sequencer, Saga:
		return anomaly.Point{A6: true}
	case RegistryValidate, RegistryPinned:
		return anomaly.Point{A2: true}
	}
	return anomaly.Point{}
}

func (k Kind) guard() guard {
	switch k {
	case PessimisticDrop, PessimisticWait:
		return newLocks(k == PessimisticWait)
	case Snapshot, Serializable:
		return &validation{readers: k == Serializable}
	case Provenance:
		return provenance{}
	case Cascade:
		return cascade{}
	case Sequencer:
		return sequencer{}
	case Saga:
		return saga{}
	case RegistryValidate:
		return &pinned{validate: true}
	case RegistryPinned:
		return &pinned{}
	}
	return vanilla{}
}

// New returns a runtime with the guards of all kinds that are given: it excludes what any of them does.
func New(kinds ...Kind) *Runtime {
	var guards []guard
	for _, k := range kinds {
		guards = append(guards, k.guard())
	}
	return with(guards...)
}

// At returns the runtime of a level: L0 vanilla, L1 serializable, L2 cascade, L3 also the sequencer, L4 also the
// registry.
func At(level int) *Runtime {
	return ForPoint(anomaly.Point{A1: level >= 1, A3: level >= 2, A6: level >= 3, A2: level >= 4})
}

// ForPoint returns the runtime that excludes exactly the anomalies of a point.
func ForPoint(p anomaly.Point) *Runtime {
	kinds := []Kind{Vanilla}
	for _, one := range []struct {
		is   bool
		kind Kind
	}{{p.A1, Serializable}, {p.A3, Provenance}, {p.A6, Sequencer}, {p.A2, RegistryValidate}} {
		if one.is {
			kinds = append(kinds, one.kind)
		}
	}
	return New(kinds...)
}
