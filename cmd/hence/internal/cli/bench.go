package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// benchCmd groups what can be done with measurements.
type benchCmd struct {
	Measure benchMeasureCmd `cmd:"" default:"withargs" help:"Measure subjects; the word measure may be left out."`
	Soak    benchSoakCmd    `cmd:"" help:"Load it for half an hour and look what stays as it is."`
	Tables  benchTablesCmd  `cmd:"" help:"Print the papers' claims beside what is measured here."`
	Compare benchCompareCmd `cmd:"" help:"Compare two reports, figure by figure."`
}

// Help is what "hence bench --help" says beyond the commands.
func (c *benchCmd) Help() string {
	return `"hence bench latency" is "hence bench measure latency", whose --help has the flags. With --all it also
holds the figures against the goals, and --doc FILE writes the document docs/performance.md.`
}

// benchServers are the servers that a benchmark stands on.
type benchServers struct {
	Brokers     []string `placeholder:"HOST:PORT" help:"Brokers of a running cluster; default: embedded servers."`
	NATS        string   `name:"nats" placeholder:"URL" help:"URL of the cluster's NATS server."`
	Replication int      `default:"1" help:"Replicas of each partition when topics are created."`
	Partitions  int32    `default:"8" help:"Partitions of each topic: a power of two, as the cluster has."`
	Disk        bool     `help:"Embedded servers keep what they have in a folder."`
}

// benchMeasureCmd is the configuration of "hence bench".
type benchMeasureCmd struct {
	logging
	benchServers
	Subjects []string `arg:"" optional:"" enum:"${bench_subjects}" help:"Any of ${enum}."`
	All      bool     `help:"Every subject, and the goals."`

	Postgres string `placeholder:"URL" help:"PostgreSQL to measure beside, in a table of its own."`

	Runs     int     `default:"3" help:"Runs of each measurement; the medians count."`
	Seconds  float64 `default:"5" help:"Seconds of each measurement."`
	Clients  int     `default:"0" help:"Clients at once; 0: as the subject has them."`
	Shards   int     `default:"0" help:"Shards that they share; 0: as the subject has them."`
	Agents   int     `default:"0" help:"Agents that the clients speak for; 0: as the subject has them."`
	Rate     float64 `default:"0" help:"Turns a second, timed from when they should begin; 0: one after the other."`
	Mode     string  `enum:"optimistic,ordered,locked" default:"optimistic" help:"Order mode of the transactions."`
	Turn     string  `enum:"two,four" default:"two" help:"Requests of a turn: read, commit; or begin, read, write, seal."`
	Sidecars string  `enum:",inside,one,each" default:"" help:"Sidecars: inside this process, one process, one each."`

	Curves     []string `enum:"${bench_curves}" placeholder:"NAME" help:"Curves of growth; default all: ${enum}."`
	Past       int      `default:"0" help:"Largest number of past transactions of growth; 0: a million."`
	Workspaces int      `default:"0" help:"Largest number of workspaces of growth; 0: 64."`

	Output string `short:"o" enum:"table,json,markdown" default:"table" help:"Output format: ${enum}."`
	SVG    string `name:"svg" type:"path" placeholder:"FILE" help:"File for a plot of the figures."`
	Doc    string `type:"path" placeholder:"FILE" help:"File for the report as Markdown."`
}

// Help is what "hence bench measure --help" says beyond the flags.
func (c *benchMeasureCmd) Help() string {
	return `Each subject is measured beside its floor, on the same servers in the same run: an acknowledged append that
reaches a subscriber of NATS, and a bare loop that consumes and produces. A run is void, and made again, when the bare
loop is not within 15 % of itself before and after it. Without --brokers and --nats the servers are embedded, and run
with everything else in one process; on running servers the processors and the sidecars are child processes.

growth makes a curve of each thing that may become more: past transactions and shards up to a million, agents that
watch, workspaces. --past, --shards, --agents and --workspaces end them sooner.

It works in workspaces, topics and a table of its own, and deletes the topics and the table. The workspaces stay in
the log: do not measure on a cluster that others work on.

What was measured before Ctrl-C is printed, too.

Exit code: 0, 1 if something could not be measured, 2 wrong flags, 130 interrupted.`
}

// Run measures and prints the report.
func (c *benchMeasureCmd) Run(ctx context.Context, s Streams) error {
	words := show.OneAtATime(s.Err)
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program for child processes: %w", err)
	}
	cfg := bench.Config{Subjects: c.Subjects, All: c.All, Brokers: c.Brokers, NATS: c.NATS, Replication: c.Replication,
		Partitions: c.Partitions, Data: c.Disk, Postgres: c.Postgres, Runs: c.Runs,
		For: time.Duration(c.Seconds * float64(time.Second)), Clients: c.Clients, Shards: c.Shards, Agents: c.Agents,
		Rate: c.Rate, Mode: c.Mode, Turn: c.Turn, Sidecars: c.Sidecars, Curves: c.Curves, Past: c.Past,
		Workspaces: c.Workspaces, Program: program,
		Version: "hence " + binaryVersion(), Progress: words, Terminal: show.IsTerminal(s.Err), Logger: c.logger(words)}
	if err := cfg.Validate(); err != nil {
		return misused(fmt.Errorf("bench: %w", err))
	}
	found, failed := bench.Run(ctx, cfg)
	if failed != nil {
		failed = fmt.Errorf("bench: %w", failed)
	}
	return errors.Join(c.show(s.Out, found), failed)
}

// show writes the report, and the files that were asked for.
func (c *benchMeasureCmd) show(w io.Writer, found *report.Report) error {
	for path, write := range map[string]func(io.Writer) error{c.SVG: found.WriteSVG, c.Doc: found.WriteMarkdown} {
		if err := writeFile(path, write); err != nil {
			return err
		}
	}
	switch c.Output {
	case "json":
		return show.WriteJSON(w, found)
	case "markdown":
		return found.WriteMarkdown(w)
	}
	return found.WriteTable(show.Lines(w))
}

// writeFile writes a file anew; without a name there is none.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}

// benchCompareCmd is the configuration of "hence bench compare".
type benchCompareCmd struct {
	output
	Before string `arg:"" type:"path" help:"Report of hence bench -o json."`
	After  string `arg:"" type:"path" help:"Report to hold against it."`
}

// Help is what "hence bench compare --help" says beyond the flags.
func (c *benchCompareCmd) Help() string {
	return `Each figure's median is set against the other report's. Reports compare if they come from the same machine
and the same settings.

Exit code: 0, or 3 if a figure is more than 10 % worse.`
}

// Run compares and prints the ratios.
func (c *benchCompareCmd) Run(s Streams) error {
	before, err := report.ReadFile(c.Before)
	if err != nil {
		return err
	}
	after, err := report.ReadFile(c.After)
	if err != nil {
		return err
	}
	found := report.Compare(before, after)
	if err := c.print(s.Out, found, found.WriteTable); err != nil {
		return err
	}
	if found.Worse > 0 {
		return errCheck
	}
	return nil
}
