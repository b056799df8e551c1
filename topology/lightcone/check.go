package lightcone

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Place is where data is held or used: a store, a topic, a table, a view, an export, a program.
type Place struct {
	Name   string
	Config Config
	Keeps  *Retention // nil: nothing is said of it
	Source string     // where the configuration is known from
}

// Link says that a place reads another one.
type Link struct {
	From, To string
	Append   bool          // To keeps references to what it read, and From keeps that; else To has copies of values
	Lag      time.Duration // how far To may be behind
}

// Topology is who reads whom.
type Topology struct {
	Labels Scheme
	Places []Place
	Links  []Link
}

// Finding is something that does not hold.
type Finding struct {
	Place  string // of a retention; else the consumer
	From   string // the producer; empty: it is about Place alone
	Carry  Level  // what the producer's data carries
	What   string // a sentence
	Lost   string // where what is missing was lost for good
	Cure   string // what would restore it
	Reason *Refusal
}

// String is the finding in sentences.
func (f Finding) String() string {
	parts := []string{f.What}
	for _, more := range []string{f.Lost, f.Cure} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(parts, "; ") + "."
}

// Report is what a check found. Carries has the level of each place's data, by index.
type Report struct {
	Carries  []Level
	Findings []Finding
	Notes    []string // what is allowed, and to be known
}

// Check looks at every link: whether the consumer can honestly read what the producer's data carries, after all copies
// on its way; and at every retention.
func (t Topology) Check() Report {
	r := Report{Carries: t.carried()}
	for i, p := range t.Places {
		for _, l := range t.Links {
			if from := t.index(l.From); l.To == p.Name && from >= 0 {
				if why := t.Labels.Readable(r.Carries[from], p.Config); why != nil {
					r.Findings = append(r.Findings, t.unreadable(r, l, why))
				}
			}
		}
		r.Findings = append(r.Findings, t.short(p)...)
		r.Notes = append(r.Notes, t.notes(i)...)
	}
	return r
}

func (t Topology) index(name string) int {
	return slices.IndexFunc(t.Places, func(p Place) bool { return p.Name == name })
}

// carried is what the data of each place carries: no more than the place has, nor than what it was copied from.
func (t Topology) carried() []Level {
	levels := make([]Level, len(t.Places))
	for i, p := range t.Places {
		levels[i] = t.Labels.Level(p.Config)
		if in := t.into(p.Name); len(in) > 0 && !slices.ContainsFunc(in, func(l Link) bool { return !l.Append }) {
			levels[i] = Level{Set{Everything}, Set{Everything}} // references alone: as much as what they point to
		}
	}
	for changed := true; changed; { // links may run in circles; levels only fall, and end
		changed = false
		for _, l := range t.Links {
			from, to := t.index(l.From), t.index(l.To)
			if from < 0 || to < 0 {
				continue
			}
			next := t.Labels.Both(levels[to], levels[from])
			changed = changed || next.String() != levels[to].String()
			levels[to] = next
		}
	}
	return levels
}

func (t Topology) into(name string) (in []Link) {
	for _, l := range t.Links {
		if l.To == name && t.index(l.From) >= 0 {
			in = append(in, l)
		}
	}
	return in
}

// unreadable says what is wrong with a link, where it was lost and what restores it.
func (t Topology) unreadable(r Report, l Link, why *Refusal) Finding {
	f := Finding{Place: l.To, From: l.From, Carry: r.Carries[t.index(l.From)], Reason: why}
	f.What = fmt.Sprintf("%s cannot honestly read %s, whose data carries %v: %s", l.To, l.From, f.Carry, why.of(l))
	has := func(place string) bool {
		level := r.Carries[t.index(place)]
		if why.Order {
			return t.Labels.below(why.Needs, level.Order)
		}
		return t.Labels.below(why.Needs, level.Closure)
	}
	at, seen := l.From, map[string]bool{}
	for !seen[at] {
		seen[at] = true
		in, before := t.into(at), ""
		for _, one := range in {
			switch {
			case !has(one.From):
				before = one.From
			case !one.Append && !t.own(at, why):
				f.Lost = fmt.Sprintf("it is lost for good where %s copies values from %s", at, one.From)
				f.Cure = fmt.Sprintf("no later copy brings it back: read %s itself%s, or copy with references and keep what "+
					"they point to%s", one.From, t.kept(one.From), t.unread(at, has))
				return f
			}
		}
		if before != "" {
			at = before // it was gone before
		}
	}
	f.Lost = fmt.Sprintf("%s never had it", at)
	f.Cure = t.sourceCure(at, why)
	return f
}

