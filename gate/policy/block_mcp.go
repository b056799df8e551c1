package policy

import (
	"strings"

	"github.com/hence-dev/hence/gate"
)

func (b blockReader) mcp(n *node) {
	s := &gate.MCPSpec{}
	b.b.parsed = s
	b.fields(n, "mcp",
		field{"server", func(n *node) {
			s.Server = b.literal(n, "mcp.server", "write the server's name in the --mcp file")
		}},
		field{"tool", func(n *node) { s.Tool = b.literal(n, "mcp.tool", "write the server's name of the tool") }},
		field{"schema", func(n *node) {
			s.Schema = b.literal(n, "mcp.schema", "write the hash that \"hence mcp ls\" prints")
			if s.Schema != "" && !strings.HasPrefix(s.Schema, "sha256:") {
				b.refuse(n.Place, "wrong-value", "mcp.schema is no hash",
					"write the hash that \"hence mcp ls\" prints, or leave it out")
			}
		}},
		field{"error", func(n *node) { s.Error = b.one(n, "mcp.error", gate.ErrorUnknown, gate.ErrorRefused) }})
	b.need(n, "server")
}
