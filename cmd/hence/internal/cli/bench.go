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
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables/stand"
	"github.com/hence-dev/hence/cmd/hence/internal/book"
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
	program, err := thisProgram()
	if err != nil {
		return err
	}
	cfg := bench.Config{Subjects: c.Subjects, All: c.All, Brokers: c.Brokers, NATS: c.NATS, Replication: c.Replication,
		Partitions: c.Partitions, Data: c.Disk, Postgres: c.Postgres, Runs: c.Runs,
		For: time.Duration(c.Seconds * float64(time.Second)), Clients: c.Clients, Shards: c.Shards, Agents: c.Agents,
		Rate: c.Rate, Mode: c.Mode, Turn: c.Turn, Sidecars: c.Sidecars, Curves: c.Curves, Past: c.Past,
		Workspaces: c.Workspaces, Program: program,
		Version: "hence " + binaryVersion(), Progress: s.Err, Terminal: show.IsTerminal(s.Err), Logger: c.logger(s.Err)}
	if err := cfg.Validate(); err != nil {
		return misused(fmt.Errorf("bench: %w", err))
	}
	found, failed := bench.Run(ctx, cfg)
	if failed != nil {
		failed = fmt.Errorf("bench: %w", failed)
	}
	return errors.Join(showReport(s.Out, found, c.Output, c.SVG, c.Doc), failed)
}

// shown is a report in all its forms.
type shown interface {
	WriteSVG(w io.Writer) error
	WriteMarkdown(w io.Writer) error
	WriteTable(w io.Writer) error
}

// showReport writes a report, and the files that were asked for.
func showReport(w io.Writer, found shown, output, svg, doc string) error {
	if err := errors.Join(writeFile(svg, found.WriteSVG), writeFile(doc, found.WriteMarkdown)); err != nil {
		return err
	}
	switch output {
	case "json":
		return show.WriteJSON(w, found)
	case "markdown":
		return found.WriteMarkdown(w)
	}
	return found.WriteTable(show.Lines(w))
}

// writeFile writes or replaces a file; without a name there is none.
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
	program, err := thisProgram()
	if err != nil {
		return err
	}
	minutes := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	cfg := bench.SoakConfig{Lasts: minutes(c.Minutes), From: minutes(c.From), Share: c.RateOfCeiling,
		Every: seconds(c.Every), Config: bench.Config{
			Brokers: c.Brokers, NATS: c.NATS, Replication: c.Replication, Partitions: c.Partitions,
			Data: c.Disk, Runs: c.Runs, For: seconds(c.Seconds), Clients: c.Clients, Shards: c.Shards, Agents: c.Agents,
			Mode: c.Mode, Turn: c.Turn, Sidecars: c.Sidecars, Program: program, Version: "hence " + binaryVersion(),
			Progress: s.Err, Terminal: show.IsTerminal(s.Err), Logger: c.logger(s.Err)}}
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

// benchTablesCmd is the configuration of "hence bench tables".
type benchTablesCmd struct {
	logging
	Paper []string `enum:"${bench_papers}" placeholder:"NAME" help:"Claims of these papers only: ${enum}."`
	Row   []string `placeholder:"ID" help:"Only these claims, such as C1."`
	Size  string   `enum:"small,full" default:"small" help:"How much is run: ${enum}."`
	Seed  uint64   `default:"1" help:"Seed of all that is drawn."`

	Data     string `type:"path" placeholder:"DIR" help:"Data set in the tau-retail layout; default: built-in data."`
	Postgres string `placeholder:"URL" help:"PostgreSQL to run beside, in tables of its own."`
	Redis    string `placeholder:"URL" help:"Redis server to run beside, under keys that lapse after an hour."`
	SBus     string `name:"sbus" placeholder:"URL" help:"Published S-Bus server to run beside. It is emptied."`

	Pure bool `help:"Only claims that are computed: Hence itself is not started."`

	Output string `short:"o" enum:"text,json,markdown" default:"text" help:"Output format: ${enum}."`
	SVG    string `name:"svg" type:"path" placeholder:"FILE" help:"File for the plots."`
	Doc    string `type:"path" placeholder:"FILE" help:"File for the report as Markdown."`
}

