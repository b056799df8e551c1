package lightcone_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/lightcone"
)

// place is one of a topology of the tests.
func place(name string, closure lightcone.Set, order lightcone.Label) lightcone.Place {
	return lightcone.Place{Name: name, Config: lightcone.Config{Closure: closure, Order: order, Wait: lightcone.Finite,
		Arbitration: causally()}}
}

// chain reads the places one after the other.
func chain(places ...lightcone.Place) (t lightcone.Topology) {
	for i, p := range places {
		if t.Places = append(t.Places, p); i > 0 {
			t.Links = append(t.Links, lightcone.Link{From: places[i-1].Name, To: p.Name})
		}
	}
	return t
}

// TestCheckNames holds what is said of a topology: who cannot read whom, where it was lost, and what restores it.
func TestCheckNames(t *testing.T) {
	explicit, session := lightcone.Set{lightcone.Everything}, lightcone.Set{lightcone.Session}
	store := place("store", explicit, lightcone.Everything)
	report := place("report", nil, lightcone.Everything)
	cache := place("cache", nil, "")
	week := store
	week.Keeps = &lightcone.Retention{Kept: 7 * 24 * time.Hour}
	unread := place("log", explicit, lightcone.Everything)
	unread.Config.Wait = lightcone.Absent
	skewed := place("stamps", nil, lightcone.Everything)
	skewed.Config.Arbitration = lightcone.Arbitration{Rule: lightcone.Clock, Uncertainty: 5 * time.Millisecond,
		Distance: 2 * time.Millisecond}
	counted := place("counter", nil, lightcone.Everything)
	counted.Config.Arbitration = lightcone.Arbitration{}
	causal := place("feed", explicit, "")
	withLog := chain(week, cache, report)
	withLog.Places = append(withLog.Places, unread)
	withLog.Links = append(withLog.Links, lightcone.Link{From: "store", To: "log"})
	elsewhere := chain(store, cache, report) // a log of other data restores nothing
	elsewhere.Places = append(elsewhere.Places, unread)
	byReference := chain(store, cache, report)
	byReference.Links[0].Append = true
	twice := chain(store, place("pram", session, ""), cache, report)
	for _, c := range []struct {
		name  string
		t     lightcone.Topology
		wants []string // in order; none: nothing is found
	}{
		{"nothing", chain(store, report), nil},
		{"a cache between", chain(store, cache, report), []string{
			"report cannot honestly read cache, whose data carries (none, trivial): report takes messages for ordered (all)",
			"lost for good where cache copies values from store", "read store itself, or copy with references"}},
		{"a week and a log", withLog, []string{"read store itself within the 7 days that it keeps, or copy",
			"or derive it from the unread log log"}},
		{"a log of other data", elsewhere, []string{"copy with references and keep what they point to."}},
		{"references", byReference, nil},
		{"two weak hops", twice, []string{"lost for good where pram copies values from store", "read store itself"}},
		{"never there", chain(cache, report), []string{"cache never had it", "write to cache under it"}},
		{"clocks", chain(skewed, causal), []string{
			"stamps does not bring them, because the order does not respect causes", "feed cannot honestly read stamps",
			"stamps never had it", "may be off by 5ms", "half of the 2ms", "must wait 8ms"}},
		{"a counter", chain(counted, causal), []string{"because the order does not respect causes",
			"let counter order by causes that it keeps, or by one point of append"}},
	} {
		found := c.t.Check().Findings
		if len(found) == 0 != (c.wants == nil) || len(found) > 1 {
			t.Errorf("%s: %v", c.name, found)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(found[0].String(), want) {
				t.Errorf("%s: %q does not say %q", c.name, found[0], want)
			}
		}
	}
}

// TestCheckCircles holds that places that read each other carry what both have.
func TestCheckCircles(t *testing.T) {
	explicit := lightcone.Set{lightcone.Everything}
	a, b := place("a", explicit, lightcone.Everything), place("b", explicit, "")
	c := lightcone.Topology{Places: []lightcone.Place{a, b},
		Links: []lightcone.Link{{From: "a", To: "b"}, {From: "b", To: "a"}}}
	r := c.Check()
	if r.Carries[0].String() != "(explicit, trivial)" || r.Carries[1].String() != "(explicit, trivial)" {
		t.Errorf("carries %v", r.Carries)
	}
	if len(r.Findings) != 1 || r.Findings[0].Place != "a" || r.Findings[0].From != "b" ||
		!strings.Contains(r.Findings[0].Lost, "b") {
		t.Errorf("found %v", r.Findings)
	}
	c.Links[1].Append, c.Links[0].Append = true, true // references alone point to nothing but each other
	if r := c.Check(); len(r.Findings) != 0 {
		t.Errorf("found %v", r.Findings)
	}
}

// TestCheckRetentions holds that a place must keep what is open and what its slowest reader has not read, to the unit.
func TestCheckRetentions(t *testing.T) {
	c := chain(place("log", nil, lightcone.Everything), place("fast", nil, ""), place("slow", nil, ""),
		place("near", nil, ""))
	c.Links[0].Lag = time.Hour
	c.Links[1].From, c.Links[1].Lag = "log", 3*time.Hour // neither the first nor the last
	c.Links[2].From, c.Links[2].Lag = "log", time.Minute
	for kept, short := range map[time.Duration]bool{5*time.Hour - 1: true, 5 * time.Hour: false} {
		c.Places[0].Keeps = &lightcone.Retention{Kept: kept, Open: 2 * time.Hour}
		found := c.Check().Findings
		if (len(found) == 1) != short || short && (found[0].Place != "log" || found[0].From != "" ||
			!strings.Contains(found[0].String(), "keep at least 5h")) {
			t.Errorf("kept %v: %v", kept, found)
		}
	}
	if c.Places[0].Keeps.Lag != 0 {
		t.Error("the check changed what it was given")
	}
}

