package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/replays"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/topology/audit"
)

// replayCmd is the configuration of "hence replay".
type replayCmd struct {
	servers
	logging
	output
	Workspace string `default:"default" dev:"workspace" help:"Workspace."`
	From      string `env:"-" type:"path" placeholder:"FILE.tar" help:"Bundle to read instead of the topics."`
	Policy    string `type:"path" env:"-" placeholder:"FILE" help:"Policy whose classes of tools count."`
	Order     string `enum:",optimistic,ordered,locked" env:"-" default:"" help:"Order mode of all: one of ${enum}."`
	Level     string `enum:",L0,L1,L2,L3,L4" env:"-" default:"" help:"Isolation level of the rules: one of ${enum}."`
	Mode      string `enum:",observe,enforce" env:"-" default:"" help:"Report or refuse: one of ${enum}."`
	SVG       string `name:"svg" type:"path" env:"-" placeholder:"FILE" help:"File for a plot of both runs."`
	Limit     int    `env:"-" default:"50" help:"Differences to show; 0: all."`
}

// Help is what "hence replay --help" says beyond the flags.
func (c *replayCmd) Help() string {
	return `It reads a workspace's log and decides it twice: as it was recorded, where every decision must have the chain
hash that was published, and under the rules that the flags name. Nothing is written, no group is joined and no offset
is committed. Each difference is traced to the first one that caused it. What the log does not have, such as what an
agent would have done next or what a tool would have answered, is said: docs/replay.md. With --from it reads a bundle
that hence export --bundle has written, and asks no server.

Exit code: 0 the log was decided again, whether or not anything differs; 1 it could not be read, is not whole, or was
decided by another logic; 2 wrong flags.`
}

// Run replays the log.
func (c *replayCmd) Run(ctx context.Context, s Streams, dev *devContext, line *kong.Context) (err error) {
	change, changed, err := c.change()
	if err != nil {
		return err
	}
	var plot *resultFile
	if c.SVG != "" {
		if plot, err = createResult(c.SVG); err != nil {
			return err
		}
		defer func() { err = plot.end(err) }()
	}
	var log *replay.Log
	if c.From != "" {
		log, err = c.bundled(ctx, dev, line)
	} else {
		log, err = replays.Read(ctx, c.config(c.logger(s.Err)), c.Workspace)
	}
	if err != nil {
		return fmt.Errorf("replay %s: %w", c.Workspace, err)
	}
	res, err := replay.Run(log, change)
	if err != nil {
		return fmt.Errorf("replay %s: %w", c.Workspace, err)
	}
	v := replays.Of(log, res, changed, c.Limit)
	err = c.print(s.Out, v, v.Write)
	if plot != nil {
		err = errors.Join(err, v.WriteSVG(plot))
	}
	return err
}

// bundled reads the log from a bundle, and goes on under its workspace.
func (c *replayCmd) bundled(ctx context.Context, dev *devContext, line *kong.Context) (*replay.Log, error) {
	for _, group := range line.Selected().AllFlags(false) {
		for _, flag := range group {
			ofServers := flag.Name == "brokers" || flag.Name == "nats" || flag.Name == "partitions" ||
				strings.HasPrefix(flag.Name, "kafka-") || strings.HasPrefix(flag.Name, "nats-")
			if ofServers && dev.onLine(line, flag) {
				return nil, misused(fmt.Errorf("--from reads a file and no server: leave --%s out", flag.Name))
			}
		}
	}
	file, err := os.Open(c.From)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := audit.OpenBundle(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.From, err)
	}
	workspace, _ := b.Head()
	if workspace != c.Workspace && dev.onLine(line, flagOf(line.Selected(), "--workspace")) {
		return nil, misused(fmt.Errorf("%s is of workspace %s, not %s: leave --workspace out", c.From, workspace,
			c.Workspace))
	}
	c.Workspace = workspace
	if len(b.Damaged) > 0 { // what it leads to would be taken for the workspace's
		return nil, fmt.Errorf("%s is damaged in %s: hence audit --from %[1]s says what does not hold", c.From,
			strings.Join(b.Damaged, ", "))
	}
	return replays.Bundled(ctx, b)
}

// change is what the flags change, and in words.
func (c *replayCmd) change() (change replay.Change, words []string, err error) {
	if c.Mode != "" {
		observe := c.Mode == "observe"
		change.Observe = &observe
		words = append(words, "mode "+c.Mode)
	}
	if c.Order != "" {
		order := map[string]sequencer.Mode{"optimistic": sequencer.Optimistic, "ordered": sequencer.Ordered,
			"locked": sequencer.Locked}[c.Order]
		change.Mode = &order
		words = append(words, "order "+c.Order)
	}
	if c.Level != "" {
		level := map[string]sequencer.Levels{"L0": sequencer.L0, "L1": sequencer.L1, "L2": sequencer.L2,
			"L3": sequencer.L3, "L4": sequencer.L4}[c.Level]
		change.Levels = &level
		words = append(words, "level "+c.Level)
	}
	if c.Policy != "" {
		p, err := policyFile{File: c.Policy}.load()
		if err != nil {
			return change, nil, err
		}
		change.Class = func(tool string) (replay.Treatment, bool) {
			class, approve, declared := p.Treats(tool)
			return replay.Treatment{Class: class, Approve: approve}, declared
		}
		words = append(words, "policy "+p.File())
	}
	return change, words, nil
}
