// Package trace has histories of operations as files: one JSON object a line, one operation an object. The names of
// the fields are those of the published OpRecord and ProvRecord, so that files go from other systems to `hence check`
// and from `hence export` to other checkers.
package trace

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Record is one operation: an agent reads cells at one time, thinks, and writes cells at a later one. It is the
// published OpRecord and ProvRecord in one; files have either form, or both in one.
//
// Time is a position in the log of commits, a whole number ≥ 0: an operation that reads at time t sees what was
// written at times ≤ t. All cells of a record become visible at once, at WriteTime.
//
// Required in each line are agent, read_set, read_time, write_set and write_time. The others may be absent: a nil
// slice, map or pointer is an absent field, an empty one that is not nil is an empty list in the file. What is absent
// is unknown, never clean: a detector that needs it says that it cannot decide.
type Record struct {
	// Txn names the operation, for the Preds of others. Empty: it has no name.
	Txn ID `json:"txn,omitzero"`
	// Agent is who read and wrote. Never empty.
	Agent string `json:"agent"`
	// ReadSet has the cells that were read, without order.
	ReadSet []string `json:"read_set"`
	// ReadValues has what was read, by cell. A cell of ReadSet that is not here has an unknown value; one that was
	// never written has Null.
	ReadValues map[string]Value `json:"read_values,omitzero"`
	// ReadTime is the position in the log of commits at which ReadSet was read, but for what ReadTimes says.
	ReadTime uint64 `json:"read_time"`
	// ReadTimes has the position at which a cell was read, of those of ReadSet that were read at another one than
	// ReadTime. Not in published files.
	ReadTimes map[string]uint64 `json:"read_times,omitzero"`
	// WriteSet has the cells that were written, without order. Empty: the operation only read.
	WriteSet []string `json:"write_set"`
	// WriteValues has what was written, by cell; Null deletes. A cell of WriteSet that is not here has an unknown value.
	WriteValues map[string]Value `json:"write_values,omitzero"`
	// WriteTime is the position in the log of commits at which the writes became visible; of a record that was
	// refused and was never visible it is 0.
	WriteTime uint64 `json:"write_time"`
	// PlannedTool is the tool that the agent decided to call, from what it saw at ReadTime.
	PlannedTool Planned `json:"planned_tool,omitzero"`
	// ToolsUsed has the tools that were called, in any order.
	ToolsUsed []string `json:"tools_used,omitzero"`
	// ToolsVisibleAtRead is the tool registry at ReadTime.
	ToolsVisibleAtRead []string `json:"tools_visible_at_read,omitzero"`
	// ToolsVisibleAtWrite is the tool registry at WriteTime. Not in published files.
	ToolsVisibleAtWrite []string `json:"tools_visible_at_write,omitzero"`
	// ToolSignaturesAtRead and ToolSignaturesAtWrite have the signatures of tools, by name, at both times: with them
	// a tool that changed counts as gone. Not in published files.
	ToolSignaturesAtRead  map[string]string `json:"tool_signatures_at_read,omitzero"`
	ToolSignaturesAtWrite map[string]string `json:"tool_signatures_at_write,omitzero"`
	// IO has the effects in the order in which the agent issued them.
	IO []Effect `json:"io,omitzero"`
	// CO has the effects in the order in which they reached the world.
	CO []Effect `json:"co,omitzero"`
	// Preds names the operations whose writes this one observed when it read: the direct ones, or all that these rest
	// on too. A name that no record has stands for an operation that was forgotten.
	Preds []ID `json:"preds,omitzero"`
	// Aborted: the operation never took effect (then WriteTime is 0), or was taken back later. Nil: the file does not
	// say.
	Aborted *bool `json:"aborted,omitzero"`
	// Replica says which copy of the store answered the read of a cell, by cell. In a file it may be one text for all
	// cells of read_set. Not in published files.
	Replica PerCell[string] `json:"replica,omitzero"`
	// Version says which version of a cell was read, by cell; versions are compared, not ordered. In a file it may be
	// one version for all cells of read_set. Not in published files.
	Version PerCell[Value] `json:"version,omitzero"`
	// Excerpt names the operation around which a file was cut out of a longer one: it has those that met this one, and
	// of what is between the others only a part. Not in published files.
	Excerpt ID `json:"excerpt,omitzero"`
	// Extra has the fields of the line that have none of these names, as they stood. A Writer writes them again.
	Extra map[string]json.RawMessage `json:"-"`
}

// TookEffect reports whether the operation stands: no field says that it was aborted. Detectors judge these alone.
func (r *Record) TookEffect() bool { return r.Aborted == nil || !*r.Aborted }

// Effect is one write or call: what it wrote, and where. In a file it is [cell, value].
type Effect struct {
	Cell  string
	Value Value
}

// MarshalJSON writes an effect as [cell, value].
func (e Effect) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{e.Cell, e.Value}) }

// UnmarshalJSON reads [cell, value].
func (e *Effect) UnmarshalJSON(text []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("an effect is [cell, value], not %s", short(text))
	}
	if err := json.Unmarshal(pair[0], &e.Cell); err != nil {
		return fmt.Errorf("the cell of an effect is a text, not %s", short(pair[0]))
	}
	value, err := canonical(pair[1])
	e.Value = value
	return err
}

// Planned is the field planned_tool, which may be absent, null, or a name.
type Planned struct {
	// Known: the line has the field. Without it, whether a tool was planned is unknown.
	Known bool
	// Tool is the tool's name; empty with Known: no tool was planned.
	Tool string
}

// Plan is the Planned of a tool's name; of "" it says that no tool was planned.
func Plan(tool string) Planned { return Planned{Known: true, Tool: tool} }

// IsZero reports that the field is absent.
func (p Planned) IsZero() bool { return !p.Known }

// MarshalJSON writes the name, or null.
func (p Planned) MarshalJSON() ([]byte, error) {
	if p.Tool == "" {
		return []byte("null"), nil
	}
	return json.Marshal(p.Tool)
}

// UnmarshalJSON reads null or a name; "NULL" and "" are null.
func (p *Planned) UnmarshalJSON(text []byte) error {
	*p = Planned{Known: true}
	if err := json.Unmarshal(text, &p.Tool); err != nil {
		return fmt.Errorf("planned_tool is a text or null, not %s", short(text))
	}
	if p.Tool == nullText {
		p.Tool = ""
	}
	return nil
}

// ID names an operation. In a file it is a text or a whole number; 7 and "7" are the same operation.
type ID string

// MarshalJSON writes a number where the id is one.
func (id ID) MarshalJSON() ([]byte, error) {
	if isNumber(string(id)) {
		return []byte(id), nil
	}
	return json.Marshal(string(id))
}

// UnmarshalJSON reads a text or a whole number.
func (id *ID) UnmarshalJSON(text []byte) error {
	if isNumber(string(text)) {
		*id = ID(text)
		return nil
	}
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return fmt.Errorf("the name of an operation is a text or a whole number, not %s", short(text))
	}
	*id = ID(name)
	return nil
}

func isNumber(text string) bool {
	return text != "" && len(text) <= 19 && (text == "0" || text[0] != '0') && strings.Trim(text, "0123456789") == ""
}

// PerCell is a field that says something of each cell of read_set.
type PerCell[T any] map[string]T

// short is the beginning of a text for an error.
func short(text []byte) string {
	const most = 40
	if !utf8.Valid(text) {
		return fmt.Sprintf("%.*q…", most, text)
	}
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
