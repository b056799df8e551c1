package gate

import (
	"context"
	"fmt"
	"time"
)

// Wait returns once the settlement of a transaction may begin: when each call that a former owner may still have on
// its way has had its tool's maximum time since then, the moment at which the settlement became ours. The owner
// alive has none but its own; a successor knows which ones are open; a stranger must reckon with all. It notes in
// the effects that they have waited. Finish, Release and Undo wait by themselves for what has not.
func (g *Engine) Wait(ctx context.Context, effects []Progress, claim Claim, since time.Time) error {
	var longest time.Duration
	for i := range effects {
		if p := &effects[i]; !p.Waited && MayFly(p, claim) {
			longest = max(longest, g.longest(p))
		}
	}
	if d := longest - g.clock.Now().Sub(since); d > 0 {
		// Lock and journal say what began, and not what has landed: a former owner's call is over only after its time
		// (holes 8b, 8c).
		if err := g.clock.Sleep(ctx, d); err != nil {
			return fmt.Errorf("waiting for the calls of a former owner: %w", err)
		}
	}
	if claim != ClaimOwn {
		for i := range effects {
			// Noted, so that a settlement that is called again does not wait a second time.
			effects[i].Waited = true
		}
	}
	return nil
}

// longest is the maximum time of the effect's call, or of its compensation.
func (g *Engine) longest(p *Progress) time.Duration {
	longest := p.Tool.maxTime()
	if !p.Tool.Undo {
		return longest
	}
	var a Answer
	if p.Answer != nil {
		a = *p.Answer
	}
	if u, err := g.undoCall(p, a); err == nil {
		longest = max(longest, u.tool.maxTime())
	}
	return longest
}
