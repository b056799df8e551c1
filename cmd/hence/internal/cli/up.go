package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/agentfile"
	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/cmd/hence/internal/up"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar"
)

// upCmd is the configuration of "hence up".
type upCmd struct {
	File  string `short:"f" type:"path" default:"agents.yaml" help:"File of the agents to run."`
	Check bool   `help:"Check the file and end; exit 3 if it is wrong."`

	Schema bool `help:"Print the JSON Schema of such files and end."`
	servers
	logging
	output
	hooked
	approving
	keyring
	ending
	watchful
	mcpFace
	llmFace
	DataDir string `type:"path" placeholder:"DIR" help:"Folder of the journals; with embedded servers, of all data."`
}

// Help is what "hence up --help" says beyond the flags.
func (c *upCmd) Help() string {
	return `Each agent of the file runs beside a sidecar, as with "hence run". The agents of a workspace share one
sidecar, in this process, each with its own token, over one cluster: that of --brokers and --nats, or one in this
process with "embedded: true" in the file. The output of the agents is shown with their names in front.
docs/agents.schema.json describes the file, docs/examples/agents.yaml is one.

With --mcp the sidecars serve the MCP servers of a file, with --llm the APIs of models: each program is told where, by
the variables that "hence run" sets. One set of servers is started for all agents.

The hook of an agent in the file, or the file's hook for all, judges the footprints of that agent; --hook-url or
--hook-command those of all others. docs/hook.md describes the questions.

Who is in the list of --approvers may approve and deny the calls of all agents that need it. The address for that is
said for each workspace at the start. docs/approval.md describes the list.

The first SIGINT or SIGTERM is passed on to all agents, with --grace to end in; the second kills them. At the end a
table says, for each agent, how it ended, how often it was started again, and what its sidecar counted. With -o json
the table is one line of JSON on the standard output, and all else goes to the standard error.

Exit code: 0 all agents ended with 0; 1 one did not, or the file is wrong; 3 with --check, something is wrong;
128+n signal n ended the command.`
}

func (c *upCmd) handlesSignals() {}

// maxAgentsFile bounds what is read of the file.
const maxAgentsFile = 1 << 20

// Run runs all agents until the last has ended.
func (c *upCmd) Run(ctx context.Context, s Streams, dev *devContext) error {
	if c.Schema {
		_, err := s.Out.Write(agentfile.Schema())
		return err
	}
	if err := c.usable(); err != nil {
		return err
	}
	if err := cmp.Or(c.approving.load(), c.keyring.load()); err != nil {
		return err
	}
	logger, hush := beside.Hushing(c.logger(s.Err))
	models, err := c.providers()
	if err != nil {
		return err
	}
	file, found, err := c.load()
	if err != nil {
		return err
	}
	servers, err := c.upstreams(logger)
	if err != nil {
		return err
	}
	defer closeUpstreams(servers)
	var configs []sidecar.Config
	if len(found) == 0 {
		configs, found = c.configure(file, servers, logger)
	}
	if c.Check {
		return c.checked(s, file, found)
	}
	if len(found) > 0 {
		return found
	}
	hush.Store(false) // each agent has a hush of its own
	signals, stop := catch()
	defer stop()
	serves := c.serving(servers, sidecar.Config{Approvers: c.people, Keys: c.listed,
		Authorities: c.Authority, Models: models})
	team := up.New(c.team(file.Agents, configs, serves, s))
	run := func(ctx context.Context, g beside.Ground) error { return team.Run(ctx, g, signals) }
	if file.Embedded {
		err = beside.Embed(ctx, c.DataDir, binaryVersion(), c.window(), logger, run)
	} else {
		for _, note := range dev.borrowed() {
			sayAs(s.Err, "up")("%s", note)
		}
		err = beside.OnCluster(ctx, c.config(logger), c.DataDir, binaryVersion(), run)
	}
	ended := team.Summary()
	if ended == nil {
		return err
	}
	if err := errors.Join(err, c.print(s.Out, ended, ended.Write)); err != nil {
		return err
	}
	return team.Verdict()
}

