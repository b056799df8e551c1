package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/mcptools"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar/api"
)

// mcpCmd groups the commands about MCP servers and clients.
type mcpCmd struct {
	Ls     mcpLsCmd     `cmd:"" help:"List the tools of MCP servers, with the hashes of their schemas."`
	Status mcpStatusCmd `cmd:"" help:"List the MCP servers that a sidecar serves, and how each stands."`
	Stdio  mcpStdioCmd  `cmd:"" help:"Serve an MCP client on standard input and output what a sidecar serves."`
}

// catalogues is where a command finds MCP servers.
type catalogues struct {
	From    string        `required:"" type:"path" placeholder:"FILE" help:"File of MCP servers, as MCP clients have it."`
	Timeout time.Duration `default:"30s" help:"Time limit for the servers to start."`
}

// read starts the servers, looks at what they list, and ends them.
func (c *catalogues) read(ctx context.Context, logger *slog.Logger) ([]upstream.State, error) {
	servers, err := upstream.ReadConfig(c.From)
	if err != nil {
		return nil, misused(err)
	}
	set := upstream.Open(servers, upstream.Options{Log: logger, Version: binaryVersion(), Start: c.Timeout})
	defer set.Close()
	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	set.Settled(ctx)
	return set.States(), nil
}

// mcpLsCmd is the configuration of "hence mcp ls".
type mcpLsCmd struct {
	logging
	output
	catalogues
}

// Help is what "hence mcp ls --help" says beyond the flags.
func (c *mcpLsCmd) Help() string {
	return `The servers are started for it and ended again. SAYS is what a tool says of itself, which is a hint: what
Hence does with a call is the policy's word alone.

Exit code: 0, 1 if a server could not be started, 2 if the file cannot be used.`
}

// Run lists.
func (c *mcpLsCmd) Run(ctx context.Context, s Streams) error {
	states, err := c.read(ctx, c.logger(s.Err))
	if err != nil {
		return err
	}
	err = c.print(s.Out, states, func(w io.Writer) error {
		t := tabwriter.NewWriter(show.Lines(w), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tSERVER\tSAYS\tSCHEMA")
		for _, one := range states {
			for _, tool := range one.Tools {
				says := "-"
				if tool.ReadOnly {
					says = "only reads"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", tool.Public, one.Name, says, tool.Hash)
			}
		}
		return t.Flush()
	})
	for _, one := range states {
		for _, left := range one.LeftOut {
			sayAs(s.Err, "mcp")("%s: left out %s", one.Name, left)
		}
		if one.Phase != upstream.Ready && err == nil {
			err = fmt.Errorf("the MCP server %s is %s: %s", one.Name, one.Phase, one.Err)
		}
	}
	return err
}

// mcpStatusCmd is the configuration of "hence mcp status".
type mcpStatusCmd struct {
	output
	asking
}

// Help is what "hence mcp status --help" says beyond the flags.
func (c *mcpStatusCmd) Help() string {
	return `The tools of a server that is away are the last ones known: a call of one says that it is away.

Exit code: 0, 1 if the sidecar cannot be reached, 3 if a server is not ready.`
}

// Run asks the sidecar.
func (c *mcpStatusCmd) Run(ctx context.Context, s Streams) error {
	got, err := c.client().MCPServers(ctx)
	if err != nil {
		return fmt.Errorf("ask for the MCP servers: %w", err)
	}
	err = c.print(s.Out, got, func(w io.Writer) error {
		t := show.Table{Head: []string{"SERVER", "STATE", "SINCE", "TOOLS", "WHY"}}
		for _, one := range got.Servers {
			t.Add(one.Name, one.State, one.Since.UTC().Format(time.RFC3339), strconv.Itoa(len(one.Tools)),
				cmp.Or(one.Error, "-"))
			for _, left := range one.LeftOut {
				t.Add(one.Name, "left out", "", "", left)
			}
		}
		return printList(w, t, "the sidecar serves no MCP server: start it with --mcp FILE", "")
	})
	away := func(one api.MCPServer) bool { return one.State != upstream.Ready }
	if err == nil && slices.ContainsFunc(got.Servers, away) {
		return errCheck
	}
	return err
}

// mcpStdioCmd is the configuration of "hence mcp stdio".
type mcpStdioCmd struct {
	asking
	Server string `placeholder:"NAME" help:"Only this MCP server, its tools under their own names."`
}

// Help is what "hence mcp stdio --help" says beyond the flags.
func (c *mcpStdioCmd) Help() string {
	return `For clients that can only start a program. The sidecar is that of --url, or the running "hence dev"; it has to
serve MCP clients (--mcp).

Exit code: 0 once the client has closed its end, 1 if the sidecar cannot be reached.`
}

// Run bridges until the client closes its end.
func (c *mcpStdioCmd) Run(ctx context.Context, s Streams) error {
	url := strings.TrimRight(c.URL, "/") + "/mcp"
	if c.Server != "" {
		url += "/" + c.Server
	}
	return mcptools.Bridge(ctx, s.In, s.Out, url, c.carrier(), binaryVersion())
}

// policyInitCmd is the configuration of "hence policy init".
type policyInitCmd struct {
	logging
	catalogues
}

// Help is what "hence policy init --help" says beyond the flags.
func (c *policyInitCmd) Help() string {
	return `It prints a first policy for the tools of MCP servers, which are started for it. A tool that says of itself
that it only reads is a read, every other one is held until its transaction commits; each line has its reason. Read
them, and change what you know better.

Exit code: 0, 2 if the file of servers cannot be used.`
}

// Run prints.
func (c *policyInitCmd) Run(ctx context.Context, s Streams) error {
	states, err := c.read(ctx, c.logger(s.Err))
	if err != nil {
		return err
	}
	_, err = s.Out.Write(mcptools.FirstPolicy(states))
	return err
}

// clientCmd groups the commands about clients.
type clientCmd struct {
	Config clientConfigCmd `cmd:"" help:"Print how a client is told of a sidecar."`
}

// clientConfigCmd is the configuration of "hence client config".
type clientConfigCmd struct {
	URL    string `name:"url" default:"http://127.0.0.1:7420" dev:"url" help:"URL of a sidecar that serves MCP clients."`
	Client string `arg:"" help:"claude-code, claude-desktop, codex, cursor, langgraph or openai-agents."`
}

// Help is what "hence client config --help" says beyond the flags.
func (c *clientConfigCmd) Help() string {
	return `Nothing is written: the first line says where the text belongs. The token is not in it, but in the environment
variable HENCE_TOKEN, which "hence env" prints and "hence run" sets.

Exit code: 0, 2 for a client that is not known.`
}

// Run prints.
func (c *clientConfigCmd) Run(s Streams) error {
	text, found := mcptools.Config(c.Client, strings.TrimRight(c.URL, "/")+"/mcp")
	if !found {
		return misused(fmt.Errorf("no client %.40q is known: name one of %s", c.Client,
			strings.Join(mcptools.Clients(), ", ")))
	}
	_, err := io.WriteString(s.Out, text)
	return err
}
