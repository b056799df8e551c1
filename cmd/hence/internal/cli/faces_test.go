package cli

import (
	"strings"
	"testing"
)

// The address of a model's API may have a path and a query, and no fragment.
func TestModelAddresses(t *testing.T) {
	for at, says := range map[string]string{
		"https://h/openai?api-version=1":   "",
		"https://h/openai?api-version=1#x": "leave out what begins with #",
		"https://h#x":                      "leave out what begins with #",
		"ftp://h":                          "no http or https URL",
	} {
		got, err := (&llmFace{LLM: []string{"openai=" + at}}).providers()
		switch {
		case says == "" && (err != nil || got.APIs["openai"].String() != at):
			t.Errorf("%s: %v, %v", at, got.APIs["openai"], err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v", at, err)
		}
	}
}
