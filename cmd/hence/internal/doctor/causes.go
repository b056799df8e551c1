package doctor

import (
	"slices"
	"strings"
)

// about is what a finding says for doctor itself: what its cause is told by.
type about struct {
	topic   string // of the cluster that it names; empty: none
	missing bool   // the topic is not there
	needs   string // the part of a sidecar that is not ready
	brief   string // what it says below its cause
}

// causes puts each problem that follows from another one below that: it has no fix of its own, and fixing the other
// fixes it.
func (f *checkup) causes() []Finding {
	roots := slices.Clone(f.all)
	for i := range roots {
		if at := f.cause(i); at >= 0 {
			brief := roots[i].about.brief
			if brief == "" {
				brief = roots[i].Says
			}
			roots[at].Causes = append(roots[at].Causes, roots[i].Part+": "+brief)
			roots[i].Level = ""
			f.problems--
		}
	}
	return slices.DeleteFunc(roots, func(one Finding) bool { return one.Level == "" })
}

// cause is the problem that one follows from; -1: it stands for itself. No cause has one: the parts form no circle.
func (f *checkup) cause(i int) int {
	one := f.all[i]
	if one.Level != levelProblem {
		return -1
	}
	return slices.IndexFunc(f.all, func(other Finding) bool {
		if other.Level != levelProblem {
			return false
		}
		switch {
		case other.about.missing && one.Part != other.Part:
			return one.about.topic == other.about.topic || one.about.needs == "topics" ||
				slices.ContainsFunc(strings.Split(other.about.topic, ", "), func(topic string) bool {
					return strings.Contains(one.Says, topic)
				})
		case one.Part == "sidecar":
			return slices.Contains(causedBy(other.Part), one.about.needs)
		case one.Part == "nats": // the processors make it
			return other.Part == "groups" && strings.Contains(one.Says, "is not there")
		}
		return false
	})
}

// causedBy are the parts of a sidecar that are not ready while a part of the cluster is wrong.
func causedBy(part string) []string {
	switch part {
	case "brokers":
		return []string{"kafka", "topics", "view", "session"}
	case "topics":
		return []string{"topics"}
	case "groups":
		return []string{"view", "session"}
	case "nats":
		return []string{"nats"}
	}
	return nil
}
