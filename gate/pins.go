package gate

import (
	"errors"
	"fmt"
)

// CodeChangedTool is the code of residue whose tool is declared differently from how its transaction was sealed.
const CodeChangedTool = "changed_tool"

// ErrChangedTool is returned by Unchanged when today's declaration of a tool is not the one that an effect relies on.
var ErrChangedTool = errors.New("the tool's declaration has changed since the call was issued")

// ErrNotServed is returned by Tools.Find for a name that no declaration serves.
var ErrNotServed = errors.New("no declaration serves this name")

// ErrNoPolicy is returned by the Tools of a process that has no policy for what it settles: nothing is called there.
var ErrNoPolicy = errors.New("no sidecar of the workspace has a policy with this tool")

// Unchanged returns ErrChangedTool, with both signatures, when the effect relies on a declaration that its tool no
// longer has: what was sealed is made as it was declared, or not at all. The signature of a declaration covers its
// compensation. An effect without a pin relies on none.
func Unchanged(tools Tools, e *Effect) error {
	if e.Tool.Pin == nil {
		return nil
	}
	sealed, now := e.Tool.Pin.Signature, "none"
	switch t, err := tools.Find(e.Tool.Name, e.Args); {
	case errors.Is(err, ErrNoPolicy): // that is what is said of the call, and not that its tool has changed
		return nil
	case errors.Is(err, ErrNotServed): // it was withdrawn
	case err != nil: // a declaration that has not changed takes the arguments that it took before
		now = "one that does not take this call: " + text(err)
	case t.Pin == nil:
	case t.Pin.Signature == sealed, t.Former != "" && t.Former == sealed:
		return nil
	default:
		now = t.Pin.Signature
	}
	// Sealed and judged as it was declared then: under another declaration it could have other scopes, another key or no
	// undo.
	return fmt.Errorf("%w: %.80q had signature %s, and now has %s", ErrChangedTool, e.Tool.Name, sealed, now)
}

// adapter is what makes a call of an effect, its own or its compensation's. It is the one place where the engine takes
// an adapter for an effect, so no call is made by a declaration that has changed.
func (g *Engine) adapter(e *Effect, tool string) (Adapter, error) {
	if err := Unchanged(g.tools, e); err != nil {
		// Not called by what it was not sealed for; a person decides.
		return nil, err
	}
	return g.tools.Adapter(tool)
}
