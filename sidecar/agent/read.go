package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// lacks are the contents that a reading shows and that are not there yet.
func (r *reading) lacks() []view.Lack {
	list := []view.Named{{Scope: r.scope, Revision: r.rev}}
	if r.page != nil {
		list = append(append(list, r.page.Items...), r.page.Last)
	}
	out := view.LacksOf(list)
	for _, other := range r.rest {
		out = append(out, other.lacks()...)
	}
	return out
}

// fetched waits until a reading of the view shows no content that is not there yet. Of what the log has no more a list
// says so, and a read of it is refused: no empty content may be taken for it.
func (s *Agent) fetched(ctx context.Context, look func() *reading) error {
	return s.wholeView(ctx, func() []view.Lack { return look().lacks() })
}

// wholeView waits until nothing is missing; missing reads the view alone.
func (s *Agent) wholeView(ctx context.Context, missing func() []view.Lack) (err error) {
	if len(missing()) == 0 {
		return nil
	}
	s.loop.Do(func() { err = s.view.Whole(ctx, missing) }) // the log may have it no more, or be away
	return err
}

// whole is a reading that binds nothing, once it shows no content that is not there yet.
func (s *Agent) whole(ctx context.Context, look func() *reading) (got *reading, err error) {
	err = s.fetched(ctx, func() *reading {
		got = look()
		return got
	})
	return got, err
}

// revisions are what is remembered of a shard, once each has its content.
func (s *Agent) revisions(ctx context.Context, scope sequencer.Scope,
) (list []view.Revision, at sequencer.Seq, err error) {
	err = s.wholeView(ctx, func() []view.Lack {
		list, at = s.view.Revisions(scope)
		all := make([]view.Named, len(list))
		for i := range list {
			all[i] = view.Named{Scope: scope, Revision: list[i]}
		}
		return view.LacksOf(all)
	})
	return list, at, err
}

// defaultServer is the tool server of tools and pins that name none.
const defaultServer = "tools"

// announceRead puts a read that the agent is about to make by itself into the footprint, as of now: what moves
// between this answer and the agent's read makes it stale, whether or not the agent saw it. In locked mode the
// scope is granted in the view first.
func (s *Agent) announceRead(ctx context.Context, t *tx, scope sequencer.Scope) (*api.Announced, error) {
	if err := s.enter(ctx, t); err != nil {
		return nil, err
	}
	defer s.leave(t)
	if err := s.prepare(ctx, t, scope); err != nil {
		return nil, err
	}
	if err := s.usable(t); err != nil {
		return nil, err
	}
	if t.size() >= s.view.FootprintLimit() {
		return nil, api.Problemf(api.CodeLimit, "the transaction names %d scopes already; read a pattern instead",
			s.view.FootprintLimit())
	}
	got := &reading{scope: scope, view: s.view.At()}
	entry, err := s.deliver(ctx, t.id, got)
	if err != nil {
		return nil, err
	}
	t.reads = journal.AddRead(t.reads, entry)
	return &api.Announced{Tx: string(t.id), Scope: string(scope), View: uint64(got.view), Announced: true,
		Overtaken: t.overtaken}, nil
}

// readForeign announces the read of what Hence does not keep.
func (s *Agent) readForeign(ctx context.Context, t *tx, scope sequencer.Scope,
	in *api.Read) (*api.Announced, error) {
	if in.ForUpdate { // what the agent does there by itself is to be told: that is a touch
		return nil, api.Problemf(api.CodeBadRequest, "for_update is for shards; ask for %s with POST /v1/tx/%s/touches",
			scope, t.id)
	}
	if in.Limit != 0 {
		return nil, api.Problemf(api.CodeBadRequest, "limit is for patterns of shards; %s is read by the agent itself",
			scope)
	}
	if err := s.await(ctx); err != nil { // only a view that is ready knows what is in use
		return nil, err
	}
	if err := s.knownType(scope, in); err != nil {
		return nil, err
	}
	return s.announceRead(ctx, t, scope)
}

