package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
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
		if shard.Op == sequencer.OpSet && shard.Expect == nil {
			shard.Expect = old.Expect // the content is replaced, not the condition
		}
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

// retracts is the logic of the fold from which on it takes committed transactions back.
const retracts = 2

// refersToLog is the logic from which on the fold keeps no contents: a former one is said by the decision that has it.
const refersToLog = 3

// checkAbsent makes the write that takes shards away.
func (s *Agent) checkAbsent(w writing) (*sequencer.ShardWrite, error) {
	switch now := s.view.Settings(); {
	case !now.Exact:
		return nil, api.Problemf(api.CodeNotReady, "the rules of the workspace are not known here yet")
	case now.Rules.Logic < merges: // its processors would skip the record and never answer it
		return nil, api.Problemf(api.CodeBadRequest, "the workspace follows logic %d, and a reset needs logic %d: hence "+
			"rules set --logic %d, once all processors and sidecars have this release", now.Rules.Logic, merges, merges)
	}
	return &sequencer.ShardWrite{Scope: w.scope, Absent: true}, nil
}

// checkDelta makes the shard write of a delta, together with what the transaction writes there already.
func (s *Agent) checkDelta(ctx context.Context, t *tx, w writing) (*sequencer.ShardWrite, error) {
	now := s.view.Settings()
	switch {
	case w.expect != nil: // it goes with whatever is there: what depends on a version has been read
		return nil, api.Problemf(api.CodeBadRequest, "a write with op %s expects no version: leave out if_version and "+
			"If-Match, or write the whole content", w.op)
	case !now.Exact:
		return nil, api.Problemf(api.CodeNotReady, "the rules of the workspace are not known here yet")
	case now.Rules.Logic < merges: // its processors would write the delta over the content
		return nil, api.Problemf(api.CodeBadRequest, "the workspace follows logic %d, and op needs logic %d: hence rules "+
			"set --logic %d, once all processors and sidecars have this release", now.Rules.Logic, merges, merges)
	case len(w.content) > int(now.Rules.MaxInline):
		return nil, api.Problemf(api.CodeTooLarge, "a delta has at most %d bytes, and this one has %d",
			now.Rules.MaxInline, len(w.content))
	}
	if w.op == sequencer.OpAdd {
		if _, err := strconv.ParseInt(string(w.content), 10, 64); err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "what is added is %.40q: send an int64 in decimal digits, such as "+
				"1 or -20", w.content)
		}
	}
	delta := &sequencer.ShardWrite{Scope: w.scope, Type: w.media, Content: w.content, Op: w.op}
	if old := t.write(w.scope); old != nil {
		both, err := s.together(ctx, old, delta)
		if err != nil || both.Op == sequencer.OpSet {
			return both, err
		}
		if delta = both; len(delta.Content) > int(now.Rules.MaxInline) {
			return nil, api.Problemf(api.CodeTooLarge, "the deltas of the transaction at %s have %d bytes together; at most "+
				"%d go into one", w.scope, len(delta.Content), now.Rules.MaxInline)
		}
	}
	if n := t.inlineWith(delta); n > int(now.Rules.MaxInlineTotal) {
		return nil, api.Problemf(api.CodeLimit, "the transaction would carry %d bytes of contents, and %d go into one", n,
			now.Rules.MaxInlineTotal)
	}
	full := t.write(w.scope) == nil && t.size() >= s.view.FootprintLimit()
	if full {
		return nil, api.Problemf(api.CodeLimit, "the transaction names %d scopes already", s.view.FootprintLimit())
	}
	return delta, s.goesWith(ctx, delta)
}

// tooLong refuses a content that is longer than what the rules allow, or than what their logic can name.
func (s *Agent) tooLong(w writing) error {
	now, n := s.view.Settings(), len(w.content)
	switch {
	case n > int(now.Rules.MaxContent):
		return api.Problemf(api.CodeTooLarge, "%s would have %d bytes; a shard has at most %d: hence rules set "+
			"--max-content allows up to %d under logic %d", w.scope, n, now.Rules.MaxContent, sequencer.MaxContent, chainsFrom)
	case n <= mostInOne:
		return nil
	case !now.Exact:
		return api.Problemf(api.CodeNotReady, "the rules of the workspace are not known here yet")
	case !now.Rules.Chains(): // its readers would take the first part for the whole
		return api.Problemf(api.CodeTooLarge, "%s would have %d bytes; the workspace follows logic %d, under which one "+
			"event has a content, of at most %d bytes: hence rules set --logic %d, once all processors and sidecars have "+
			"this release", w.scope, n, now.Rules.Logic, mostInOne, chainsFrom)
	}
	return nil
}

// given is the hash of what a write was given.
func (w *writing) given(as *sequencer.ShardWrite) sequencer.Hash {
	if w.op == sequencer.OpSet && as.Ref != nil { // known already
		return as.Ref.SHA256
	}
	return sha256.Sum256(w.content)
}
