package lightcone

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Label names a property of messages, such as "object(key)" or "session(agent)". Two messages are alike in a label
// when both have the same value of it. A label belongs to one system: those of two systems are unrelated unless a
// Scheme says otherwise.
type Label string

// Everything is the label in which all messages are alike.
const Everything Label = "*"

// The labels of the paper, which speaks of one system.
const (
	Object  Label = "object"
	Session Label = "session"
)

// Set is a set of labels; two messages are alike in it when they are alike in one of them. A set is sorted, and none
// of its labels lies within another.
type Set []Label

// Has says whether the set has a label.
func (s Set) Has(l Label) bool { return slices.Contains(s, l) }

// String joins the labels: "object(key)+session(agent)".
func (s Set) String() string {
	words := make([]string, len(s))
	for i, l := range s {
		words[i] = string(l)
	}
	return strings.Join(words, "+")
}

// Scheme says which labels lie within which: messages that are alike in a key are alike in each of its values too. So
// {"object(row)": {"object(table)"}} says that each row lies in one table.
type Scheme map[Label][]Label

// Within says whether messages that are alike in a are always alike in b.
func (s Scheme) Within(a, b Label) bool { return slices.Contains(s.above(a), b) }

// above are the label itself and all that it lies within.
func (s Scheme) above(l Label) []Label {
	out := []Label{l}
	for i := 0; i < len(out); i++ {
		for _, up := range s[out[i]] {
			if !slices.Contains(out, up) {
				out = append(out, up)
			}
		}
	}
	if !slices.Contains(out, Everything) {
		out = append(out, Everything)
	}
	return out
}

// Below says whether messages that are alike in a are always alike in b. Labels that nothing relates are independent:
// messages can be alike in any of them and in no other.
func (s Scheme) Below(a, b Set) bool {
	return !slices.ContainsFunc(a, func(l Label) bool { return !s.below(l, b) })
}

func (s Scheme) below(l Label, b Set) bool {
	return slices.ContainsFunc(b, func(up Label) bool { return s.Within(l, up) })
}

// Join is the least set above both: alike in one or the other.
func (s Scheme) Join(a, b Set) Set { return s.greatest(slices.Concat(a, b)) }

// Meet is the greatest set of known labels below both.
func (s Scheme) Meet(a, b Set) Set {
	known := slices.Concat(a, b, slices.Collect(maps.Keys(s)))
	return s.greatest(slices.DeleteFunc(known, func(l Label) bool { return !s.below(l, a) || !s.below(l, b) }))
}

// greatest drops the labels that lie within another one. Of two that lie within each other the first name stays.
func (s Scheme) greatest(labels []Label) Set {
	slices.Sort(labels)
	labels = slices.Compact(labels)
	var out Set
	for _, l := range labels {
		if !slices.ContainsFunc(labels, func(up Label) bool {
			return up != l && s.Within(l, up) && (!s.Within(up, l) || cmp.Less(up, l))
		}) {
			out = append(out, l)
		}
	}
	return out
}
