package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/sidecar"
)

// several is how a sidecar is told of more agents than one.
type several struct {
	AgentsFile string        `type:"path" placeholder:"FILE" help:"Serve the agents of this list, instead of --agent."`
	AnyAgent   bool          `help:"Serve each agent that Hence-Agent names, once it asks; loopback only."`
	IdleAfter  time.Duration `default:"10m" help:"With --any-agent: an agent without requests for so long leaves."`
}

// agents are those that are named together; nil: there is one, or any.
func (c *sidecarCmd) agents(logger *slog.Logger) (all []sidecar.AgentConfig, err error) {
	names := strings.Split(c.Agent, ",")
	named := c.Agent != "agent-1" // the default of --agent
	switch {
	case c.AgentsFile != "" && c.AnyAgent:
		return nil, misused(errors.New("--agents-file and --any-agent are both given: give one of them"))
	case named && (c.AgentsFile != "" || c.AnyAgent): // those of --agent would not be served
		return nil, misused(fmt.Errorf("--agent %s is given beside --agents-file or --any-agent: give one of them", c.Agent))
	case c.AnyAgent:
		return nil, nil
	case c.AgentsFile != "":
		if all, err = readAgents(c.AgentsFile); err != nil {
			return nil, err
		}
	case len(names) == 1:
		return nil, nil
	default:
		for _, name := range names {
			all = append(all, sidecar.AgentConfig{Agent: strings.TrimSpace(name)})
		}
	}
	if c.Token != "" {
		return nil, misused(errors.New("--token (or HENCE_TOKEN) is one token, and each of several agents has its own: " +
			"give --agents-file, or --token-file, to which each agent's name is added"))
	}
	for _, one := range all { // before a file is called after any of them
		if err := sidecar.ValidAgent(one.Agent); err != nil {
			return nil, misused(err)
		}
	}
	for i := range all {
		one := &all[i]
		if one.Token == "" && c.TokenFile != "" {
			if one.Token, err = access.KeepToken(logger, c.TokenFile+"."+one.Agent); err != nil {
				return nil, err
			}
		}
		if one.DataDir, err = c.folderOf(one.Agent); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// generate gives a token to each agent that has none. known are those that had one.
func generate(agents []sidecar.AgentConfig) (known map[string]bool) {
	known = map[string]bool{}
	for i := range agents {
		known[agents[i].Agent] = agents[i].Token != ""
		if agents[i].Token == "" { // kept, when the sidecar begins anew
			agents[i].Token = rand.Text()
		}
	}
	return known
}

// folderOf is the folder of an agent's journal: the same that a sidecar of this agent alone would use.
func (c *sidecarCmd) folderOf(agent string) (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	return beside.CachedJournal(c.Workspace, agent)
}

// readAgents reads a list of agents: each has a name, and may have a token, and that of an operator of its own.
func readAgents(path string) (all []sidecar.AgentConfig, err error) {
	err = readNames(path, "an agent", "write a list, for each agent a line \"- name: NAME\", and below it, if it has "+
		"them, token and operator", []string{"name", "token", "operator"}, func(v []string) string {
		one := sidecar.AgentConfig{Agent: v[0], Token: v[1], OperatorToken: v[2]}
		if slices.ContainsFunc(all, func(a sidecar.AgentConfig) bool { return a.Agent == one.Agent }) {
			return "agent " + one.Agent + " is there twice"
		}
		all = append(all, one)
		return ""
	})
	return all, err
}

// sayReady prints who is served where, with the tokens that were generated. An agent whose journal cannot be opened,
// or that the log refuses, does not keep the others from starting: it is said to be tried again.
func (c *sidecarCmd) sayReady(w io.Writer, side *sidecar.Sidecar, known map[string]bool,
	say func(string, ...any)) error {
	for _, m := range side.Members() {
		if !known[m.Agent()] && !c.json() {
			if _, err := fmt.Fprintf(w, "token of %s: %s\n", m.Agent(), m.Token()); err != nil {
				return err
			}
		}
		select {
		case <-m.Ready():
			if err := printReady(w, c.output, "sidecar", m.Agent(), side.URL()); err != nil {
				return err
			}
		default:
			say("%s is not ready and is tried again; hence doctor --sidecar %s says why", m.Agent(), side.URL())
		}
	}
	return nil
}
