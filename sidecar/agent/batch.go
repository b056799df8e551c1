package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// Bounds of one read of many scopes.
const (
	maxScopesRead = 128
	maxBytesRead  = 8 << 20 // of contents: clients read answers up to 16 MiB, and base64 and quotes add to them
)

// asked is one scope of a batch of reads: a shard, a pattern, or what Hence does not keep.
type asked struct {
	scope sequencer.Scope
	list  int // of a pattern: how many shards are listed
}

// seen is one read that a commit rests on, as some answer showed it.
type seen struct {
	asked
	version sequencer.Seq // of one shard; zero: absent
	asOf    sequencer.Seq // of a pattern, and of what Hence does not keep; zero: it is one shard
}

// ReadAll answers many reads at one view. They bind the next seal of the conversation, as each would by itself.
func (s *Agent) ReadAll(ctx context.Context, c once.Call, in *api.Reads) (*api.Seen, error) {
	return flow(s, func() (*api.Seen, error) { return s.readAll(ctx, c, in) })
}

func (s *Agent) readAll(ctx context.Context, c once.Call, in *api.Reads) (*api.Seen, error) {
	if n := len(in.Scopes); n == 0 || n > maxScopesRead {
		return nil, api.Problemf(api.CodeBadRequest, "scopes has %d entries: give 1 to %d, or read a pattern", n,
			maxScopesRead)
	}
	var all []asked
	for _, text := range in.Scopes {
		scope, pattern, err := s.shardsNamed(ctx, text)
		if err != nil {
			return nil, err
		}
		one := asked{scope: scope}
		if pattern {
			one.list = s.limits.ListItems
		}
		all = append(all, one)
	}
	got, err := s.loosely(ctx, c.Session, func() *reading { return s.lookTogether(all) })
	if err != nil {
		return nil, err
	}
	out := &api.Seen{Workspace: s.workspace, View: uint64(got.view)}
	size := 0
	for _, one := range append([]*reading{got}, got.rest...) {
		shard, err := s.shardOf(ctx, one)
		if err != nil {
			return nil, err
		}
		if size += int(shard.Size); size > maxBytesRead { // what has bound already binds too much: that is safe
			return nil, api.Problemf(api.CodeTooLarge, "the contents have more than %d bytes together: read fewer "+
				"scopes at once",
				maxBytesRead)
		}
		preferValue(shard)
		out.Items = append(out.Items, *shard)
	}
	return out, nil
}

// lookTogether reads several scopes at one view: the first, with the others as its rest.
func (s *Agent) lookTogether(all []asked) *reading {
	for {
		first, same := s.look(all[0].scope, all[0].list), true
		for _, one := range all[1:] {
			other := s.look(one.scope, one.list)
			first.rest = append(first.rest, other)
			same = same && other.view == first.view
		}
		if same { // else a decision has come in between: what they show together never was
			return first
		}
	}
}

// batch is the footprint that a commit asks for.
type batch struct {
	reads  []seen
	writes []writing
	calls  []toolCall
}

// Commit makes a transaction of reads that the agent has made before, writes and tool calls, seals it, and waits for
// its decision as long as ctx lasts. A read that does not hold any more is refused at once, as stale_read; it is not
// made again here: what to do about it is for the agent to say. Asked again with the same slot it goes on.
func (s *Agent) Commit(ctx context.Context, c once.Call, in *api.Commit) (*api.Committed, error) {
	return flow(s, func() (*api.Committed, error) {
		out, err := s.commit(ctx, c, in)
		p, early := errors.AsType[*api.Problem](err)
		if early = early && p.Code == string(sequencer.CodeStaleRead); early {
			s.metrics.Early.Inc()
		}
		switch {
		case !in.ReadAgain:
		case early:
			p.Read = s.readAgain(ctx, c, in.Reads)
		case err == nil && out.Decision.Code == string(sequencer.CodeStaleRead):
			out.Read = s.readAgain(ctx, c, in.Reads)
		}
		return out, err
	})
}

