package anomaly

import (
	"strings"
	"testing"
)

// Of a hash a sentence has the beginning; other values stand whole.
func TestBrief(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	for value, want := range map[string]string{
		`"` + hash + `"`:      "0123456789ab…",
		hash:                  "0123456789ab…",
		`"` + hash[1:] + `"`:  `"` + hash[1:] + `"`,
		`"` + hash[1:] + `Z"`: `"` + hash[1:] + `Z"`,
		`"12:ann.1.1"`:        `"12:ann.1.1"`,
		"null":                "null",
		"":                    "",
	} {
		if is := brief(value); is != want {
			t.Errorf("%s is shown as %s, want %s", value, is, want)
		}
	}
}
