package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hence-dev/hence/cmd/hence/internal/mcptools"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
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
// those are. What the policies name comes to them.
func withheld(policies ...gate.Tools) []string {
	names := []string{"HENCE_TOKEN_FILE"}
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
