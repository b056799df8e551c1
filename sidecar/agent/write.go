package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// writing is one shard write as a request asks for it.
type writing struct {
	scope   sequencer.Scope
	media   string
	content []byte
	expect  []sequencer.Seq // one of these the shard's version must be, zero: it is not there; nil: any
	rests   bool            // it is answered with the seal, so its record may rest until then
	wide    bool            // the media type carries what a face says of the content
	op      sequencer.Op    // not OpSet: content is a delta
	absent  bool            // all shards at or below the scope are taken away; there is no content
}

// Bounds of a media type.
const (
	maxMediaBytes = 128
	maxWideMedia  = 3 << 10 // of one that carries more
)

// write adds a shard write to an open transaction; the last write of a shard counts.
func (s *Agent) write(ctx context.Context, t *tx, w writing) (*api.Written, error) {
	if err := s.enter(ctx, t); err != nil {
		return nil, err
	}
	defer s.leave(t)
	return s.writeIn(ctx, t, w)
}

// writeIn adds a shard write to a transaction that the caller has entered.
func (s *Agent) writeIn(ctx context.Context, t *tx, w writing) (*api.Written, error) {
	if err := s.prepare(ctx, t); err != nil {
		return nil, err
	}
	shard, err := s.checkWrite(ctx, t, w)
	if err != nil {
		return nil, err
	}
	if shard.Op == sequencer.OpSet && s.byReference(t, shard) {
		if shard.Ref, err = s.keepContent(ctx, t, shard); err != nil {
			return nil, err
		}
		shard.Content = nil
	}
	if err := s.usable(t); err != nil {
		return nil, err
	}
	event := &topology.Event{
		Kind: topology.EventWrite, Workspace: s.workspace, Tx: t.id, Agent: s.agent, Incarnation: t.incarnation,
		AtMs: s.clock.Now().UnixMilli(), Scope: w.scope, MediaType: w.media, Size: int64(len(w.content)),
		SHA256: w.given(shard), Traceparent: traceOf(ctx),
	}
	if w.rests {
		err = s.delivery.RestEvent(event)
	} else {
		err = s.delivery.Event(event, nil)
	}
	if err != nil {
		return nil, err
	}
	if old := t.write(w.scope); old != nil {
		*old = *shard
	} else {
		t.writes = append(t.writes, *shard)
	}
	return &api.Written{Tx: string(t.id), Scope: string(w.scope), Writes: len(t.writes), Overtaken: t.overtaken}, nil
}

// checkWrite holds a write against the limits and its expected version against the view.
func (s *Agent) checkWrite(ctx context.Context, t *tx, w writing) (*sequencer.ShardWrite, error) {
	if err := s.tooLong(w); err != nil {
		return nil, err
	}
	most := maxMediaBytes
	if w.wide {
		most = maxWideMedia
	}
	if len(w.media) > most || !utf8.ValidString(w.media) {
		return nil, api.Problemf(api.CodeBadRequest, "the media type has more than %d bytes, or is not UTF-8", most)
	}
	full := t.write(w.scope) == nil && t.size() >= s.view.FootprintLimit()
	if full {
		return nil, api.Problemf(api.CodeLimit, "the transaction names %d scopes already", s.view.FootprintLimit())
	}
	switch {
	case w.op != sequencer.OpSet:
		return s.checkDelta(ctx, t, w)
	case w.absent:
		return s.checkAbsent(w)
	}
	shard := &sequencer.ShardWrite{Scope: w.scope, Type: w.media, Content: w.content}
	if w.expect == nil {
		return shard, nil
	}
	expect, err := s.expect(ctx, w.scope, w.expect)
	shard.Expect = expect
	return shard, err
}

// expect is the condition that a shard has one of some versions, with the view that shows it. Where it has another,
// and none of them can still come into the view, it is refused at once: versions only grow. In a workspace that
// observes, the log says what it would have been.
func (s *Agent) expect(ctx context.Context, scope sequencer.Scope,
	versions []sequencer.Seq) (*sequencer.Expect, error) {
	last := slices.Max(versions)
	if err := s.reachAll(ctx, last); err != nil {
		return nil, err
	}
	rev, at := s.view.Read(scope)
	switch {
	case slices.Contains(versions, rev.Version):
		return &sequencer.Expect{Version: rev.Version, View: at}, nil
	case s.view.Settings().Rules.Observe && at >= last:
		return &sequencer.Expect{Version: last, View: last}, nil
	}
	p := api.Problemf(string(sequencer.CodeVersionMismatch), "%s %s; read it again", scope, unmet(rev.Version, versions))
	p.ReRead, p.Scope = []string{string(scope)}, string(scope)
	p.MovedSeq, p.MovedBy, p.View = uint64(rev.At), string(rev.By), uint64(at)
	return nil, p
}

