package report

import "strings"

// Goal is one figure with what it is to be, and what it must be.
type Goal struct {
	What  string   `json:"what"`
	Value *float64 `json:"value"` // nil: it was not measured
	Goal  float64  `json:"goal"`
	Must  float64  `json:"must"`
	State string   `json:"state"` // one of GoalMet, MustMet, Missed, Void, NotMeasured
}

// The states of a goal.
const (
	GoalMet     = "goal met"
	MustMet     = "must met"
	Missed      = "missed"
	Void        = "void" // the machine was not quiet in any run
	NotMeasured = "not measured"
)

// target is a row of the list of goals.
type target struct {
	what       string
	key        Key
	goal, must float64
}

// targets are the goals. Those against PostgreSQL are of the same work on the same machine in the same run.
func targets() (all []target) {
	add := func(what string, goal, must float64, subject, load, system, name string) {
		all = append(all, target{what, Key{subject, load, system, name}, goal, must})
	}
	for _, n := range []int{1, 64} {
		must := 1.6
		if n == 64 {
			must = 3
		}
		add("decision p50 / floor p50, "+InFlight(n), 1.25, must, Latency, InFlight(n), OneCar, OfFloor50)
		add("decision p99 / floor p99, "+InFlight(n), 2, 4, Latency, InFlight(n), OneCar, OfFloor99)
	}
	against := func(system string, clients, shards int, goal, must float64) {
		add("commits/s of PostgreSQL's, "+Load(clients, shards)+", "+strings.TrimPrefix(system, "Hence, "), goal, must,
			Throughput, Load(clients, shards), system, OfPostgres)
	}
	against(OneCar, 8, 64, 1.5, 0.7)
	against(OneCar, 32, 64, 3, 1)
	against(OneCar, 8, 1, 1, 0.3)
	against(EachCar, 8, 64, 1, 0.4)
	against(EachCar, 32, 64, 1.5, 0.6)
	against(EachCar, 8, 1, 0.7, 0.2)
	against(WithData, 8, 64, 1.5, 0.8)
	against(WithData, 32, 64, 3, 1)
	add("hot, additive writes, of PostgreSQL's", 3, 1, Throughput, Load(8, 1), Additive(OneCar), OfPostgres)
	add("of S-Bus, replicated", 5, 2, Throughput, Load(8, 64), "S-Bus", "of S-Bus")
	add("Kafka records a commit", 3, 5, Records, Load(1, 64), All, RecordsCommit)
	add("CPU µs a commit, all processes, 32 clients", 150, 300, CPU, Load(32, 64), All, CPUCommit)
	add("kB of one more agent in a sidecar", 100, 1000, Agents, "one more", OneCar, "kB/agent")
	add("CPU µs of one more agent per foreign decision", 0, 2, Agents, "one more", OneCar, CPUDecision)
	add("local read of a bare handler's rate", 0.8, 0.6, Read, "journalled read", OneCar, OfBare)
	add("MB of an idle sidecar", 30, 40, Size, "idle", "sidecar", MB)
	add("MB of the binary", 40, 45, Size, "on disk", "binary", MB)
	return all
}

// Judge holds the figures against the goals. One of which every run was void says nothing for or against them.
func (r *Report) Judge() {
	r.Goals = nil
	for _, t := range targets() {
		g := Goal{What: t.what, Goal: t.goal, Must: t.must, State: NotMeasured}
		if f, ok := r.Find(t.key); ok {
			v := f.Median
			g.Value = &v
			reached := func(bound float64) bool {
				if t.key.MoreIsBetter() {
					return v >= bound
				}
				return v <= bound
			}
			switch {
			case f.Noisy:
				g.State = Void
			case reached(t.goal):
				g.State = GoalMet
			case reached(t.must):
				g.State = MustMet
			default:
				g.State = Missed
			}
		}
		r.Goals = append(r.Goals, g)
	}
}

func goalHead() []string { return []string{"what", "measured", "goal", "must", ""} }

func (r *Report) goalRows() (rows [][]string) {
	for _, g := range r.Goals {
		value := ""
		if g.Value != nil {
			value = Number(*g.Value)
		}
		rows = append(rows, []string{g.What, value, Number(g.Goal), Number(g.Must), g.State})
	}
	return rows
}
