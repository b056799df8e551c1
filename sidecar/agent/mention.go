package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
)

// mentionTalk begins the names of the conversations of requests to models. No header can have such a character, so no
// agent's conversation has such a name.
const mentionTalk = "\x01mention/"

// Mention records, before a request leaves for a model, which shards it names: as reads of the view of now, in a
// conversation of the request's own. They bind nothing until the answer is seen to use them. What the conversation has
// read itself stays as it was read: it is older.
func (s *Agent) Mention(ctx context.Context, c once.Call, scopes []string) (*api.Mention, error) {
	return flow(s, func() (*api.Mention, error) {
		if err := s.await(ctx); err != nil {
			return nil, err
		}
		if _, err := s.current(); err != nil {
			return nil, err
		}
		if len(s.asked) >= s.limits.Conversations {
			return nil, api.Problemf(api.CodeLimit, "%d requests to models are under way: try again later", len(s.asked))
		}
		s.mentions++
		id, at := fmt.Sprintf("%s%d-%d", mentionTalk, s.incarnation, s.mentions), s.view.At()
		s.asked[id] = at // from here on the watermark waits for it
		out, err := s.mention(ctx, c.Session, id, at, scopes)
		if err != nil {
			return nil, errors.Join(err, s.endMention(id))
		}
		return out, nil
	})
}

// mention delivers what a request names, as of its view.
func (s *Agent) mention(ctx context.Context, talk, id string, at sequencer.Seq, scopes []string,
) (*api.Mention, error) {
	out := &api.Mention{ID: id, View: uint64(at)}
	for _, text := range scopes {
		name, is, err := s.shardMeant(ctx, text)
		if err != nil {
			return nil, err
		}
		rev, view := s.view.Read(name)
		switch {
		case !is || rev.Version == 0:
			out.Missing++
		case s.hasRead(talk, name):
			out.Known++
		default:
			entry, err := s.deliver(ctx, "", &reading{scope: name, rev: rev, view: min(at, view), talk: id})
			if err != nil {
				return nil, err
			}
			s.loose.Add(id, entry)
			out.Fresh++
		}
	}
	return out, nil
}

// shardMeant is the shard that a word of a text means. Not every word that looks like a name of the vocabulary makes
// one.
func (s *Agent) shardMeant(ctx context.Context, text string) (name sequencer.Scope, is bool, err error) {
	name, err = s.shardNamed(ctx, text)
	if err != nil && api.AsProblem(err).Code == api.CodeBadRequest {
		return "", false, nil
	}
	return name, err == nil, err
}

// Rely makes what a model's answer uses reads of the conversation, as old as the request was: the model saw nothing
// newer. A shard that only the answer names counts so, too.
func (s *Agent) Rely(ctx context.Context, c once.Call, mention string, scopes []string) (*api.Relied, error) {
	return flow(s, func() (*api.Relied, error) {
		asked, known := s.asked[mention]
		if !known {
			return nil, api.Problemf(api.CodeNotFound, "%s is not under way", mention)
		}
		out := &api.Relied{}
		for _, text := range scopes {
			name, is, err := s.shardMeant(ctx, text)
			if err != nil {
				return nil, err
			}
			now, _ := s.view.Read(name)
			if s.hasRead(c.Session, name) {
				out.Read++
				continue
			}
			got := &reading{scope: name, rev: now, view: asked, talk: c.Session}
			if now.At > asked { // it has moved meanwhile: what the model saw is what there was before
				got.rev.Version, got.rev.Writer = 0, ""
				list, _ := s.view.Revisions(name)
				for _, rev := range list { // newest first
					if rev.At <= asked {
						got.rev = rev
						break
					}
				}
			}
			if !is || now.Version == 0 && got.rev.Version == 0 { // a word that names nothing
				out.Missing++
				continue
			}
			if s.loose.Has(mention, name) {
				out.Mentioned++
			} else {
				out.Answered++
			}
			entry, err := s.deliver(ctx, "", got)
			if err != nil {
				return nil, err
			}
			s.loose.Add(c.Session, entry) // where it has moved already, the log refuses the seal
		}
		return out, nil
	})
}

// EndMention lets a request's mentions go: its answer has been released, or there is none.
func (s *Agent) EndMention(mention string) error {
	_, err := flow(s, func() (any, error) { return nil, s.endMention(mention) })
	return err
}

func (s *Agent) endMention(mention string) error {
	delete(s.asked, mention)
	delete(s.moved, mention)
	if len(s.loose.Take(mention)) == 0 {
		return nil
	}
	return s.delivery.Record(journal.RecordTalk, journal.TalkRecord{Session: mention})
}

// forgetMentions lets the mentions of requests go whose process has ended: they would hold the watermark for ever.
func (s *Agent) forgetMentions(loose journal.Talks) {
	for talk := range loose {
		if !strings.HasPrefix(talk, mentionTalk) {
			continue
		}
		delete(loose, talk)
		if err := s.delivery.Record(journal.RecordTalk, journal.TalkRecord{Session: talk}); err != nil {
			s.log.Warn("the next start reads the mentions of a request again", "cause", err)
		}
	}
}

// hasRead reports whether a conversation has read a shard that its next seal will carry.
func (s *Agent) hasRead(talk string, name sequencer.Scope) bool {
	if s.loose.Has(talk, name) {
		return true
	}
	for _, t := range s.active {
		if t.begin.Session != talk || t.phase != phaseOpen {
			continue
		}
		for _, r := range t.reads {
			if r.Scope.Overlaps(name) {
				return true
			}
		}
	}
	return false
}