// beforeSeal takes what the body of a seal says over into the transaction.
func (s *Agent) beforeSeal(t *tx, in *api.Seal) error {
	if t.phase != phaseOpen || t.decided() {
		return nil // sealing again gives the same answer
	}
	if in.TouchesKnown != nil && !*in.TouchesKnown && len(t.own) > 0 {
		return api.Problemf(api.CodeCallsUnknown, "what was done under a touch of %s is not known: find out and seal "+
			"again, or abort and say in its settlement that it is unresolved", t.id)
	}
	if n := t.size() + len(in.Pins); n > s.view.FootprintLimit() {
		return api.Problemf(api.CodeLimit, "the transaction would name %d scopes and pins; at most %d go into one", n,
			s.view.FootprintLimit())
	}
	for _, p := range in.Pins {
		pin := sequencer.Pin{Server: topology.NormalName(p.Server), Name: topology.NormalName(p.Name),
			Signature: p.Signature}
		if pin.Server == "" {
			pin.Server = defaultServer
		}
		if err := validTool(pin.Server, pin.Name, pin.Signature); err != nil {
			return err
		}
		t.pin(pin)
	}
	return nil
}

const maxSignatureBytes = 1024

// validTool says what is wrong with the name of a tool.
func validTool(server, name, signature string) error {
	switch {
	case name == "" || len(name) > maxToolBytes:
		return api.Problemf(api.CodeBadRequest, "the tool's name is missing or has more than %d bytes", maxToolBytes)
	case len(server) > maxToolBytes:
		return api.Problemf(api.CodeBadRequest, "the tool server's name has more than %d bytes", maxToolBytes)
	case signature == "" || len(signature) > maxSignatureBytes:
		return api.Problemf(api.CodeBadRequest, "the signature of %s is missing or has more than %d bytes: send a "+
			"hash of the tool's declaration", name, maxSignatureBytes)
	}
	return nil
}

// typeShard is the type of what Hence itself keeps.
const typeShard = "shard"

// typed is a policy that knows of which types the scopes of its tools are.
type typed interface {
	ScopeTypes() []string
}

// typesInUse lists the types of scopes that the policy names, or that something in the workspace was done to.
func (s *Agent) typesInUse() []string {
	out := []string{typeShard}
	if p, ok := s.tools.(typed); ok {
		out = append(out, p.ScopeTypes()...)
	}
	out = append(out, s.view.TypesSeen()...)
	slices.Sort(out)
	return slices.Compact(out)
}

// maxTypesSaid bounds what a refusal lists.
const maxTypesSaid = 20

// knownType refuses to take the announcement of a read for one of a type that nothing writes: a misspelt scope looks
// like that, and nothing would ever make such a read stale.
func (s *Agent) knownType(scope sequencer.Scope, in *api.Read) error {
	if in.Announce {
		return nil
	}
	known := s.typesInUse()
	if slices.Contains(known, scope.Type()) {
		return nil
	}
	meant := ""
	if near := spelling.Near(scope.Type(), known, 1); len(near) > 0 {
		_, path, _ := strings.Cut(string(scope), ":")
		meant = "Perhaps " + near[0] + ":" + path + " is meant. "
	}
	said := strings.Join(known[:min(len(known), maxTypesSaid)], ", ")
	if len(known) > maxTypesSaid {
		said += ", …"
	}
	p := api.Problemf(api.CodeUnknownType, "nothing here writes scopes of the type %s, so the read of %s would never "+
		"be stale; types in use are: %s. %sIf another program is to write it, send \"announce\": true with the read",
		scope.Type(), scope, said, meant)
	p.Scope = string(scope)
	return p
}

