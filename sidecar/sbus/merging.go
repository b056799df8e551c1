package sbus

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/hence-dev/hence/sidecar/api"
)

const (
	mergeTries = 8 // how often a commit is merged with what came before it again
	askTries   = 3 // how often the hook is asked of one commit
	asksAtOnce = 8 // so that slow answers do not take all turns of commits
)

// merging is a refused commit that only adds.
type merging struct {
	in     *api.KeyedCommit
	base   []byte // what it adds to
	resets uint64 // that were seen before it
	asked  int    // how often the hook was
}

// mergeIn commits what a commit adds to the content that it expects on top of the one that is there, as an ordinary
// commit that expects that one. What does not merge stays refused. A further merge is made only where the log has
// refused the one before for the version: of one that may still commit there is no second one.
func (f *Face) mergeIn(ctx context.Context, m *merging, out *api.KeyedDone, refused error) (*api.KeyedDone, bool,
	error) {
	if !f.config.Merge && f.config.Ask == nil {
		return out, false, refused
	}
	for range mergeTries {
		theirs, answered, err := f.config.Shards.Give(ctx, "", m.in.Scope)
		if err != nil {
			return out, false, refused
		}
		answered()
		if theirs.Seq == 0 || theirs.Version <= m.in.Version {
			return out, false, refused // nothing has come after its base
		}
		if theirs.Parts != nil { // as of the base: it is not taken into memory for this
			return out, false, refused
		}
		both, ok := f.combine(ctx, m, theirs.Body)
		if !ok || f.config.Resets.Resets() != m.resets { // a reset came between: its base is gone
			return out, false, refused
		}
		next := *m.in
		next.Version, next.Content = theirs.Version, []byte(both)
		out, err = f.config.Shards.CommitKeyed(ctx, &next)
		if err == nil || nameOf(err) != "VersionMismatch" {
			return out, err == nil, err
		}
	}
	return out, false, refused
}

// combine is what a commit adds together with what is there: by regions, and else as the hook says.
func (f *Face) combine(ctx context.Context, m *merging, theirs []byte) (both string, ok bool) {
	if f.config.Merge {
		if both, ok = merge(string(m.base), string(m.in.Content), string(theirs)); ok {
			return both, true
		}
	}
	if f.config.Ask == nil || m.asked == askTries {
		return "", false
	}
	m.asked++
	return f.ask(ctx, m, theirs)
}

// ask asks the hook. All but a plain content is a refusal: the commit stays refused as without a hook.
func (f *Face) ask(ctx context.Context, m *merging, theirs []byte) (both string, ok bool) {
	if !utf8.Valid(m.base) || !utf8.Valid(theirs) { // /v1 wrote it, and JSON would change it
		return "", false
	}
	select {
	case f.asking <- struct{}{}:
		defer func() { <-f.asking }()
	default: // a client that is refused asks again, and one that waits here keeps a turn from others
		return "", false
	}
	key, _ := keyOf(m.in.Scope)
	body, err := json.Marshal(struct {
		Key    string `json:"key"`
		Base   string `json:"base"`
		Theirs string `json:"theirs"`
		Ours   string `json:"ours"`
	}{key, string(m.base), string(theirs), string(m.in.Content)})
	if err != nil {
		return "", false
	}
	answer, err := f.config.Ask(ctx, body, maxBody)
	if err != nil {
		f.config.Log.Warn("the merge hook failed: the commit is refused as without it", "key", key, "cause", err)
		return "", false
	}
	var said struct {
		Content *string `json:"content"`
	}
	if api.CheckText(answer) != nil || json.Unmarshal(answer, &said) != nil || said.Content == nil {
		return "", false // of what is no text another content would be committed
	}
	return *said.Content, true
}
