package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
)

// keyed is one try of a keyed commit.
type keyed struct {
	in     *api.KeyedCommit
	scope  sequencer.Scope // to be written
	was    view.Revision   // what stands there
	own    *journal.Delivered
	list   []journal.Delivered // patterns that the reader was given
	reads  []seen
	coarse bool // reads are of all shards, as of the view that showed each of them
	begin  sequencer.Begin
	resets uint64 // those that its reader's log has seen
}

// CommitKeyed replaces the content of one shard. It refuses, in this order, a reader whose log is not whole, reads
// that do not exist or have moved, and the shard itself. The answer is there beside an error, too.
func (s *Agent) CommitKeyed(ctx context.Context, in *api.KeyedCommit) (done *api.KeyedDone, err error) {
	done = &api.KeyedDone{}
	s.loop.Run(func() {
		given := s.givenAt(in.Reader)
		if err = s.commitKeyed(ctx, in, done); err == nil && given > 0 {
			s.metrics.ReadAge(time.Duration(s.nowMs()-given) * time.Millisecond)
		}
		if _, refused := errors.AsType[*api.KeyedRefusal](err); err == nil || refused {
			s.chargeReader(talkOf(in.Reader), err == nil)
		}
	})
	return done, err
}

func (s *Agent) commitKeyed(ctx context.Context, in *api.KeyedCommit, done *api.KeyedDone) error {
	if err := s.await(ctx); err != nil {
		return err
	}
	scope, err := s.shardNamed(ctx, in.Scope)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		k := &keyed{in: in, scope: scope, resets: s.resets, begin: sequencer.Begin{Mode: sequencer.Optimistic,
			Observe: in.Observe || s.observes, Session: talkOf(in.Reader)}}
		*done = api.KeyedDone{}
		given, err := s.wholeLog(in)
		if err == nil {
			err = s.effective(ctx, k, given, done)
		}
		if err != nil {
			return err
		}
		d, again, err := s.tryKeyed(ctx, k)
		switch {
		case err == nil && d.State == api.StateCommitted:
			done.Version = k.was.Writes
			return s.moveOwn(k, sequencer.Seq(d.Seq))
		case err == nil && d.State != api.StateAborted:
			return notInTime(scope)
		case err == nil:
			again, err = keyedRefusal(d)
		}
		if !again || try == keyedTries || ctx.Err() != nil {
			return err
		}
	}
}

// wholeLog is what a reader was given, if all of it still counts.
func (s *Agent) wholeLog(in *api.KeyedCommit) ([]journal.Delivered, error) {
	if in.Reader == "" {
		return nil, nil
	}
	expired := &api.KeyedRefusal{Why: api.KeyedExpired, Scope: in.Scope}
	one, _ := s.delivery.Reader(in.Reader)
	now, ttl := s.nowMs(), s.ttlOf(&one)
	whole := one.State == journal.ReaderLive && !slices.ContainsFunc(one.Reads, func(d journal.Delivered) bool {
		return d.AtMs+ttl <= now // one that is left out would let what moved since then pass
	})
	if in.Revive {
		if whole {
			return one.Reads, nil
		}
		return nil, s.delivery.SetReader(in.Reader, journal.Reader{TTLms: one.TTLms, AtMs: now})
	}
	// What readers were given may also be in a journal that is lost: each is told once.
	if whole && s.tellReadsLost(talkOf(in.Reader)) == nil {
		return one.Reads, nil
	}
	if one.State != journal.ReaderEnded {
		if err := s.endReader(in.Reader, one.TTLms); err != nil {
			return nil, err
		}
	}
	return nil, expired
}

// endReader notes that a reader is told that its log has ended.
func (s *Agent) endReader(name string, ttlMs int64) error {
	return s.delivery.SetReader(name, journal.Reader{State: journal.ReaderEnded, TTLms: ttlMs, AtMs: s.nowMs()})
}

