// Package bench measures Hence beside what it cannot be faster than, and beside what a user would take instead: on the
// same servers, with the same work, in the same run. It judges nothing by itself; package report has the goals.
package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/topology/pause"
)

// Where processors and sidecars run.
const (
	Inside = "inside" // this process
	One    = "one"    // child processes, and one sidecar for all agents
	Each   = "each"   // child processes, and a sidecar for each agent
)

// Bounds of a benchmark.
const (
	MaxRuns    = 100
	MaxFor     = 10 * time.Minute
	MaxClients = 1024
	MaxShards  = 1 << 20
	MaxRate    = 1e6
	MaxPast    = 1e8
	MaxSoak    = 7 * 24 * time.Hour
)

// Config says what to measure. A zero number is what the subject takes by itself.
type Config struct {
	Subjects []string // of Subjects
	All      bool     // each of them, and throughput on each ground that a goal is about

	Brokers     []string // empty: embedded servers
	NATS        string   // of the same cluster as Brokers
	Replication int
	Partitions  int32
	Data        bool   // embedded servers keep what they have in a folder
	Postgres    string // address of a database to measure beside; "": none

	Runs     int           // of each measurement; the medians count
	For      time.Duration // of each measurement
	Clients  int
	Shards   int
	Agents   int
	Rate     float64 // turns a second; 0: each client begins one when the one before has ended
	Mode     string  // order mode of the transactions
	Turn     string  // "two" requests (read, commit), or "four" (begin, read, write, seal)
	Sidecars string  // Inside, One, Each; "": Inside on embedded servers, else One

	Curves     []string // of Curves, that the subject growth measures; empty: all
	Past       int      // the largest number of past transactions of a curve, as Shards and Agents are of theirs
	Workspaces int      // and of workspaces

	Program  string // the binary that child processes run
	Version  string // of the binary, for the report
	Progress io.Writer
	Terminal bool // progress is one line that is written over
	Logger   *slog.Logger
}

// Subjects are what can be measured.
func Subjects() []string {
	return []string{report.Latency, report.Throughput, report.Contention, report.Read, report.Agents, report.Workspaces,
		report.Idle, report.Growth, report.Size}
}

// Validate says what is wrong with the configuration and what to do about it.
func (c *Config) Validate() error {
	if err := c.validGround(); err != nil {
		return err
	}
	switch {
	case !c.All && len(c.Subjects) == 0:
		return fmt.Errorf("name what to measure: %s, or --all", strings.Join(Subjects(), ", "))
	case c.All && len(c.Subjects) > 0:
		return fmt.Errorf("%s is a part of --all: leave out one of them", c.Subjects[0])
	}
	return nil
}

func (c *Config) validGround() error {
	switch {
	case (len(c.Brokers) == 0) != (c.NATS == ""):
		return errors.New("brokers and nats belong together: give both, or none for embedded servers")
	case c.Data && len(c.Brokers) > 0:
		return errors.New("a data folder is for embedded servers: leave out data, or brokers and nats")
	case c.Program == "":
		return errors.New("child processes need the program that they run")
	}
	return nil
}

// bench is one benchmark.
type bench struct {
	Config
	name string // used once: of workspaces, topics and tables
	made int    // things that have been named
	out  *report.Report
	progress
}

// Run measures what Validate takes, subject by subject. A subject that could not be measured to its end is noted in
// the report, which has what was measured, and is in the error, too.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	if cfg.Sidecars == "" {
		cfg.Sidecars = One
		if len(cfg.Brokers) == 0 {
			cfg.Sidecars = Inside
		}
	}
	began, b := time.Now(), newBench(cfg)
	b.out = &report.Report{Version: report.Version, Began: began, Program: cfg.Version, Machine: machine(),
		Servers: b.servers(), Settings: report.Settings{Runs: cfg.Runs, Seconds: cfg.For.Seconds(), Rate: cfg.Rate,
			Turn: cfg.Turn, Mode: cfg.Mode, Sidecars: cfg.Sidecars}}
	err := b.subjects(ctx)
	b.clear()
	if b.All {
		b.out.Judge()
	}
	b.out.Seconds = time.Since(began).Seconds()
	return b.out, err
}

