package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The list of approvers is taken when each has a name and a token of its own, and nothing else.
func TestApprovers(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ text, wrong string }{
		{"- name: ann\n  token: 0123456789abcdef\n- name: bob\n  token: fedcba9876543210\n", ""},
		{"- name: ann\n  token: short\n", "short"},
		{"- token: 0123456789abcdef\n", "no name"},
		{"- name: ann\n  token: 0123456789abcdef\n- name: ann\n  token: fedcba9876543210\n", "twice"},
		{"- name: ann\n  key: 0123456789abcdef\n", "no key"},
		{"name: ann\n", "a list"},
		{"", "a list"},
	} {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		who := approving{Approvers: path}
		err := who.load()
		all := who.people
		switch {
		case c.wrong == "" && (err != nil || len(all) != 2 || all["ann"] != "0123456789abcdef"):
			t.Errorf("%q: %v %v", c.text, all, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: %v, want %q in it", c.text, err, c.wrong)
		}
	}
	if none := (approving{}); none.load() != nil || len(none.people) > 0 {
		t.Errorf("no list: %v", none.people)
	}
}
