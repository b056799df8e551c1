package agent

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// Get reads one shard outside any transaction.
func (s *Agent) Get(ctx context.Context, c once.Call, scope string, how api.Look) (*api.Content, error) {
	name, err := s.shardNamed(ctx, scope)
	if err != nil {
		return nil, err
	}
	if how.Version > 0 {
		return s.formerVersion(ctx, name, sequencer.Seq(how.Version))
	}
	got, err := s.readLoosely(ctx, c, how.Binds, func() *reading { return s.look(name, 0) })
	if err != nil {
		return nil, err
	}
	if got.rev.Version == 0 {
		return &api.Content{Scope: string(name), View: uint64(got.view)}, nil
	}
	return s.contentAt(ctx, name, got.rev, got.view)
}

func (s *Agent) contentAt(ctx context.Context, scope sequencer.Scope, rev view.Revision,
	view sequencer.Seq) (*api.Content, error) {
	body, err := s.content(ctx, rev)
	if err != nil {
		return nil, err
	}
	return &api.Content{Scope: string(scope), Version: uint64(rev.Version), View: uint64(view), Writer: string(rev.Writer),
		MediaType: rev.Media, Body: body}, nil
}

// readLoosely reads for the agent, whose next seal carries it, or only looks, as people do: that binds nothing.
func (s *Agent) readLoosely(ctx context.Context, c once.Call, binds bool, look func() *reading) (*reading, error) {
	if binds {
		return s.loosely(ctx, c.Session, look)
	}
	if err := s.view.Ready(); err != nil { // before, it shows less than what was decided
		return nil, view.NotReady(err)
	}
	return s.whole(ctx, look)
}

func (s *Agent) formerVersion(ctx context.Context, scope sequencer.Scope, version sequencer.Seq) (*api.Content, error) {
	if err := s.view.Ready(); err != nil {
		return nil, view.NotReady(err)
	}
	if err := s.reachSeq(ctx, version); err != nil {
		return nil, err
	}
	list, view, err := s.revisions(ctx, scope)
	if err != nil {
		return nil, err
	}
	for _, rev := range list {
		if rev.Version == version {
			return s.contentAt(ctx, scope, rev, view)
		}
	}
	if len(list) == 0 {
		return nil, api.Problemf(api.CodeNotFound, "%s does not exist", scope)
	}
	return nil, api.Problemf(api.CodeForgotten, "version %d of %s was never there or is no longer remembered; see "+
		"?versions=true", version, scope)
}

// Versions lists what is remembered of a shard, newest first. History is not a read: nothing can move it.
func (s *Agent) Versions(ctx context.Context, scope string) (*api.List, error) {
	name, err := s.shardNamed(ctx, scope)
	if err != nil {
		return nil, err
	}
	if err := s.view.Ready(); err != nil {
		return nil, view.NotReady(err)
	}
	list, at, err := s.revisions(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, api.Problemf(api.CodeNotFound, "%s does not exist", name)
	}
	out := &api.List{Workspace: s.workspace, View: uint64(at)}
	for _, rev := range list {
		out.Items = append(out.Items, items([]view.Named{{Scope: name, Revision: rev}})...)
	}
	return out, nil
}

// List pages through the shards under a prefix, by name. The page's Pick has the prefix; empty: every shard.
func (s *Agent) List(ctx context.Context, c once.Call, page api.Page, binds bool) (*api.List, error) {
	prefix, after := api.EveryShard, sequencer.Scope("")
	var err error
	if text := page.Pick["prefix"]; text != "" {
		if prefix, err = shardsUnder(text); err != nil {
			return nil, err
		}
		if prefix, err = topology.NormalScope(prefix); err != nil {
			return nil, err
		}
	}
	if page.After != "" { // as a page gave it: pages are in the order of bytes
		if after, err = shardsUnder(page.After); err != nil {
			return nil, err
		}
	}
	got, err := s.readLoosely(ctx, c, binds, func() *reading { return s.lookAt(prefix, after, page.Limit) })
	if err != nil {
		return nil, err
	}
	out := &api.List{Workspace: s.workspace, View: uint64(got.view), Items: items(got.page.Items)}
	if got.page.More {
		out.Next = out.Items[len(out.Items)-1].Scope
	}
	return out, nil
}

// Put writes one shard. It returns the decision, which may still be that it waits, and whether the shard is new.
func (s *Agent) Put(ctx context.Context, c once.Call, in *api.Put) (d *api.Decision, created bool, err error) {
	scope, err := s.shardNamed(ctx, in.Scope)
	if err != nil {
		return nil, false, err
	}
	w := writing{scope: scope, media: in.MediaType, content: in.Body}
	if w.media == "" {
		w.media = api.DefaultMedia
	}
	for _, version := range in.Versions {
		w.expect = append(w.expect, sequencer.Seq(version))
	}
	if err := s.await(ctx); err != nil {
		return nil, false, err
	}
	existed, _ := s.view.Read(scope)
	if in.Exists && existed.Version == 0 {
		p := api.Problemf(string(sequencer.CodeVersionMismatch), "%s does not exist, and If-Match: * writes only what does: "+
			"leave it out to create", scope)
		p.Scope, p.ReRead = string(scope), []string{string(scope)}
		return nil, false, p
	}
	created = c.Slot.Creates(existed.Version == 0)
	d, err = s.put(ctx, c.Session, w, c.Slot)
	return d, created, err
}

// contentOf is the content that a write carries.
func contentOf(w *api.Write) ([]byte, error) {
	switch {
	case w.Content != nil && w.ContentBase64 != nil:
		return nil, api.Problemf(api.CodeBadRequest, "content and content_base64 are both given: send one of them")
	case w.Content != nil:
		return []byte(*w.Content), nil
	case w.ContentBase64 != nil:
		body, err := base64.StdEncoding.DecodeString(*w.ContentBase64)
		if err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "content_base64 is not standard base64: %v", err)
		}
		return body, nil
	}
	return nil, api.Problemf(api.CodeBadRequest, "content is missing: send content, or content_base64 for bytes that are "+
		"no text")
}

// setContent puts a content into an answer: as text when it is text.
func setContent(out *api.Shard, body []byte) {
	out.Size = int64(len(body))
	if utf8.Valid(body) {
		text := string(body)
		out.Content = &text
		return
	}
	text := base64.StdEncoding.EncodeToString(body)
	out.ContentBase64 = &text
}
