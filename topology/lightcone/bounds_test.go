package lightcone_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/lightcone"
	"github.com/hence-dev/hence/topology/lightcone/brute"
)

// TestClockBound holds the bound against all clock errors in whole units: with equal timestamps in the order of causes
// no cause comes after its effect exactly where twice the uncertainty is at most the distance, and the wait is the
// least after which that is so.
func TestClockBound(t *testing.T) {
	inverts := func(uncertainty, distance int) bool {
		for cause := -uncertainty; cause <= uncertainty; cause++ {
			for effect := -uncertainty; effect <= uncertainty; effect++ {
				if distance+effect < cause {
					return true
				}
			}
		}
		return false
	}
	for e := range 8 {
		for d := range 20 {
			uncertainty, distance := time.Duration(e), time.Duration(d)
			if got := lightcone.ClockOrders(uncertainty, distance); got == inverts(e, d) {
				t.Errorf("uncertainty %d, distance %d: ordered %v", e, d, got)
			}
			wait := 0
			for inverts(e, d+wait) {
				wait++
			}
			if got := lightcone.CommitWait(uncertainty, distance); got != time.Duration(wait) {
				t.Errorf("uncertainty %d, distance %d: wait %d, want %d", e, d, got, wait)
			}
			a := lightcone.Arbitration{Rule: lightcone.Clock, Uncertainty: uncertainty, Distance: distance}
			if a.Causal() == inverts(e, d) {
				t.Errorf("%+v: causal %v", a, a.Causal())
			}
		}
	}
}

// TestInversions holds the probabilities against draws, and the paper's figures.
func TestInversions(t *testing.T) {
	const uncertainty = time.Second
	chance := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ share, want float64 }{{0, .5}, {.25, .28125}, {.5, .125}, {.75, .03125}, {1, 0}} {
		distance := time.Duration(c.share * float64(2*uncertainty))
		got := lightcone.Inversion(uncertainty, distance)
		const draws = 200_000
		inverted := 0
		for range draws {
			if c.share*2+chance.Float64()*2 < chance.Float64()*2 {
				inverted++
			}
		}
		margin := 4 * math.Sqrt(c.want*(1-c.want)/draws)
		if math.Abs(got-c.want) > 1e-9 || math.Abs(float64(inverted)/draws-got) > margin {
			t.Errorf("distance %v of twice the uncertainty: %v, want %v, drawn %v", c.share, got, c.want, inverted)
		}
	}
	if got := lightcone.Uncertainty(1e9, 1e6, 1e-6) / 1e9; math.Abs(got-0.5000007) > 1e-7 {
		t.Errorf("a million edges at one in a million: %v of the distance, want 0.5000007", got)
	}
	if p := lightcone.InversionNormal(time.Second, 10*time.Second); p <= 0 || p > 1e-11 {
		t.Errorf("normal errors, ten deviations: %v", p)
	}
	if p := lightcone.InversionNormal(time.Second, 0); p != .5 {
		t.Errorf("normal errors without distance: %v", p)
	}
}

// TestDetectionIsPrevention holds on all graphs of three messages with all orders: all causes together tell a scar,
// and with any missing two histories look the same, one with a scar and one without.
func TestDetectionIsPrevention(t *testing.T) {
	for _, c := range []struct {
		name  string
		keeps lightcone.Keeps
		kept  func(w brute.World) [4]uint8
	}{
		{"all causes", lightcone.Keeps{Causes: true}, func(w brute.World) [4]uint8 { return w.Past }},
		{"the order alone", lightcone.Keeps{OneAppend: true}, func(brute.World) [4]uint8 { return [4]uint8{} }},
		{"all but one message's causes", lightcone.Keeps{}, func(w brute.World) [4]uint8 {
			w.Past[2] = 0
			return w.Past
		}},
	} {
		scarred := map[string][2]bool{}
		told := true
		for g := range brute.Graphs(3) {
			for _, order := range brute.Permutations(7) {
				w := g
				for at, m := range order {
					w.Order[m] = uint8(at)
				}
				state := fmt.Sprint(c.kept(w), w.Order)
				both := scarred[state]
				if w.Causal() {
					both[0] = true
				} else {
					both[1] = true
				}
				scarred[state] = both
				told = told && !(both[0] && both[1])
			}
		}
		if told != c.keeps.Detects() {
			t.Errorf("who keeps %s: can tell %v, said %v", c.name, told, c.keeps.Detects())
		}
	}
	clock := lightcone.Keeps{ClockBound: lightcone.Arbitration{Rule: lightcone.Clock, Uncertainty: 1, Distance: 2}}
	late := lightcone.Keeps{ClockBound: lightcone.Arbitration{Rule: lightcone.Clock, Uncertainty: 2, Distance: 3}}
	append1 := lightcone.Keeps{OneAppend: true}
	if !clock.Prevents() || clock.Detects() || late.Prevents() || !append1.Prevents() || append1.Detects() ||
		!(lightcone.Keeps{Causes: true}).Prevents() || (lightcone.Keeps{}).Prevents() {
		t.Error("who prevents scars, and who detects them")
	}
}