// Help is what "hence bench tables --help" says beyond the flags.
func (c *benchTablesCmd) Help() string {
	return `Each claim of the four papers that Hence rests on is measured again, beside a baseline that is run in the same
invocation: the paper's value, ours, the baseline's, and a verdict. What was not run says so, and why. Claims about
Hence itself run it on embedded servers in this process, and where parts of it are killed these are processes of their
own. docs/proof.md is such a report.

Some claims compare with other stores, and are not run without them: PostgreSQL, such as apt-get install postgresql
brings, and Redis, as of apt-get install redis-server, each on a port of its own. What is given runs beside Hence in
S17, S18, S19 and S45; the published S-Bus server, if it is given, too.

Exit code: 0, 1 if a claim could not be measured, 2 wrong flags, 3 if one was measured and not reproduced, 130
interrupted.`
}

// Run runs the rows, and prints what they came to.
func (c *benchTablesCmd) Run(ctx context.Context, s Streams) (err error) {
	say, clear := bench.Progress(s.Err, show.IsTerminal(s.Err))
	cfg := tables.Config{Papers: c.Paper, Rows: c.Row, Say: say, Commands: "hence bench tables --size " + c.Size,
		Env: tables.Env{Full: c.Size == "full", Seed: c.Seed, Data: c.Data, Subject: tables.Ours(),
			Servers: tables.Servers{Postgres: c.Postgres, Redis: c.Redis, SBus: c.SBus}}}
	if c.Data != "" {
		cfg.Commands += " --data " + c.Data
	}
	for need, at := range map[string]string{tables.Postgres: c.Postgres, tables.Redis: c.Redis} {
		if at != "" {
			cfg.Has = append(cfg.Has, need)
		}
	}
	if !c.Pure {
		dir, failed := os.MkdirTemp("", "hence-tables-")
		if failed != nil {
			return fmt.Errorf("bench tables: make a folder for journals: %w", failed)
		}
		ground := &stand.Stand{Dir: dir, Logger: c.logger(s.Err), Say: say}
		defer func() { err = errors.Join(err, ground.Close(), os.RemoveAll(dir)) }()
		cfg.Ground, cfg.Has = ground, append(cfg.Has, tables.Hence)
	}
	found, failed := tables.Run(ctx, cfg)
	clear()
	if found == nil {
		return misused(fmt.Errorf("bench tables: %w", failed))
	}
	found.Program, found.Machine = "hence "+binaryVersion(), bench.Here()
	if failed != nil {
		failed = fmt.Errorf("bench tables: %w", failed)
	}
	if err := errors.Join(showReport(s.Out, found, c.Output, c.SVG, c.Doc), failed); err != nil {
		return err
	}
	if found.Count(tables.Missed) > 0 {
		return errCheck
	}
	return nil
}

// tortureCmd groups what can be done with the results of long tests.
type tortureCmd struct {
	Report tortureReportCmd `cmd:"" help:"Write the table of figures from a book of results."`
}

// tortureReportCmd is the configuration of "hence torture report".
type tortureReportCmd struct {
	Book string `default:"." type:"path" placeholder:"DIR" help:"Folder with the files *.jsonl that tests have written."`
	Doc  string `type:"path" placeholder:"FILE" help:"File to write; default: standard output."`
}

// Help is what "hence torture report --help" says beyond the flags.
func (c *tortureReportCmd) Help() string {
	return `"make torture" in a checkout runs one slice of the torture and adds a line to the book; other long tests add
theirs. This adds them up: faults that landed and voids, commits lost, times of recovery, and which goals are reached.

Exit code: 0, 1 if the book cannot be read, 2 wrong flags.`
}

// Run writes the document.
func (c *tortureReportCmd) Run(s Streams) error {
	all, err := book.Read(c.Book)
	if err != nil {
		return err
	}
	if c.Doc == "" {
		return all.WriteMarkdown(s.Out)
	}
	to, err := createResult(c.Doc)
	if err != nil {
		return err
	}
	return to.end(all.WriteMarkdown(to))
}
