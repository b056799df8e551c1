package topologyfile

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/lightcone"
)

const whole = `version: 1
labels:
  object(row): [object(table), object(db)]
places:
  - name: report
    closure: object(row)+session(user)
    order: object(table)
    wait: bounded
    unit: versions
    select: k-latest
    arbitration: {uncertainty: 5ms, distance: 20ms}
    reads:
      - from: store
        copy: references
        lag: 10m
      - stream
  - name: store
    is: postgres
    serializer: true
    confluent: true
    retention: 7d
    open: 1h30m
  - name: stream
    is: kafka-topic
    retention: forever
  - name: feed
    is: total-order broadcast
    arbitration: none
  - name: ours
    is: hence.decisions
  - {name: bare, closure: explicit, order: trivial}
`

// TestRead holds what a file says, with defaults, and where the places stand.
func TestRead(t *testing.T) {
	got, found := Read("topology.yaml", []byte(whole))
	if len(found) > 0 {
		t.Fatal(found)
	}
	everything := lightcone.Set{lightcone.Everything}
	causal := lightcone.Arbitration{Rule: lightcone.Causal}
	configs := map[string]lightcone.Config{
		"report": {Closure: lightcone.Set{"object(row)", "session(user)"}, Order: "object(table)", Wait: lightcone.Bounded,
			Unit: lightcone.Versions, Select: lightcone.KLatest, Arbitration: lightcone.Arbitration{Rule: lightcone.Clock,
				Uncertainty: 5 * time.Millisecond, Distance: 20 * time.Millisecond}},
		"store": {Closure: everything, Order: lightcone.Everything, Wait: lightcone.NoWait, Arbitration: causal,
			Confluent: true, Serializer: true},
		"stream": {Closure: lightcone.Set{}, Order: "object(stream/partition)", Wait: lightcone.Finite,
			Arbitration: causal},
		"feed": {Closure: lightcone.Set{}, Order: lightcone.Everything, Wait: lightcone.Finite},
		"ours": {Closure: everything, Order: lightcone.Everything, Wait: lightcone.Finite, Arbitration: causal},
		"bare": {Closure: everything, Wait: lightcone.Finite},
	}
	keeps := map[string]*lightcone.Retention{
		"store":  {Kept: 7 * 24 * time.Hour, Open: 90 * time.Minute},
		"stream": {Kept: lightcone.Forever},
	}
	for _, p := range got.Places {
		if !reflect.DeepEqual(p.Config, configs[p.Name]) || !reflect.DeepEqual(p.Keeps, keeps[p.Name]) {
			t.Errorf("%s: %+v %+v, want %+v %+v", p.Name, p.Config, p.Keeps, configs[p.Name], keeps[p.Name])
		}
	}
	links := []lightcone.Link{{From: "store", To: "report", Append: true, Lag: 10 * time.Minute},
		{From: "stream", To: "report"}}
	if !reflect.DeepEqual(got.Links, links) || !slices.Equal(got.Lines, []int{5, 17, 23, 26, 29, 31}) ||
		!reflect.DeepEqual(got.Labels, lightcone.Scheme{"object(row)": {"object(table)", "object(db)"}}) {
		t.Errorf("links %+v, lines %v, labels %v", got.Links, got.Lines, got.Labels)
	}
}