// readAgain reads the shards of a refused commit, as the request would that the refusal advises. nil: that is to be
// made, and its own refusal says why.
func (s *Agent) readAgain(ctx context.Context, c once.Call, reads []api.SeenAt) *api.Seen {
	in := &api.Reads{}
	for _, r := range reads {
		if sequencer.Scope(r.Scope).IsShard() {
			in.Scopes = append(in.Scopes, r.Scope)
		}
	}
	moved := s.moved[c.Session]
	moved.scopes = slices.Clone(moved.scopes)
	seen, err := s.readAll(ctx, c, in)
	if err != nil { // what it binds is too much, which is safe; what had moved still has
		s.blame(c.Session, moved)
		return nil
	}
	return seen
}

func (s *Agent) commit(ctx context.Context, c once.Call, in *api.Commit) (*api.Committed, error) {
	begin, err := s.beginOf(ctx, c, &api.Begin{Mode: in.Mode, Levels: in.Level})
	if err != nil {
		return nil, err
	}
	t, err := s.resume(ctx, c.Slot)
	if err != nil {
		return nil, err
	}
	var receipts []*api.Receipt
	if t == nil {
		b, err := s.batchOf(ctx, in)
		if err != nil {
			return nil, err
		}
		s.letPass(ctx, begin, scopesOf(b.reads, seenScope), func() bool { return s.haveMoved(b.reads, begin.Observe) })
		if err := s.stillHold(ctx, b.reads, begin.Observe); err != nil { // before the log is asked for anything
			return nil, err
		}
		if t, err = s.startWhole(ctx, *begin); err != nil {
			return nil, err
		}
		if receipts, err = s.fill(ctx, t, b, c.Slot); err != nil {
			c.Slot.Set("") // the same request begins another one
			s.breakOff(t)
			s.leaveLine(t.id) // also when it was lost while it waited for its place
			return nil, err
		}
	}
	d, err := s.sealOnly(ctx, t, c.Slot)
	if err != nil {
		return nil, err
	}
	return s.committedAs(ctx, t, d, receipts), nil
}

// batchOf reads what a commit asks for.
func (s *Agent) batchOf(ctx context.Context, in *api.Commit) (*batch, error) {
	if err := s.await(ctx); err != nil { // only a view that is ready knows which names and types are in use
		return nil, err
	}
	b := &batch{}
	if err := s.fits(len(in.Reads)); err != nil { // to look at all of them would hold the loop, and the view with it
		return nil, err
	}
	for i := range in.Reads {
		one, err := s.seenOf(ctx, &in.Reads[i])
		if err != nil {
			return nil, err
		}
		b.reads = append(b.reads, one)
	}
	expects := map[sequencer.Scope][]sequencer.Seq{}
	for i := range in.Writes {
		w, err := s.writingOf(ctx, &in.Writes[i])
		if err != nil {
			return nil, err
		}
		if w.op == sequencer.OpSet { // the last content of a shard counts, and what any of its writes expects
			if w.expect == nil {
				w.expect = expects[w.scope]
			}
			expects[w.scope] = w.expect
		}
		b.writes = append(b.writes, w)
	}
	for _, e := range in.Effects {
		call, err := callOf(e.Tool, e.Args, e.Key)
		if err != nil {
			return nil, err
		}
		b.calls = append(b.calls, call)
	}
	return b, nil
}

// seenOf is a read as a commit names it.
func (s *Agent) seenOf(ctx context.Context, in *api.SeenAt) (out seen, err error) {
	scope, err := topology.ParseScope(in.Scope)
	if err != nil {
		return out, badScope(in.Scope, err)
	}
	one := false // it is one shard
	if out.scope = scope; scope.IsShard() {
		var pattern bool
		if out.scope, pattern, err = s.shardsNamed(ctx, in.Scope); err != nil {
			return out, err
		}
		if one = !pattern; pattern {
			out.list = 1 // its newest shard is all that the footprint needs
		}
	} else if err := s.knownType(scope, &api.Read{Announce: in.Announce}); err != nil {
		return out, err
	}
	switch {
	case one && (in.Version == nil || in.AsOf != 0):
		return out, api.Problemf(api.CodeBadRequest, "the read of %s needs version, and no as_of: the version that "+
			"an answer showed, 0 where it was absent", out.scope)
	case one:
		out.version = sequencer.Seq(*in.Version)
		return out, nil
	case in.Version != nil || in.AsOf == 0: // nothing here knows when the agent read it
		return out, api.Problemf(api.CodeBadRequest, "the read of %s needs as_of, and no version: it is no single "+
			"shard, so give a seq that an answer named (view, or the seq of a decision) before it was read", out.scope)
	}
	out.asOf = sequencer.Seq(in.AsOf)
	return out, nil
}

