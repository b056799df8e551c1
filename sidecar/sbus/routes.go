package sbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/hence-dev/hence/sidecar/api"
)

// session answers POST /session.
func (f *Face) session(c *call) error {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return err
	}
	name, err := in.text("agent_id")
	if err != nil {
		return err
	}
	if name != "" { // of no name nothing is recorded
		if err := f.config.Readers.OpenReader(c.r.Context(), name, ttlOf(in)); err != nil {
			return err
		}
	}
	return c.answer(http.StatusOK, map[string]string{"agent_id": name, "status": "created"})
}

// register answers POST /delivery_log/register.
func (f *Face) register(c *call) error {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return err
	}
	name, err := in.text("agent_id")
	if err != nil {
		return err
	}
	list, there, err := in.list("shards_used")
	if err == nil && !there {
		err = wrongField("missing field `shards_used`")
	}
	if err != nil {
		return err
	}
	scopes, foreign := make([]string, 0, len(list)), 0
	for _, raw := range list {
		var key string
		if isNull(raw) || json.Unmarshal(raw, &key) != nil {
			return wrongField("an element of `shards_used` is not a string")
		}
		if scope, ok := scopeOf(key); ok {
			scopes = append(scopes, scope)
		} else { // there can be no such shard
			foreign++
		}
	}
	if name == "" {
		return c.answer(http.StatusBadRequest, map[string]string{"error": "agent_id is required"})
	}
	done, err := f.config.Readers.Register(c.r.Context(), name, scopes)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		OK              bool `json:"ok"`
		Registered      int  `json:"registered"`
		SkippedExisting int  `json:"skipped_existing"`
		SkippedNoShard  int  `json:"skipped_no_shard"`
	}{true, done.Fresh, done.Known, done.Missing + foreign})
}

// statistics are those of /stats.
type statistics struct {
	CountedAt       string `json:"counted_at"` // the node whose counters these are
	CrossShardStale uint64 `json:"cross_shard_stale"`
	DeliveryLog     struct {
		Agents     int `json:"agents"`
		Deliveries int `json:"deliveries"`
	} `json:"delivery_log"`
	OriEnabled     bool    `json:"ori_enabled"`
	Scr            float64 `json:"scr"`
	TotalAttempts  uint64  `json:"total_attempts"`
	TotalCommits   uint64  `json:"total_commits"`
	TotalConflicts uint64  `json:"total_conflicts"`
	TotalShards    int     `json:"total_shards"`
	ViewChecked    uint64  `json:"view_checked_commits"`
	ViewDivergent  uint64  `json:"view_divergent_commits"`
	DivergenceRate float64 `json:"view_divergence_rate"`
	WALEnabled     bool    `json:"wal_enabled"` // always: a commit is in the log before its answer

	Classes api.ShardClasses `json:"shard_classes"`
}

func (f *Face) statistics() *statistics {
	out := &statistics{CountedAt: f.config.Name, OriEnabled: f.ori.Load(), WALEnabled: true}
	out.TotalShards, out.DeliveryLog.Agents, out.DeliveryLog.Deliveries = f.config.Readers.Census()
	resets := f.config.Resets.Resets()
	n := &f.counts
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since(resets)
	out.TotalCommits, out.TotalConflicts = n.all.commits, n.all.conflicts
	out.TotalAttempts = out.TotalCommits + out.TotalConflicts
	out.CrossShardStale, out.ViewChecked, out.ViewDivergent = n.stale, n.checked, n.divergent
	out.Classes = n.classes()
	out.Scr = share(out.TotalConflicts, out.TotalAttempts)
	out.DivergenceRate = share(out.ViewDivergent, out.ViewChecked)
	return out
}

func share(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// stats answers GET /stats.
func (f *Face) stats(c *call) error { return c.answer(http.StatusOK, f.statistics()) }

// metrics answers GET /metrics.
func (f *Face) metrics(c *call) error {
	s := f.statistics()
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	c.sent = true
	for _, one := range []struct {
		name, kind string
		value      any
	}{
		{"sbus_commits_total", "counter", s.TotalCommits}, {"sbus_conflicts_total", "counter", s.TotalConflicts},
		{"sbus_cross_stale_total", "counter", s.CrossShardStale}, {"sbus_shards_total", "gauge", s.TotalShards},
	} {
		_, _ = fmt.Fprintf(c.w, "# TYPE %s %s\n%s %v\n", one.name, one.kind, one.name, one.value)
	}
	return nil
}

// showConfig answers GET /admin/config.
func (f *Face) showConfig(c *call) error {
	s := f.statistics()
	return c.answer(http.StatusOK, struct {
		OriEnabled    bool   `json:"ori_enabled"`
		ViewChecked   uint64 `json:"view_checked_commits"`
		ViewDivergent uint64 `json:"view_divergent_commits"`
	}{s.OriEnabled, s.ViewChecked, s.ViewDivergent})
}

// setConfig answers POST /admin/config: with ori_enabled off, commits only observe their reads.
func (f *Face) setConfig(c *call) error {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return err
	}
	raw, there := in["ori_enabled"]
	if !there {
		return wrongField("missing field `ori_enabled`")
	}
	var on bool
	if isNull(raw) || json.Unmarshal(raw, &on) != nil {
		return wrongField("field `ori_enabled` is neither true nor false")
	}
	f.ori.Store(on)
	return c.answer(http.StatusOK, map[string]bool{"ok": true, "ori_enabled": on})
}

