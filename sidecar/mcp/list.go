package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sequencer"
)

// list is what the client may call: by name, so that a model's prompt stays the same from one list to the next.
func (f *Face) list(v *visit) *sdk.ListToolsResult {
	out := []*sdk.Tool{}
	if v.server == "" {
		for _, c := range companions() {
			out = append(out, c.tool)
		}
	}
	shown, _ := f.catalogue(v.server)
	for name, t := range shown {
		one := &sdk.Tool{}
		if err := json.Unmarshal(t.Raw, one); err != nil {
			f.Log.Warn("a tool of an MCP server cannot be listed", "server", t.Server, "tool", t.Name, "error", err)
			continue
		}
		one.Name = name
		class, served := v.guest.Class(t.Public)
		if !served {
			continue // it cannot be called: state says so
		}
		if class != sequencer.ClassRead && t.Output != nil { // an eager call may be answered before its outcome is known
			one.OutputSchema = orHeld(t.Output)
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	// What is listed is the agent's, and changes when its servers do: no other client may keep it, and none for long.
	return &sdk.ListToolsResult{Tools: out, Cacheable: sdk.Cacheable{CacheScope: "private"}}
}

// catalogue is the tools of one server under their own names, or those of all under their public ones. A public name
// that two tools would have is neither's: clash names both owners.
func (f *Face) catalogue(server string) (shown map[string]upstream.Tool, clash map[string]string) {
	shown, clash = map[string]upstream.Tool{}, map[string]string{}
	for _, s := range f.Upstreams.States() {
		for _, t := range s.Tools {
			switch other, twice := shown[t.Public]; {
			case server == s.Name:
				shown[t.Name] = t
			case server != "":
			case twice:
				clash[t.Public] = fmt.Sprintf("it would be the name of %s of %s and of %s of %s", other.Name, other.Server, t.Name,
					t.Server)
			default:
				shown[t.Public] = t
			}
		}
	}
	for name := range clash {
		delete(shown, name)
	}
	return shown, clash
}

// orHeld is an output schema that a receipt fits, too: strict clients refuse other answers. What the schema refers to
// stays at its root, where its references look for it.
func orHeld(original map[string]any) map[string]any {
	inner := maps.Clone(original)
	out := map[string]any{"type": "object"}
	for _, name := range []string{"$schema", "$defs", "definitions"} {
		if value, there := inner[name]; there {
			out[name] = value
			delete(inner, name)
		}
	}
	out["anyOf"] = []any{inner, heldSchema()}
	return out
}

func heldSchema() map[string]any {
	text := map[string]any{"type": "string"}
	properties := map[string]any{"hence_held": map[string]any{"const": true}, "tx": text, "state": text, "note": text,
		"effect": map[string]any{"type": "integer"}}
	return map[string]any{"type": "object", "required": []string{"hence_held", "tx", "state"}, "properties": properties}
}