// TestContradiction holds a scar that no check of causes sees: two observers each commit to an order of two messages
// that nothing relates.
func TestContradiction(t *testing.T) {
	h := lightcone.History{Messages: make([]lightcone.Message, 3), Order: []int{0, 1, 2}}
	if len(h.Scars()) != 0 {
		t.Error("a scar without causes")
	}
	if got := lightcone.Contradiction(3, []int{0, 1}, []int{1, 2, 0}); len(got) != 2 {
		t.Errorf("0 before 1 and 1 before 0: %v", got)
	}
	if got := lightcone.Contradiction(3, []int{0, 1}, []int{1, 2}, []int{2, 0}); len(got) != 3 {
		t.Errorf("a cycle of three: %v", got)
	}
	if got := lightcone.Contradiction(3, []int{0, 1}, []int{1, 2}, []int{0, 2}); got != nil {
		t.Errorf("no cycle: %v", got)
	}
}

// TestRetention holds when a retention is too short, to the unit, and where nothing has to be kept.
func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	r := lightcone.Retention{Open: day, Lag: 2 * day}
	for kept, short := range map[time.Duration]bool{3*day - 1: true, 3 * day: false, lightcone.Forever: false, 0: true} {
		r.Kept = kept
		if got := r.Short(); (got != "") != short {
			t.Errorf("kept %v: %q", kept, got)
		}
	}
	r.Kept = day
	for _, want := range []string{"it keeps 1 day and must keep 3 days", "open for 1 day", "2 days behind",
		"be refused in H"} {
		if !strings.Contains(r.Short(), want) {
			t.Errorf("%q does not say %q", r.Short(), want)
		}
	}
	keeps := lightcone.Config{Closure: lightcone.Set{lightcone.Object}, Order: lightcone.Object, Wait: lightcone.Finite}
	if got := keeps.Versions(3, 10*time.Second, 4); got != 120 {
		t.Errorf("four objects, three writes a second, ten seconds: %v versions", got)
	}
	for name, c := range map[string]lightcone.Config{
		"no order":   {Closure: keeps.Closure, Wait: keeps.Wait},
		"no closure": {Order: keeps.Order, Wait: keeps.Wait},
		"no wait":    {Closure: keeps.Closure, Order: keeps.Order, Wait: lightcone.NoWait},
	} {
		if c.HoldsForks() || c.Versions(3, time.Minute, 4) != 0 {
			t.Errorf("%s: something is kept", name)
		}
	}
	if got := lightcone.TagBits(3, 5, 1024); got != 30 {
		t.Errorf("three replicas, 1024 operations: %v bits", got)
	}
}

// TestRetentionBound holds why: with the message between two dropped, a chain one way and a chain the other way leave
// the same behind, and ask for opposite orders.
func TestRetentionBound(t *testing.T) {
	there := lightcone.History{Messages: []lightcone.Message{{}, {Causes: []int{0}}, {Causes: []int{1}}}}
	back := lightcone.History{Messages: []lightcone.Message{{Causes: []int{1}}, {Causes: []int{2}}, {}}}
	without := func(h lightcone.History, dropped int) string {
		var left []string
		for m := range h.Messages {
			for _, c := range h.Messages[m].Causes {
				if m != dropped && c != dropped {
					left = append(left, fmt.Sprint(c, m))
				}
			}
		}
		return fmt.Sprint(left)
	}
	if without(there, 1) != without(back, 1) {
		t.Error("what is left differs")
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}} {
		there.Order, back.Order = order, order
		if len(there.Scars()) == 0 && len(back.Scars()) == 0 {
			t.Errorf("the order %v is right in both", order)
		}
	}
}