// team is what is run. No program is given the variables of any policy or MCP server: secrets of some agent's sidecar
// may be there.
func (c *upCmd) team(agents []agentfile.Agent, configs []sidecar.Config, serves sidecar.Config, s Streams) up.Config {
	var policies []gate.Tools
	for _, config := range configs {
		policies = append(policies, config.Tools)
	}
	t := up.Config{Agents: agents, Sidecars: configs, Err: s.Err, Logger: c.logger, Grace: c.Grace, Settle: c.Settle,
		Without: withheld(serves.MCP.Upstreams, policies...), Serves: serves, Tells: c.tells}
	if !c.json() {
		t.Out = s.Out
	}
	return t
}

// tells is what a program is told of what its sidecar serves. The folder of its MCP client's file is there until end.
func (c *upCmd) tells(side beside.Side) (env []string, end func(), err error) {
	env, end, err = c.environment(side.URL())
	return append(env, modelEnvironment(side)...), end, err
}

// load reads the file.
func (c *upCmd) load() (agentfile.File, findings, error) {
	f, err := os.Open(c.File)
	if err != nil {
		return agentfile.File{}, nil, fmt.Errorf("read the agents' file, name another with -f: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAgentsFile))
	if err != nil {
		return agentfile.File{}, nil, fmt.Errorf("read the agents' file: %w", err)
	}
	file, found := agentfile.Read(shortPath(c.File), filepath.Dir(c.File), text)
	return file, found, nil
}

// findings are what is wrong with a file.
type findings []agentfile.Finding

// Error lists them, one to a line.
func (f findings) Error() string {
	lines := []string{"the agents' file is refused:"}
	for _, one := range f {
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "\n")
}

// configure makes a sidecar's configuration for each agent, and says what cannot work.
func (c *upCmd) configure(file agentfile.File, servers *upstream.Set, logger *slog.Logger,
) (configs []sidecar.Config, found findings) {
	for _, a := range file.Agents {
		wrong := func(what, fix string) {
			found = append(found, agentfile.Finding{File: shortPath(c.File), Line: a.Line, Column: a.Column,
				What: "agent " + a.Name + ": " + what, Fix: fix})
		}
		if info, err := os.Stat(a.Dir); err != nil || !info.IsDir() {
			wrong(fmt.Sprintf("its folder %s is not there", a.Dir), "mkdir -p "+show.ShellWord(a.Dir))
		} else if _, err := process.Find(a.Command[0], a.Dir, append(os.Environ(), a.Env...)); err != nil {
			wrong(err.Error(), "name a program that is in PATH, or its path from dir")
		}
		policy, err := tools{Policy: a.Policy}.load(logger, servers)
		if err != nil {
			wrong("its policy: "+err.Error(), "see hence policy lint")
		}
		hook := c.of(a)
		if err := findHook(hook); err != nil && a.Hook != nil {
			f := agentfile.Finding{File: shortPath(c.File), Line: a.Hook.Line, Column: a.Hook.Column,
				What: "the hook's command: " + err.Error(), Fix: nameProgram + " from the file's folder"}
			if !slices.Contains(found, f) { // one hook can be that of all
				found = append(found, f)
			}
		}
		m := manners{Workspace: cmp.Or(a.Workspace, "default"), Mode: a.Mode, Order: cmp.Or(a.Order, "optimistic")}
		configs = append(configs, sidecar.Config{
			Agent: a.Name, Workspace: m.Workspace, Order: m.order(), Observe: m.Mode == "observe", Tools: policy,
			Hook: hook,
		})
	}
	return configs, found
}

// checked is the answer of --check.
func (c *upCmd) checked(s Streams, file agentfile.File, found findings) error {
	err := c.print(s.Out, map[string]any{"file": shortPath(c.File), "agents": len(file.Agents),
		"findings": append(findings{}, found...)}, func(w io.Writer) error {
		for _, f := range found {
			if _, err := fmt.Fprintln(w, f); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "%s: %d agents, %d mistakes\n", shortPath(c.File), len(file.Agents), len(found))
		return err
	})
	if err == nil && len(found) > 0 {
		return errCheck
	}
	return err
}