// health answers GET /admin/health.
func (f *Face) health(c *call) error {
	s := f.statistics()
	return c.answer(http.StatusOK, struct {
		Agents    int    `json:"delivery_agents"`
		Status    string `json:"status"`
		Commits   uint64 `json:"total_commits"`
		Conflicts uint64 `json:"total_conflicts"`
		Shards    int    `json:"total_shards"`
	}{s.DeliveryLog.Agents, "ok", s.TotalCommits, s.TotalConflicts, s.TotalShards})
}

// gated is a handler that only a face on loopback has.
func (f *Face) gated(handle handler) handler {
	return func(c *call) error {
		if !f.config.Admin {
			return c.answer(http.StatusForbidden, map[string]string{"error": "admin disabled"})
		}
		return handle(c)
	}
}

// mostLogs bounds the delivery logs of one answer.
const mostLogs = 10_000

// deliveryLog answers GET /admin/delivery-log. What was read of all shards together stands under their pattern, at
// the log's position.
func (f *Face) deliveryLog(c *call) error {
	type entry struct {
		AgeSecs float64 `json:"age_secs"`
		Version uint64  `json:"version"`
	}
	agents := map[string]map[string]entry{}
	for _, log := range f.config.Readers.ReaderLogs(mostLogs) {
		entries := map[string]entry{}
		for _, given := range log.Given {
			key, ok := keyOf(given.Scope)
			if !ok || given.Scope == everyKey {
				key = given.Scope
			}
			entries[key] = entry{float64(given.AgeMs) / 1000, given.Version}
		}
		agents[log.Reader] = entries
	}
	_, readers, reads := f.config.Readers.Census()
	return c.answer(http.StatusOK, map[string]any{"agents": agents, "total_agents": readers, "total_deliveries": reads})
}

// adminShard answers POST /admin/shard: a shard that is there is no error.
func (f *Face) adminShard(c *call) error {
	key, scope, content, goal, err := newShard(c)
	if err != nil {
		return err
	}
	one, err := f.makeShard(c, scope, content, goal)
	if r, refused := errors.AsType[*api.KeyedRefusal](err); refused && r.Why == api.KeyedExists {
		return c.answer(http.StatusOK, map[string]string{"status": "already_exists"})
	}
	if err != nil {
		return err
	}
	return f.answerShard(c, http.StatusCreated, key, one)
}

// adminCommit answers POST /admin/commit: a commit whose session has not expired.
func (f *Face) adminCommit(c *call) error { return f.commitAs(c, true) }

// injectStale answers POST /admin/inject-stale.
func (f *Face) injectStale(c *call) error {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return err
	}
	name, err := in.text("agent_id")
	if err != nil {
		return err
	}
	_, scope, err := in.key("key")
	if err != nil {
		return err
	}
	version, err := in.version("stale_version")
	if err != nil {
		return err
	}
	if err := f.config.Readers.Inject(c.r.Context(), name, scope, version); err != nil {
		return err
	}
	return c.answer(http.StatusOK, map[string]bool{"injected": true})
}

// reset answers POST /admin/reset, whatever its body: all shards are gone in one decision, here when it is answered.
func (f *Face) reset(c *call) error {
	done, err := f.turn(c.r.Context())
	if err != nil {
		return err
	}
	defer done()
	cleared, err := f.config.Resets.Reset(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, map[string]int{"cleared": cleared})
}

// addNode answers POST /admin/add-node: here nodes come and go by themselves.
func addNode(c *call) error {
	in, err := fieldsOf(c.w, c.r)
	if err != nil {
		return err
	}
	for _, name := range []string{"node_id", "addr", "new_members"} {
		if _, there := in[name]; !there {
			return wrongField("missing field `%s`", name)
		}
	}
	return c.answer(http.StatusBadRequest, map[string]string{"error": "not in Raft mode"})
}

// cluster answers GET /cluster/status: each node is one of its own, over one log.
func (f *Face) cluster(c *call) error {
	type peer struct {
		IsSelf bool   `json:"is_self"`
		NodeID string `json:"node_id"`
		Status string `json:"status"`
		URL    string `json:"url"`
	}
	name, url := f.config.Name, f.config.URL
	return c.answer(http.StatusOK, map[string]any{
		"cluster": map[string]any{"cluster_enabled": false, "this_node_id": name, "this_url": url, "num_nodes": 1,
			"peers":       []peer{{true, name, "ok", url}},
			"replication": "one log for all nodes of the workspace",
			"isolation":   "commits are decided in the log's order; delivery logs are this node's"},
		"local_stats": f.statistics(),
	})
}

// leader answers GET /raft/leader: this node takes every write.
func (f *Face) leader(c *call) error {
	return c.answer(http.StatusOK, map[string]any{"current_leader": f.config.Name, "this_node_id": f.config.Name,
		"is_leader": true, "current_term": 1, "state": "Leader"})
}
