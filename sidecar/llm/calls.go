package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sidecar/api"
)

// calls are those that an answer asks for, by the place that the answer gives them.
type calls map[string]*call

// call is one of them, as far as it has come.
type call struct {
	order int
	name  string
	args  string
}

// uses are the calls in the answer's order.
func (c calls) uses() (out []api.ToolUse) {
	list := []*call{}
	for _, one := range c {
		if one.name != "" {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *call) int { return cmp.Compare(a.order, b.order) })
	for _, one := range list {
		out = append(out, api.ToolUse{Name: one.name, Args: json.RawMessage(one.args)})
	}
	return out
}

// add adds what has come of the call at a place.
func (c calls) add(at string, name, args string) {
	if c[at] == nil {
		c[at] = &call{order: len(c)}
	}
	c[at].name += name
	c[at].args += args
}

// event takes what an event of a stream, or a whole answer, says of calls, in any of the shapes.
func (c calls) event(v any) {
	if all, ok := v.([]any); ok { // Gemini's stream without server-sent events
		for _, one := range all {
			c.event(one)
		}
		return
	}
	m, _ := v.(map[string]any)
	kind, _ := m["type"].(string)
	switch {
	case m["choices"] != nil:
		c.choices(m)
	case m["candidates"] != nil:
		c.candidates(m)
	case kind == "content_block_start" || kind == "content_block_delta": // Anthropic, streamed
		at := fmt.Sprint(m["index"])
		block, _ := m["content_block"].(map[string]any)
		delta, _ := m["delta"].(map[string]any)
		if block["type"] == "tool_use" {
			c.add(at, text(block, "name"), "")
		}
		if delta["type"] == "input_json_delta" && c[at] != nil {
			c.add(at, "", text(delta, "partial_json"))
		}
	case kind == "response.output_item.done": // the calls of a streamed response come whole, too
		c.item(m["item"])
	case kind == "response.completed":
	case m["output"] != nil:
		for _, item := range list(m, "output") {
			c.item(item)
		}
	default:
		for i, block := range list(m, "content") { // Anthropic, whole
			if b, _ := block.(map[string]any); b["type"] == "tool_use" {
				c.add(fmt.Sprint(i), text(b, "name"), jsonOf(b["input"]))
			}
		}
	}
}

// choices are those of OpenAI's chats. Only the first is one that agents act on.
func (c calls) choices(m map[string]any) {
	for _, one := range list(m, "choices") {
		choice, _ := one.(map[string]any)
		if at, ok := choice["index"]; ok && fmt.Sprint(at) != "0" {
			continue
		}
		for _, key := range []string{"message", "delta"} {
			said, _ := choice[key].(map[string]any)
			for i, use := range list(said, "tool_calls") {
				u, _ := use.(map[string]any)
				at := fmt.Sprint(i)
				if index, ok := u["index"]; ok {
					at = fmt.Sprint(index)
				}
				function, _ := u["function"].(map[string]any)
				c.add(at, text(function, "name"), text(function, "arguments"))
			}
		}
	}
}

// candidates are those of Gemini; its calls come whole.
func (c calls) candidates(m map[string]any) {
	candidates := list(m, "candidates")
	if len(candidates) == 0 {
		return
	}
	first, _ := candidates[0].(map[string]any)
	content, _ := first["content"].(map[string]any)
	for _, part := range list(content, "parts") {
		p, _ := part.(map[string]any)
		if use, ok := p["functionCall"].(map[string]any); ok {
			c.add(fmt.Sprint(len(c)), text(use, "name"), jsonOf(use["args"]))
		}
	}
}

// item is one of OpenAI's responses.
func (c calls) item(v any) {
	if m, _ := v.(map[string]any); m["type"] == "function_call" {
		c.add(fmt.Sprint(len(c)), text(m, "name"), text(m, "arguments"))
	}
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}

func jsonOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil || v == nil {
		return "{}"
	}
	return string(data)
}
