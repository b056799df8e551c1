package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

const maxAgentBytes = 63

// ValidAgent says what is wrong with an agent's name. It stands in ids of transactions and in the journal's file name.
func ValidAgent(name string) error {
	if name == "" || len(name) > maxAgentBytes {
		return fmt.Errorf("agent name %q: give 1 to %d of a-z, 0-9, '_', '-'", name, maxAgentBytes)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return fmt.Errorf("agent name %q has %q: use a-z, 0-9, '_', '-'", name, c)
		}
	}
	return nil
}

// modeOf reads an order mode; empty is the default.
func modeOf(text string, def sequencer.Mode) (sequencer.Mode, error) {
	for _, m := range []sequencer.Mode{sequencer.Optimistic, sequencer.Ordered, sequencer.Locked} {
		if text == m.String() {
			return m, nil
		}
	}
	if text == "" {
		return def, nil
	}
	return 0, fmt.Errorf("mode %q: use optimistic, ordered or locked", text)
}

// levelsOf reads L0 to L4 or a list of anomalies; empty is nil, the workspace's own.
func levelsOf(text string) (*sequencer.Levels, error) {
	var out sequencer.Levels
	switch text {
	case "":
		return nil, nil
	case "L0":
		out = sequencer.L0
	case "L1":
		out = sequencer.L1
	case "L2":
		out = sequencer.L2
	case "L3":
		out = sequencer.L3
	case "L4":
		out = sequencer.L4
	default:
		for name := range strings.SplitSeq(text, ",") {
			one, ok := anomaly(name)
			if !ok {
				return nil, fmt.Errorf("levels %q: use L0, L1, L2, L3, L4, or a list of A1, A2, A3, A6 with commas", text)
			}
			out |= one
		}
	}
	return &out, nil
}

func anomaly(name string) (sequencer.Levels, bool) {
	switch name {
	case "A1":
		return sequencer.A1, true
	case "A2":
		return sequencer.A2, true
	case "A3":
		return sequencer.A3, true
	case "A6":
		return sequencer.A6, true
	}
	return 0, false
}

// shardScope reads a scope that names shards, in the bytes that it has.
func shardScope(text string) (sequencer.Scope, error) {
	scope, err := sequencer.ParseScope(text)
	if err != nil {
		return "", badScope(text, err)
	}
	if !scope.IsShard() {
		return "", api.Problemf(api.CodeBadScope, "scope %.80q is not a shard, and only shards (shard:/a/b) are kept "+
			"here: to act on anything else by yourself, touch it", text)
	}
	return scope, nil
}

// shardsUnder is shardScope for the queries of routes that are about shards alone: a path means a shard there, as it
// does in the route itself.
func shardsUnder(text string) (sequencer.Scope, error) {
	if !strings.Contains(text, ":") {
		text = "shard:/" + strings.TrimPrefix(text, "/")
	}
	return shardScope(text)
}

// shardNamed is the shard that a text names; see View.Named. A view that is not ready does not know what is stored.
func (s *Agent) shardNamed(ctx context.Context, text string) (sequencer.Scope, error) {
	exact, err := oneShard(text)
	if err != nil {
		return "", err
	}
	return s.named(ctx, exact)
}

// shardsNamed is the shard that a text names, or the pattern of shards.
func (s *Agent) shardsNamed(ctx context.Context, text string) (scope sequencer.Scope, pattern bool, err error) {
	if scope, err = shardScope(text); err != nil {
		return "", false, err
	}
	// A final ** is not part of a scope's form: shard:/a/** is shard:/a and all below, where shard:/a alone is one shard.
	if pattern = scope.HasStar() || strings.HasSuffix(text, "**") || len(scope.Segments()) == 0; pattern {
		scope, err = topology.NormalScope(scope)
	} else {
		scope, err = s.named(ctx, scope)
	}
	return scope, pattern, err
}

// named is the shard that a scope means.
func (s *Agent) named(ctx context.Context, exact sequencer.Scope) (sequencer.Scope, error) {
	if topology.IsNormal(exact) {
		return exact, nil
	}
	if err := s.await(ctx); err != nil {
		return "", err
	}
	scope, err := s.view.Named(exact)
	if err != nil {
		return "", api.Problemf(api.CodeBadScope, "%v", err)
	}
	return scope, nil
}

// oneShard reads a scope that names exactly one shard, in the bytes that it has.
func oneShard(text string) (sequencer.Scope, error) {
	scope, err := shardScope(text)
	if err != nil {
		return "", err
	}
	if scope.HasStar() || len(scope.Segments()) == 0 {
		return "", api.Problemf(api.CodeBadScope, "scope %.80q names more than one shard: write it out without wildcards",
			text)
	}
	return scope, nil
}