// effective makes the reads that a commit rests on, and compares them, and then what is to be written, with the view.
func (s *Agent) effective(ctx context.Context, k *keyed, given []journal.Delivered, done *api.KeyedDone) error {
	in := k.in
	last := map[sequencer.Scope]int{}
	names := make([]sequencer.Scope, len(in.Reads))
	for i, r := range in.Reads {
		name, err := s.shardNamed(ctx, r.Scope)
		if err != nil {
			return err
		}
		names[i] = name
		last[name] = i // of one scope the last counts
	}
	for i, r := range in.Reads {
		if names[i] == k.scope || last[names[i]] != i {
			continue
		}
		rev, _ := s.view.Read(names[i])
		if rev.Version == 0 {
			return &api.KeyedRefusal{Why: api.KeyedMissing, Scope: string(names[i]), Was: r.Version}
		}
		was := rev.Version
		if rev.Writes != r.Version+1 {
			was = s.versionOf(names[i], r.Version)
		}
		if err := k.rest(asked{scope: names[i]}, was, r.Version+1, rev, done); err != nil {
			return err
		}
	}
	for i := range given {
		d := &given[i]
		if d.Scope == k.scope {
			k.own = d
			continue
		}
		if _, explicit := last[d.Scope]; explicit {
			continue
		}
		if err := s.restOnGiven(k, d, done); err != nil {
			return err
		}
	}
	done.Checked = len(k.reads) > 0 || done.Divergent
	if len(k.reads) > s.view.FootprintLimit()-2 { // beside the token and the shard itself
		// Each of them is as it was, now: so it is enough that nothing moves from now on.
		at := s.view.At()
		if s.movedSince(k.reads, s.lookAgain(k.reads), false) != nil || s.view.At() != at {
			return api.Problemf(api.CodeNotReady, "the shards that %q has read are just being written: ask again", in.Reader)
		}
		k.reads = []seen{{asked: asked{scope: api.EveryShard, list: 1}, asOf: at}}
		k.coarse = true
	}
	held, token, err := s.tokenNow(ctx, k.scope)
	if err != nil {
		return err
	}
	k.was, _ = s.view.Read(k.scope)
	switch {
	case k.was.Version == 0:
		return &api.KeyedRefusal{Why: api.KeyedMissing, Scope: string(k.scope), Was: in.Version}
	case held.Owner != "" && held.Owner != in.Reader:
		return heldBy(k.scope, &held)
	case k.was.Writes != in.Version+1:
		return &api.KeyedRefusal{Why: api.KeyedMoved, Scope: string(k.scope), Was: in.Version, Now: k.was.Writes - 1}
	}
	if !k.coarse { // else it is one of all
		k.reads = append(k.reads, seen{asked: asked{scope: tokenScope(k.scope)}, version: token.Version})
	}
	return nil
}

// restOnGiven adds one entry of the reader's log.
func (s *Agent) restOnGiven(k *keyed, d *journal.Delivered, done *api.KeyedDone) error {
	if d.Scope.HasStar() {
		k.list = append(k.list, *d)
		newest := s.lookAt(d.Scope, "", 1).page.Last
		if newest.Version > d.Version {
			if !k.in.Observe {
				return &api.KeyedRefusal{Why: api.KeyedStale, Scope: string(newest.Scope), Now: newest.Writes - 1,
					Listed: true}
			}
			done.Divergent = true
		}
		k.reads = append(k.reads, seen{asked: asked{scope: d.Scope, list: 1}, asOf: d.Version})
		return nil
	}
	rev, _ := s.view.Read(d.Scope)
	if rev.Version == 0 && d.Version != 0 && !k.in.Observe {
		// It was taken away, and a GET of what is not there changes no log: the reader would be refused for ever.
		one, _ := s.delivery.Reader(k.in.Reader)
		if err := s.endReader(k.in.Reader, one.TTLms); err != nil {
			return err
		}
		return &api.KeyedRefusal{Why: api.KeyedExpired, Scope: string(d.Scope), Was: d.Writes - 1}
	}
	was := d.Version
	if d.By != "" && rev.Writer == d.By && rev.By == d.By { // what stands there the reader has written itself
		was = rev.Version
	}
	return k.rest(asked{scope: d.Scope}, was, d.Writes, rev, done)
}

