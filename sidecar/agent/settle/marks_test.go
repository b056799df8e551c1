package settle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// What an answer loses when it is too large: its result first, and what undoing it needs only when that is not enough.
func TestWithin(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("a", 400) + `"`)
	short := json.RawMessage(`1`)
	for name, c := range map[string]struct {
		result, saved         json.RawMessage
		keepResult, keepSaved bool
	}{
		"both fit":       {short, short, true, true},
		"a long result":  {long, short, false, true},
		"much is saved":  {short, long, true, false},
		"both are long":  {long, long, false, false},
		"cannot be JSON": {json.RawMessage(`{`), short, false, true},
	} {
		a := gate.Answer{Absent: true, Detail: "said", Result: c.result, Saved: c.saved}
		got := within(&a, 250)
		if (got.Result != nil) != c.keepResult || (got.Saved != nil) != c.keepSaved || !got.Absent {
			t.Errorf("%s: %+v", name, got)
		}
		if !strings.HasPrefix(got.Detail, "said") || strings.Contains(got.Detail, "its result") == c.keepResult ||
			strings.Contains(got.Detail, "undo it") == c.keepSaved {
			t.Errorf("%s: %q", name, got.Detail)
		}
	}
	if within(nil, 1) != nil {
		t.Error("an answer came from nowhere")
	}
}
