package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// A token lets one name alone commit to a shard for a while. It is a shard of its own, below tokenRoot: each keyed
// commit reads the token of what it writes, so the log refuses one that a token has overtaken. It lapses in the log's
// time, and binds keyed commits only.

const tokenRoot = "\x00token" // no key of a keyed face is a segment like it

// token is what the shard of a token holds.
type token struct {
	Shard   string         `json:"shard"`
	Owner   string         `json:"owner"` // empty: it was given back
	Until   sequencer.Tick `json:"until"` // of the log's time; from then on it is lapsed
	Expires time.Time      `json:"expires"`
}

// tokenScope is where the token of a shard is kept.
func tokenScope(of sequencer.Scope) sequencer.Scope {
	name := strings.TrimPrefix(string(of), "shard:/")
	scope, err := sequencer.ParseScope("shard:/" + url.PathEscape(tokenRoot) + "/" + name)
	if err != nil { // too long with the root before it
		sum := sha256.Sum256([]byte(of))
		scope = sequencer.Scope("shard:/" + url.PathEscape(tokenRoot) + "/" + hex.EncodeToString(sum[:]))
	}
	return scope
}

// tokenOf is the token of a shard as the view shows it, and the revision that says so; without an owner: it is free,
// or lapsed.
func (s *Agent) tokenOf(of sequencer.Scope) (out token, rev view.Revision) {
	rev, _ = s.view.Read(tokenScope(of))
	if rev.Version == 0 || json.Unmarshal(rev.Content, &out) != nil || out.Until <= s.view.Settings().Time {
		out.Owner = ""
	}
	return out, rev
}

// tokenNow is tokenOf by the log's time where that may be over: the view knows the time of its last decision only.
func (s *Agent) tokenNow(ctx context.Context, of sequencer.Scope) (token, view.Revision, error) {
	now, rev := s.tokenOf(of)
	if now.Owner == "" || s.clock.Now().Before(now.Expires) {
		return now, rev, nil
	}
	if err := s.learnTime(ctx); err != nil {
		return token{}, view.Revision{}, err
	}
	now, rev = s.tokenOf(of)
	return now, rev, nil
}

// learnTime asks the log for a decision, which says what time it is there.
func (s *Agent) learnTime(ctx context.Context) error {
	short, cancel := s.clock.Within(ctx, s.limits.SessionWait)
	defer cancel()
	_, err := s.ask(short, s.probe(), func() bool { return false })
	if err != nil {
		return api.Problemf(api.CodeNotReady, "the log's time is not known: %v", err)
	}
	return nil
}

// TakeToken gives a name the token of a shard, or prolongs it, for so long.
func (s *Agent) TakeToken(ctx context.Context, text, owner string, ttl time.Duration) (expires time.Time, err error) {
	return flow(s, func() (time.Time, error) {
		if err := s.await(ctx); err != nil {
			return time.Time{}, err
		}
		if err := s.learnTime(ctx); err != nil { // the token's time runs from now on, not from the last decision
			return time.Time{}, err
		}
		now := s.clock.Now()
		until := s.view.Settings().Time + max(1, sequencer.Tick((ttl+view.TickLength-1)/view.TickLength))
		expires := now.Add(ttl).UTC()
		return expires, s.setToken(ctx, text, owner, token{Owner: owner, Until: until, Expires: expires})
	})
}

// DropToken gives the token of a shard back. One that is free stays so.
func (s *Agent) DropToken(ctx context.Context, text, owner string) error {
	_, err := flow(s, func() (any, error) { return nil, s.setToken(ctx, text, owner, token{}) })
	return err
}

// setToken makes a token of a shard what it is from now on, unless another name holds it.
func (s *Agent) setToken(ctx context.Context, text, by string, next token) error {
	scope, err := s.shardNamed(ctx, text)
	if err != nil {
		return err
	}
	next.Shard = string(scope)
	for try := 1; ; try++ {
		if err := s.await(ctx); err != nil {
			return err
		}
		if of, _ := s.view.Read(scope); of.Version == 0 {
			return &api.KeyedRefusal{Why: api.KeyedMissing, Scope: string(scope)}
		}
		now, rev, err := s.tokenNow(ctx, scope)
		switch {
		case err != nil:
			return err
		case now.Owner != "" && now.Owner != by:
			return heldBy(scope, &now)
		case now.Owner == next.Owner && next.Owner == "":
			return nil
		}
		content, err := json.Marshal(&next)
		if err != nil {
			return err
		}
		t, err := s.startBare(ctx)
		if err != nil {
			return err
		}
		d, err := s.writeAlone(ctx, t, writing{scope: tokenScope(scope), media: mediaJSON, content: content,
			expect: []sequencer.Seq{rev.Version}})
		if again, err := s.oncemore(ctx, d, err, try, scope); !again {
			return err
		}
	}
}

func heldBy(scope sequencer.Scope, now *token) error {
	return &api.KeyedRefusal{Why: api.KeyedHeld, Scope: string(scope), By: now.Owner, Until: now.Expires}
}

// oncemore reports whether a keyed write of one shard is to be tried again, where it was refused for what others did
// meanwhile, or how it ended.
func (s *Agent) oncemore(ctx context.Context, d *api.Decision, failed error, try int,
	scope sequencer.Scope) (again bool, err error) {
	switch {
	case failed == nil && d.State == api.StateCommitted:
		return false, nil
	case failed == nil && d.State != api.StateAborted:
		return false, notInTime(scope)
	case failed == nil:
		again, err = keyedRefusal(d)
	default:
		again, err = hasMoved(failed), failed
	}
	if !again || try == keyedTries || ctx.Err() != nil {
		return false, err
	}
	return true, nil
}