// rest adds the read of one shard, at a version that the reader knows; zero: it is not known which decision made it.
func (k *keyed) rest(what asked, was sequencer.Seq, writes uint64, now view.Revision, done *api.KeyedDone) error {
	if was != now.Version {
		if !k.in.Observe {
			refusal := &api.KeyedRefusal{Why: api.KeyedStale, Scope: string(what.scope), Was: max(1, writes) - 1}
			if now.Writes > 0 {
				refusal.Now = now.Writes - 1
			}
			return refusal
		}
		if done.Divergent = true; was == 0 || was > now.Version {
			return nil // the log cannot compare it
		}
	}
	k.reads = append(k.reads, seen{asked: what, version: was})
	return nil
}

// versionOf is the decision that made a version of a shard; zero: it is not remembered.
func (s *Agent) versionOf(name sequencer.Scope, version uint64) sequencer.Seq {
	list, _ := s.view.Revisions(name)
	for _, rev := range list {
		if rev.Writes == version+1 {
			return rev.Version
		}
	}
	return 0
}

// tryKeyed makes a transaction of a keyed commit and seals it; again: what refused it is to be looked at again.
func (s *Agent) tryKeyed(ctx context.Context, k *keyed) (d *api.Decision, again bool, err error) {
	s.letPass(ctx, &k.begin, scopesOf(k.reads, seenScope), func() bool { return s.haveMoved(k.reads, k.begin.Observe) })
	if err := s.stillHold(ctx, k.reads, k.begin.Observe); err != nil {
		return nil, hasMoved(err), err
	}
	t, err := s.startWhole(ctx, k.begin)
	if err != nil {
		return nil, false, err
	}
	w := writing{scope: k.scope, media: k.in.MediaType(k.was.Media), wide: true, content: k.in.Content,
		expect: []sequencer.Seq{k.was.Version}}
	_, err = s.fill(ctx, t, &batch{reads: k.reads, writes: []writing{w}}, nil)
	if err == nil && k.own != nil && k.resets == s.resets { // else its log has ended, and this would begin another
		// This precedes the seal: after a crash the reader's own write cannot be told from another's.
		own := *k.own
		own.By = t.id
		err = s.delivery.RestAdd(k.in.Reader, s.nowMs(), own)
	}
	if err != nil {
		s.breakOff(t)
		s.leaveLine(t.id)
		return nil, hasMoved(err), err
	}
	d, err = s.sealInTime(ctx, t)
	return d, false, err
}