// TestCheckLostBehind holds that a place that makes the order itself is not blamed for what one of those that it reads
// has lost.
func TestCheckLostBehind(t *testing.T) {
	c := chain(place("store", nil, lightcone.Everything), place("both", nil, lightcone.Everything),
		place("report", nil, lightcone.Everything))
	c.Places = append(c.Places, place("cache", nil, ""))
	c.Links = append(c.Links, lightcone.Link{From: "cache", To: "both"})
	found := c.Check().Findings
	at := slices.IndexFunc(found, func(f lightcone.Finding) bool { return f.Place == "report" })
	if at < 0 || found[at].Lost != "cache never had it" {
		t.Errorf("found %v", found)
	}
}

// TestCheckNotes holds what is said though it is allowed.
func TestCheckNotes(t *testing.T) {
	both := place("both", nil, lightcone.Everything)
	c := chain(place("a", nil, lightcone.Everything), both)
	c.Places = append(c.Places, place("b", nil, lightcone.Everything))
	c.Links = append(c.Links, lightcone.Link{From: "b", To: "both"})
	notes := c.Check().Notes
	if len(notes) != 1 || !strings.Contains(notes[0], "both puts a and b into one order (all)") {
		t.Errorf("two sources: %q", notes)
	}
	c.Places[1].Config.Confluent = true
	c.Places[0].Config.Serializer = true
	if notes = c.Check().Notes; len(notes) != 1 || !strings.Contains(notes[0], "a is two systems") {
		t.Errorf("confluent, beside a serializer: %q", notes)
	}
	c.Places[2].Config.Arbitration = lightcone.Arbitration{Rule: lightcone.Clock, Uncertainty: 2, Distance: 3}
	if notes = c.Check().Notes; len(notes) != 2 || !strings.Contains(notes[1], "unless each answer waits 1ns") {
		t.Errorf("clocks: %q", notes)
	}
}

// TestDOT holds the drawing: places with what they carry, refused links red, a serializer as a box of its own.
func TestDOT(t *testing.T) {
	c := chain(place("a \"store\"", nil, lightcone.Everything), place("cache", nil, ""),
		place("report", nil, lightcone.Everything))
	c.Places[0].Config.Serializer = true
	c.Places[2].Keeps = &lightcone.Retention{Kept: 1, Open: 2}
	c.Links[0].Append = true
	c.Links = append(c.Links, lightcone.Link{From: "cache", To: "feed"})
	c.Places = append(c.Places, place("feed", lightcone.Set{lightcone.Session}, ""))
	c.Places[1].Config.Wait = lightcone.Bounded
	c.Links[0].Append = false
	drawn := c.DOT(c.Check())
	for _, want := range []string{
		`"a \"store\"" [label="a \"store\"\n(none, all)\ntotal-order broadcast\ncarries (explicit, all)"];`,
		`"a \"store\" serializer" -> "a \"store\"" [dir=both, style=dashed];`,
		`"cache" -> "report" [label="missing: order all", style=solid, color=red];`,
		`"cache" -> "feed" [label="missing: closure session", style=solid, color=red];`,
		`"a \"store\"" -> "cache" [label="", style=solid, color=black];`,
		`retention too short", color=red];`,
	} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the drawing has no %s:\n%s", want, drawn)
		}
	}
	c.Links[0].Append = true
	if drawn := c.DOT(c.Check()); !strings.Contains(drawn, `"cache" [label="by reference", style=dashed, color=black];`) {
		t.Errorf("a reference:\n%s", drawn)
	}
}

// TestSystems holds the kinds that a topology may name, and that two places of a kind are unrelated.
func TestSystems(t *testing.T) {
	for name, want := range map[string]string{
		"postgres": "(explicit, all)", "postgres-standby": "(explicit, all)", "postgres-logical": "(none, object(table))",
		"redis-replica": "(none, all)", "redis-cluster": "(none, object(slot))", "kafka-topic": "(none, object(partition))",
		"kafka-partition": "(none, all)", "kafka-compacted": "(none, object(key))", "s3": "(object(key), object(key))",
		"s3-listing": "(none, trivial)", "dynamo-siblings": "(object(key), trivial)", "cache-ttl": "(none, trivial)",
		"last-writer-wins": "(none, object(key))", "crdt-state": "(object(key), trivial)",
		"crdt-operations": "(explicit, trivial)", "cache": "(none, trivial)", "redis": "(explicit, all)",
	} {
		s, ok := lightcone.Named(lightcone.Systems(), name)
		if !ok || s.Config.String() != want || s.Source == "" {
			t.Errorf("%s: %v %q, want %s", name, s.Config, s.Source, want)
		}
	}
	topic, _ := lightcone.Named(lightcone.Systems(), "kafka-topic")
	a, b := topic.Config.In("a"), topic.Config.In("b")
	if a.Order != "object(a/partition)" || scheme.Reads(a, b) || !scheme.Reads(a, a) {
		t.Errorf("two topics: %v, %v", a, b)
	}
	if row := lightcone.Catalogue()[24].Config.In("x"); row.String() != "(session(x), object(x))" {
		t.Errorf("a row of the catalogue: %v", row)
	}
	lww, _ := lightcone.Named(lightcone.Systems(), "last-writer-wins")
	if scheme.Level(lww.Config).String() != "(none, object(key))" {
		t.Error("timestamps of unknown clocks bring no causes")
	}
}
