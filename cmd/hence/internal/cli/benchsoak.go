package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// benchSoakCmd is the configuration of "hence bench soak".
type benchSoakCmd struct {
	logging
	output
	benchServers
	Minutes       float64 `default:"30" help:"How long the load goes on."`
	From          float64 `default:"0" help:"Minutes after which slopes are taken; 0: 10, or a third of a shorter run."`
	RateOfCeiling float64 `default:"0.7" help:"Share of what the clients get one after the other."`
	Every         float64 `default:"10" help:"Seconds between two samples."`

	Runs     int     `default:"3" help:"Runs by which the ceiling is found; their median counts."`
	Seconds  float64 `default:"5" help:"Seconds of each of them."`
	Clients  int     `default:"0" help:"Clients at once; 0: 32."`
	Shards   int     `default:"0" help:"Shards that they share; 0: 64."`
	Agents   int     `default:"0" help:"Agents that the clients speak for; 0: 8."`
	Mode     string  `enum:"optimistic,ordered,locked" default:"optimistic" help:"Order mode of the transactions."`
	Turn     string  `enum:"two,four" default:"two" help:"Requests of a turn: read, commit; or begin, read, write, seal."`
	Sidecars string  `enum:"one,each" default:"one" help:"Sidecars, as processes: one, or one for each agent."`

	SVG string `name:"svg" type:"path" placeholder:"FILE" help:"File for a plot over time."`
}

// Help is what "hence bench soak --help" says beyond the flags.
func (c *benchSoakCmd) Help() string {
	return `First the ceiling is found: what the clients get when each begins a turn after the other. Then turns begin at
a share of that rate, whatever the answers do, while the processes are looked at: resident memory, goroutines, open
files and sockets, what the sidecars have on the disk, processor time, times of turns. Each of these, but for the
processor time, is to grow by less than 1 % in ten minutes, by least squares over what comes after the first ten. A run
beside which the bare loop was not within 15 % of itself before and after says nothing.

Processors and sidecars are child processes, on embedded servers, too.

Exit code: 0, 1 if it could not be measured, 2 wrong flags, 3 if something grows or the run is void, 130 interrupted.`
}

// Run loads, and prints what stayed.
func (c *benchSoakCmd) Run(ctx context.Context, s Streams) error {
	words := show.OneAtATime(s.Err)
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program for child processes: %w", err)
	}
	minutes := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	cfg := bench.SoakConfig{Lasts: minutes(c.Minutes), From: minutes(c.From), Share: c.RateOfCeiling,
		Every: seconds(c.Every), Config: bench.Config{
			Brokers: c.Brokers, NATS: c.NATS, Replication: c.Replication, Partitions: c.Partitions,
			Data: c.Disk, Runs: c.Runs, For: seconds(c.Seconds), Clients: c.Clients, Shards: c.Shards, Agents: c.Agents,
			Mode: c.Mode, Turn: c.Turn, Sidecars: c.Sidecars, Program: program, Version: "hence " + binaryVersion(),
			Progress: words, Terminal: show.IsTerminal(s.Err), Logger: c.logger(words)}}
	if err := cfg.Validate(); err != nil {
		return misused(fmt.Errorf("bench soak: %w", err))
	}
	found, failed := bench.Soak(ctx, cfg)
	if failed != nil {
		failed = fmt.Errorf("bench soak: %w", failed)
	}
	if err := errors.Join(writeFile(c.SVG, found.WriteSVG), c.print(s.Out, found, found.WriteTable), failed); err != nil {
		return err
	}
	if holds, void := found.Holds(); !holds || void {
		return errCheck
	}
	return nil
}
