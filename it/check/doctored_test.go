package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// drawn is a random history in which nothing is wrong, with tool calls: five agents, a few scopes, transactions that
// take effect one after the other while others are under way.
func drawn(rng *rand.Rand) *Effects {
	const agents, scopes, step = 5, 4, 10
	e := &Effects{}
	current, contents := map[string]uint64{}, map[string]string{}
	free := make([]int64, agents) // when an agent's last attempt ended
	seq, arrived := uint64(0), 0
	for i := range 80 {
		at := int64(i+10) * step
		agent := rng.IntN(agents)
		if free[agent] >= at-1 {
			continue
		}
		seq++
		tx := fmt.Sprint("t", i)
		start, end := max(free[agent]+1, at-1-rng.Int64N(3*step)), at+1+rng.Int64N(3*step)
		free[agent] = end
		a := Attempt{Agent: fmt.Sprint("a", agent), Tx: tx, State: Committed, Seq: seq, Start: start, End: end}
		d := Decision{Seq: seq, Kind: string(Committed), Tx: tx, Agent: a.Agent, Chain: fmt.Sprint("c", seq)}
		names := rng.Perm(scopes)
		for _, n := range names[:2] {
			scope := fmt.Sprint("s", n)
			a.Reads = append(a.Reads, Read{scope, current[scope], seq, contents[scope]})
		}
		written := Write{fmt.Sprint("s", names[0]), fmt.Sprint("h", i)}
		switch n := rng.IntN(10); {
		case n == 0: // refused
			a.State, a.Code, d.Kind, d.Code = Aborted, "stale_read", string(Aborted), "stale_read"
		default:
			if n == 1 { // its agent was not told
				a.State, a.Seq, a.End = Unknown, 0, 0
			}
			d.Writes = []string{written.Scope}
			current[written.Scope], contents[written.Scope] = seq, written.SHA256
			for index := range 2 {
				key := map[bool]string{true: fmt.Sprint("key/", tx), false: ""}[index == 1]
				e.Issued = append(e.Issued, Issued{Tx: tx, Index: index, Key: key, Scopes: []string{"mail"}, Held: true})
				arrived++
				e.Sent = append(e.Sent, Sent{At: arrived, Tx: tx, Index: index, Key: key})
			}
		}
		a.Writes = []Write{written}
		e.Attempts, e.Decisions = append(e.Attempts, a), append(e.Decisions, d)
	}
	return e
}

// some is a random attempt of a kind.
func (e *Effects) some(rng *rand.Rand, is func(*Attempt) bool) *Attempt {
	for _, i := range rng.Perm(len(e.Attempts)) {
		if is(&e.Attempts[i]) {
			return &e.Attempts[i]
		}
	}
	return nil
}

func committed(a *Attempt) bool { return a.State == Committed }

// swap gives two transactions each other's place in the log.
func (e *Effects) swap(x, y *Attempt) {
	dx, dy := e.decisionOf(x.Tx), e.decisionOf(y.Tx)
	*dx, *dy = *dy, *dx
	dx.Seq, dy.Seq = dy.Seq, dx.Seq
	x.Seq, y.Seq = y.Seq, x.Seq
}

func (e *Effects) decisionOf(tx string) *Decision {
	return &e.Decisions[slices.IndexFunc(e.Decisions, func(d Decision) bool { return d.Tx == tx })]
}

// older lets a committed transaction have read what was overwritten before it began; false: there is none such.
func (e *Effects) older(rng *rand.Rand) bool {
	for _, i := range rng.Perm(len(e.Attempts)) {
		a := &e.Attempts[i]
		if !committed(a) {
			continue
		}
		r := &a.Reads[1] // it writes the other one
		var seqs []uint64
		var ends []int64
		for _, w := range e.commits() {
			if w.Writes[0].Scope == r.Scope && w.seq <= r.Version {
				seqs, ends = append(seqs, w.seq), append(ends, w.End)
			}
		}
		if n := len(seqs); n > 1 && ends[n-1] != 0 && ends[n-1] < a.Start && seqs[n-1] == r.Version {
			r.Version = seqs[n-2]
			return true
		}
	}
	return false
}

// doctor is a checker, and what it has to find.
type doctor struct {
	name   string
	check  func(*Effects) []Violation
	spoils func(*Effects, *rand.Rand) bool // false: this history has no place for it
}

