package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
)

// maxToldCalls bounds how many calls a paragraph names one by one.
const maxToldCalls = 5

// Calls says how a transaction's tool calls stand: how many of each state, and of those that did not do what was asked
// for which they are and why. Empty: it has none.
func Calls(list []api.Receipt) string {
	if len(list) == 0 {
		return ""
	}
	var states []string
	count := map[string]int{}
	var b strings.Builder
	told, more := 0, 0
	for _, r := range list {
		if count[r.State]++; count[r.State] == 1 {
			states = append(states, r.State)
		}
		switch r.State {
		case api.EffectNotSent, api.EffectUnknown, api.EffectFailed, api.EffectUndoLost:
		default:
			continue
		}
		if told++; told > maxToldCalls {
			more++
			continue
		}
		fmt.Fprintf(&b, " Call %d, %s, %s", *r.Index, r.Tool, was(r.State))
		if why := strings.TrimPrefix(r.Detail, "it did not leave: "); why != "" {
			fmt.Fprintf(&b, ": %s", strings.TrimSuffix(why, "."))
		}
		b.WriteString(".")
	}
	if more > 0 {
		fmt.Fprintf(&b, " %d more calls are like that.", more)
	}
	slices.Sort(states)
	for i, s := range states {
		states[i] = fmt.Sprintf("%d %s", count[s], Call(s))
	}
	return " Its calls: " + strings.Join(states, ", ") + "." + b.String()
}

// Call is the state of a tool call as people read it.
func Call(state string) string {
	if state == api.EffectUndoLost {
		return "not undone"
	}
	return strings.ReplaceAll(state, "_", " ")
}

func was(state string) string {
	switch state {
	case api.EffectUnknown:
		return "may have happened"
	case api.EffectFailed:
		return "was refused by its tool and did nothing"
	}
	return "was " + Call(state)
}
