package lightcone

import (
	"fmt"
	"slices"
)

// Refusal is why data cannot be read honestly: what is missing, and the smallest history that shows it.
type Refusal struct {
	Order    bool  // an order is missing; else causes are
	Needs    Label // in which the reader takes messages for ordered, or for closed over causes
	Inverted bool  // the history puts an effect before its cause: the order does not respect causes
	History  History
	Cut      []int // what an observer of the data may hold, and the reader takes for impossible
}

// Readable says whether data of a level can be read honestly by a reader: whether everything that an observer of the
// data may hold is something that the reader expects, on every history. Nil: it can.
func (s Scheme) Readable(data Level, reader Config) *Refusal {
	for _, l := range reader.Orders() {
		if !s.below(l, data.Order) {
			return s.refuse(l, true, false)
		}
	}
	for _, l := range s.Join(reader.Closure, nil) {
		if !s.below(l, data.Closure) {
			// Where the data is ordered and yet not closed, its order does not respect causes.
			return s.refuse(l, false, s.below(l, data.Order))
		}
	}
	return nil
}

// refuse makes the history: two messages alike in the label, and in what it lies within, and in nothing else.
func (s Scheme) refuse(l Label, order, inverted bool) *Refusal {
	alike := map[Label]string{}
	for _, up := range s.above(l) {
		alike[up] = "1"
	}
	first, second := Message{Name: "m1", Labels: alike}, Message{Name: "m2", Labels: alike}
	r := &Refusal{Order: order, Needs: l, Inverted: inverted, Cut: []int{1}}
	r.History.Order = []int{0, 1}
	if !order {
		second.Causes = []int{0}
	}
	if inverted {
		r.History.Order = []int{1, 0}
	}
	r.History.Messages = []Message{first, second}
	return r
}

// String is the refusal in a sentence about data and its reader.
func (r *Refusal) String() string {
	if r.Order {
		return fmt.Sprintf("the reader takes messages for ordered (%s), and in the data they are not: an observer may "+
			"hold m2 without m1, which comes before it", orderText(Set{r.Needs}))
	}
	why := ""
	if r.Inverted {
		why = ", because the order does not respect causes"
	}
	return fmt.Sprintf("the reader expects the causes of a message (%s), and the data does not bring them%s: an "+
		"observer may hold m2 without m1, its cause", closureText(Set{r.Needs}), why)
}

// Reads says whether data written under a configuration can be read under another one.
func (s Scheme) Reads(data, reader Config) bool { return s.Readable(s.Level(data), reader) == nil }

// Class is a set of configurations whose data the same readers can read.
type Class struct {
	Level   Level
	Members []Config
	Covers  []int // the next weaker classes, which can read its data, by index
}

// Classes sorts configurations of one arbitration into classes, in the order in which they first come.
func (s Scheme) Classes(all []Config) (classes []Class) {
	same := func(a, b Config) bool { return s.Reads(a, b) && s.Reads(b, a) }
	for _, c := range all {
		at := slices.IndexFunc(classes, func(k Class) bool { return same(k.Members[0], c) })
		if at < 0 {
			at, classes = len(classes), append(classes, Class{Level: s.Level(c)})
		}
		classes[at].Members = append(classes[at].Members, c)
	}
	reads := func(a, b int) bool { return a != b && s.Reads(classes[a].Members[0], classes[b].Members[0]) }
	for a := range classes {
		for b := range classes {
			if reads(a, b) && !between(len(classes), func(c int) bool { return reads(a, c) && reads(c, b) }) {
				classes[a].Covers = append(classes[a].Covers, b)
			}
		}
	}
	return classes
}

func between(n int, is func(int) bool) bool {
	for c := range n {
		if is(c) {
			return true
		}
	}
	return false
}

// Both is the level of what both levels carry: the join of the readability order, so the weakest hop. It exists
// for all pairs only because closure may be over objects and sessions without being over everything.
func (s Scheme) Both(a, b Level) Level {
	return Level{Closure: s.Meet(a.Closure, b.Closure), Order: s.Meet(a.Order, b.Order)}
}
