package lightcone_test

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology/lightcone"
	"github.com/hence-dev/hence/topology/lightcone/brute"
)

func causally() lightcone.Arbitration { return lightcone.Arbitration{Rule: lightcone.Causal} }

// scheme relates nothing: the paper's object and session are independent.
var scheme lightcone.Scheme

// TestReadability holds the rule against all causal graphs of two to four messages, with every partition into objects
// and into sessions: with orders that respect causes, and with all orders (a sample of the latter, and all at full
// size).
func TestReadability(t *testing.T) {
	for _, c := range []struct {
		name        string
		arbitration lightcone.Arbitration
		everyOrder  bool
		worlds      int
		holds       int // of the paper's 144 pairs
	}{
		{"orders that respect causes", causally(), false, 8 + 200 + 14_400, 79},
		{"all orders", lightcone.Arbitration{}, true, 16 + 1_200 + 345_600, 54},
	} {
		step := 1
		if c.everyOrder && testsize.Small() {
			step = 11
		}
		want, worlds := brute.Relate(c.everyOrder, 4, step)
		configs := lightcone.Configs(brute.Filters(), c.arbitration)
		holds, refused := 0, 0
		for a := range want {
			for b := range want {
				got := scheme.Readable(scheme.Level(configs[a]), configs[b])
				if (got == nil) != want[a][b] {
					t.Errorf("%s: data of %v under %v: %v, the graphs say %v", c.name, configs[a], configs[b], got,
						want[a][b])
				}
				if a < 12 && b < 12 && got == nil {
					holds++
				}
				if got != nil {
					refused++
					shown(t, got, a, b, c.everyOrder)
				}
			}
		}
		if worlds != c.worlds || holds != c.holds {
			t.Errorf("%s: %d worlds, %d pairs hold: want %d and %d", c.name, worlds, holds, c.worlds, c.holds)
		}
		t.Logf("%s: each one in %d of %d worlds; %d of the 144 pairs hold; each of the %d refusals (of 225 "+
			"pairs with the fifth filter) has its graph", c.name, step, worlds, holds, refused)
	}
}

// shown holds that a refusal's own history shows it: its cut is one that an observer of the data may hold and the
// reader takes for impossible.
func shown(t *testing.T, r *lightcone.Refusal, a, b int, everyOrder bool) {
	t.Helper()
	w := brute.Of(r.History)
	filters, scopes := w.Admissible()
	cut := uint16(1) << brute.SetOf(r.Cut)
	if filters[a/3]&scopes[a%3]&cut == 0 || filters[b/3]&scopes[b%3]&cut != 0 {
		t.Errorf("pair %d %d: the cut %v of %+v does not show that %v", a, b, r.Cut, r.History, r)
	}
	if !everyOrder && !w.Causal() || r.Inverted == w.Causal() || len(r.History.Messages) > 2 {
		t.Errorf("pair %d %d: a graph of another kind: %+v", a, b, r)
	}
}

// TestShortcuts holds what the difference of the two relations is: 25 pairs, in each of which the order supplies
// closure that the filter does not have.
func TestShortcuts(t *testing.T) {
	with, without := lightcone.Configs(lightcone.Filters(), causally()), lightcone.Configs(lightcone.Filters(),
		lightcone.Arbitration{})
	shortcuts := 0
	for a := range with {
		for b := range with {
			causal, product := scheme.Reads(with[a], with[b]), scheme.Reads(without[a], without[b])
			if product && !causal {
				t.Errorf("%v under %v holds only without causes", with[a], with[b])
			}
			if causal && !product {
				shortcuts++
				if scheme.Below(with[b].Closure, with[a].Closure) || with[a].Order == "" {
					t.Errorf("%v under %v is no shortcut", with[a], with[b])
				}
			}
		}
	}
	if shortcuts != 25 {
		t.Errorf("%d shortcuts, want 25", shortcuts)
	}
}

// TestClasses holds the classes of the paper's figures, and of the five filters.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		name            string
		filters         []lightcone.Set
		arbitration     lightcone.Arbitration
		classes, covers int
		strict          int
	}{
		{"causal", lightcone.Filters(), causally(), 8, 10, 24},
		{"none", lightcone.Filters(), lightcone.Arbitration{}, 12, 20, 42},
		{"five filters", brute.Filters(), causally(), 9, 11, 0},
	} {
		configs := lightcone.Configs(c.filters, c.arbitration)
		classes := scheme.Classes(configs)
		covers, strict := 0, 0
		for _, a := range classes {
			covers += len(a.Covers)
			for _, b := range classes {
				if a.Members[0].String() != b.Members[0].String() && scheme.Reads(a.Members[0], b.Members[0]) {
					strict++
				}
			}
		}
		if len(classes) != c.classes || covers != c.covers || c.strict != 0 && strict != c.strict {
			t.Errorf("%s: %d classes, %d covers, %d strict pairs: want %d, %d, %d", c.name, len(classes), covers, strict,
				c.classes, c.covers, c.strict)
		}
	}
	weakest := func(c lightcone.Class) string { return c.Members[0].String() }
	var got []string
	for _, c := range scheme.Classes(lightcone.Configs(lightcone.Filters(), causally())) {
		line := weakest(c) + " " + c.Level.String()
		for _, m := range c.Members[1:] {
			line += " = " + m.String()
		}
		got = append(got, line)
	}
	want := []string{
		"(none, trivial) (none, trivial)",
		"(none, object) (object, object) = (object, object)",
		"(none, all) (explicit, all) = (object, all) = (session, all) = (explicit, all)",
		"(object, trivial) (object, trivial)",
		"(session, trivial) (session, trivial)",
		"(session, object) (object+session, object)",
		"(explicit, trivial) (explicit, trivial)",
		"(explicit, object) (explicit, object)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("classes:\n%q\nwant\n%q", got, want)
	}
}

