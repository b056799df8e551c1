package api

import "encoding/json"

// ToolUse is a call that a model's answer asks for.
type ToolUse struct {
	Name string
	Args json.RawMessage
}