// bad maps what is put into a file to where it is wrong and what is said.
func bad() map[string]string {
	head := "version: 1\nplaces:\n  - {name: a, closure: none, order: trivial}\n"
	all := map[string]string{
		"":                         "1:1: the file is empty",
		"version: 1\n":             `1:1: the key "places" is missing`,
		"places: []\n":             `1:1: the key "version" is missing`,
		"version: 2\nplaces: []\n": "1:10: version \"2\" is not known here",
		"version: 1\nplaces: []\n": "2:9: there are 0 places: name 1 to 200",
		"version: 1\nplaces: 3\n":  "2:9: places is a number: it must be a list",
		"version: 1\nplaces: [3]":  "2:10: a place is a number: it must be a mapping",
		head + "other: 1\n":        `4:1: the file has no key "other"`,
		"version: 1\nlabels: 3\n" + head[len("version: 1\n"):]:              "2:9: labels is a number: it must be a mapping",
		"version: 1\nlabels: {row: [x]}\n" + head[len("version: 1\n"):]:     `2:10: "row" is no label`,
		"version: 1\nlabels: {object(a): b}\n" + head[len("version: 1\n"):]: "2:21: object(a) is text: it must be a list",
	}
	for line, want := range map[string]string{
		"{name: a, closure: none, order: trivial}":                        "4:6: place a is there twice, first in line 3",
		"{closure: none, order: trivial}":                                 "4:6: a place has no name",
		"{name: '', is: redis}":                                           "4:12: name is empty",
		"{name: b, order: trivial}":                                       "4:6: a place has no closure",
		"{name: b, closure: none}":                                        "4:6: a place has no order",
		"{name: b, closure: none, order: all}":                            "4:6: a place has no arbitration",
		"{name: b, is: sequential}":                                       "4:6: a place has no arbitration",
		"{name: b, is: postgre}":                                          `did you mean "postgres"?`,
		"{name: b, is: xyz}":                                              `called "xyz": see hence topology names`,
		"{name: b, is: redis, colour: red}":                               `4:26: a place has no key "colour"`,
		"{name: b, is: redis, wiat: none}":                                `did you mean "wait"?`,
		"{name: b, closure: object, order: trivial}":                      `4:24: "object" is no label: write object(NAME)`,
		"{name: b, closure: none, order: object, arbitration: none}":      `"object" is no label`,
		"{name: b, closure: none, order: session(a), arbitration: none}":  "an order of sessions is none",
		"{name: b, is: redis, wait: long}":                                `wait is "long": write absent or finite`,
		"{name: b, is: redis, unit: miles}":                               `unit is "miles"`,
		"{name: b, is: redis, select: all}":                               `select is "all"`,
		"{name: b, is: redis, confluent: 1}":                              "confluent is a number",
		"{name: b, is: redis, arbitration: maybe}":                        `arbitration is "maybe"`,
		"{name: b, is: redis, arbitration: {uncertainty: 1s}}":            "arbitration by clocks has no distance",
		"{name: b, is: redis, arbitration: {distance: 1s}}":               "arbitration by clocks has no uncertainty",
		"{name: b, is: redis, arbitration: {uncertainty: -1s}}":           `uncertainty is "-1s"`,
		"{name: b, is: redis, arbitration: {other: 1s}}":                  `arbitration has no key "other"`,
		"{name: b, is: redis, retention: long}":                           "such as 7d, 1h30m or 5ms, or forever",
		"{name: b, is: redis, retention: 36600d}":                         `retention is "36600d"`,
		"{name: b, is: redis, retention: 1d, open: forever}":              `open is "forever"`,
		"{name: b, is: redis, open: 1d}":                                  "there is no retention to compare",
		"{name: b, is: redis, reads: a}":                                  "reads is text: it must be a list",
		"{name: b, is: redis, reads: [c]}":                                `4:34: no place is called "c"`,
		"{name: longer, is: redis, reads: [longr]}":                       `did you mean "longer"?`,
		"{name: b, is: redis, reads: [b]}":                                "4:34: b reads itself",
		"{name: b, is: redis, reads: [a, a]}":                             "b reads a twice",
		"{name: b, is: redis, reads: [{lag: 1h}]}":                        "it is not said which place is read",
		"{name: b, is: redis, reads: [{from: a, copy: all}]}":             `copy is "all": write values or references`,
		"{name: b, is: redis, reads: [{from: a, lag: soon}]}":             `lag is "soon"`,
		"{name: b, is: redis, reads: [{from: a, when: now}]}":             `a place that is read has no key "when"`,
		"{name: " + strings.Repeat("b", maxName+1) + ", is: redis}":       "at most 80 characters",
		"{name: b, is: redis, closure: 'object(a)+nothing'}":              `"nothing" is no label`,
		"{name: b, is: last-writer-wins, arbitration: {uncertainty: 5}}":  `uncertainty is "5"`,
		"{name: b, is: redis, reads: [{from: a, copy: values, from: a}]}": `mapping key "from" already defined`,
		"{name: b, is: redis, serializer: yes}":                           "serializer is text",
		"{name: b, is: redis, closure: 3}":                                "closure is a number",
		"{name: b, is: redis, order: [all]}":                              "order is a list",
	} {
		all[head+"  - "+line+"\n"] = want
	}
	return all
}

