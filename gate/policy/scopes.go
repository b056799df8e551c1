package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// expandScope makes the scope of one template. A value cannot change the scope's shape: it stays one segment (or with
// the filters path and url the segments of its names), and one that would vanish or climb is refused. Names have one
// spelling (NFC), whatever the template and its values are written in.
func (p *Policy) expandScope(t template.Template, v template.Values) (sequencer.Scope, error) {
	kind, _, _ := strings.Cut(t.String(), ":")
	names := p.types[strings.ToLower(kind)]
	text, err := t.Expand(v, func(_ template.Placeholder, _, value string) (string, error) {
		if value == "" {
			return "", errors.New("an empty text names nothing")
		}
		return topology.EscapeSegment(names.canonical(topology.NormalName(value))), nil
	})
	if err != nil {
		return "", fmt.Errorf("%w: scope %q: %w", ErrArguments, t, err)
	}
	_, path, _ := strings.Cut(text, ":")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("%w: scope %q would hold the segment %q: no resource is named so",
				ErrArguments, t, segment)
		}
	}
	s, err := topology.ParseScope(text)
	if err != nil {
		return "", fmt.Errorf("%w: scope %q: %w", ErrArguments, t, err)
	}
	return s, nil
}

// expand returns the scopes of all templates, sorted and without repetition.
func (p *Policy) expand(templates []located, v template.Values) ([]sequencer.Scope, error) {
	if len(templates) == 0 {
		return nil, nil
	}
	out := make([]sequencer.Scope, 0, len(templates))
	for _, t := range templates {
		s, err := p.expandScope(t.Template, v)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// maxKeyBytes is the length of the longest idempotency key.
const maxKeyBytes = 255

// expandKey makes a business key. Values are escaped as in a scope, so that two calls whose values differ have keys
// that differ: {a}/{b} is not the same for ("x/y", "z") and ("x", "y/z").
func expandKey(t template.Template, v template.Values) (string, error) {
	key, err := t.Expand(v, func(_ template.Placeholder, _, value string) (string, error) {
		if value == "" {
			return "", errors.New("an empty text tells no two calls apart")
		}
		return topology.EscapeSegment(value), nil
	})
	if err != nil {
		return "", fmt.Errorf("%w: key %q: %w", ErrArguments, t, err)
	}
	if len(key) > maxKeyBytes {
		return "", fmt.Errorf("%w: key %q is longer than %d bytes: make it of shorter values", ErrArguments, t, maxKeyBytes)
	}
	return key, nil
}

// outside returns the first scope that lies within none of may; empty: all do, or may is empty.
func outside(scopes, may []sequencer.Scope) sequencer.Scope {
	if len(may) == 0 {
		return ""
	}
	for _, s := range scopes {
		if !slices.ContainsFunc(may, func(m sequencer.Scope) bool { return m.Covers(s) }) {
			return s
		}
	}
	return ""
}

// checkScope refuses a scope template that could never give a scope, whatever the values are. It returns what is wrong
// and the fix.
func checkScope(t template.Template) (what, fix string) {
	parts := t.Parts()
	if len(parts) == 0 || parts[0].Placeholder != nil || !strings.Contains(parts[0].Literal, ":/") {
		return fmt.Sprintf("scope %q does not start with its type", t),
			"write it as type:/path, with the type in plain letters, for example order:/{order_id}"
	}
	var text strings.Builder
	for i, part := range parts {
		if part.Placeholder == nil {
			text.WriteString(part.Literal)
			continue
		}
		if part.Placeholder.Optional {
			return fmt.Sprintf("scope %q rests on the optional %s", t, part.Placeholder), "a scope must always be known: " +
				"require the argument, or end the scope before it"
		}
		if f := part.Placeholder.Filter; (f == template.PathFilter || f == template.URLFilter) &&
			(!strings.HasSuffix(text.String(), "/") || i+1 < len(parts) && !strings.HasPrefix(parts[i+1].Literal, "/")) {
			return fmt.Sprintf("scope %q puts %s beside other text", t, part.Placeholder),
				"let slashes stand before and after it: it becomes several segments"
		}
		text.WriteString("x")
	}
	_, path, _ := strings.Cut(text.String(), ":")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Sprintf("scope %q holds the segment %q", t, segment), "write the full path"
		}
	}
	if _, err := sequencer.ParseScope(text.String()); err != nil {
		return fmt.Sprintf("scope %q is no scope", t), reason(err)
	}
	return "", ""
}

// reason returns the innermost part of a scope's error, which says what to write.
func reason(err error) string {
	for _, known := range []error{
		sequencer.ErrScopeForm, sequencer.ErrScopeType, sequencer.ErrScopeAbove, sequencer.ErrScopeEscape,
		sequencer.ErrScopeUTF8, sequencer.ErrScopeStar, sequencer.ErrScopeStars, sequencer.ErrScopeDeep,
		sequencer.ErrScopeLong,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}
