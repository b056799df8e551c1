package gate

import (
	"context"
	"encoding/json"
)

type progressKey struct{}

// WithProgress lets f hear what the sink of a call says of its progress, as the sink writes it. It is for whoever
// waits: nothing of it is kept, and no call depends on it.
func WithProgress(ctx context.Context, f func(json.RawMessage)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// ProgressOf is who hears of a call's progress; nil: nobody does.
func ProgressOf(ctx context.Context) func(json.RawMessage) {
	f, _ := ctx.Value(progressKey{}).(func(json.RawMessage))
	return f
}
