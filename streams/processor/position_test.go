package processor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What the log has, what the group has read and what its states are of, in every order.
func TestOffLog(t *testing.T) {
	begins := func(at, read int) string {
		return fmt.Sprintf("begins at offset %d and they have read it up to %d", at, read)
	}
	ends := func(at, read int) string {
		return fmt.Sprintf("ends at offset %d and they have read it up to %d", at, read)
	}
	for name, c := range map[string]struct {
		at   position
		says string // empty: the states can go on
	}{
		"nothing yet":                  {position{0, 0, -1, -1, false}, ""},
		"a log that was not read":      {position{0, 9, -1, -1, false}, ""},
		"behind the log":               {position{0, 9, 5, 4, false}, ""},
		"at its end":                   {position{0, 9, 9, 8, false}, ""},
		"states before their offsets":  {position{0, 9, 2, 8, false}, ""},
		"no offset yet":                {position{0, 9, -1, 4, false}, ""},
		"parked after the states":      {position{0, 9, 9, 4, false}, ""},
		"the head is gone, was read":   {position{5, 9, 5, 4, false}, ""},
		"all is gone, was read":        {position{9, 9, 9, 8, false}, ""},
		"the same, offset forgotten":   {position{9, 9, -1, 8, false}, ""},
		"all parked, the head is gone": {position{5, 9, 7, -1, false}, ""},

		"recreated":                   {position{0, 0, -1, 1000, false}, ends(0, 1001)},
		"the tail is gone":            {position{0, 9, 9, 9, false}, ends(9, 10)},
		"offsets past the end":        {position{0, 9, 10, 4, false}, ends(9, 10)},
		"away for too long":           {position{5000, 9000, 1000, 999, false}, begins(5000, 1000)},
		"the same, offset forgotten ": {position{5000, 9000, -1, 999, false}, begins(5000, 1000)},
		"new on a shortened log":      {position{5, 9, -1, -1, false}, begins(5, 0)},
		"the table alone is gone":     {position{0, 9, 9, -1, true}, "table is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.at.offLog("group", "table")
			if c.says == "" && err != nil || c.says != "" && !errors.Is(err, errOffLog) {
				t.Fatalf("it says %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}