// TestTotals holds the criterion of a stack of orders against the transitive closure of what each orders, for all
// pairs of partitions of four messages and all orders.
func TestTotals(t *testing.T) {
	total, joined := 0, 0
	for _, p := range brute.Partitions(4) {
		for _, q := range brute.Partitions(4) {
			for _, order := range brute.Permutations(15) {
				w := brute.World{N: 4, Object: p, Session: q}
				for at, m := range order {
					w.Order[m] = uint8(at)
				}
				h := w.History()
				stack := lightcone.Stack{{Seen: order, By: lightcone.Object}, {Seen: order, By: lightcone.Session}}
				if got, want := h.Totals(stack) == nil, w.Totals(); got != want {
					t.Fatalf("%v and %v along %v: total %v, want %v", p, q, order, got, want)
				} else if got {
					total++
				}
				if w.Joined() {
					joined++
				}
				whole := lightcone.Stack{{Seen: order, By: lightcone.Everything}}
				if h.Totals(whole) != nil || h.Totals(nil) == nil {
					t.Fatal("one order of all orders all, and none orders nothing")
				}
				against := lightcone.Stack{{Seen: []int{order[1], order[0], order[2], order[3]}, By: lightcone.Everything}}
				if gap := h.Totals(against); gap == nil || *gap != (lightcone.Pair{First: order[0], Second: order[1]}) {
					t.Fatalf("a stack with another order: gap %v", gap)
				}
			}
		}
	}
	if total == 0 || joined <= total {
		t.Errorf("%d total orders, %d joined: being joined is not enough", total, joined)
	}
}

// TestClauseThree holds that two messages that no scope holds in one class may be ordered all the same, by others.
func TestClauseThree(t *testing.T) {
	w := brute.World{N: 3, Object: [4]uint8{0, 1, 0}, Session: [4]uint8{0, 1, 1}, Order: [4]uint8{0, 2, 1}}
	h := w.History() // a before c in one object, c before b in one session; nothing has both a and b
	stack := lightcone.Stack{{Seen: h.Order, By: lightcone.Object}, {Seen: h.Order, By: lightcone.Session}}
	if gap := h.Totals(stack); gap != nil {
		t.Errorf("gap %v", gap)
	}
}

// TestCatalogue holds the paper's table: forty rows, made from the axes, with their names.
func TestCatalogue(t *testing.T) {
	rows := lightcone.Catalogue()
	if len(rows) != 40 {
		t.Fatalf("%d rows", len(rows))
	}
	named, names := 0, map[string]bool{}
	kinds := map[string]bool{}
	for i, r := range rows {
		if r.Number != i+1 || r.Name == "" || names[r.Name] {
			t.Errorf("row %d: %+v", i+1, r)
		}
		names[r.Name] = true
		if r.Model != "" {
			named++
		}
		kinds[scheme.Level(r.Config).String()+r.Config.Wait.String()] = true
		if again, ok := lightcone.NameOf(r.Config); !ok || again.Number != r.Number {
			t.Errorf("%v is row %d, not %d", r.Config, r.Number, again.Number)
		}
	}
	if named != 16 || len(kinds) != 25 {
		t.Errorf("%d rows have a name elsewhere and %d differ in class or wait: want 16 and 25", named, len(kinds))
	}
	for n, want := range map[int]string{1: "no guarantees (none, trivial) absent",
		5:  "per-object ordered (none, object) finite",
		10: "instant total order (none, all) none", 13: "bounded per-object causal (object, trivial) bounded",
		22: "session causal (session, trivial) finite", 37: "global causal unread log (explicit, all) absent",
		38: "sequential (explicit, all) finite", 40: "sequential, current (explicit, all) none"} {
		if r := rows[n-1]; fmt.Sprint(r.Name, " ", r.Config, " ", r.Config.Wait) != want {
			t.Errorf("row %d: %s %v %v, want %s", n, r.Name, r.Config, r.Config.Wait, want)
		}
	}
	if a, b := rows[37].Config, rows[39].Config; !scheme.Reads(a, b) || !scheme.Reads(b, a) || a.Wait == b.Wait {
		t.Error("38 and 40 are one class and differ in the wait")
	}
	current := lightcone.Config{Closure: lightcone.Set{"object(key)"}, Order: "object(key)", Wait: lightcone.NoWait}
	if r, ok := lightcone.NameOf(current); ok {
		t.Errorf("a register that is current per object is none of the forty, and is said to be %+v", r)
	}
}

// TestSelections holds the declared order of what answers report.
func TestSelections(t *testing.T) {
	holds := 0
	for a := lightcone.Latest; a <= lightcone.Multi; a++ {
		for b := lightcone.Latest; b <= lightcone.Multi; b++ {
			if a.AtMost(b) {
				holds++
			}
		}
	}
	if holds != 6+6+2+1 || lightcone.Computed.AtMost(lightcone.AnyConcurrent) ||
		lightcone.AnyConcurrent.AtMost(lightcone.Computed) || !lightcone.Latest.AtMost(lightcone.Multi) {
		t.Errorf("%d pairs of selections are ordered", holds)
	}
	if (lightcone.Config{Order: lightcone.Everything}).SingleObserver() == "" ||
		(lightcone.Config{}).SingleObserver() != "" ||
		!strings.Contains((lightcone.Config{Serializer: true}).SingleObserver(), "two systems") {
		t.Error("what is said of real time")
	}
}