// moveOwn lets a reader know its own write where it was given the shard before, and what it was given of all shards.
func (s *Agent) moveOwn(k *keyed, seq sequencer.Seq) error {
	if k.resets != s.resets { // all of that is gone
		return nil
	}
	now := s.nowMs()
	var moved []journal.Delivered
	if k.own != nil {
		moved = append(moved, journal.Delivered{Scope: k.scope, Version: seq, Writes: k.was.Writes + 1, AtMs: now})
	}
	if !k.in.Observe {
		for _, d := range k.list { // the log has compared it up to this decision
			d.Version = seq
			moved = append(moved, d)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	if err := s.delivery.RestAdd(k.in.Reader, now, moved...); err != nil {
		s.log.Warn("a reader's own write is not in its log: its next commit may be refused for it", "cause", err)
	}
	return nil
}

// WriteKeyed writes a shard that nothing was read for: a new one, or whatever stands there.
func (s *Agent) WriteKeyed(ctx context.Context, text string, content []byte, media func(now string) string,
	create bool) (*api.Counted, error) {
	return flow(s, func() (*api.Counted, error) {
		scope, err := s.shardNamed(ctx, text)
		if err != nil {
			return nil, err
		}
		for try := 1; ; try++ {
			if err := s.await(ctx); err != nil {
				return nil, err
			}
			now, _ := s.view.Read(scope)
			if create == (now.Version != 0) {
				why := api.KeyedMissing
				if create {
					why = api.KeyedExists
				}
				return nil, &api.KeyedRefusal{Why: why, Scope: string(scope)}
			}
			w := writing{scope: scope, content: content, media: media(now.Media), wide: true,
				expect: []sequencer.Seq{now.Version}}
			t, err := s.startBare(ctx)
			if err != nil {
				return nil, err
			}
			d, err := s.writeAlone(ctx, t, w)
			again, err := s.oncemore(ctx, d, err, try, scope)
			switch {
			case err != nil:
				return nil, err
			case !again:
				return s.wroteKeyed(scope, sequencer.Seq(d.Seq), now, content), nil
			}
		}
	})
}

// wroteKeyed is the shard as a write has left it, whatever was written since. The content is at hand: were it to be
// fetched, and the log away, what is written would look as if it was not.
func (s *Agent) wroteKeyed(scope sequencer.Scope, seq sequencer.Seq, was view.Revision, content []byte) *api.Counted {
	out := &api.Counted{Scope: string(scope), Seq: uint64(seq), Version: was.Writes}
	list, _ := s.view.Revisions(scope)
	for _, rev := range list {
		if rev.Version == seq {
			out = s.counts(scope, rev)
		}
	}
	out.Body = content
	return out
}

// FormerKeyed is the content that a shard had at a version.
func (s *Agent) FormerKeyed(ctx context.Context, text string, version uint64) (*api.Counted, error) {
	return flow(s, func() (*api.Counted, error) {
		if err := s.view.Ready(); err != nil {
			return nil, view.NotReady(err)
		}
		scope, err := s.shardNamed(ctx, text)
		if err != nil {
			return nil, err
		}
		if _, _, err := s.revisions(ctx, scope); err != nil { // with their contents
			return nil, err
		}
		now, _ := s.view.Read(scope)
		refusal := &api.KeyedRefusal{Why: api.KeyedDropped, Scope: string(scope), Was: version, Now: now.Writes - 1}
		switch {
		case now.Version == 0:
			refusal.Why, refusal.Now = api.KeyedMissing, 0
		case version >= now.Writes:
			refusal.Why = api.KeyedUnknown
		case version+1 == now.Writes:
			return s.countedOf(ctx, scope, now)
		}
		for _, rev := range s.formerOf(scope, now) {
			if rev.Writes == version+1 {
				return s.countedOf(ctx, scope, rev)
			}
		}
		return nil, refusal
	})
}

// A reset takes all shards away in one decision, a tombstone: seqs and the chain go on, counts of writes begin again.
// What readers were given ends with it, here and at every other sidecar whose view shows it.

// Reset takes all shards away, and says how many one-segment ones there were. When it returns, this sidecar's view
// shows it.
func (s *Agent) Reset(ctx context.Context) (cleared int, err error) {
	s.loop.Run(func() { cleared, err = s.reset(ctx) })
	return cleared, err
}

// Resets counts the resets that this sidecar has seen since it started.
func (s *Agent) Resets() (n uint64) {
	s.loop.Run(func() { n = s.resets })
	return n
}

func (s *Agent) reset(ctx context.Context) (cleared int, err error) {
	w := writing{scope: api.EveryShard, absent: true}
	for try := 1; ; try++ {
		if err := s.await(ctx); err != nil {
			return 0, err
		}
		cleared, _, _ = s.Census()
		t, err := s.startBare(ctx)
		if err != nil {
			return 0, err
		}
		d, err := s.writeAlone(ctx, t, w)
		again := false
		switch {
		case err == nil && d.State == api.StateCommitted:
			return cleared, nil
		case err == nil && d.State != api.StateAborted:
			// It waits for calls or holds of others. Later it would remove what no client expects to lose.
			return 0, api.Problemf(api.CodeNotReady, "the reset waits for transactions that hold shards, and is given up: "+
				"look at GET /shards, and ask again")
		case err == nil:
			again, err = keyedRefusal(d)
		}
		if !again || try == keyedTries || ctx.Err() != nil {
			return 0, err
		}
	}
}

// observeReset ends what readers were given where a decision took all shards away.
func (s *Agent) observeReset(o *sequencer.Outcome) {
	if o.Kind != sequencer.OutcomeCommitted || len(o.Shards) != 1 || !o.Shards[0].Absent ||
		!o.Shards[0].Scope.Covers(api.EveryShard) {
		return
	}
	s.resets++
	if err := s.delivery.EmptyReaders(); err != nil {
		// Fails closed: what was read is then compared with what is there now.
		s.log.Warn("the logs of readers are kept over a reset: their next commits may be refused", "cause", err)
	}
}