// stillHold waits, as long as ctx lasts, until the view is not behind what the agent has seen, and says what of it the
// view no longer shows.
func (s *Agent) stillHold(ctx context.Context, reads []seen, observes bool) error {
	newest := sequencer.Seq(0)
	for _, r := range reads {
		newest = max(newest, r.version, r.asOf)
	}
	reached := func() bool { return s.view.At() >= newest }
	if !reached() {
		question := s.probe()
		// The log's answer comes behind all that it decided before: a seq that is missing by then was never shown.
		_, _ = s.ask(ctx, question, reached)
		if !reached() {
			return view.NotReached(newest, s.view.At())
		}
	}
	return s.movedSince(reads, s.lookAgain(reads), observes)
}

// haveMoved reports whether the view shows that one of the reads does not hold any more.
func (s *Agent) haveMoved(reads []seen, observes bool) bool {
	return s.movedSince(reads, s.lookAgain(reads), observes) != nil
}

// lookAgain reads at one view what the agent has seen before.
func (s *Agent) lookAgain(reads []seen) []*reading {
	if len(reads) == 0 {
		return nil
	}
	all := make([]asked, len(reads))
	for i := range reads {
		all[i] = reads[i].asked
	}
	first := s.lookTogether(all)
	return append([]*reading{first}, first.rest...)
}

// movedSince is the refusal of reads that do not hold in the view any more; nil: all of them do. What it finds fits
// the footprint then: a shard is read at the view that shows it, the rest as of when the agent says. What only
// observes is told by the log what it would have been.
func (s *Agent) movedSince(reads []seen, now []*reading, observes bool) error {
	var moved []string
	var first *reading
	var was sequencer.Seq
	observes = observes || s.view.Settings().Rules.Observe
	for i, r := range reads {
		got := now[i]
		got.rest = nil
		switch {
		case r.asOf != 0 && (got.page == nil || got.page.Last.Version <= r.asOf || observes):
			got.view = r.asOf // the log compares: what moves a scope that is not kept here the view does not know
			if got.page != nil && got.page.Last.Version > r.asOf {
				got.page.Last = view.Named{}
			}
			continue
		case r.asOf == 0 && got.rev.Version == r.version:
			continue
		case r.asOf == 0 && observes && r.version < got.rev.At:
			got.rev, got.view = view.Revision{Version: r.version}, got.rev.At-1
			continue
		}
		if moved = append(moved, string(r.scope)); first == nil {
			first, was = got, r.version
		}
	}
	if first == nil {
		return nil
	}
	rev, how := first.rev, ""
	if first.page != nil {
		rev = first.page.Last.Revision
		how = fmt.Sprintf("was written at seq %d, after it was read", rev.At)
	} else {
		how = unmet(rev.Version, []sequencer.Seq{was})
	}
	p := api.Problemf(string(sequencer.CodeStaleRead), "%s %s; nothing of the commit is done: read %s again and decide "+
		"again", first.scope, how, strings.Join(moved, ", "))
	p.Scope, p.MovedSeq, p.MovedBy, p.By, p.ReRead = string(first.scope), uint64(rev.At), string(rev.By), "sidecar",
		moved
	p.View = uint64(first.view)
	return p
}

