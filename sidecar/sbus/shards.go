package sbus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/sidecar/api"
)

// shard is a shard on the wire; its members are in the order of their names.
type shard struct {
	AttemptCount  uint64  `json:"attempt_count"`
	ConflictCount uint64  `json:"conflict_count"`
	Content       string  `json:"content"`
	CreatedAt     string  `json:"created_at"`
	DeltaLogDepth int     `json:"delta_log_depth"`
	GoalTag       string  `json:"goal_tag"`
	ID            string  `json:"id"`
	Key           string  `json:"key"`
	Owner         *string `json:"owner"` // who has its token
	UpdatedAt     string  `json:"updated_at"`
	Version       uint64  `json:"version"`

	parts func(context.Context, func([]byte) error) error // of a large content, which Content is not then
}

func (f *Face) shardOf(key string, one *api.Counted) *shard {
	said := factsOf(one.MediaType, one.Scope)
	t := f.counts.of(one.Scope, f.config.Resets.Resets())
	out := &shard{AttemptCount: t.commits + t.conflicts, ConflictCount: t.conflicts, parts: partsOf(one),
		CreatedAt: timestamp(said.created), DeltaLogDepth: deltas(one), GoalTag: said.goal, ID: said.id, Key: key,
		UpdatedAt: timestamp(said.updated), Version: one.Version}
	if out.parts == nil {
		out.Content = string(one.Body)
	}
	if one.Owner != "" {
		out.Owner = &one.Owner
	}
	return out
}

// answerShard answers with one shard.
func (f *Face) answerShard(c *call, status int, key string, one *api.Counted) error {
	return f.answerShards(c, status, "", []*shard{f.shardOf(key, one)}, "\n")
}

// deltas counts the commits whose content is remembered here.
func deltas(one *api.Counted) int { return int(min(one.Version, uint64(one.Former)+1)) }

// create answers POST /shard.
func (f *Face) create(c *call) error {
	key, scope, content, goal, err := newShard(c)
	if err != nil {
		return err
	}
	one, err := f.makeShard(c, scope, content, goal)
	if err != nil {
		return err
	}
	return f.answerShard(c, http.StatusCreated, key, one)
}

func newShard(c *call) (key, scope, content, goal string, err error) {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return
	}
	if key, scope, err = in.key("key"); err != nil {
		return
	}
	if content, err = in.text("content"); err == nil {
		goal, err = in.maybe("goal_tag", false)
	}
	return
}

