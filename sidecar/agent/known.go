package agent

import (
	"errors"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// typeShard is the type of what Hence itself keeps.
const typeShard = "shard"

// typed is a policy that knows of which types the scopes of its tools are.
type typed interface {
	ScopeTypes() []string
}

// typesInUse lists the types of scopes that the policy names, or that something in the workspace was done to.
func (s *Agent) typesInUse() []string {
	out := []string{typeShard}
	if p, ok := s.tools.(typed); ok {
		out = append(out, p.ScopeTypes()...)
	}
	out = append(out, s.view.TypesSeen()...)
	slices.Sort(out)
	return slices.Compact(out)
}

// maxTypesSaid bounds what a refusal lists.
const maxTypesSaid = 20

// knownType refuses to take the announcement of a read for one of a type that nothing writes: a misspelt scope looks
// like that, and nothing would ever make such a read stale.
func (s *Agent) knownType(scope sequencer.Scope, in *api.Read) error {
	if in.Announce {
		return nil
	}
	known := s.typesInUse()
	if slices.Contains(known, scope.Type()) {
		return nil
	}
	meant := ""
	if near := spelling.Near(scope.Type(), known, 1); len(near) > 0 {
		_, path, _ := strings.Cut(string(scope), ":")
		meant = "Perhaps " + near[0] + ":" + path + " is meant. "
	}
	said := strings.Join(known[:min(len(known), maxTypesSaid)], ", ")
	if len(known) > maxTypesSaid {
		said += ", …"
	}
	p := api.Problemf(api.CodeUnknownType, "nothing here writes scopes of the type %s, so the read of %s would never be stale; "+
		"types in use are: %s. %sIf another program is to write it, send \"announce\": true with the read", scope.Type(),
		scope, said, meant)
	p.Scope = string(scope)
	return p
}

// badScope is the problem of a scope in a body that is not one. A path alone is not taken for a shard's: it may as
// well be a resource of a type that was left out.
func badScope(text string, err error) error {
	path := strings.TrimLeft(text, "/")
	kind, rest, named := strings.Cut(path, ":")
	first, below, _ := strings.Cut(path, "/")
	var meant []string
	switch {
	case text == "":
		return api.Problemf(api.CodeBadScope, "the scope is missing: write it as type:/path, for example shard:/orders/17")
	case !errors.Is(err, sequencer.ErrScopeForm):
	case named:
		meant = append(meant, kind+":/"+rest)
	case first == typeShard:
		meant = append(meant, "shard:/"+below)
	default:
		meant = append(meant, "shard:/"+path, first+":/"+below)
	}
	for i, m := range meant {
		scope, wrong := sequencer.ParseScope(m)
		if wrong != nil {
			meant = meant[:i]
			break
		}
		meant[i] = string(scope)
	}
	switch len(meant) {
	case 0:
		return api.Problemf(api.CodeBadScope, "%v", err)
	case 1:
		return api.Problemf(api.CodeBadScope, "scope %.80q is not type:/path: write %s", text, meant[0])
	}
	return api.Problemf(api.CodeBadScope, "scope %.80q has no type: write %s for the shard, or %s if %s is a type", text, meant[0],
		meant[1], first)
}
