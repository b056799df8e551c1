package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/dryrun"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/streams/recorded"
)

// policyCmd groups what can be done with a policy file.
type policyCmd struct {
	Lint    policyLintCmd    `cmd:"" help:"Find too narrow scopes, wrong classes and missing compensations."`
	Test    policyTestCmd    `cmd:"" help:"Run the test cases of a policy."`
	Explain policyExplainCmd `cmd:"" help:"Print what would happen to a call, without making it."`
	Fuzz    policyFuzzCmd    `cmd:"" help:"Rewrite names of resources and find scopes that stop overlapping."`
	Schema  policySchemaCmd  `cmd:"" help:"Print the JSON Schema of policy files."`
	Init    policyInitCmd    `cmd:"" help:"Print a first policy for the tools of MCP servers."`
	DryRun  policyDryRunCmd  `cmd:"" help:"Say what a policy would make of the calls in a log."`
}

// policyFile is the file that a command is about.
type policyFile struct {
	File string `arg:"" type:"path" help:"Policy file."`
}

// load reads the file. A refusal is printed as findings by the caller's error.
func (f policyFile) load() (*policy.Policy, error) {
	data, err := os.ReadFile(f.File)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	p, err := policy.Load(data, policy.Options{File: shortPath(f.File), Dir: filepath.Dir(f.File)})
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", policy.ErrPolicy, err)
	}
	return p, nil
}

// shortPath is a path as one would write it from here.
func shortPath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}

// PolicyFindings is what lint, test and fuzz print as JSON.
type PolicyFindings struct {
	File     string           `json:"file"`
	Checked  int              `json:"checked"` // declarations, cases or rewrites
	Mistakes int              `json:"mistakes"`
	Notes    int              `json:"notes"`
	Findings []policy.Finding `json:"findings"`
}

// report prints findings and turns mistakes into the exit code of a check that does not hold.
func (o output) report(w io.Writer, file, checked string, n int, found []policy.Finding) error {
	r := PolicyFindings{File: file, Checked: n, Findings: found}
	if found == nil {
		r.Findings = []policy.Finding{}
	}
	for _, f := range found {
		if f.Severity == policy.Mistake {
			r.Mistakes++
		} else {
			r.Notes++
		}
	}
	err := o.print(w, r, func(w io.Writer) error {
		for _, f := range found {
			if _, err := fmt.Fprintf(w, "%s: %s [%s]\n", f.Severity, f.Text(file), f.Rule); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "%s: %d %s, %d mistakes, %d notes\n", file, n, checked, r.Mistakes, r.Notes)
		return err
	})
	if err == nil && r.Mistakes > 0 {
		return errCheck
	}
	return err
}

// policyLintCmd is the configuration of "hence policy lint".
type policyLintCmd struct {
	output
	policyFile
}

// Help is what "hence policy lint --help" says beyond the flags.
func (c *policyLintCmd) Help() string {
	return `A mistake is a declaration under which effects can go wrong: a scope that leaves out what the call names, a
class that the adapter contradicts, a compensation that cannot know what to put back. A note is safe, but perhaps not
intended.

Exit code: 0 no mistakes, 1 the file is refused, 3 mistakes were found.`
}

// Run lints the file.
func (c *policyLintCmd) Run(s Streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	_, tools := p.Catalogue()
	more, _, err := besideOf(c.File, "", p) // what they try counts as tried
	if err != nil {
		return err
	}
	found := p.Lint(more...)
	for _, f := range p.MissingSecrets() {
		f.Severity = policy.Note // where a policy is checked its secrets need not be; a start refuses
		found = append(found, f)
	}
	return c.report(s.Out, p.File(), "tools", len(tools), found)
}

// policyTestCmd is the configuration of "hence policy test".
type policyTestCmd struct {
	output
	policyFile
	Cases string `type:"path" help:"Further case files; default: FILE.cases.yaml beside FILE.yaml, if it exists."`
}

// Run runs the cases.
func (c *policyTestCmd) Run(s Streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	n, found := len(p.Cases()), p.Test(p.Cases())
	more, file, err := besideOf(c.File, c.Cases, p)
	if err != nil {
		return err
	}
	for _, f := range p.Test(more) {
		f.File = file
		found = append(found, f)
	}
	if n += len(more); n == 0 {
		return fmt.Errorf("%s has no cases: add \"cases\" with a tool, its args and what to expect", p.File())
	}
	return c.report(s.Out, p.File(), "cases", n, found)
}

