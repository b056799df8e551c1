package sbus

import (
	"encoding/json"
	"net/http"
	"time"
)

// Bounds of how long a token lasts, in seconds.
const (
	usualTokenSecs = 30
	mostTokenSecs  = 24 * 3600
)

// tokenOf reads what both routes of tokens name.
func tokenOf(c *call) (in fields, key, scope, owner string, err error) {
	if in, err = fieldsOf(c.w, c.r); err != nil {
		return
	}
	if key, scope, err = in.key("key"); err != nil {
		return
	}
	if owner, err = in.text("agent_id"); err == nil && owner == "" {
		err = wrongField("field `agent_id` is empty: a token has an owner")
	}
	return
}

// takeToken answers POST /token: commits of others to the shard are refused until it lapses or is given back.
func (f *Face) takeToken(c *call) error {
	in, key, scope, owner, err := tokenOf(c)
	if err != nil {
		return err
	}
	secs := float64(usualTokenSecs)
	if raw, there := in["ttl_secs"]; there && (isNull(raw) || json.Unmarshal(raw, &secs) != nil || secs <= 0 ||
		secs > mostTokenSecs) {
		return wrongField("field `ttl_secs` is no number of seconds above 0, at most %d", mostTokenSecs)
	}
	done, err := f.turn(c.r.Context())
	if err != nil {
		return err
	}
	defer done()
	expires, err := f.config.Tokens.TakeToken(c.r.Context(), scope, owner, time.Duration(secs*float64(time.Second)))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		ExpiresAt string `json:"expires_at"`
		Key       string `json:"key"`
		Owner     string `json:"owner"`
	}{timestamp(expires), key, owner})
}

// dropToken answers DELETE /token.
func (f *Face) dropToken(c *call) error {
	_, key, scope, owner, err := tokenOf(c)
	if err != nil {
		return err
	}
	done, err := f.turn(c.r.Context())
	if err != nil {
		return err
	}
	defer done()
	if err := f.config.Tokens.DropToken(c.r.Context(), scope, owner); err != nil {
		return err
	}
	return c.answer(http.StatusOK, map[string]any{"key": key, "owner": nil})
}
