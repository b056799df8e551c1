package agent

import (
	"context"
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
		if len(s.loose)+len(s.asked) >= s.limits.Conversations {
			return nil, api.Problemf(api.CodeLimit, "%d conversations and requests to models are under way: try again later",
				len(s.loose)+len(s.asked))
		}
		s.mentions++
		out := &api.Mention{ID: fmt.Sprintf("%s%d-%d", mentionTalk, s.incarnation, s.mentions)}
		at := s.view.At()
		for _, text := range scopes {
			name, err := s.shardNamed(ctx, text)
			switch {
			case err != nil && api.AsProblem(err).Code == api.CodeBadRequest: // a word that makes no name of a shard
				out.Missing++
				continue
			case err != nil:
				return nil, err
			}
			rev, view := s.view.Read(name)
			switch {
			case rev.Version == 0:
				out.Missing++
			case s.hasRead(c.Session, name):
				out.Known++
			default:
				entry, err := s.deliver(ctx, "", &reading{scope: name, rev: rev, view: min(at, view), talk: out.ID})
				if err != nil {
					return nil, err
				}
				s.loose.Add(out.ID, entry)
				out.Fresh++
			}
		}
		out.View = uint64(at)
		s.asked[out.ID] = at
		return out, nil
	})
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
			name, err := s.shardNamed(ctx, text)
			switch {
			case err != nil && api.AsProblem(err).Code == api.CodeBadRequest: // a word that makes no name of a shard
				out.Missing++
				continue
			case err != nil:
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
			if now.Version == 0 && got.rev.Version == 0 { // a word that names nothing
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
	_, err := flow(s, func() (any, error) {
		delete(s.asked, mention)
		if len(s.loose[mention]) == 0 {
			return nil, nil
		}
		delete(s.moved, mention)
		s.loose.Take(mention)
		return nil, s.delivery.Record(journal.RecordTalk, journal.TalkRecord{Session: mention})
	})
	return err
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
