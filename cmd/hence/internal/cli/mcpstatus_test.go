package cli

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// A server that is not ready is said with its reason, and by the exit code.
func TestMCPStatus(t *testing.T) {
	good := api.MCPServer{Name: "notes", State: "ready", Tools: []api.MCPTool{{Name: "look"}, {Name: "note"}}}
	bad := api.MCPServer{Name: "mail", State: "failed", Error: "no such file", LeftOut: []string{"x: no schema"}}
	for _, c := range []struct {
		servers []api.MCPServer
		code    int
		says    []string
	}{
		{[]api.MCPServer{good}, ExitOK, []string{"notes", "ready", "2"}},
		{[]api.MCPServer{good, bad}, ExitCheck, []string{"mail", "failed", "no such file", "x: no schema"}},
		{nil, ExitOK, []string{"--mcp FILE"}},
	} {
		url := sidecarStub(t, map[string]any{"GET /v1/mcp": api.MCPServers{Servers: c.servers}})
		code, out, errs := hence(t, "mcp", "status", "--url", url)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("exit code %d, %q is not in %s%s", code, want, out, errs)
			}
		}
	}
	code, _, errs := hence(t, "mcp", "status", "--url", sidecarStub(t, nil))
	if code != ExitFailed || !strings.Contains(errs, "not_found") {
		t.Errorf("an older sidecar: exit code %d, %s", code, errs)
	}
}
