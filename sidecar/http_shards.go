package sidecar

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

func (s *Sidecar) listShards(c *call) (*reply, error) {
	if err := s.inWorkspace(c); err != nil {
		return nil, err
	}
	query := c.request.URL.Query()
	prefix, after := everyShard, sequencer.Scope("")
	var err error
	if text := query.Get("prefix"); text != "" {
		if prefix, err = shardsUnder(text); err != nil {
			return nil, err
		}
		if prefix, err = topology.NormalScope(prefix); err != nil {
			return nil, err
		}
	}
	if text := query.Get("after"); text != "" { // as a page gave it: pages are in the order of bytes
		if after, err = shardsUnder(text); err != nil {
			return nil, err
		}
	}
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return nil, err
	}
	got, err := s.reads(c, func() *reading { return s.session.lookAt(prefix, after, int(limit)) })
	if err != nil {
		return nil, err
	}
	out := &api.List{Workspace: s.config.Workspace, View: uint64(got.view), Items: items(got.page.items)}
	if got.page.more {
		out.Next = out.Items[len(out.Items)-1].Scope
	}
	return jsonReply(http.StatusOK, out), nil
}

// reads reads for the agent, whose next seal carries it, or only looks, as people do: that binds nothing.
func (s *Sidecar) reads(c *call, look func() *reading) (*reading, error) {
	query := c.request.URL.Query()
	switch {
	case !query.Has("look"):
		return s.session.loosely(c.ctx, c.talk, look)
	case query.Get("look") != "true":
		return nil, api.Problemf(api.CodeBadRequest, "look=%.20q: give true, or leave it out", query.Get("look"))
	}
	if err := s.view.ready(); err != nil { // before, it shows less than what was decided
		return nil, notReady(err)
	}
	return s.session.whole(c.ctx, look)
}

func (s *Sidecar) readShard(c *call) (*reply, error) {
	if err := s.inWorkspace(c); err != nil {
		return nil, err
	}
	scope, err := s.pathScope(c)
	if err != nil {
		return nil, err
	}
	query := c.request.URL.Query()
	switch {
	case query.Has("versions") && query.Has("version"):
		return nil, api.Problemf(api.CodeBadRequest, "versions and version are both given: ask for one of them")
	case query.Has("versions"):
		return s.listVersions(c, query.Get("versions"), scope)
	case query.Has("version"):
		return s.readVersion(c, scope)
	}
	got, err := s.reads(c, func() *reading { return s.session.look(scope, 0) })
	if err != nil {
		return nil, err
	}
	if got.rev.version == 0 {
		p := api.Problemf(api.CodeNotFound, "%s does not exist; create it with PUT and If-None-Match: *", scope)
		p.Scope, p.View = string(scope), uint64(got.view)
		return nil, p
	}
	if matches(c.request.Header.Get("If-None-Match"), got.rev.version) {
		return &reply{status: http.StatusNotModified, header: shardHeader(got.rev, got.view)}, nil
	}
	return s.shardReply(c, got.rev, got.view)
}

func (s *Sidecar) shardReply(c *call, rev revision, view sequencer.Seq) (*reply, error) {
	body, err := s.session.content(c.ctx, rev)
	if err != nil {
		return nil, err
	}
	media := rev.media
	if !printable(media) {
		media = defaultMedia
	}
	return &reply{status: http.StatusOK, media: media, raw: body, header: shardHeader(rev, view)}, nil
}

func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func shardHeader(rev revision, view sequencer.Seq) map[string]string {
	return map[string]string{
		"ETag": etag(rev.version), "Hence-Version": strconv.FormatUint(uint64(rev.version), 10),
		"Hence-View": strconv.FormatUint(uint64(view), 10), "Hence-Writer": string(rev.writer),
	}
}

func etag(version sequencer.Seq) string { return `"` + strconv.FormatUint(uint64(version), 10) + `"` }

// listVersions lists what is remembered of a shard. History is not a read: nothing can move it.
func (s *Sidecar) listVersions(c *call, text string, scope sequencer.Scope) (*reply, error) {
	if text != "true" {
		return nil, api.Problemf(api.CodeBadRequest, "versions=%.20q: give true, or leave it out", text)
	}
	if err := s.view.ready(); err != nil {
		return nil, notReady(err)
	}
	list, view, err := s.session.revisions(c.ctx, scope)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, api.Problemf(api.CodeNotFound, "%s does not exist", scope)
	}
	out := &api.List{Workspace: s.config.Workspace, View: uint64(view)}
	for _, rev := range list {
		out.Items = append(out.Items, items([]named{{scope, rev}})...)
	}
	return jsonReply(http.StatusOK, out), nil
}