// fill gives a transaction its reads, writes and calls, in this order. What it has made is in the slot before anything
// of it can leave; the receipts are those of the calls.
func (s *Agent) fill(ctx context.Context, t *tx, b *batch, slot *once.Slot) ([]*api.Receipt, error) {
	if len(b.calls) == 0 { // else it is sealed after them, and nothing in line waits for calls
		s.standInLine(ctx, t, scopesOf(b.reads, seenScope), scopesOf(b.writes, toWrite),
			func() bool { return t.phase != phaseOpen || s.haveMoved(b.reads, t.begin.Observe) })
	}
	if err := s.readAsSeen(ctx, t, b.reads); err != nil {
		return nil, err
	}
	for _, w := range b.writes {
		w.rests = true
		if _, err := s.write(ctx, t, w); err != nil {
			return nil, err
		}
	}
	slot.Set(t.id)
	if err := slot.Rest(); err != nil { // what a call records, and the seal, comes after it
		return nil, err
	}
	var receipts []*api.Receipt
	for _, call := range b.calls {
		r, err := s.effect(ctx, t, call, nil)
		if err != nil {
			return nil, err
		}
		if r.State == api.EffectFailed { // no agent looks at it before the seal, and the rest may follow from it
			return nil, api.Problemf(string(sequencer.CodeToolFailed), "%s refused, and nothing of the commit is "+
				"done: %s",
				call.tool, r.Detail)
		}
		receipts = append(receipts, r)
	}
	return receipts, nil
}

// readAsSeen adds reads that the agent has made before, at a view that shows the same.
func (s *Agent) readAsSeen(ctx context.Context, t *tx, reads []seen) error {
	if len(reads) == 0 {
		return nil
	}
	if err := s.enter(ctx, t); err != nil { // another request adds to it
		return err
	}
	defer s.leave(t)
	var want []sequencer.Scope
	for _, r := range reads {
		if want = append(want, r.scope); r.list > 0 {
			want = append(want, s.view.Spelt(r.scope)...)
		}
	}
	if err := s.prepare(ctx, t, want...); err != nil {
		return err
	}
	if err := s.usable(t); err != nil {
		return err
	}
	if err := s.fits(t.size() + len(want)); err != nil { // with what the patterns stand for
		return err
	}
	now := s.lookAgain(reads)
	if err := s.movedSince(reads, now, t.begin.Observe); err != nil {
		return err
	}
	// Of two reads of what Hence does not keep, the older one binds more, and the first counts.
	slices.SortStableFunc(now, func(a, b *reading) int { return cmp.Compare(a.view, b.view) })
	for _, got := range now {
		got.shown = true
		entries, err := s.deliverAll(ctx, t.id, got)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			t.reads = journal.AddRead(t.reads, entry)
		}
	}
	return nil
}

// fits refuses more scopes than a footprint has.
func (s *Agent) fits(n int) error {
	if most := s.view.FootprintLimit(); n > most {
		return api.Problemf(api.CodeLimit, "the commit names %d scopes in its reads; at most %d go into one, so "+
			"read patterns", n, most)
	}
	return nil
}

// committedAs answers a commit: its calls as they stand now, in the order of the request. After a restart only those
// are known that have a place among the transaction's calls.
func (s *Agent) committedAs(ctx context.Context, t *tx, d *api.Decision, receipts []*api.Receipt) *api.Committed {
	out := &api.Committed{Tx: string(t.id), Decision: *d}
	called := len(t.effects) > 0
	var now []api.Receipt
	if called {
		now = s.effects(ctx, t).Effects
	}
	if receipts == nil {
		out.Effects = now
	}
	for _, r := range receipts {
		if r.Index != nil && int(*r.Index) < len(now) {
			r = &now[*r.Index]
		}
		out.Effects = append(out.Effects, *r)
	}
	return out
}

// offering is a policy that describes its tools.
type offering interface {
	Offers() []gate.Offer
}

// Offers lists what agents may call, as their policy describes it.
func Offers(policy gate.Tools) *api.Offers {
	out := &api.Offers{Tools: []api.Offer{}}
	p, ok := policy.(offering)
	if !ok { // without a policy no tool is called here
		return out
	}
	for _, o := range p.Offers() {
		out.Tools = append(out.Tools, api.Offer{Name: o.Name, Description: o.Description, Arguments: o.Arguments,
			Class: o.Class.String(), Runs: runsOf(o.Class)})
	}
	return out
}

func runsOf(c sequencer.Class) string {
	switch {
	case c == sequencer.ClassRead:
		return api.RunsAtOnce
	case c.Eager():
		return api.RunsGranted
	}
	return api.RunsCommitted
}

func seenScope(r seen) sequencer.Scope { return r.scope }
