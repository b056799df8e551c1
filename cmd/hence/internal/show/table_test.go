package show

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A table is whole where nothing bounds it, and as wide as the terminal where one does.
func TestTable(t *testing.T) {
	tab := Table{Head: []string{"TX", "STATE", "WHY"}}
	long := strings.Repeat("ä", 100)
	tab.Add("agent-1.1.1", "aborted", long)
	tab.Add("agent-1.1.2", "line\nbreak\x1b[2J", "-")
	var whole, cut strings.Builder
	if err := tab.WriteIn(&whole, 0); err != nil || !strings.Contains(whole.String(), long+"\n") {
		t.Errorf("%v: %s", err, whole.String())
	}
	if strings.Count(whole.String(), "\n") != 3 || strings.ContainsRune(whole.String(), 0x1b) {
		t.Errorf("texts act on the terminal: %q", whole.String())
	}
	if err := tab.WriteIn(&cut, 60); err != nil || !strings.Contains(cut.String(), "ä…\n") {
		t.Errorf("%v: %s", err, cut.String())
	}
	for line := range strings.Lines(cut.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
	for _, row := range []string{"agent-1.1.1", "aborted", "STATE"} {
		if !strings.Contains(cut.String(), row) {
			t.Errorf("%s was cut, which is short:\n%s", row, cut.String())
		}
	}
}
