package cli

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// wrongFor are values that a flag of a kind must refuse: not of its type, or, where the flag has a rule, beyond it.
func wrongFor(flag *kong.Flag, ruled bool) []string {
	of := flag.Target.Type()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch kind := of.Kind(); {
	case flag.Enum != "":
		return []string{"nonsense"}
	case kind == reflect.Bool:
		return nil // a flag that is there is true
	case of.String() == "time.Duration":
		return []string{"soon", "-1s", "9000h"}
	case kind >= reflect.Int && kind <= reflect.Float64:
		if wrong := []string{"many", "-1"}; !ruled || flag.Name == "limit" {
			return wrong
		}
		return []string{"many", "-1", "999999999"}
	case ruled:
		return []string{"not good"}
	}
	return nil
}

// TestEveryFlagRefuses walks all commands: each flag that is a number, a duration, a choice, or has a rule refuses
// what it cannot use with exit code 2, and its name.
func TestEveryFlagRefuses(t *testing.T) {
	seen := 0
	parser := newParser(&grammar{}, Streams{}) // one for all values: to build it takes longer than to parse
	for _, leaf := range parser.Model.Leaves(true) {
		whole := true // the first value of each command goes the whole way
		for _, group := range leaf.AllFlags(true) {
			for _, flag := range group {
				for _, wrong := range wrongFor(flag, ruleOf(leaf.Name, flag.Name) != nil) {
					args := strings.Fields(commandPath(leaf))
					args = append(args, fmt.Sprintf("--%s=%s", flag.Name, wrong))
					for _, other := range leaf.Flags {
						if other.Required && other != flag {
							args = append(args, fmt.Sprintf("--%s=x", other.Name))
						}
					}
					for _, arg := range leaf.Positional {
						if arg.Required {
							args = append(args, "1")
						}
					}
					seen++
					line, err := parse(parser, args)
					if err == nil {
						err = checkValues(line)
					}
					if err == nil || !strings.Contains(err.Error(), "--"+flag.Name) {
						t.Errorf("hence %s: %v", strings.Join(args, " "), err)
					}
					if !whole {
						continue
					}
					whole = false
					code, out, errs := hence(t, args...)
					if code != ExitUsage || out != "" || !strings.Contains(errs, "--"+flag.Name) {
						t.Errorf("hence %s: exit code %d, %q, %q", strings.Join(args, " "), code, out, errs)
					}
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d values were tried", seen)
	}
}

// A number or a duration without a rule is one that has no bound, and is listed here.
func TestEveryNumberHasARule(t *testing.T) {
	boundless := " after seed version if-version logic horizon-seqs horizon-commits horizon-ticks cap-seqs " +
		"lease-ticks deadline-ticks bound-ticks verdict-ticks approval-ticks max-open max-scopes max-bytes max-inline " +
		"max-content max-inline-total max-kept max-sidecars "
	for _, leaf := range newParser(&grammar{}, Streams{}).Model.Leaves(true) {
		for _, group := range leaf.AllFlags(true) {
			for _, flag := range group {
				of := flag.Target.Type()
				if of.Kind() == reflect.Pointer {
					of = of.Elem()
				}
				number := of.Kind() >= reflect.Int && of.Kind() <= reflect.Float64
				if number && ruleOf(leaf.Name, flag.Name) == nil && !strings.Contains(boundless, " "+flag.Name+" ") {
					t.Errorf("hence %s: --%s has no rule in ruleOf", commandPath(leaf), flag.Name)
				}
			}
		}
	}
}
