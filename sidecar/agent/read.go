package agent

import (
	"cmp"
	"context"
	"encoding/base64"
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

// put writes one shard in a transaction of one record. A conflict is tried again here: the agent has read nothing in
// between that could have changed its mind.
func (s *Agent) put(ctx context.Context, talk string, w writing, slot *once.Slot) (*api.Decision, error) {
	if id := slot.Get(); id != "" {
		t, err := s.find(id)
		if err == nil && s.beginsAnew(t, slot) {
			err = s.letGo(t, slot, t.reads) // a put reads nothing by itself
		} else if err == nil {
			err = slot.Save()
		}
		if err != nil {
			return nil, err
		}
		if slot.Get() != "" {
			return s.sealOnly(ctx, t, slot)
		}
	}
	begin := sequencer.Begin{Mode: sequencer.Optimistic, Observe: s.observes, Session: talk}
	t, err := s.startWhole(ctx, begin)
	if err != nil {
		return nil, err
	}
	w.rests = true
	for {
		if _, err := s.write(ctx, t, w); err != nil {
			s.drop(t, "its only request was refused")
			return nil, err
		}
		slot.Set(t.id)
		if err := slot.Rest(); err != nil {
			return nil, err
		}
		d, err := s.sealOnly(ctx, t, slot)
		if err != nil || d.Code != string(sequencer.CodeConflict) || t.attempt >= s.limits.LockedAfter {
			return d, err
		}
		if t, _, err = s.again(ctx, t, t.allReads()); err != nil {
			return nil, err
		}
	}
}

// observeLoose tells conversations that a decision has written over what they read.
func (s *Agent) observeLoose(o *sequencer.Outcome) {
	for talk, reads := range s.loose {
		for _, r := range reads {
			at := writtenOver(o, r.Scope)
			if r.View >= o.Seq || at == "" {
				continue
			}
			m := s.moved[talk]
			if m.scopes = api.AddScope(m.scopes, r.Scope); m.first == nil {
				m.first = overtakenBy(o, r.Scope, at)
			}
			s.moved[talk] = m
		}
	}
}

// forgiveMoved: the scope was read again, so that it had moved does not matter any more.
func (s *Agent) forgiveMoved(talk string, scope sequencer.Scope) {
	m := s.moved[talk]
	kept := m.scopes[:0]
	for _, moved := range m.scopes {
		if moved != scope {
			kept = append(kept, moved)
		}
	}
	if m.scopes = kept; m.first != nil && sequencer.Scope(m.first.Scope) == scope {
		m.first = nil
	}
	if s.moved[talk] = m; len(kept) == 0 && m.first == nil {
		delete(s.moved, talk)
	}
}

// loosely answers a read outside any transaction: it goes to the next seal of its conversation.
func (s *Agent) loosely(ctx context.Context, talk string, look func() *reading) (*reading, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	if err := s.fetched(ctx, look); err != nil {
		return nil, err
	}
	if _, err := s.current(); err != nil {
		return nil, err
	}
	if len(s.loose) >= s.limits.Conversations && len(s.loose[talk]) == 0 { // forgetting another's reads would weaken it
		return nil, api.Problemf(api.CodeLimit, "%d conversations of this agent have read outside transactions and "+
			"sealed nothing since: end those that are over with DELETE /v1/workspaces/%s/session, or read inside a "+
			"transaction", len(s.loose), s.workspace)
	}
	got := look()
	if len(got.lacks()) > 0 {
		return nil, view.BeingFetched(got.lacks()[0])
	}
	if got.later && s.readsAll(talk, got) {
		return got, nil // it rests on the first page's view: at its own, what has changed there since would count as seen
	}
	got.talk = talk
	entries, err := s.deliverAll(ctx, "", got)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		s.loose.Add(talk, entry)
		s.forgiveMoved(talk, entry.Scope)
	}
	return got, nil
}

// readsAll reports whether a conversation has read all that a reading means.
func (s *Agent) readsAll(talk string, got *reading) bool {
	for _, scope := range append([]sequencer.Scope{got.scope}, got.also...) {
		if !slices.ContainsFunc(s.loose[talk], func(r sequencer.Read) bool { return r.Scope == scope }) {
			return false
		}
	}
	return true
}

// blame puts back what of a conversation's reads was written over: it was not shown what it read again.
func (s *Agent) blame(talk string, was overtakes) {
	m := s.moved[talk]
	for _, scope := range was.scopes {
		if !slices.Contains(m.scopes, scope) {
			m.scopes = append(m.scopes, scope)
		}
	}
	if m.first = cmp.Or(m.first, was.first); len(m.scopes) > 0 {
		s.moved[talk] = m
	}
}

// endTalk drops the loose reads of a conversation that the agent says is over; it returns how many they were. Nothing
// rests on what it read any more, so it is owed no 410 either: its name may come again, for a new one.
func (s *Agent) endTalk(ctx context.Context, talk string) (int, error) {
	if err := s.await(ctx); err != nil {
		return 0, err
	}
	if err := s.toldReadsLost(talk); err != nil {
		return 0, err
	}
	if len(s.loose[talk]) == 0 {
		return 0, nil
	}
	if err := s.delivery.Record(journal.RecordTalk, journal.TalkRecord{Session: talk}); err != nil {
		return 0, err
	}
	delete(s.moved, talk)
	return len(s.loose.Take(talk)), nil
}
