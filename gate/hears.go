package gate

import (
	"context"
	"encoding/json"
)

type progressKey struct{}

// WithProgress gives f what the sink of a call says of its progress, as the sink writes it. It is for a caller that
// waits: nothing of it is kept, and no call depends on it.
func WithProgress(ctx context.Context, f func(json.RawMessage)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// ProgressOf is what takes a call's progress; nil: nothing does.
func ProgressOf(ctx context.Context) func(json.RawMessage) {
	f, _ := ctx.Value(progressKey{}).(func(json.RawMessage))
	return f
}
