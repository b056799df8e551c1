package anomaly

import (
	"cmp"
	"slices"
	"strings"
)

// Step is one moment of the operations of a finding.
type Step struct {
	Time    uint64
	Who     Who
	Text    string // such as: reads doc = 1
	Differs bool   // it is not what the other history shows here
}

// Steps are the history of a finding's operations twice: as it was recorded, and as it would have been had each read
// at its commit, one after the other in commit order. Only cells that the finding is about are shown: those that one
// of its operations wrote.
func (r *Report) Steps(f *Finding) (recorded, serial []Step) {
	h, v := r.of.h, r.of.v
	ops := slices.Clone(f.Records)
	slices.Sort(ops)
	ops = slices.Compact(ops)
	slices.SortStableFunc(ops, func(a, b uint32) int { return cmp.Compare(h.ops[a].writeTime, h.ops[b].writeTime) })
	about := map[uint32]bool{}
	for _, i := range ops {
		for _, w := range h.writesOf(i) {
			about[w.cell] = true
		}
	}
	for _, i := range ops {
		o, who := &h.ops[i], h.Who(i)
		for _, one := range h.readsOf(i) {
			if !about[one.cell] && h.cells.text[one.cell] != f.Cell {
				continue
			}
			recorded = append(recorded, Step{Time: h.readAt(i, one.cell), Who: who,
				Text: h.holds("reads ", one.cell, one.value)})
			if o.aborted {
				continue
			}
			fresh := one.value
			for place := v.upTo(one.cell, max(o.writeTime, 1)-1); place > int(v.begin[one.cell]); place-- {
				if w := h.writes[v.order[place-1]]; w.op != i {
					fresh = w.value
					break
				}
			}
			serial = append(serial, Step{Time: o.writeTime, Who: who, Text: h.holds("reads ", one.cell, fresh),
				Differs: fresh != one.value})
		}
		for _, w := range h.writesOf(i) {
			s := Step{Time: o.writeTime, Who: who, Text: h.holds("writes ", w.cell, w.value)}
			recorded = append(recorded, s)
			if !o.aborted {
				serial = append(serial, s)
			}
		}
		if o.aborted {
			s := Step{Time: o.writeTime, Who: who, Text: "is aborted: its writes do not stand"}
			recorded, serial = append(recorded, s), append(serial, s)
		}
		if len(h.writesOf(i)) == 0 && !o.aborted {
			s := Step{Time: o.writeTime, Who: who, Text: "commits and writes nothing"}
			recorded, serial = append(recorded, s), append(serial, s)
		}
	}
	slices.SortStableFunc(recorded, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), -cmp.Compare(btoi(isWrite(a)), btoi(isWrite(b))))
	})
	return recorded, serial
}

// isWrite: at one time writes are seen by reads.
func isWrite(s Step) bool { return strings.HasPrefix(s.Text, "writes ") }

func (h *History) holds(verb string, cell, value uint32) string {
	return verb + h.cells.text[cell] + " = " + orUnknown(brief(h.values.text[value]))
}