func doctorsOfLogs() []doctor {
	return []doctor{
		{"contiguous", func(e *Effects) []Violation { return e.Contiguous() }, func(e *Effects, rng *rand.Rand) bool {
			at := rng.IntN(len(e.Decisions) - 1)
			switch rng.IntN(3) {
			case 0:
				e.Decisions = slices.Delete(e.Decisions, at, at+1)
			case 1:
				e.Decisions = slices.Insert(e.Decisions, at, e.Decisions[at])
			default:
				e.Decisions[at], e.Decisions[at+1] = e.Decisions[at+1], e.Decisions[at]
			}
			return true
		}},
		{"lost", func(e *Effects) []Violation { return e.LostAcknowledged() }, func(e *Effects, rng *rand.Rand) bool {
			d := e.decisionOf(e.some(rng, committed).Tx)
			switch rng.IntN(3) {
			case 0:
				d.Kind = string(Aborted)
			case 1:
				d.Tx = "another"
			default:
				d.Seq++
			}
			return true
		}},
		{"unresolved", func(e *Effects) []Violation { return e.Unresolved() }, func(e *Effects, rng *rand.Rand) bool {
			a := e.some(rng, func(a *Attempt) bool { return a.State == Unknown })
			if a != nil {
				e.decisionOf(a.Tx).Kind = "begun"
			}
			return a != nil
		}},
		{"unfounded", func(e *Effects) []Violation { return e.Unfounded() }, func(e *Effects, rng *rand.Rand) bool {
			a := e.some(rng, func(a *Attempt) bool { return committed(a) && a.Reads[0].Version > 0 })
			if rng.IntN(2) == 0 {
				a.Reads[0].SHA256 = "other"
			} else {
				a.Reads[0].Version += 1000
			}
			return true
		}},
		{"overtaken", func(e *Effects) []Violation { return e.Overtaken() }, (*Effects).older},
		{"cycles", func(e *Effects) []Violation { return e.Cycles() }, func(e *Effects, rng *rand.Rand) bool {
			commits := e.commits()
			at := 1 + rng.IntN(len(commits)-1)
			x, y := commits[at-1], commits[at]
			if x.Writes[0].Scope == y.Writes[0].Scope {
				return false
			}
			before := func(scope string) Read {
				r := Read{Scope: scope}
				for _, w := range commits[:at-1] {
					if w.Writes[0].Scope == scope {
						r.Version = w.seq
					}
				}
				return r
			}
			x.Reads = []Read{before(x.Writes[0].Scope), before(y.Writes[0].Scope)} // each reads what the other overwrites
			y.Reads = []Read{before(y.Writes[0].Scope), before(x.Writes[0].Scope)}
			return true
		}},
	}
}

func doctorsOfOrders() []doctor {
	linearizable := func(e *Effects) []Violation {
		_, found := e.Linearizable(10 * time.Second)
		return found
	}
	return []doctor{
		{"agent order", func(e *Effects) []Violation { return e.AgentOrder() }, func(e *Effects, rng *rand.Rand) bool {
			x := e.some(rng, committed)
			y := e.some(rng, func(a *Attempt) bool { return committed(a) && a.Agent == x.Agent && a.Start > x.End })
			if y != nil {
				e.swap(x, y)
			}
			return y != nil
		}},
		{"real time", func(e *Effects) []Violation { return e.RealTime() }, func(e *Effects, rng *rand.Rand) bool {
			x := e.some(rng, committed)
			y := e.some(rng, func(a *Attempt) bool { return committed(a) && a.Agent != x.Agent && a.Start > x.End })
			if y != nil {
				e.swap(x, y)
			}
			return y != nil
		}},
		{"registers", func(e *Effects) []Violation { return e.Registers() }, (*Effects).older},
		{"linearizable", linearizable, (*Effects).older},
		{"same chain", func(e *Effects) []Violation {
			views := map[string]map[uint64]string{"log": {}, "view": {}}
			for _, d := range e.Decisions {
				views["log"][d.Seq], views["view"][d.Seq] = fmt.Sprint("c", d.Seq), d.Chain
			}
			_, found := SameChain(views)
			return found
		}, func(e *Effects, rng *rand.Rand) bool {
			e.Decisions[rng.IntN(len(e.Decisions))].Chain = "other"
			return true
		}},
	}
}

func doctorsOfEffects() []doctor {
	return []doctor{
		{"leaks", func(e *Effects) []Violation { return e.Leaks() }, func(e *Effects, rng *rand.Rand) bool {
			e.decisionOf(e.Sent[rng.IntN(len(e.Sent))].Tx).Kind = string(Aborted)
			return true
		}},
		{"duplicates", func(e *Effects) []Violation { return e.Duplicates() }, func(e *Effects, rng *rand.Rand) bool {
			s := e.Sent[rng.IntN(len(e.Sent))]
			s.At = len(e.Sent) + 1
			e.Sent = append(e.Sent, s)
			return true
		}},
		{"lost effects", func(e *Effects) []Violation { return e.Lost() }, func(e *Effects, rng *rand.Rand) bool {
			at := rng.IntN(len(e.Sent))
			e.Sent = slices.Delete(e.Sent, at, at+1)
			return true
		}},
		{"orders", func(e *Effects) []Violation { return e.Orders() }, func(e *Effects, rng *rand.Rand) bool {
			at := rng.IntN(len(e.Sent) - 1)
			e.Sent[at].At, e.Sent[at+1].At = e.Sent[at+1].At, e.Sent[at].At
			return true
		}},
	}
}

// TestDoctored: each checker finds what is wrong in each of ten histories that were right before they were doctored,
// at random places.
func TestDoctored(t *testing.T) {
	const enough = 10
	for _, c := range slices.Concat(doctorsOfLogs(), doctorsOfOrders(), doctorsOfEffects()) {
		doctored := 0
		for seed := uint64(0); doctored < enough && seed < 200; seed++ {
			rng := rand.New(rand.NewPCG(seed, 3))
			e := drawn(rng)
			if found := c.check(e); len(found) > 0 {
				t.Fatalf("%s: seed %d is a good history, and it finds %v", c.name, seed, found)
			}
			if !c.spoils(e, rng) {
				continue
			}
			if doctored++; len(c.check(e)) == 0 {
				t.Errorf("%s finds nothing in the doctored history of seed %d", c.name, seed)
			}
		}
		if doctored < enough {
			t.Errorf("%s: %d histories could be doctored, want %d", c.name, doctored, enough)
		}
	}
}