func (f *Face) makeShard(c *call, scope, content, goal string) (*api.Counted, error) {
	done, err := f.turn(c.r.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	now := f.now()
	said := facts{id: hashOf(content), goal: goal, created: now, updated: now}
	if len(said.String()) > maxFacts {
		return nil, wrongField("field `goal_tag` is too long: give about 500 characters at most")
	}
	return f.config.Shards.WriteKeyed(c.r.Context(), scope, []byte(content),
		func(string) string { return said.String() }, true)
}

// maxFacts bounds the media type of a shard, with its escapes.
const maxFacts = 2 << 10

// renewed is the media type of the next content of a shard.
func (f *Face) renewed(scope string) func(string) string {
	return func(now string) string {
		said := factsOf(now, scope)
		said.updated = f.now()
		return said.String()
	}
}

// reader is the name that a GET is recorded for; empty: none.
func reader(c *call) (string, error) {
	const failed = "Failed to deserialize query string: "
	query, err := api.Query(c.r.URL.RawQuery)
	if err != nil { // the read would be recorded for no name
		return "", &plain{http.StatusBadRequest, failed + err.Error()}
	}
	names := query["agent_id"]
	switch {
	case len(names) == 0:
		return "", nil
	case len(names) > 1:
		return "", &plain{http.StatusBadRequest, failed + "duplicate field `agent_id`"}
	case !utf8.ValidString(names[0]): // no commit can name it
		return "", &plain{http.StatusBadRequest, failed + "field `agent_id` is not UTF-8"}
	}
	return names[0], nil
}

// show answers GET /shard/{key}.
func (f *Face) show(c *call) error {
	name, err := reader(c)
	if err != nil {
		return err
	}
	scope, ok := scopeOf(c.key)
	missing := &api.KeyedRefusal{Why: api.KeyedMissing, Scope: scope}
	if !ok {
		return missing
	}
	one, answered, err := f.config.Shards.Give(c.r.Context(), name, scope)
	if err != nil {
		return err
	}
	defer answered()
	if one.Seq == 0 {
		return missing
	}
	return f.answerShard(c, http.StatusOK, c.key, one)
}

// list answers GET /shards.
func (f *Face) list(c *call) error {
	name, err := reader(c)
	if err != nil {
		return err
	}
	all, answered, err := f.config.Shards.GiveAll(c.r.Context(), name, everyKey)
	if err != nil {
		return err
	}
	defer answered()
	var out []*shard
	for i := range all {
		if key, ok := keyOf(all[i].Scope); ok { // what lies deeper is no key of this face
			out = append(out, f.shardOf(key, &all[i]))
		}
	}
	return f.answerShards(c, http.StatusOK, fmt.Sprintf(`{"count":%d,"shards":[`, len(out)), out, "]}\n")
}

// commit answers POST /commit.
func (f *Face) commit(c *call) error { return f.commitAs(c, false) }

func (f *Face) commitAs(c *call, revive bool) error {
	in, hinted, err := f.commitOf(c)
	if err != nil {
		return err
	}
	in.Revive = revive
	if most := f.config.MaxDelta; most > 0 && len(in.Content) > most {
		c.refuse(http.StatusRequestEntityTooLarge, "DeltaTooLarge",
			fmt.Sprintf("the delta has %d bytes, at most %d are allowed", len(in.Content), most))
		return nil
	}
	done, err := f.turn(c.r.Context())
	if err != nil {
		return err
	}
	defer done()
	in.Observe = !f.ori.Load()
	resets := f.config.Resets.Resets()
	out, err := f.config.Shards.CommitKeyed(c.r.Context(), in)
	met := err != nil && nameOf(err) == "VersionMismatch"
	honest, merged := (*bool)(nil), false
	if hinted && (err == nil || met) {
		// What is not remembered any more nothing can be held against, nor merged with.
		// Nor against a large one: that would take all of it into memory for each commit.
		if base, gone := f.config.Shards.FormerKeyed(c.r.Context(), in.Scope, in.Version); gone == nil && base.Parts == nil {
			yes := adds(string(in.Content), string(base.Body))
			honest = &yes
			if met && yes && f.counts.trusts(in.Scope) {
				m := &merging{in: in, base: base.Body, resets: resets}
				out, merged, err = f.mergeIn(c.r.Context(), m, out, err)
			}
		}
	}
	f.counts.add(in.Scope, resets, out, err, func(n *nature) { n.note(met, hinted, honest) })
	if err != nil {
		return err
	}
	key, _ := keyOf(in.Scope)
	return c.answer(http.StatusOK, struct {
		NewVersion uint64 `json:"new_version"`
		ShardID    string `json:"shard_id"`
		Merged     bool   `json:"merged,omitempty"`
	}{out.Version, key, merged})
}

// commitOf reads a commit.
func (f *Face) commitOf(c *call) (out *api.KeyedCommit, hinted bool, err error) {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return nil, false, err
	}
	out = &api.KeyedCommit{}
	if _, out.Scope, err = in.key("key"); err != nil {
		return nil, false, err
	}
	if out.Version, err = in.version("expected_version", "expected_ver"); err != nil {
		return nil, false, err
	}
	delta, err := in.text("delta", "content")
	if err != nil {
		return nil, false, err
	}
	if out.Reader, err = in.text("agent_id"); err != nil {
		return nil, false, err
	}
	if _, err := in.maybe("rationale", true); err != nil {
		return nil, false, err
	}
	out.Content, out.MediaType = []byte(delta), f.renewed(out.Scope)
	out.Reads, err = readSet(in)
	return out, hint(in), err
}

// readSet is what a commit names itself.
func readSet(in fields) (out []api.KeyedRead, err error) {
	list, _, err := in.list("read_set")
	for _, raw := range list {
		one := fields{}
		if json.Unmarshal(raw, &one) != nil || one == nil {
			return nil, wrongField("an element of `read_set` is not an object")
		}
		var r api.KeyedRead
		if _, r.Scope, err = one.key("key"); err != nil {
			return nil, err
		}
		if r.Version, err = one.version("version_at_read"); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, err
}

// rollback answers POST /rollback.
func (f *Face) rollback(c *call) error {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return err
	}
	key, scope, err := in.key("key")
	if err != nil {
		return err
	}
	version, err := in.version("target_version")
	if err != nil {
		return err
	}
	if _, err := in.text("agent_id"); err != nil {
		return err
	}
	done, err := f.turn(c.r.Context())
	if err != nil {
		return err
	}
	defer done()
	was, err := f.config.Shards.FormerKeyed(c.r.Context(), scope, version)
	if err != nil {
		return err
	}
	body, free, err := f.wholeOf(c.r.Context(), was)
	defer free()
	if err != nil {
		return err
	}
	one, err := f.config.Shards.WriteKeyed(c.r.Context(), scope, body, f.renewed(scope), false)
	if err != nil {
		return err
	}
	return f.answerShard(c, http.StatusOK, key, one)
}