// TestJoins holds that with the fifth filter each two configurations have one strongest common weaker level and it is
// Both, and that without it two have none.
func TestJoins(t *testing.T) {
	missing := 0
	for _, filters := range [][]lightcone.Set{lightcone.Filters(), brute.Filters()} {
		configs := lightcone.Configs(filters, causally())
		for _, a := range configs {
			for _, b := range configs {
				var upper []lightcone.Config
				for _, c := range configs {
					if scheme.Reads(a, c) && scheme.Reads(b, c) {
						upper = append(upper, c)
					}
				}
				least := slices.IndexFunc(upper, func(c lightcone.Config) bool {
					return !slices.ContainsFunc(upper, func(other lightcone.Config) bool { return !scheme.Reads(c, other) })
				})
				both := scheme.Both(scheme.Level(a), scheme.Level(b))
				switch {
				case least < 0:
					missing++
					if len(filters) == 5 {
						t.Errorf("%v and %v have no join", a, b)
					}
				case scheme.Level(upper[least]).String() != both.String():
					t.Errorf("%v and %v: the join is %v, Both says %v", a, b, upper[least], both)
				}
			}
		}
	}
	if missing != 2 { // (session, object) and (explicit, trivial), both ways
		t.Errorf("%d pairs have no join without the fifth filter, want 2", missing)
	}
}

// TestAdmits holds the package's own reading of a cut against the brute force's.
func TestAdmits(t *testing.T) {
	configs := lightcone.Configs(brute.Filters(), causally())
	for n := 2; n <= 3; n++ {
		for w := range brute.Labelled(n, true) {
			h := w.History()
			filters, scopes := w.Admissible()
			for i, c := range configs {
				for cut := range uint8(1 << n) {
					want := filters[i/3]&scopes[i%3]>>cut&1 == 1
					if got := h.Admits(brute.Listed(cut), c); got != want {
						t.Fatalf("%+v admits %v under %v: %v, want %v", h, brute.Listed(cut), c, got, want)
					}
				}
			}
			if (len(h.Scars()) == 0) != w.Causal() {
				t.Fatalf("%+v: scars %v", h, h.Scars())
			}
		}
	}
}

// TestSchemes holds that labels of two systems are unrelated, and what a scheme relates.
func TestSchemes(t *testing.T) {
	const row, table, key lightcone.Label = "object(row)", "object(table)", "object(key)"
	s := lightcone.Scheme{row: {table}}
	ordered := func(l lightcone.Label) lightcone.Config {
		return lightcone.Config{Order: l, Arbitration: causally()}
	}
	closed := func(l lightcone.Label) lightcone.Config { return lightcone.Config{Closure: lightcone.Set{l}} }
	for _, c := range []struct {
		data, reader lightcone.Config
		want         bool
	}{
		{ordered(table), ordered(row), true},
		{ordered(row), ordered(table), false},
		{ordered(table), closed(row), true}, // the order of a table brings the causes within each row
		{ordered(row), closed(table), false},
		{ordered(key), ordered(row), false},
		{ordered(row), ordered(key), false},
		{ordered(lightcone.Everything), ordered(key), true},
		{ordered(key), ordered(""), true},
	} {
		if got := s.Reads(c.data, c.reader); got != c.want {
			t.Errorf("data of %v under %v: %v, want %v", c.data, c.reader, got, c.want)
		}
	}
	if got := s.Meet(lightcone.Set{row}, lightcone.Set{table}); !slices.Equal(got, lightcone.Set{row}) {
		t.Errorf("alike in row and in table: %v", got)
	}
	if got := s.Join(lightcone.Set{row}, lightcone.Set{table}); !slices.Equal(got, lightcone.Set{table}) {
		t.Errorf("alike in row or in table: %v", got)
	}
	if got := s.Meet(lightcone.Set{key}, lightcone.Set{table}); len(got) != 0 {
		t.Errorf("alike in key and in table: %v", got)
	}
}
