package sidecar

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
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
		if prefix, err = shardScope(text); err != nil {
			return nil, problem(codeBadScope, "%v", err)
		}
		if prefix, err = topology.NormalScope(prefix); err != nil {
			return nil, err
		}
	}
	if text := query.Get("after"); text != "" { // as a page gave it: pages are in the order of bytes
		if after, err = shardScope(text); err != nil {
			return nil, problem(codeBadScope, "%v", err)
		}
	}
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return nil, err
	}
	got, err := s.session.loosely(c.ctx, func() *reading { return s.session.lookAt(prefix, after, int(limit)) })
	if err != nil {
		return nil, err
	}
	out := &api.List{Workspace: s.config.Workspace, View: uint64(got.view), Items: items(got.page.items)}
	if got.page.more {
		out.Next = out.Items[len(out.Items)-1].Scope
	}
	return jsonReply(http.StatusOK, out), nil
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
		return nil, problem(codeBadRequest, "versions and version are both given: ask for one of them")
	case query.Has("versions"):
		return s.listVersions(c, query.Get("versions"), scope)
	case query.Has("version"):
		return s.readVersion(c, scope)
	}
	got, err := s.session.loosely(c.ctx, func() *reading { return s.session.look(scope, 0) })
	if err != nil {
		return nil, err
	}
	if got.rev.version == 0 {
		p := problem(codeNotFound, "%s does not exist; create it with PUT and If-None-Match: *", scope)
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
		return nil, problem(codeBadRequest, "versions=%.20q: give true, or leave it out", text)
	}
	if err := s.view.ready(); err != nil {
		return nil, notReady(err)
	}
	list, view, err := s.session.revisions(c.ctx, scope)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, problem(codeNotFound, "%s does not exist", scope)
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
		return nil, problem(codeNotFound, "%s does not exist", scope)
	}
	return nil, problem(codeForgotten, "version %d of %s was never there or is no longer remembered; see ?versions=true",
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
	if w.expect, err = s.condition(c, existed.version); err != nil {
		return nil, err
	}
	created := c.slot.creates(existed.version == 0)
	d, err := s.session.put(ctx, w, c.slot)
	if err == nil && d.State == api.StateAborted {
		err = refusal(d)
	}
	if err != nil {
		p := asProblem(err)
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

// condition is the version that a PUT's headers ask for; nil: any.
func (s *Sidecar) condition(c *call, now sequencer.Seq) (*sequencer.Seq, error) {
	match, none := c.request.Header.Get("If-Match"), c.request.Header.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return nil, problem(codeBadRequest, "If-Match and If-None-Match are both given: send one of them")
	case none == "*":
		return new(sequencer.Seq), nil
	case none != "":
		return nil, problem(codeBadRequest, "If-None-Match: %.40q: only * is known when writing", none)
	case match == "":
		return nil, nil
	case match == "*":
		if now == 0 {
			p := problem(string(sequencer.CodeVersionMismatch), "the shard does not exist")
			p.Status = http.StatusPreconditionFailed
			return nil, p
		}
		return &now, nil
	}
	version, ok := versionOf(match)
	if !ok {
		return nil, problem(codeBadRequest, "If-Match: %.40q: send one ETag as it was given, for example \"17\"", match)
	}
	return &version, nil
}

func versionOf(tag string) (sequencer.Seq, bool) {
	text, ok := strings.CutPrefix(tag, `"`)
	if !ok {
		return 0, false
	}
	if text, ok = strings.CutSuffix(text, `"`); !ok {
		return 0, false
	}
	n, ok := decimal(text)
	return sequencer.Seq(n), ok
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