// said is how the wire says a refusal.
func said(r *api.KeyedRefusal) (status int, name, detail string) {
	key, ok := keyOf(r.Scope)
	if !ok {
		key = r.Scope
	}
	at := fmt.Sprintf("shard '%s' is at version %d, and version %d was ", key, r.Now, r.Was)
	switch r.Why {
	case api.KeyedExpired:
		return http.StatusGone, "SessionExpired", "what this agent_id has read does not count any more: read again, or " +
			"POST /session, and commit then"
	case api.KeyedMissing:
		return http.StatusNotFound, "ShardNotFound", fmt.Sprintf("there is no shard '%s'", key)
	case api.KeyedExists:
		return http.StatusConflict, "ShardAlreadyExists", fmt.Sprintf("there is a shard '%s' already", key)
	case api.KeyedMoved:
		return http.StatusConflict, "VersionMismatch", at + "expected"
	case api.KeyedHeld:
		return http.StatusConflict, "TokenConflict", fmt.Sprintf("shard '%s' is owned by '%s' until %s at least", key, r.By,
			timestamp(r.Until))
	case api.KeyedStale:
		if r.Listed {
			at = fmt.Sprintf("shard '%s' is at version %d, and was written after the list of shards was ", key, r.Now)
		}
		return http.StatusConflict, "CrossShardStale", at + "read"
	case api.KeyedDropped:
		return http.StatusGone, "VersionForgotten", at + "asked for, which is not remembered here any more"
	case api.KeyedFull:
		return http.StatusTooManyRequests, "DeliveryLogFull",
			fmt.Sprintf("this agent_id has read %d shards: POST /session starts over", r.Was)
	}
	return http.StatusInternalServerError, "InternalError", at + "asked for, which never was"
}

// tally is what became of the commits of one shard at this node.
type tally struct {
	commits, conflicts uint64
	nature             nature
}

// counters are those of this node since it began, or since the last reset.
type counters struct {
	mu sync.Mutex
	counted
}

type counted struct {
	resets    uint64 // that were seen before
	all       tally
	stale     uint64
	checked   uint64
	divergent uint64
	byScope   map[string]*tally // of shards that are there
}

// since clears the counts after a reset, whichever node it was asked at; n.mu is held.
func (n *counters) since(resets uint64) {
	if resets > n.resets || n.byScope == nil {
		n.counted = counted{resets: resets, byScope: map[string]*tally{}}
	}
}

func (n *counters) of(scope string, resets uint64) tally {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since(resets)
	if t := n.byScope[scope]; t != nil {
		return *t
	}
	return tally{}
}

// add counts what became of a commit that began after so many resets. Only the version of the shard itself,
// and its token, is a conflict.
func (n *counters) add(scope string, resets uint64, done *api.KeyedDone, err error, seen func(*nature)) {
	status := ""
	if err != nil {
		status = nameOf(err)
	}
	conflict := status == "VersionMismatch" || status == "TokenConflict"
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.since(resets); n.resets > resets { // its shard is gone
		return
	}
	t := n.byScope[scope]
	if t == nil && (err == nil || conflict) {
		t = &tally{}
		n.byScope[scope] = t
	}
	if err == nil || status == "VersionMismatch" {
		seen(&t.nature)
	}
	switch {
	case err == nil:
		t.commits++
		n.all.commits++
	case conflict:
		t.conflicts++
		n.all.conflicts++
	case status == "CrossShardStale":
		n.stale++
		return
	}
	if done.Checked && (err == nil || conflict) {
		n.checked++
		if done.Divergent {
			n.divergent++
		}
	}
}

// ttlOf is the time of a session that its client asks for; zero: none.
func ttlOf(in fields) time.Duration {
	var secs float64
	if raw, there := in["session_ttl"]; !there || json.Unmarshal(raw, &secs) != nil || secs <= 0 {
		return 0
	}
	return time.Duration(min(secs, (365*24*time.Hour).Seconds()) * float64(time.Second))
}