// TestRefused holds what is wrong with a file, each with its line and what to do.
func TestRefused(t *testing.T) {
	for text, want := range bad() {
		_, found := Read("f", []byte(text))
		var lines []string
		for _, f := range found {
			if f.Line == 0 || f.Fix == "" {
				t.Errorf("%q: a finding without a place or a way out: %+v", text, f)
			}
			lines = append(lines, f.String())
		}
		if !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("%q\nfound %q\nwant %q", text, lines, want)
		}
	}
	many := "version: 1\nplaces:\n" + strings.Repeat("  - {is: redis}\n", maxPlaces+1)
	if _, found := Read("f", []byte(many)); len(found) != 1 || !strings.Contains(found[0].What, "201 places") {
		t.Errorf("many places: %v", found)
	}
	var reads strings.Builder
	reads.WriteString("version: 1\nplaces:\n")
	for range 11 {
		reads.WriteString("  - {name: a, is: redis, reads: [" + strings.Repeat("b, ", 100) + "b]}\n")
	}
	_, found := Read("f", []byte(reads.String()))
	if !slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.What, "1111 places are read") }) {
		t.Errorf("many reads: %v", found)
	}
}

// TestPapersExamples holds the paper's four pipelines as files: what is said of the hop and of the axis.
func TestPapersExamples(t *testing.T) {
	source := "version: 1\nplaces:\n  - {name: source, is: sequential, arbitration: causal}\n"
	end := "  - {name: end, is: sequential, arbitration: causal, reads: [%]}\n"
	for name, c := range map[string]struct {
		hops  string
		last  string
		wants []string // none: the end can read what it gets
	}{
		"eventual": {"  - {name: hop, is: eventual delivery, reads: [source]}\n", "hop", []string{
			"end cannot honestly read hop, whose data carries (none, trivial)", "ordered (all)",
			"lost for good where hop copies values from source"}},
		"causal": {"  - {name: hop, is: causal, reads: [source]}\n", "hop", []string{
			"carries (explicit, trivial)", "ordered (all)", "lost for good where hop copies values from source"}},
		"total order broadcast": {
			"  - {name: hop, is: total-order broadcast, arbitration: causal, reads: [source]}\n", "hop", nil},
		"PRAM, then all": {"  - {name: pram, is: session causal, reads: [source]}\n" +
			"  - {name: again, is: total-order broadcast, arbitration: causal, reads: [pram]}\n", "again", []string{
			"again cannot honestly read pram, whose data carries (session(pram), trivial)",
			"end cannot honestly read again, whose data carries (session(pram), trivial)",
			"lost for good where pram copies values from source"}},
	} {
		file, found := Read("f", []byte(source+c.hops+strings.ReplaceAll(end, "%", c.last)))
		if len(found) > 0 {
			t.Fatalf("%s: %v", name, found)
		}
		var said []string
		for _, f := range file.Check().Findings {
			said = append(said, f.String())
		}
		if (len(said) == 0) != (c.wants == nil) {
			t.Errorf("%s: %q", name, said)
		}
		for _, want := range c.wants {
			if !strings.Contains(strings.Join(said, "\n"), want) {
				t.Errorf("%s: %q does not say %q", name, said, want)
			}
		}
	}
}

// TestExample holds that the documented example is one, with its one finding.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/examples/topology.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, found := Read("topology.yaml", text)
	if findings := file.Check().Findings; len(found) > 0 || len(findings) != 1 || findings[0].Place != "revenue" {
		t.Errorf("%v %v", found, findings)
	}
}