// own says whether a place by itself, whatever it reads, would have what a refusal misses.
func (t Topology) own(place string, why *Refusal) bool {
	level := t.Labels.Level(t.Places[t.index(place)].Config)
	if why.Order {
		return t.Labels.below(why.Needs, level.Order)
	}
	return t.Labels.below(why.Needs, level.Closure)
}

// of is the refusal about two places of a topology.
func (r *Refusal) of(l Link) string {
	return strings.NewReplacer("the reader", l.To, "the data", l.From).Replace(r.String())
}

// kept says how long a re-reading is possible.
func (t Topology) kept(place string) string {
	p := t.Places[t.index(place)]
	if p.Keeps == nil || p.Keeps.Kept < 0 {
		return ""
	}
	return fmt.Sprintf(" within the %s that it keeps", Span(p.Keeps.Kept))
}

// unread names a log of what a place was made from that nothing was derived from yet, and that still has what is
// missing.
func (t Topology) unread(place string, has func(string) bool) string {
	up := []string{}
	for next := []string{place}; len(next) > 0; next = next[1:] {
		for _, l := range t.into(next[0]) {
			if !slices.Contains(up, l.From) {
				up, next = append(up, l.From), append(next, l.From)
			}
		}
	}
	for _, p := range t.Places {
		related := slices.Contains(up, p.Name) ||
			slices.ContainsFunc(t.into(p.Name), func(l Link) bool { return slices.Contains(up, l.From) })
		if p.Name != place && p.Config.Wait == Absent && related && has(p.Name) {
			return fmt.Sprintf(", or derive it from the unread log %s", p.Name)
		}
	}
	return ""
}

func (t Topology) sourceCure(place string, why *Refusal) string {
	c := t.Places[t.index(place)].Config
	if a := c.Arbitration; why.Inverted && a.Rule == Clock {
		return fmt.Sprintf("its clocks may be off by %v, which must be at most half of the %v in which a cause reaches "+
			"another node, or each answer must wait %v", a.Uncertainty, a.Distance, CommitWait(a.Uncertainty, a.Distance))
	}
	if why.Inverted {
		return fmt.Sprintf("let %s order by causes that it keeps, or by one point of append", place)
	}
	return fmt.Sprintf("write to %s under it: nothing that reads can add it", place)
}

// short says whether a place drops what a decision or a reader still needs.
func (t Topology) short(p Place) []Finding {
	if p.Keeps == nil {
		return nil
	}
	keeps := *p.Keeps
	for _, l := range t.Links {
		if l.From == p.Name {
			keeps.Lag = max(keeps.Lag, l.Lag)
		}
	}
	why := keeps.Short()
	if why == "" {
		return nil
	}
	return []Finding{{Place: p.Name, What: fmt.Sprintf("the retention of %s is too short: %s", p.Name, why),
		Cure: fmt.Sprintf("keep at least %s, or let its readers be less far behind", Span(keeps.Needed()))}}
}

// notes are what one should know of a place though nothing is wrong.
func (t Topology) notes(i int) (notes []string) {
	p := t.Places[i]
	c := p.Config
	if a := c.Arbitration; a.Rule == Clock && !a.Causal() {
		notes = append(notes, fmt.Sprintf("the clocks of %s may be off by %v, and a cause reaches another node in %v: its "+
			"order need not respect causes, unless each answer waits %v", p.Name, a.Uncertainty, a.Distance,
			CommitWait(a.Uncertainty, a.Distance)))
	}
	in := t.into(p.Name)
	copies := slices.DeleteFunc(slices.Clone(in), func(l Link) bool { return l.Append })
	if len(copies) > 1 && c.Order != "" && !c.Confluent {
		names := make([]string, len(copies))
		for i, l := range copies {
			names[i] = l.From
		}
		notes = append(notes, fmt.Sprintf("%s puts %s into one order (%s): they merge only while none of them has two "+
			"messages the other way round, which is certain only where the order is a function of the messages alone",
			p.Name, strings.Join(names, " and "), orderText(c.Orders())))
	}
	if c.Serializer {
		notes = append(notes, fmt.Sprintf("%s is %s", p.Name, c.SingleObserver()))
	}
	return notes
}
