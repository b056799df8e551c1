// Package mcptools is what the commands about MCP print and write: a first policy of servers' tools, the configuration
// of clients, and the bridge for clients that only start programs.
package mcptools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/upstream"
)

// PolicyName is the policy's own name where no file is given.
const PolicyName = "policy-of-mcp"

// patience is how long a read may take: tools of MCP servers are often slow, and some clients wait for a minute. An
// effect has the policy's default, which an agent's lease outlasts.
const patience = "\n    max_time_ms: 60000"

// DefaultPolicy holds every call of every server until its commit. It depends on the servers' names alone, so that who
// settles a call later has the same one.
func DefaultPolicy(servers []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nserver: %s\ntools:\n", PolicyName)
	for _, name := range slices.Sorted(slices.Values(servers)) {
		b.WriteString(held(name))
	}
	return []byte(b.String())
}

// held is the entry for all tools of a server. What a call moves is only known to be something of the server's.
func held(server string) string {
	return fmt.Sprintf("  - {tool: %q, class: irreversible, scopes: [%q], mcp: {server: %s}}\n", server+"__*",
		scope(server), yamlText(server))
}

// scope is all that a server keeps. Types of scopes are in lower case.
func scope(server string) string { return "mcp-" + strings.ToLower(server) + ":/**" }

// FirstPolicy is a policy to begin with: an entry for each tool, with the reason for its class. What a tool says of
// itself is a hint, so an operator has to look at a tool that only reads by its own word.
func FirstPolicy(states []upstream.State) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made from the catalogues of %d MCP servers. Read every line: hence policy lint FILE checks it.\n"+
		"# read: made at once. irreversible: held until the commit. A tool that can be undone may be reversible, with a\n"+
		"# compensation: docs/policy.md. Where a tool that says isError has surely done nothing, add \"error:\n"+
		"# refused\" to its mcp: else its outcome is unknown, and a person has to look.\nversion: 1\nserver: %s\ntools:\n",
		len(states), PolicyName)
	for _, s := range states {
		if s.Phase != upstream.Ready {
			fmt.Fprintf(&b, "  # %s: %s. All its tools are held.\n", s.Name, oneLine(s.Err))
			b.WriteString(held(s.Name))
			continue
		}
		fmt.Fprintf(&b, "  # %s (%s)\n", s.Name, oneLine(s.Server))
		for _, t := range s.Tools {
			class, why := "irreversible", "nothing says that it only reads"
			if t.ReadOnly {
				class, why = "read"+patience, "it says of itself that it only reads (readOnlyHint): look whether that is so"
			}
			fmt.Fprintf(&b, "  - tool: %s # %s\n    class: %s\n    scopes: [%q]\n    mcp: {server: %s, tool: %s, schema: %q}\n",
				yamlText(t.Public), why, class, scope(s.Name), yamlText(s.Name), yamlText(t.Name), t.Hash)
		}
		for _, left := range s.LeftOut {
			fmt.Fprintf(&b, "  # left out: %s\n", oneLine(left))
		}
	}
	return []byte(b.String())
}

// yamlText quotes a name that was chosen elsewhere.
func yamlText(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return string(quoted)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// ClientConfig is the usual file of an MCP client, with the sidecar as its only server.
func ClientConfig(url string) map[string]any {
	return map[string]any{"mcpServers": map[string]any{"hence": map[string]any{"type": "http", "url": url,
		"headers": map[string]string{"Authorization": "Bearer ${HENCE_TOKEN}"}}}}
}

// Clients are the names that Config takes.
func Clients() []string { return slices.Sorted(maps.Keys(clients())) }

// Config is how a client is told of a sidecar: the text, with the name of the file that it belongs into.
func Config(client, url string) (text string, found bool) {
	write, found := clients()[client]
	if !found {
		return "", false
	}
	return write(url), true
}

func clients() map[string]func(url string) string {
	indented := func(v any) string {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return ""
		}
		return string(data) + "\n"
	}
	return map[string]func(string) string{
		"claude-code": func(url string) string {
			return "# .mcp.json in the project's folder; the token comes from the environment (eval \"$(hence env)\")\n" +
				indented(ClientConfig(url))
		},
		"claude-desktop": func(url string) string {
			bridge := map[string]any{"command": "hence", "args": []string{"mcp", "stdio"}, "env": map[string]string{
				"HENCE_URL": strings.TrimSuffix(url, "/mcp"), "HENCE_TOKEN": "the sidecar's token: this file takes no variables"}}
			return "# claude_desktop_config.json; beside a hence dev of your own, leave env out: the bridge finds it\n" +
				indented(map[string]any{"mcpServers": map[string]any{"hence": bridge}})
		},
		"cursor": func(url string) string {
			sidecar := map[string]any{"url": url, "headers": map[string]string{"Authorization": "Bearer ${env:HENCE_TOKEN}"}}
			return "# .cursor/mcp.json\n" + indented(map[string]any{"mcpServers": map[string]any{"hence": sidecar}})
		},
		"codex": func(url string) string {
			return fmt.Sprintf("# ~/.codex/config.toml\n[mcp_servers.hence]\nurl = %q\nbearer_token_env_var = %q\n", url,
				"HENCE_TOKEN")
		},
		"langgraph": func(url string) string {
			return fmt.Sprintf(`# Python, with langchain-mcp-adapters
import os
from langchain_mcp_adapters.client import MultiServerMCPClient

client = MultiServerMCPClient({"hence": {
    "transport": "streamable_http", "url": %q,
    "headers": {"Authorization": "Bearer " + os.environ["HENCE_TOKEN"]}}})
tools = await client.get_tools()
`, url)
		},
		"openai-agents": func(url string) string {
			return fmt.Sprintf(`# Python, with openai-agents
import os
from agents import Agent
from agents.mcp import MCPServerStreamableHttp

async with MCPServerStreamableHttp(name="hence", params={
        "url": %q, "headers": {"Authorization": "Bearer " + os.environ["HENCE_TOKEN"]}}) as hence:
    agent = Agent(name="assistant", mcp_servers=[hence])
`, url)
		},
	}
}
