package settle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A residue of more scopes than the list takes, or of longer ones, names the first of them.
func TestShortenedResidue(t *testing.T) {
	for _, c := range []struct{ scopes, size, least int }{
		{3, 10, 3}, {topology.MaxEffectScopes, 10, topology.MaxEffectScopes}, {1500, 10, topology.MaxEffectScopes},
		{400, 3000, 50}, {1500, 4096, 32}, {1, 5000, 0},
	} {
		r := &topology.Residue{Workspace: "w", Tx: "a.1.1", Tool: OwnTool, State: topology.ResidueOpen,
			Class: sequencer.ClassReversible, Result: sequencer.ResultUnresolved, Detail: "look there"}
		for i := range c.scopes {
			r.Scopes = append(r.Scopes, sequencer.Scope(fmt.Sprintf("x:/%0*d", c.size-3, i)))
		}
		err := shorten(r)
		whole := len(r.Scopes) == c.scopes
		if err != nil || len(r.Scopes) < c.least || !strings.HasSuffix(r.Detail, "look there") ||
			whole == strings.HasPrefix(r.Detail, fmt.Sprint(c.scopes)) {
			t.Errorf("%d scopes of %d bytes: %d are named, %q, %v", c.scopes, c.size, len(r.Scopes), r.Detail, err)
		}
	}
	if err := shorten(&topology.Residue{Workspace: "w", Tx: "a.1.1"}); err == nil {
		t.Error("a residue without a state can be listed")
	}
}
