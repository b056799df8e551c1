package report

import "fmt"

// The subjects of figures.
const (
	Latency    = "latency"
	Parts      = "parts of a decision"
	Throughput = "throughput"
	CPU        = "CPU of a commit"
	Records    = "records of a commit"
	Contention = "contention"
	Read       = "read"
	Agents     = "agents"
	Workspaces = "workspaces"
	Idle       = "idle"
	Growth     = "growth"
	Size       = "size"
)

// What grows: the curves of the subject growth.
const (
	ByPast       = "past transactions"
	ByShards     = "shards, 64 of them in work"
	ByUsed       = "shards, all of them in work"
	ByAgents     = "agents that watch"
	ByWorkspaces = "workspaces with the same work"
)

// The systems that are measured: what no log can beat, what a user would take instead, and Hence in four shapes.
const (
	Floor     = "floor"
	Loop      = "bare loop"
	Postgres  = "PostgreSQL"
	OneCar    = "Hence, one sidecar"
	EachCar   = "Hence, a sidecar each"
	InMemory  = "Hence, embedded in memory"
	WithData  = "Hence, embedded with a data folder"
	Generator = "the clients alone" // against a handler that answers at once: what they can ask for at all
	All       = "all together"
)

// The names of figures that several places know, with their units.
const (
	Rate          = "commits/s"
	P50           = "p50 ms"
	P99           = "p99 ms"
	OfFloor50     = "p50 / floor"
	OfFloor99     = "p99 / floor"
	OfPostgres    = "of PostgreSQL"
	OfBare        = "of a bare handler"
	Refusals      = "refusals/commit"
	CPUCommit     = "CPU µs/commit"
	RecordsCommit = "records/commit"
	BytesCommit   = "bytes/commit"
	AtRest        = "CPU ms/s at rest"
	CPUDecision   = "CPU µs/foreign decision"
	CPUSecond     = "CPU µs/s of each"
	RecordsSecond = "records/s of each"
	BytesSecond   = "bytes/s of each"
	MB            = "MB"
)

// Load is the case of so many clients over so many shards.
func Load(clients, shards int) string {
	if shards == 1 {
		return fmt.Sprintf("%d × 1, hot", clients)
	}
	return fmt.Sprintf("%d × %d", clients, shards)
}

// Additive is a system whose turns only add to what they write, unread.
func Additive(system string) string { return system + ", adding" }

// InFlight is the case of so many turns at once.
func InFlight(n int) string { return fmt.Sprintf("%d in flight", n) }