func newBench(cfg Config) *bench {
	return &bench{Config: cfg, name: "bench-" + strings.ToLower(rand.Text()[:8]),
		progress: progress{cfg.Progress, cfg.Terminal}}
}

// servers says what Kafka and NATS are.
func (c *Config) servers() string {
	switch n := len(c.Brokers); {
	case n > 0:
		return fmt.Sprintf("Kafka (%d brokers named) and NATS that were running", n)
	case c.Data:
		return "embedded servers with a data folder"
	}
	return "embedded servers in memory"
}

// subjects measures them in the order of Subjects, whatever the order in which they were named.
func (b *bench) subjects(ctx context.Context) (failed error) {
	measures := map[string]func(context.Context) error{
		report.Latency: b.latency, report.Throughput: b.throughput, report.Contention: b.contention, report.Read: b.read,
		report.Agents: b.agents, report.Workspaces: b.workspaces, report.Idle: b.idleOnes, report.Growth: b.growth,
		report.Size: b.size,
	}
	for _, subject := range Subjects() {
		if b.All || slices.Contains(b.Subjects, subject) {
			err := measures[subject](ctx)
			if ctx.Err() != nil {
				b.out.Note("interrupted in %s", subject)
				return context.Cause(ctx)
			}
			if err != nil {
				b.clear()
				b.say("%s was not measured to its end: %v", subject, err)
				b.out.Note("%s was not measured to its end: %v", subject, err)
				failed = errors.Join(failed, fmt.Errorf("measure %s: %w", subject, err))
			}
		}
	}
	return failed
}

// on calls f with a ground whose sidecars are so, and ends it. The context of f ends when a part of the ground does.
func (b *bench) on(ctx context.Context, sidecars string, change func(*ground.Options),
	f func(context.Context, *ground.Ground) error) (err error) {
	o := ground.Options{Brokers: b.Brokers, NATS: b.NATS, Replication: b.Replication, Partitions: b.Partitions,
		Data: b.Data, Name: b.unique(), Logger: b.Logger}
	if sidecars != Inside {
		o.Program = b.Program
	}
	if change != nil {
		change(&o)
	}
	g, err := ground.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case err := <-g.Failed():
			cancel(err)
		case <-ctx.Done():
		}
	})
	if err = f(ctx, g); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// rest is how long what runs may take to come to rest: derived rows are written, spans sent, garbage is collected.
func (b *bench) rest(ctx context.Context) error { return pause.Sleep(ctx, min(2*time.Second, 4*b.For)) }

// shape is what the report calls Hence on such a ground.
func (b *bench) shape() string {
	switch {
	case b.Sidecars == Each:
		return report.EachCar
	case b.Sidecars == One:
		return report.OneCar
	case b.Data:
		return report.WithData
	}
	return report.InMemory
}

// unique is a name that nothing else has: of a workspace, a topic, a table.
func (b *bench) unique() string {
	b.made++
	return fmt.Sprintf("%s-%d", b.name, b.made)
}

// Here describes this machine in a line.
func Here() string {
	m := machine()
	return fmt.Sprintf("%s, %s, %d cores, %d MB", m.OS, m.CPU, m.Cores, m.MemoryMB)
}

// machine describes where this runs; what cannot be known is left empty.
func machine() report.Machine {
	m := report.Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if info, err := host.Info(); err == nil {
		m.OS = strings.TrimSpace(info.Platform+" "+info.PlatformVersion) + " " + m.OS
	}
	if all, err := cpu.Info(); err == nil && len(all) > 0 {
		m.CPU = all[0].ModelName
	}
	if memory, err := mem.VirtualMemory(); err == nil {
		m.MemoryMB = memory.Total >> 20
	}
	return m
}

// or is a setting, or what the subject takes by itself.
func or(set int, otherwise ...int) []int {
	if set > 0 {
		return []int{set}
	}
	return otherwise
}