// besideOf reads the cases that are kept in a file of their own; empty: the one beside the policy, if it is there.
func besideOf(policyFile, named string, p *policy.Policy) ([]policy.Case, string, error) {
	file := named
	if file == "" {
		file = strings.TrimSuffix(policyFile, filepath.Ext(policyFile)) + ".cases" + filepath.Ext(policyFile)
	}
	data, err := os.ReadFile(file)
	if named == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the cases: %w", err)
	}
	cases, err := p.LoadCases(data, shortPath(file))
	if err != nil {
		return nil, "", fmt.Errorf("read the cases:\n%w", err)
	}
	return cases, shortPath(file), nil
}

// policyExplainCmd is the configuration of "hence policy explain".
type policyExplainCmd struct {
	output
	policyFile
	Tool string `arg:"" help:"Name of the tool."`
	Args string `arg:"" optional:"" default:"{}" help:"Arguments of the call, a JSON object."`
}

// Run explains the call.
func (c *policyExplainCmd) Run(s Streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	e := p.Explain(c.Tool, json.RawMessage(c.Args))
	err = c.print(s.Out, e, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.Join(e.Sentences, "\n"))
		return err
	})
	if err == nil && e.Refused != "" {
		return errCheck
	}
	return err
}

// policyFuzzCmd is the configuration of "hence policy fuzz".
type policyFuzzCmd struct {
	output
	policyFile
	Seed uint64 `default:"1" help:"Seed; the same seed makes the same rewrites."`
	N    int    `default:"20000" help:"Number of rewrites."`
}

// Help is what "hence policy fuzz --help" says beyond the flags.
func (c *policyFuzzCmd) Help() string {
	return `One resource can have many names: A@x.org and a+shop@X.org are one mailbox, a//b and ./a/b one file. What a
name of a type may look like is declared under "types" (mail, file, url and host are known). For each name in each
scope the fuzzer writes others and compares: scopes that stop overlapping let two transactions move one thing at once,
and keys that differ let the sink act twice.

Exit code: 0 nothing was found, 1 the file is refused, 3 something was found.`
}

// Run fuzzes the file.
func (c *policyFuzzCmd) Run(s Streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	n, found := p.Fuzz(c.Seed, c.N)
	return c.report(s.Out, p.File(), "rewrites", n, found)
}

// policySchemaCmd is the configuration of "hence policy schema".
type policySchemaCmd struct{}

// Run prints the schema.
func (c *policySchemaCmd) Run(s Streams) error {
	if _, err := s.Out.Write(policy.Schema()); err != nil {
		return fmt.Errorf("print the schema: %w", err)
	}
	return nil
}

// policyDryRunCmd is the configuration of "hence policy dry-run".
type policyDryRunCmd struct {
	servers
	logging
	output
	policyFile
	Workspace string `default:"default" dev:"workspace" help:"Workspace."`
	Limit     int    `env:"-" default:"50" help:"Differences to show; 0: all."`
}

// Help is what "hence policy dry-run --help" says beyond the flags.
func (c *policyDryRunCmd) Help() string {
	return `It reads the calls of tools in a workspace's log, with their arguments, and says what the policy would make of
each: refuse it, or take it as another class or of other scopes than it was taken. Nothing is called and nothing is
written. What would have been decided then is said by hence replay --policy.

Exit code: 0 every call would be taken as it was, 1 the file is refused or the log cannot be read, 3 a call would not.`
}

// Run reads the log.
func (c *policyDryRunCmd) Run(ctx context.Context, s Streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	log, err := recorded.Open(ctx, c.config(c.logger(s.Err)), c.Workspace)
	if err != nil {
		return fmt.Errorf("dry-run: %w", err)
	}
	r, err := dryrun.Run(ctx, log, p, c.Limit)
	if err != nil {
		return fmt.Errorf("dry-run: %w", err)
	}
	if err := c.print(s.Out, r, r.Write); err != nil {
		return err
	}
	if r.Changed() > 0 {
		return errCheck
	}
	return nil
}
