package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
)

// TestAdaptersTakeWhatPoliciesDeclare: the two check declarations each for itself; here they meet.
func TestAdaptersTakeWhatPoliciesDeclare(t *testing.T) {
	for _, file := range []string{"../../docs/examples/policy.yaml", "testdata/taken/all-adapters.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(data), "root: /tmp/hence-retail", "root: data", 1)
		kinds := map[string]int{}
		build := func(d gate.Decl) (gate.Adapter, error) {
			kinds[d.Kind]++
			return adapters.Build(d)
		}
		p, err := policy.Load([]byte(text), policy.Options{File: file, Dir: dir, Build: build})
		if err != nil {
			t.Errorf("%s", err)
			continue
		}
		_, tools := p.Catalogue()
		for _, tool := range tools {
			if _, err := p.Adapter(tool.Name); err != nil && tool.Name != "branch.push" { // which has none
				t.Error(err)
			}
		}
		if len(kinds) < 4 {
			t.Errorf("%s: only %v were built", file, kinds)
		}
	}
}
