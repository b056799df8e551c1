package adapters

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDocsNameRefusals: the manual names the statuses that prove that nothing happened, and no others.
func TestDocsNameRefusals(t *testing.T) {
	data, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `http` \\| ([0-9, ]+) \\|").FindSubmatch(data)
	if row == nil {
		t.Fatal("docs/policy.md has no row of http under \"What proves that nothing happened\"")
	}
	var named, proves []int
	for text := range strings.SplitSeq(string(row[1]), ", ") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, n)
	}
	for status := 100; status < 1000; status++ {
		if provesNothing(status) {
			proves = append(proves, status)
		}
	}
	if !slices.Equal(named, proves) {
		t.Errorf("docs/policy.md names %v, the code takes %v", named, proves)
	}
}