// badScope is the problem of a scope in a body that is not one. A path alone is not taken for a shard's: it may as
// well be a resource of a type that was left out.
func badScope(text string, err error) error {
	path := strings.TrimLeft(text, "/")
	kind, rest, named := strings.Cut(path, ":")
	first, below, _ := strings.Cut(path, "/")
	var meant []string
	switch {
	case text == "":
		return api.Problemf(api.CodeBadScope, "the scope is missing: write it as type:/path, for example shard:/orders/17")
	case !errors.Is(err, sequencer.ErrScopeForm):
	case named:
		meant = append(meant, kind+":/"+rest)
	case first == typeShard:
		meant = append(meant, "shard:/"+below)
	default:
		meant = append(meant, "shard:/"+path, first+":/"+below)
	}
	for i, m := range meant {
		scope, wrong := sequencer.ParseScope(m)
		if wrong != nil {
			meant = meant[:i]
			break
		}
		meant[i] = string(scope)
	}
	switch len(meant) {
	case 0:
		return api.Problemf(api.CodeBadScope, "%v", err)
	case 1:
		return api.Problemf(api.CodeBadScope, "scope %.80q is not type:/path: write %s", text, meant[0])
	}
	return api.Problemf(api.CodeBadScope, "scope %.80q has no type: write %s for the shard, or %s if %s is a type", text,
		meant[0],
		meant[1], first)
}

// Get reads one shard outside any transaction.
func (s *Agent) Get(ctx context.Context, c once.Call, scope string, how api.Look) (*api.Content, error) {
	return flow(s, func() (*api.Content, error) {
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
	})
}

func (s *Agent) contentAt(ctx context.Context, scope sequencer.Scope, rev view.Revision,
	view sequencer.Seq) (*api.Content, error) {
	out := &api.Content{Scope: string(scope), Version: uint64(rev.Version), View: uint64(view),
		Writer: string(rev.Writer), MediaType: rev.Media, Size: rev.Size()}
	err := missing(rev)
	switch {
	case err != nil:
	case rev.Chain():
		out.Parts = s.parts(*rev.Ref)
	default:
		out.Body, err = s.content(ctx, rev)
	}
	return out, err
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

func (s *Agent) formerVersion(ctx context.Context, scope sequencer.Scope, version sequencer.Seq) (*api.Content,
	error) {
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

// versions lists what is remembered of a shard, newest first. History is not a read: nothing can move it.
func (s *Agent) versions(ctx context.Context, scope string) (*api.List, error) {
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

// List pages through the shards under a prefix, by name. The page's Pick has the prefix; empty: every shard. With
// versions of a shard, those are listed instead, newest first.
func (s *Agent) List(ctx context.Context, c once.Call, page api.Page, binds bool) (*api.List, error) {
	return flow(s, func() (*api.List, error) {
		if scope, asked := page.Pick["versions"]; asked {
			return s.versions(ctx, scope)
		}
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
	})
}

// Put writes one shard. It returns the decision, which may still be that it waits, and whether the shard is new.
func (s *Agent) Put(ctx context.Context, c once.Call, in *api.Put) (d *api.Decision, created bool, err error) {
	s.loop.Run(func() { d, created, err = s.putNamed(ctx, c, in) })
	return d, created, err
}

func (s *Agent) putNamed(ctx context.Context, c once.Call, in *api.Put) (d *api.Decision, created bool, err error) {
	scope, err := s.shardNamed(ctx, in.Scope)
	if err != nil {
		return nil, false, err
	}
	w := writing{scope: scope, media: in.MediaType, content: in.Body}
	if w.op, err = opOf(in.Op); err != nil {
		return nil, false, err
	}
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
		p := api.Problemf(string(sequencer.CodeVersionMismatch), "%s does not exist, and If-Match: * writes only "+
			"what does: leave it out to create", scope)
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
	case w.Value != nil:
		return valueOf(w)
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
	return nil, api.Problemf(api.CodeBadRequest, "content is missing: send content, value for JSON, or content_base64 "+
		"for bytes that are no text")
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
