package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hence-dev/hence/cmd/hence/internal/mcptools"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar"
)

// mcpFace is how MCP clients are served.
type mcpFace struct {
	MCP       string   `name:"mcp" type:"path" placeholder:"FILE" help:"Serve the MCP servers in FILE at /mcp."`
	MCPOrigin []string `name:"mcp-origin" placeholder:"ORIGIN" help:"Web pages whose requests /mcp takes."`
}

// upstreams begins to start the servers; nil: none are configured. What they log is for whoever looks closer.
func (f *mcpFace) upstreams(logger *slog.Logger) (*upstream.Set, error) {
	if f.MCP == "" {
		if len(f.MCPOrigin) > 0 {
			return nil, misused(fmt.Errorf("--mcp-origin says who may use --mcp, which is not given"))
		}
		return nil, nil
	}
	servers, err := upstream.ReadConfig(f.MCP)
	if err != nil {
		return nil, misused(err)
	}
	return upstream.Open(servers, upstream.Options{Log: logger, Version: binaryVersion()}), nil
}

// serving gives a sidecar's configuration what MCP clients are served; set may be nil.
func (f *mcpFace) serving(set *upstream.Set, c sidecar.Config) sidecar.Config {
	c.MCP = sidecar.MCP{Upstreams: set, Origins: f.MCPOrigin, Version: binaryVersion()}
	return c
}

// closeUpstreams ends the servers, where there are any.
func closeUpstreams(set *upstream.Set) {
	if set != nil {
		set.Close()
	}
}

// environment tells a program where MCP clients are served: the address, and a file as clients read it. remove
// ends that.
func (f *mcpFace) environment(url string) (env []string, remove func(), err error) {
	if f.MCP == "" {
		return nil, func() {}, nil
	}
	path, remove, err := clientFile(url + "/mcp")
	if err != nil {
		return nil, nil, err
	}
	return []string{"HENCE_MCP_URL=" + url + "/mcp", "HENCE_MCP_CONFIG=" + path}, remove, nil
}

// clientFile writes the configuration of an MCP client that knows the sidecar alone, into a folder of its own. The
// token is in the environment of who reads it, and not in the file.
func clientFile(url string) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "hence-mcp-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the MCP client's file: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	data, err := json.MarshalIndent(mcptools.ClientConfig(url), "", "  ")
	if err == nil {
		path = filepath.Join(dir, ".mcp.json")
		err = os.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("write the MCP client's file: %w", err)
	}
	return path, remove, nil
}
