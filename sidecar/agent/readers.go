package agent

import (
	"context"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// Readers are names beside this agent's conversations whose every commit rests on all that they were given, until
// their log is cleared or ends. What one was given is in the journal before the answer; it goes to the log with a
// commit.

// Give reads one shard, for a reader, whose commits rest on it from then on, or, without one, only looks. answered is
// to be called once the reader has its answer; it is never nil, and need not be called where there is an error.
func (s *Agent) Give(ctx context.Context, reader, text string) (out *api.Counted, answered func(), err error) {
	answered = func() {}
	s.loop.Run(func() {
		var name sequencer.Scope
		if name, err = s.shardNamed(ctx, text); err != nil {
			return
		}
		look := func() *reading { return s.look(name, 0) }
		out, answered, err = give(ctx, s, reader, name, look, func(got *reading) (*api.Counted, error) {
			return s.countedOf(ctx, name, got.rev)
		})
	})
	return out, answered, err
}

// GiveAll reads all shards that a pattern covers; for a reader that is a read of the pattern.
func (s *Agent) GiveAll(ctx context.Context, reader, pattern string) (out []api.Counted, answered func(), err error) {
	answered = func() {}
	s.loop.Run(func() {
		var name sequencer.Scope
		if name, _, err = s.shardsNamed(ctx, pattern); err != nil {
			return
		}
		look := func() *reading { return s.lookAt(name, "", int(^uint(0)>>1)) }
		out, answered, err = give(ctx, s, reader, name, look, func(got *reading) (all []api.Counted, err error) {
			all = make([]api.Counted, 0, len(got.page.Items))
			for i := range got.page.Items {
				one, err := s.countedOf(ctx, got.page.Items[i].Scope, got.page.Items[i].Revision)
				if err != nil {
					return nil, err
				}
				all = append(all, *one)
			}
			return all, nil
		})
	})
	return out, answered, err
}

// give reads, for a reader or for none, and shows what is there.
func give[T any](ctx context.Context, s *Agent, reader string, name sequencer.Scope, look func() *reading,
	show func(*reading) (T, error)) (out T, answered func(), err error) {
	var got *reading
	end := func() {}
	if reader == "" {
		got, err = s.readLoosely(ctx, once.Call{}, false, look)
	} else {
		got, end, err = s.giveTo(ctx, reader, name, look)
	}
	if err == nil {
		out, err = show(got)
	}
	if err != nil { // it has no answer: a giving that never ends would let its older version count for ever
		end()
		return out, func() {}, err
	}
	return out, func() { s.loop.Run(end) }, nil
}

// giveTo reads for a reader. The loop calls end once the reader has its answer, or none; it is never nil.
func (s *Agent) giveTo(ctx context.Context, reader string, name sequencer.Scope,
	look func() *reading) (got *reading, end func(), err error) {
	if err := s.view.Ready(); err != nil {
		return nil, func() {}, view.NotReady(err)
	}
	began, what := s.beginGiving(reader, name)
	recorded := false
	end = func() { s.endGiving(what, recorded) }
	if err = s.fetched(ctx, look); err == nil {
		got = look()
		if len(got.lacks()) > 0 {
			err = view.BeingFetched(got.lacks()[0])
		}
	}
	if exists := err == nil && (got.page != nil || got.rev.Version != 0); exists {
		recorded, err = s.recordGiven(reader, deliveredNow(name, got, s.clock.Now()), s.giving[what], began)
	}
	return got, end, err
}

// deliveredNow is what a reading shows of its scope.
func deliveredNow(name sequencer.Scope, got *reading, now time.Time) journal.Delivered {
	d := journal.Delivered{Scope: name, Version: got.rev.Version, Writes: got.rev.Writes, AtMs: now.UnixMilli()}
	if got.page != nil {
		d.Version = got.view
	}
	return d
}

func (s *Agent) beginGiving(reader string, name sequencer.Scope) (began uint64, what giving) {
	what = giving{reader, name}
	g := s.giving[what]
	if g == nil {
		g = &given{}
		s.giving[what] = g
	}
	g.active++
	s.givings++
	return s.givings, what
}

func (s *Agent) endGiving(what giving, recorded bool) {
	g := s.giving[what]
	if recorded {
		g.recorded--
	}
	s.givings++
	g.answered = s.givings
	if g.active--; g.active == 0 {
		delete(s.giving, what)
	}
}

// recordGiven journals what a reader is given. Where another answer overlaps this one, the older version stays.
func (s *Agent) recordGiven(reader string, d journal.Delivered, g *given, began uint64) (bool, error) {
	had, known := s.delivery.Given(reader, d.Scope)
	overlaps := g.recorded > 0 || g.answered > began
	if known && overlaps && had.Version < d.Version && !s.spent(reader, had.AtMs) {
		d = had
	}
	if !known {
		if one, _ := s.delivery.Reader(reader); len(one.Reads) >= mostGiven {
			return false, &api.KeyedRefusal{Why: api.KeyedFull, Scope: string(d.Scope), Was: mostGiven}
		}
	}
	if err := s.delivery.Add(reader, s.nowMs(), d); err != nil {
		return false, err
	}
	g.recorded++
	s.covered.Read(talkOf(reader), string(d.Scope), s.clock.Now())
	s.retireReaders()
	return true, nil
}

func (s *Agent) nowMs() int64 { return s.clock.Now().UnixMilli() }

// ttlOf is how long what a reader was given counts, in milliseconds.
func (s *Agent) ttlOf(one *journal.Reader) int64 {
	if one.TTLms > 0 {
		return one.TTLms
	}
	return s.limits.ReaderTTL.Milliseconds()
}

func (s *Agent) spent(reader string, atMs int64) bool {
	one, _ := s.delivery.Reader(reader)
	return atMs+s.ttlOf(&one) <= s.nowMs()
}

// retireReaders ends readers whose time is up and those beyond the bounds, a few with each request.
func (s *Agent) retireReaders() {
	_, err := s.delivery.Retire(s.nowMs(), s.ttlOf, s.limits.Readers, mostGivenAll)
	if err != nil {
		s.log.Warn("readers whose time is up are kept", "cause", err)
	}
}

// OpenReader clears a reader's log; what it is given from now on counts for a time, zero: the default one.
func (s *Agent) OpenReader(ctx context.Context, reader string, ttl time.Duration) error {
	_, err := flow(s, func() (any, error) {
		if err := s.view.Ready(); err != nil {
			return nil, view.NotReady(err)
		}
		if err := s.toldReadsLost(talkOf(reader)); err != nil { // nothing rests on what it read before
			return nil, err
		}
		err := s.delivery.SetReader(reader, journal.Reader{TTLms: ttl.Milliseconds(), AtMs: s.nowMs()})
		s.retireReaders()
		return nil, err
	})
	return err
}

// Register gives a reader shards that it was shown by others, at their versions of now; what it was given before
// stays, but for what has expired.
func (s *Agent) Register(ctx context.Context, reader string, scopes []string) (out api.Registered, err error) {
	s.loop.Run(func() {
		if err = s.view.Ready(); err != nil {
			err = view.NotReady(err)
			return
		}
		for _, text := range scopes {
			name, wrong := s.shardNamed(ctx, text)
			if err = wrong; err != nil {
				return
			}
			rev, _ := s.view.Read(name)
			had, known := s.delivery.Given(reader, name)
			switch {
			case rev.Version == 0:
				out.Missing++
				continue
			case known && !s.spent(reader, had.AtMs):
				out.Known++
				continue
			}
			out.Fresh++
			err = s.delivery.Add(reader, s.nowMs(), journal.Delivered{Scope: name, Version: rev.Version,
				Writes: rev.Writes, AtMs: s.nowMs()})
			if err != nil {
				return
			}
		}
		s.retireReaders()
	})
	return out, err
}

// Inject lets a reader look as if it was given a version of a shard, whatever it was given: for tests of its clients.
func (s *Agent) Inject(ctx context.Context, reader, text string, version uint64) error {
	_, err := flow(s, func() (any, error) {
		name, err := s.shardNamed(ctx, text)
		if err != nil {
			return nil, err
		}
		d := journal.Delivered{Scope: name, Writes: version + 1, AtMs: s.nowMs()}
		list, _ := s.view.Revisions(name)
		for _, rev := range list {
			if rev.Writes == d.Writes {
				d.Version = rev.Version
				break
			}
		}
		return nil, s.delivery.Add(reader, s.nowMs(), d)
	})
	return err
}

// ReaderLogs are the logs of readers that are live, at most so many.
func (s *Agent) ReaderLogs(most int) (out []api.ReaderLog) {
	now := s.nowMs()
	s.delivery.EachReader(func(name string, one *journal.Reader) bool {
		log := api.ReaderLog{Reader: name}
		for _, d := range one.Reads {
			version := max(1, d.Writes) - 1 // one that a model's request was older than has none
			if strings.Contains(string(d.Scope), "*") {
				version = uint64(d.Version)
			}
			log.Given = append(log.Given, api.ReaderGiven{Scope: string(d.Scope), Version: version,
				AgeMs: max(0, now-d.AtMs)})
		}
		out = append(out, log)
		return len(out) < most
	})
	return out
}

// Census counts the shards of one segment, the readers that are live, and what all of them were given.
func (s *Agent) Census() (shards, readers, reads int) {
	page := s.view.List([]sequencer.Scope{"shard:/*"}, "", int(^uint(0)>>1))
	for i := range page.Items {
		if len(page.Items[i].Scope.Segments()) == 1 {
			shards++
		}
	}
	readers, reads = s.delivery.CountReaders()
	return shards, readers, reads
}

// countedOf is a revision as keyed faces show it.
func (s *Agent) countedOf(ctx context.Context, name sequencer.Scope, rev view.Revision) (*api.Counted, error) {
	if rev.Version == 0 {
		return &api.Counted{Scope: string(name)}, nil
	}
	got, err := s.contentAt(ctx, name, rev, 0)
	if err != nil {
		return nil, err
	}
	out := s.counts(name, rev)
	out.Body, out.Parts, out.Size = got.Body, got.Parts, got.Size
	return out, nil
}

// counts is all of a revision but its content.
func (s *Agent) counts(name sequencer.Scope, rev view.Revision) *api.Counted {
	held, _ := s.tokenOf(name)
	return &api.Counted{Scope: string(name), Seq: uint64(rev.Version), Version: rev.Writes - 1, MediaType: rev.Media,
		Former: len(s.formerOf(name, rev)), Owner: held.Owner}
}

// formerOf are the revisions before one that are remembered, newest first, back to the last time the shard was taken
// away.
func (s *Agent) formerOf(name sequencer.Scope, now view.Revision) (out []view.Revision) {
	list, _ := s.view.Revisions(name)
	next := now.Writes
	for _, rev := range list {
		if rev.At < now.At && rev.Writes == next-1 {
			out, next = append(out, rev), rev.Writes
		}
	}
	return out
}
