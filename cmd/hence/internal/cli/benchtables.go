package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hence-dev/hence/cmd/hence/internal/bench"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables/stand"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

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
	words := show.OneAtATime(s.Err)
	say, clear := bench.Progress(words, show.IsTerminal(s.Err))
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
		ground := &stand.Stand{Dir: dir, Logger: c.logger(words), Say: say}
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
	if err := errors.Join(c.show(s.Out, found), failed); err != nil {
		return err
	}
	if found.Count(tables.Missed) > 0 {
		return errCheck
	}
	return nil
}

// show writes the report, and the files that were asked for.
func (c *benchTablesCmd) show(w io.Writer, found *tables.Report) error {
	if err := errors.Join(writeFile(c.SVG, found.WriteSVG), writeFile(c.Doc, found.WriteMarkdown)); err != nil {
		return err
	}
	switch c.Output {
	case "json":
		return show.WriteJSON(w, found)
	case "markdown":
		return found.WriteMarkdown(w)
	}
	return found.WriteTable(show.Lines(w))
}
