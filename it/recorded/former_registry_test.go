package recorded

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// fullRegistry fills the space for catalogues to the last byte, and has a withdrawal and a change refused for it. A
// plan that pins the withdrawn tool commits.
func (c *composer) fullRegistry(servers ...string) {
	c.ticks(8)
	c.agent("ann")
	st := c.state()
	left := int(st.Rules.MaxKept) / 4
	for _, k := range st.Catalogues {
		left -= sizeOf(k.Tools)
	}
	register := func(kind sequencer.IntentKind, server string, tools ...sequencer.Tool) []sequencer.Outcome {
		return c.say(kind, "", "ann", func(in *sequencer.Intent) {
			in.N = 0
			in.Register = &sequencer.Register{Server: server, Generation: 100 + uint64(c.number(in)), Tools: tools}
		})
	}
	for i, server := range servers {
		size := min(left, 64<<10)
		if i == len(servers)-1 {
			size = left - c.IntN(40)
		}
		register(sequencer.IntentRegister, server, toolsOf(size, "v1", server)...)
		left -= size
	}
	register(sequencer.IntentUnregister, servers[0])
	register(sequencer.IntentRegister, servers[0], sequencer.Tool{Name: "t", Signature: "new"})
	for i, signature := range []string{"v1", "new"} {
		pinned := c.shard("shard:/pinned", "on a tool")
		pinned.Pins = []sequencer.Pin{{Server: servers[0], Name: "t", Signature: signature}}
		out := c.sealed(sequencer.TxID(fmt.Sprint("pinned-", servers[0], "-", i)), "ann", pinned)
		if signature == "v1" && kindOf(out) == sequencer.OutcomeCommitted {
			c.reached["a plan on a withdrawn tool committed"]++
		}
	}
	for n := range 40 { // at 95 to 105 % of the space
		tools := toolsOf(28<<10+c.IntN(12<<10), drawn(c, "v1", "v2"), string(rune('a'+n%26)))
		kind := sequencer.IntentRegister
		if c.once(4) {
			kind = sequencer.IntentUnregister
		}
		register(kind, drawn(c, servers...), tools...)
	}
}

// toolsOf is a catalogue of a size, with a tool t that has a signature.
func toolsOf(size int, signature, filler string) []sequencer.Tool {
	tools := []sequencer.Tool{{Name: "t", Signature: signature}}
	for left := size - sizeOf(tools); left > 0; left = size - sizeOf(tools) {
		tool := sequencer.Tool{Name: fmt.Sprintf("u-%02d", len(tools))}
		tool.Signature = strings.Repeat(filler, max(0, min(left, 4_000)-8-len(tool.Name)))
		tools = append(tools, tool)
	}
	return tools
}

// sizeOf is what a catalogue counts under logic 2, in bytes.
func sizeOf(tools []sequencer.Tool) int {
	n := 48
	for _, t := range tools {
		n += 8 + len(t.Name) + len(t.Signature)
	}
	return n
}

// changedTool has one tool of three large catalogues change, in the space that an ended lease has freed.
func (c *composer) changedTool() {
	c.ticks(8)
	c.agent("dan")
	register := func(server, signature string, generation uint64) {
		c.say(sequencer.IntentRegister, "", "dan", func(in *sequencer.Intent) {
			in.N = 0
			in.Register = &sequencer.Register{Server: server, Generation: generation,
				Tools: []sequencer.Tool{{Name: "pay", Signature: signature}}}
			for i := range 200 {
				in.Register.Tools = append(in.Register.Tools, sequencer.Tool{Name: fmt.Sprintf("%s-%d", server, i),
					Signature: strings.Repeat("x", 240)})
			}
		})
	}
	for _, server := range []string{"r", "s", "q"} {
		register(server, "v1", 1)
	}
	register("s", "v2", 2)
	for _, signature := range []string{"v1", "v2"} {
		pinned := c.shard("shard:/paid", signature)
		pinned.Pins = []sequencer.Pin{{Server: "s", Name: "pay", Signature: signature}}
		c.sealed(sequencer.TxID("paid-"+signature), "dan", pinned)
	}
}
