package retail

import (
	"encoding/json"
	"fmt"
	"slices"
)

// arguments reads a call's arguments one by one and remembers the first that is wrong; done reports it, or a name
// that nothing asked for.
type arguments struct {
	given map[string]json.RawMessage
	asked []string
	err   error
}

func parseArguments(raw json.RawMessage) *arguments {
	a := &arguments{}
	if len(raw) == 0 {
		return a
	}
	if err := json.Unmarshal(raw, &a.given); err != nil {
		a.err = refusal("arguments must be a JSON object")
	}
	return a
}

func (a *arguments) text(name string) string {
	var s string
	a.read(name, &s, "a string")
	return s
}

func (a *arguments) list(name string) []string {
	var l []string
	a.read(name, &l, "a list of strings")
	return l
}

func (a *arguments) address() Address {
	return Address{
		Address1: a.text("address1"), Address2: a.text("address2"), City: a.text("city"),
		Country: a.text("country"), State: a.text("state"), Zip: a.text("zip"),
	}
}

func (a *arguments) read(name string, into any, want string) {
	a.asked = append(a.asked, name)
	raw, ok := a.given[name]
	switch {
	case a.err != nil:
	case !ok || string(raw) == "null":
		a.err = refusal(fmt.Sprintf("argument %s is missing, give %s", name, want))
	case json.Unmarshal(raw, into) != nil:
		a.err = refusal(fmt.Sprintf("argument %s must be %s", name, want))
	}
}

func (a *arguments) done() error {
	if a.err != nil {
		return a.err
	}
	var extra []string
	for name := range a.given {
		if !slices.Contains(a.asked, name) {
			extra = append(extra, name)
		}
	}
	if len(extra) > 0 {
		return refusal("unknown argument " + slices.Min(extra))
	}
	return nil
}
