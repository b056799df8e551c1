package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
)

// mentionTalk begins the names of the conversations of requests to models. No header can have such a character, so no
// agent's conversation has such a name.
const mentionTalk = "\x01mention/"

// Mention records, before a request leaves for a model, which shards it names: as reads of the view of now, in a
// conversation of the request's own. They bind nothing until the answer is seen to use them. What the conversation has
// read itself stays as it was read: it is older.
func (s *Agent) Mention(ctx context.Context, who api.Told, scopes []string) (*api.Mention, error) {
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
		s.asked[id] = mentioned{at, s.covered.Ask(talkOfTold(who)), s.nowMs()} // from here on the watermark waits for it
		out, err := s.mention(ctx, who, id, at, scopes)
		if err != nil {
			return nil, errors.Join(err, s.endMention(id))
		}
		return out, nil
	})
}

// mention delivers what a request names, as of its view.
func (s *Agent) mention(ctx context.Context, who api.Told, id string, at sequencer.Seq, scopes []string,
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
		case s.toldBefore(who, name):
			out.Known++
		default:
			entry, err := s.deliver(ctx, "", &reading{scope: name, rev: rev, view: min(at, view), talk: id, told: true})
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

// Rely looks at what a model's answer uses. bind makes it reads of the conversation, as old as the request was: the
// model saw nothing newer. A shard that only the answer names counts so, too.
func (s *Agent) Rely(ctx context.Context, who api.Told, mention string, scopes []string, bind bool,
) (*api.Relied, error) {
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
			if s.toldBefore(who, name) {
				if s.covered.InStep(talkOfTold(who), string(name), asked.step) {
					out.Step++
				} else {
					out.Earlier++
				}
				continue
			}
			got := s.asOf(name, asked.view)
			if now, _ := s.view.Read(name); !is || now.Version == 0 && got.rev.Version == 0 { // a word that names nothing
				out.Missing++
				continue
			}
			if s.loose.Has(mention, name) {
				out.Mentioned++
			} else {
				out.Answered++
			}
			if !bind {
				continue
			}
			if err := s.keepTold(ctx, who, got, asked.atMs); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// asOf is a shard as a view had it that is not the newest any more.
func (s *Agent) asOf(name sequencer.Scope, view sequencer.Seq) *reading {
	now, _ := s.view.Read(name)
	got := &reading{scope: name, rev: now, view: view}
	if now.At > view { // it has moved meanwhile: what the model saw is what there was before
		got.rev.Version, got.rev.Writer, got.rev.Writes = 0, "", 0
		list, _ := s.view.Revisions(name)
		for _, rev := range list { // newest first
			if rev.At <= view {
				got.rev = rev
				break
			}
		}
	}
	return got
}

// keepTold makes a reading one of a conversation, or of a reader. Where it has moved already the log refuses the
// commit.
func (s *Agent) keepTold(ctx context.Context, who api.Told, got *reading, atMs int64) error {
	if who.Reader != "" {
		return s.delivery.Add(who.Reader, s.nowMs(), deliveredNow(got.scope, got, time.UnixMilli(atMs)))
	}
	got.talk, got.told = who.Session, true
	entry, err := s.deliver(ctx, "", got)
	if err == nil {
		s.loose.Add(who.Session, entry)
	}
	return err
}

// Spend notes what an answer of a model has cost; the next decision of the conversation says what for.
func (s *Agent) Spend(who api.Told, tokens uint64) {
	s.loop.Run(func() { s.covered.Spend(talkOfTold(who), tokens) })
}

// talkOfTold is the conversation that commits of who is told belong to.
func talkOfTold(who api.Told) string {
	if who.Reader != "" {
		return talkOf(who.Reader)
	}
	return who.Session
}

// toldBefore reports whether who is told something has read it itself: that is older, and stays.
func (s *Agent) toldBefore(who api.Told, name sequencer.Scope) bool {
	if who.Reader == "" {
		return s.hasRead(who.Session, name)
	}
	had, known := s.delivery.Given(who.Reader, name)
	return known && !s.spent(who.Reader, had.AtMs)
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

// givenAt is when a reader was given the oldest of what its commits rest on; zero: nothing.
func (s *Agent) givenAt(reader string) (atMs int64) {
	one, _ := s.delivery.Reader(reader)
	for _, d := range one.Reads {
		if atMs == 0 || d.AtMs < atMs {
			atMs = d.AtMs
		}
	}
	return atMs
}