func (s *Sidecar) readVersion(c *call, scope sequencer.Scope) (*reply, error) {
	version, err := c.number("version", 0, 1, 1<<63)
	if err != nil {
		return nil, err
	}
	if err := s.view.ready(); err != nil {
		return nil, notReady(err)
	}
	if err := s.session.reachSeq(c.ctx, sequencer.Seq(version)); err != nil {
		return nil, err
	}
	list, view, err := s.session.revisions(c.ctx, scope)
	if err != nil {
		return nil, err
	}
	for _, rev := range list {
		if rev.version == sequencer.Seq(version) {
			return s.shardReply(c, rev, view)
		}
	}
	if len(list) == 0 {
		return nil, api.Problemf(api.CodeNotFound, "%s does not exist", scope)
	}
	return nil, api.Problemf(api.CodeForgotten, "version %d of %s was never there or is no longer remembered; see ?versions=true",
		version, scope)
}

func (s *Sidecar) writeShard(c *call) (*reply, error) {
	if err := s.inWorkspace(c); err != nil {
		return nil, err
	}
	scope, err := s.pathScope(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := s.waiting(c, s.config.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	w := writing{scope: scope, media: c.request.Header.Get("Content-Type"), content: c.body}
	if w.media == "" {
		w.media = defaultMedia
	}
	if err := s.session.await(ctx); err != nil {
		return nil, err
	}
	existed, _ := s.view.read(scope)
	if w.expect, err = s.condition(c, scope, existed.version); err != nil {
		return nil, err
	}
	created := c.slot.creates(existed.version == 0)
	d, err := s.session.put(ctx, c.talk, w, c.slot)
	if err == nil && d.State == api.StateAborted {
		err = words.Refusal(d)
	}
	if err != nil {
		p := api.AsProblem(err)
		if w.expect != nil && p.Code == string(sequencer.CodeVersionMismatch) {
			p.Status = http.StatusPreconditionFailed
		}
		return nil, p
	}
	if d.State != api.StateCommitted {
		return jsonReply(http.StatusAccepted, d), nil
	}
	out := jsonReply(http.StatusOK, d)
	if created {
		out.status = http.StatusCreated
	}
	out.header = map[string]string{"ETag": etag(sequencer.Seq(d.Seq)), "Hence-Version": strconv.FormatUint(d.Seq, 10)}
	return out, nil
}

// condition is what a PUT's headers ask of the version that the shard has; nil: nothing. Version zero is a shard that
// is not there.
func (s *Sidecar) condition(c *call, scope sequencer.Scope, now sequencer.Seq) ([]sequencer.Seq, error) {
	match := strings.Join(c.request.Header.Values("If-Match"), ",")
	none := strings.Join(c.request.Header.Values("If-None-Match"), ",")
	switch {
	case match != "" && none != "":
		return nil, api.Problemf(api.CodeBadRequest, "If-Match and If-None-Match are both given: send one of them")
	case none == "*":
		return []sequencer.Seq{0}, nil
	case none != "":
		return nil, api.Problemf(api.CodeBadRequest, "If-None-Match: %.40q: only * is known when writing", none)
	case match == "":
		return nil, nil
	case match == "*" && now == 0:
		return nil, unmatched(scope, "%s does not exist, and If-Match: * writes only what does: leave it out to create",
			scope)
	case match == "*":
		return nil, nil // any version will do, also one that is written meanwhile
	}
	return s.versionsOf(scope, match)
}

// versionsOf are the versions that an If-Match lists. A weak tag, and one that no version can have, match nothing.
func (s *Sidecar) versionsOf(scope sequencer.Scope, match string) ([]sequencer.Seq, error) {
	var out []sequencer.Seq
	for tag := range strings.SplitSeq(match, ",") {
		tag = strings.TrimSpace(tag)
		quoted := strings.TrimPrefix(tag, "W/")
		if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
			return nil, api.Problemf(api.CodeBadRequest, "If-Match is %.40s: send ETags as they were given, with their quotes: "+
				"If-Match: \"17\"", match)
		}
		if n, ok := decimal(quoted[1 : len(quoted)-1]); ok && n > 0 && quoted == tag {
			out = append(out, sequencer.Seq(n))
		}
	}
	if len(out) == 0 {
		return nil, unmatched(scope, "If-Match: %.40s is no version that %s ever had; its GET says the one it has", match,
			scope)
	}
	return out, nil
}

// unmatched is the problem of a precondition that no version can meet.
func unmatched(scope sequencer.Scope, format string, args ...any) error {
	p := api.Problemf(string(sequencer.CodeVersionMismatch), format, args...)
	p.Status, p.Scope, p.ReRead = http.StatusPreconditionFailed, string(scope), []string{string(scope)}
	return p
}

// matches holds a list of ETags against a version.
func matches(list string, version sequencer.Seq) bool {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag(version) {
			return true
		}
	}
	return false
}
