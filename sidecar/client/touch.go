package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

// The shapes of touches and settlements.
type (
	// Want is one scope that a transaction asks for.
	Want = api.Want
	// Touched is how a touch stands.
	Touched = api.Touched
	// SettledEffect is what is left of one act of the agent.
	SettledEffect = api.SettledEffect
	// Pin is a tool as the agent's plan knew it.
	Pin = api.Pin
)

// TouchOptions say how long a touch may take; the zero value waits as long as the sidecar lets it.
type TouchOptions struct {
	Wait  *time.Duration // for the grant; nil: the sidecar's bound
	Bound time.Duration  // how long the log lets it wait; zero: the workspace's default
}

// Touch asks for scopes that the agent is about to act on by itself. Act only when the answer's State is granted.
func (t *Tx) Touch(ctx context.Context, wants []Want, o TouchOptions) (Touched, error) {
	in := api.Touch{Wants: wants, BoundMs: int(o.Bound.Milliseconds())}
	if o.Wait != nil {
		ms := int(o.Wait.Milliseconds())
		in.WaitMs = &ms
	}
	var out Touched
	err := t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/touches"), nil, in, &out)
	return out, err
}

// Announce tells of a read of a scope that Hence does not keep, before the agent makes it. The answer is the seq as of
// which the footprint has the read. A scope of a type that nothing is known to write is refused with unknown_type.
func (t *Tx) Announce(ctx context.Context, scope string) (view uint64, err error) {
	return t.announce(ctx, api.Read{Scope: scope})
}

// AnnounceUnknown is Announce for a scope whose type is to be written later, by another program: any type is taken. A
// sidecar of a release before unknown_type refuses the field that says so, and takes any type of Announce.
func (t *Tx) AnnounceUnknown(ctx context.Context, scope string) (view uint64, err error) {
	return t.announce(ctx, api.Read{Scope: scope, Announce: true})
}

func (t *Tx) announce(ctx context.Context, read api.Read) (view uint64, err error) {
	var out api.Announced
	err = t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/reads"), nil, read, &out)
	return out.View, err
}

// Settle says what became of what the agent did by itself in an aborted transaction; noneElse: nothing else was done.
// Without an error it is noted for good; it is in the log once the answer, or a later Status, is Final.
func (t *Tx) Settle(ctx context.Context, effects []SettledEffect, noneElse bool) (Decision, error) {
	var d Decision
	in := api.Settlement{Effects: effects, NoneElse: noneElse}
	query := url.Values{"wait_ms": {strconv.FormatInt(longestWait.Milliseconds(), 10)}}
	err := t.client.json(ctx, http.MethodPost, txPath(t.ID(), "/settlement"), query, in, &d)
	return d, err
}

// SealPinned seals a transaction whose plan relies on tools as they were: one that was changed or withdrawn refuses
// it.
func (t *Tx) SealPinned(ctx context.Context, pins []Pin) (Decision, error) {
	return t.sealWith(ctx, api.Seal{Pins: pins})
}

// SealUnknown asks for a seal although the outcome of something done under a touch is not known; it is refused.
func (t *Tx) SealUnknown(ctx context.Context) (Decision, error) {
	known := false
	return t.sealWith(ctx, api.Seal{TouchesKnown: &known})
}