// unmet says how the version that a shard has is not one of those that were expected.
func unmet(now sequencer.Seq, versions []sequencer.Seq) string {
	var list []string
	for _, v := range versions {
		list = append(list, strconv.FormatUint(uint64(v), 10))
	}
	expected := strings.Join(list, " or ")
	switch {
	case slices.Contains(versions, 0):
		return fmt.Sprintf("exists at version %d, and is expected not to exist", now)
	case now == 0:
		return fmt.Sprintf("does not exist, and version %s is expected", expected)
	}
	return fmt.Sprintf("is at version %d, and version %s is expected", now, expected)
}

// reachAll waits a moment until the view has reached a seq, or has all that was decided before this request: then no
// sidecar can have seen that seq. The log says so in its answer to a question, behind all that it decided before.
func (s *Agent) reachAll(ctx context.Context, seq sequencer.Seq) error {
	if s.view.At() >= seq {
		return nil
	}
	short, cancel := s.clock.Within(ctx, s.limits.FutureWait)
	defer cancel()
	question := s.probe()
	_, err := s.ask(short, question, func() bool { return s.view.At() >= seq })
	if err != nil && s.view.At() < seq { // it may have been reached by the last decision before the time was up
		return view.NotReached(seq, s.view.At())
	}
	return nil
}

// reachSeq waits a moment for a seq that another sidecar may have seen before this one.
func (s *Agent) reachSeq(ctx context.Context, seq sequencer.Seq) error {
	if s.view.At() >= seq {
		return nil
	}
	short, cancel := s.clock.Within(ctx, s.limits.FutureWait)
	defer cancel()
	if s.reach(short, seq) != nil {
		return view.NotReached(seq, s.view.At())
	}
	return nil
}

// byReference reports whether a content is too large for the intent itself.
func (s *Agent) byReference(t *tx, w *sequencer.ShardWrite) bool {
	rules := s.view.Settings().Rules
	return len(w.Content) > int(rules.MaxInline) || t.inlineWith(w) > int(rules.MaxInlineTotal)
}

// inlineWith is how many bytes of contents a transaction's seal has, with one more write.
func (t *tx) inlineWith(w *sequencer.ShardWrite) int {
	total := len(w.Content)
	for i := range t.writes {
		if t.writes[i].Scope != w.Scope {
			total += len(t.writes[i].Content)
		}
	}
	return total
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

// drop ends a transaction that was never sealed and that nobody can come back to.
func (s *Agent) drop(t *tx, why string) {
	if t.decided() || t.phase != phaseOpen {
		return
	}
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeAbortedByAgent, Detail: why}
	s.giveUp(t, o)
	if t.begun {
		s.abortInLog(t, o, "")
	}
}

// retracts is the logic of the fold from which on it takes committed transactions back.
const retracts = 2

// refersToLog is the logic from which on the fold keeps no contents: a former one is said by the decision that has it.
const refersToLog = 3

// withFormer is a transaction's writes for its seal. Those of shards that were last written so long ago that the fold
// may have forgotten what stood there say it, so that a retraction can put it back.
func (s *Agent) withFormer(writes []sequencer.ShardWrite) []sequencer.ShardWrite {
	out := slices.Clone(writes)
	now := s.view.Settings()
	if !now.Exact || now.Rules.Logic < retracts {
		return out
	}
	if now.Rules.Logic >= refersToLog {
		for i := range out {
			if out[i].Absent { // of many shards, and nothing of them is put back
				continue
			}
			rev, at := s.view.Read(out[i].Scope)
			out[i].Former = &sequencer.Former{Version: rev.Version, View: at, Restored: rev.From}
		}
		return out
	}
	inline := 0
	for i := range out {
		inline += len(out[i].Content)
	}
	for i := range out {
		rev, at := s.view.Read(out[i].Scope)
		recent := rev.Version != 0 && at-rev.Version < now.Rules.HorizonSeqs/2
		if inline += len(rev.Content); recent || inline > int(now.Rules.MaxInlineTotal) {
			inline -= len(rev.Content)
			continue
		}
		out[i].Former = &sequencer.Former{Version: rev.Version, View: at, Type: rev.Media, Content: rev.Content,
			Ref: rev.Ref}
	}
	return out
}
