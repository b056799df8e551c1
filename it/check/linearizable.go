package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is an operation on one scope: a read of a version, or the write that made one.
type register struct {
	write   bool
	version uint64
}

func registers() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, input, _ any) (bool, any) {
			op, version := input.(register), state.(uint64)
			if op.write {
				return true, op.version
			}
			return op.version == version, state
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(input, _ any) string {
			op := input.(register)
			if op.write {
				return fmt.Sprintf("write %d", op.version)
			}
			return fmt.Sprintf("read %d", op.version)
		},
	}
}

// Linearizable asks porcupine what Registers decides by zones: is there one order of the committed reads and writes of
// each scope that real time allows, in which each read returns the last write before it? A read of a version that no
// attempt wrote makes its scope one that is not judged. It returns how many operations were; a scope that is not
// decided in time is a violation too.
func (h *History) Linearizable(bound time.Duration) (judged int, found []Violation) {
	model, byScope, wrote := registers(), map[string][]porcupine.Operation{}, map[string]map[uint64]bool{}
	for i, c := range h.commits() {
		end := c.End
		if end == 0 || c.State == Unknown {
			end = int64(^uint64(0) >> 1) // it may have taken effect at any time since
		}
		add := func(scope string, op register) {
			byScope[scope] = append(byScope[scope], porcupine.Operation{ClientId: i, Input: op, Call: c.Start, Return: end})
		}
		for _, r := range c.Reads {
			add(r.Scope, register{version: r.Version})
		}
		for _, w := range c.Writes {
			if wrote[w.Scope] == nil {
				wrote[w.Scope] = map[uint64]bool{0: true}
			}
			wrote[w.Scope][c.seq] = true
			add(w.Scope, register{write: true, version: c.seq})
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(byScope)) {
		ops := byScope[scope]
		if slices.ContainsFunc(ops, func(o porcupine.Operation) bool { return !wrote[scope][o.Input.(register).version] }) {
			continue
		}
		judged += len(ops)
		switch porcupine.CheckOperationsTimeout(model, ops, bound) {
		case porcupine.Illegal:
			found = append(found, violation("linearizable", "%s: no order explains its %d operations", scope, len(ops)))
		case porcupine.Unknown:
			found = append(found, violation("linearizable", "%s: its %d operations are not judged after %v", scope, len(ops),
				bound))
		case porcupine.Ok:
		}
	}
	return judged, found
}
