package api

import "time"

// MCPServers are the MCP servers whose tools a sidecar serves, by name.
type MCPServers struct {
	Servers []MCPServer `json:"servers"`
}

// MCPServer is one of them as it stands.
type MCPServer struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`            // starting, ready or failed
	Error   string    `json:"error,omitempty"`  // why it is not ready
	Since   time.Time `json:"since"`            // that it is in this state
	Server  string    `json:"server,omitempty"` // what it calls itself, with its version
	LeftOut []string  `json:"left_out"`         // tools that it lists and that cannot be called, each with the reason
	Tools   []MCPTool `json:"tools"`            // those of a server that is away are the last ones known
}

// MCPTool is a tool of an MCP server.
type MCPTool struct {
	Name      string `json:"name"`   // as the server has it
	Public    string `json:"public"` // as /mcp has it, among those of all servers
	Signature string `json:"signature"`
}
