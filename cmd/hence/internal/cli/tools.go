package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/agentfile"
	"github.com/hence-dev/hence/cmd/hence/internal/mcptools"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar"
)

// maxPolicy bounds a policy file, in bytes.
const maxPolicy = 1 << 20

// tools is the policy of a sidecar that calls tools.
type tools struct {
	Policy string `type:"path" placeholder:"FILE" default:"" dev:"policy" help:"Policy file with the agent's tools."`
}

// loadBeside is load for a command that may have the policy of the "hence dev" which runs: the user is told so.
func (t tools) loadBeside(d *devContext, say func(string, ...any), logger *slog.Logger, servers *upstream.Set,
) (gate.Tools, error) {
	if !d.took("policy") {
		return t.load(logger, servers)
	}
	say("uses the policy of the running hence dev, %s; --policy FILE names another", shortPath(t.Policy))
	loaded, err := t.load(logger, servers)
	if err != nil { // such as a secret that only the other terminal has
		err = fmt.Errorf("%w\n  the policy comes from hence dev, process %d: set the variables that it asks for in this "+
			"terminal, too, or use no policy with --policy= or your own with --policy FILE", err, d.file.PID)
	}
	return loaded, err
}

// withheld are the variables that a program is not given: they hold secrets of the sidecars beside it, or say where
// those are. What the policies name comes to them, and what the file of MCP servers does.
func withheld(servers *upstream.Set, policies ...gate.Tools) []string {
	names := append([]string{"HENCE_TOKEN_FILE"}, servers.SecretVariables()...)
	for _, tools := range policies {
		if p, ok := tools.(interface{ SecretVariables() []string }); ok {
			names = append(names, p.SecretVariables()...)
		}
	}
	return names
}

// load reads the policy; nil: the command was given none. Where MCP servers are given alone, every call of theirs is
// held until its commit.
func (t tools) load(logger *slog.Logger, servers *upstream.Set) (gate.Tools, error) {
	if t.Policy == "" && servers != nil {
		var names []string
		for _, s := range servers.States() {
			names = append(names, s.Name)
		}
		logger.Info("without --policy every call of the MCP servers is held until its commit", "servers", names)
		return policy.Load(mcptools.DefaultPolicy(names), policy.Options{File: "the default of --mcp",
			Build: adapters.Over(servers)})
	}
	if t.Policy == "" {
		return nil, nil
	}
	info, err := os.Stat(t.Policy)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	if info.Size() > maxPolicy {
		return nil, fmt.Errorf("the policy %s has %d bytes: at most %d", t.Policy, info.Size(), maxPolicy)
	}
	data, err := os.ReadFile(t.Policy)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	p, err := policy.Load(data, policy.Options{File: t.Policy, Dir: filepath.Dir(t.Policy),
		Build: adapters.Over(servers)})
	if err != nil {
		return nil, err
	}
	// What a call would find out after its transaction has committed is said before anything is accepted.
	if missing := p.MissingSecrets(); len(missing) > 0 {
		return nil, &policy.Refusal{File: t.Policy, Findings: missing}
	}
	server, all := p.Catalogue()
	logger.Info("the policy is loaded", "file", t.Policy, "server", server, "tools", len(all))
	return p, nil
}

// hooked is what a sidecar asks about each sealed footprint.
type hooked struct {
	HookURL     string        `name:"hook-url" placeholder:"URL" help:"URL of a hook that judges each sealed footprint."`
	HookCommand []string      `sep:"none" placeholder:"ARG" help:"Program of a hook; one flag per argument, no shell."`
	HookTimeout time.Duration `default:"5s" help:"Time limit for the hook; without an answer the seal aborts, retryable."`
}

func (h hooked) hook() sidecar.Hook {
	return sidecar.Hook{URL: h.HookURL, Command: h.HookCommand, Timeout: h.HookTimeout}
}

// usable says why the hook of the flags cannot be asked. It is called before anything is started.
func (h hooked) usable() error {
	hook := h.hook()
	if err := sidecar.CheckHook(hook); err != nil {
		return misused(err)
	}
	if err := findHook(hook); err != nil {
		return misused(fmt.Errorf("--hook-command: %w: %s", err, nameProgram))
	}
	return nil
}

// of is an agent's hook: that of the file, or else that of the flags.
func (h hooked) of(a agentfile.Agent) sidecar.Hook {
	if a.Hook == nil {
		return h.hook()
	}
	return sidecar.Hook{URL: a.Hook.URL, Command: a.Hook.Command, Dir: a.Hook.Dir, Timeout: a.Hook.Timeout}
}

// nameProgram is what to do when a hook's program cannot be run.
const nameProgram = "name a program that is in PATH, or its path"

// findHook says why a hook's program cannot be run; a URL is asked when there is something to ask.
func findHook(hook sidecar.Hook) error {
	if len(hook.Command) == 0 {
		return nil
	}
	if _, err := process.Find(hook.Command[0], hook.Dir, os.Environ()); err != nil {
		return err
	}
	return nil
}
