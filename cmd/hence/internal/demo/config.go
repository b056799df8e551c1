package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/streams"
)

// Bounds of a run's size.
const (
	MaxAgents = 1000
	MaxTasks  = 10000 // for each agent
	MaxThink  = time.Minute
	MaxFaults = 0.5
)

// Orders are the order modes that a run's transactions may have.
func Orders() []string { return []string{"optimistic", "ordered", "locked"} }

// Config says what a run does.
type Config struct {
	Data    string // folder of a data set in the tau-retail layout; empty: the built-in one
	Split   string // of that data set
	Agents  int
	Tasks   int           // for each agent, of the built-in data set; a data set's tasks are all dealt, once
	Think   time.Duration // mean time between an agent's reads and its writes
	Seed    uint64        // of the built-in data, the dealing and the thinking
	Observe bool          // report what would be refused instead of refusing it
	Order   string        // one of Orders
	Faults  float64       // probability of each kind of fault at the tools' sinks, 0 to 0.5

	// Watch lets people look on: agents take their time before each step and go on until Stop is closed. They then end
	// what they are at, and the run is checked. Look shows the workspace until the function that it returns is called.
	Watch bool
	Stop  <-chan struct{}
	Look  func(ctx context.Context, log *streams.Client, at Sight) (end func() error, err error)

	Brokers     []string // empty: embedded servers
	NATS        string   // of the same cluster as Brokers
	Replication int      // of the topics, where they have to be created
	Partitions  int32    // of each topic; 0: the default

	Processes bool      // processors and sidecars as child processes of Program
	Together  bool      // of those, one sidecar serves all agents
	Program   string    // the binary; its arguments are those of package cli
	Announce  io.Writer // one line of JSON for each child process

	Progress io.Writer // where progress goes; nil: nowhere
	Terminal bool      // progress is one line that is written over
	Records  io.Writer // the agents' records, one attempt as JSON a line; nil: nowhere
	Logger   *slog.Logger
}

// Sight is where a run can be seen.
type Sight struct {
	Workspace string
	Brokers   []string
	NATS      string
}

// Validate says what is wrong with the configuration and what to do about it.
func (c *Config) Validate() error {
	switch {
	case c.Agents < 1 || c.Agents > MaxAgents:
		return fmt.Errorf("agents is %d: give 1 to %d", c.Agents, MaxAgents)
	case c.Tasks < 0 || c.Tasks > MaxTasks:
		return fmt.Errorf("tasks is %d: give 0 (the default) to %d for each agent", c.Tasks, MaxTasks)
	case c.Tasks > 0 && c.Data != "":
		return errors.New("tasks counts tasks of the built-in data set: leave it out, all tasks of the data set are dealt")
	case c.Watch && (c.Tasks > 0 || c.Data != ""):
		return errors.New("a watched run goes on until it is told to stop: leave out tasks and data, or watch")
	case c.Watch && c.Processes:
		return errors.New("what ends a watched run would end its child processes, too: leave out processes, or watch")
	case c.Think < 0 || c.Think > MaxThink:
		return fmt.Errorf("think is %s: give 0 to %s", c.Think, MaxThink)
	case !(c.Faults >= 0 && c.Faults <= MaxFaults):
		return fmt.Errorf("faults is %v: give 0 to %v, the probability of each kind of fault", c.Faults, MaxFaults)
	case !slices.Contains(Orders(), c.Order):
		return fmt.Errorf("order is %q: give one of %v", c.Order, Orders())
	case (len(c.Brokers) == 0) != (c.NATS == ""):
		return errors.New("brokers and nats belong together: give both, or none for embedded servers")
	case c.Together && !c.Processes:
		return errors.New("together is for child processes, and without them all agents share one sidecar: " +
			"leave it out, or add processes")
	case c.Processes && c.Program == "":
		return errors.New("child processes need the program that they run")
	}
	return nil
}

const (
	defaultTasks = 10
	watchTasks   = 5000 // of each agent: many hours
)

// plan is what a run's agents have to do.
type plan struct {
	name      string
	domain    *retail.Domain
	initial   retail.Memory
	tasks     []retail.Task
	deal      [][]int // positions in tasks, for each agent
	contended bool    // agents 0 and 1 always want the same order
}

// makePlan loads the data and deals the tasks.
func (c *Config) makePlan() (*plan, error) {
	if c.Data == "" {
		return c.builtIn(), nil
	}
	set, err := retail.Load(c.Data, c.Split)
	if err != nil {
		return nil, fmt.Errorf("load the data set: %w", err)
	}
	p := &plan{name: set.Name, domain: set.Domain(), initial: set.Initial(), tasks: set.Tasks}
	p.deal = make([][]int, c.Agents)
	for i := range p.tasks {
		p.deal[i%c.Agents] = append(p.deal[i%c.Agents], i)
	}
	return p, nil
}

// builtIn deals the built-in tasks round and round. The first two of several agents do nothing but want the same
// order.
func (c *Config) builtIn() *plan {
	set := retail.Small(int64(c.Seed))
	p := &plan{name: set.Name, domain: set.Domain(), initial: set.Initial(), contended: c.Agents > 1}
	p.deal = make([][]int, c.Agents)
	dealt, most := 0, cmp.Or(c.Tasks, defaultTasks)
	if c.Watch {
		most = watchTasks
	}
	for n := range most {
		for agent := range c.Agents {
			id := len(p.tasks)
			if p.contended && agent < 2 {
				p.tasks = append(p.tasks, set.Contended(id, fmt.Sprintf("note %d of agent %d", n+1, agent+1)))
			} else {
				p.tasks = append(p.tasks, set.Tasks[dealt%len(set.Tasks)])
				dealt++
			}
			p.deal[agent] = append(p.deal[agent], id)
		}
	}
	return p
}
