package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
)

// Formers are the processes of this agent before this one, and beside its journal: who of them may still make calls,
// and whether one has made calls that the journal does not know. On that rests what a settlement may do without a key.
// Its state is the loop's.
type Formers struct {
	Reader
	agent    string
	view     *view.View
	clock    loop.Clock
	delivery *journal.Journal
	log      *slog.Logger

	former    sequencer.Seq // the incarnation that the journal was left by
	first     sequencer.Seq // the first incarnation of this process; zero: it has none yet
	joins     []string      // intents of the journal's joins after former, up to first
	since     sequencer.Seq // the session after which this journal may have missed others; zero: it is new
	others    *bool         // whether another process had a session since; nil: not looked for
	displaced sequencer.Seq // an incarnation that was live elsewhere until this process joined; zero: none

	strangersSince time.Time     // a former process, not known to be dead, had a lease then; by the steady clock
	strangersLease time.Duration // how long that lasts at most; zero: not known
}

// NewFormers makes the former processes of an agent as one that has read no journal knows them.
func NewFormers(c Config) *Formers {
	return &Formers{Reader: c.Reader, agent: c.Agent, view: c.View, clock: c.Reader.Loop.Clock, delivery: c.Journal,
		log: c.Logger}
}

// Left takes over what the journal says of the processes before this one.
func (f *Formers) Left(l *journal.Ledger) {
	f.former, f.since = l.Joined.Incarnation, cmp.Or(l.Joined.Since, l.Joined.Incarnation)
	f.waitsOf(l.Waits)
	for _, id := range l.Joining {
		f.joins = append(f.joins, api.JoinIntent(id))
	}
}

// waitsOf goes on with what the former start had to wait for. Under another boot, or an unknown one, its clock says
// nothing: the whole lease passes again.
func (f *Formers) waitsOf(w *journal.WaitsRecord) {
	if w == nil || w.Since == 0 {
		return
	}
	f.strangersSince, f.strangersLease = f.clock.Steady(), w.Lease
	if since := time.Unix(0, w.Since); w.Boot != "" && w.Boot == f.delivery.Boot && since.Before(f.strangersSince) {
		f.strangersSince = since
	}
}

// Joining notes that this process joins under an id. again: a join before it was decided, and no session came of that.
func (f *Formers) Joining(id string, again bool) {
	if f.first != 0 {
		return
	}
	if f.joins = append(f.joins, api.JoinIntent(id)); again {
		f.others = nil // another process may have come after the join of which no session came
	}
}

// Entered notes an incarnation of this process.
func (f *Formers) Entered(seq sequencer.Seq) { f.first = cmp.Or(f.first, seq) }

// Another notes that another process of this agent has joined after an incarnation of this one. From the next session
// on what that one left is settled as after a start whose journal lacks a session.
func (f *Formers) Another(after sequencer.Seq) {
	if f.first != 0 {
		f.first, f.since = 0, cmp.Or(f.since, after)
	}
	found := true
	f.others = &found
}

// First is the first incarnation of this process; zero: it has none yet.
func (f *Formers) First() sequencer.Seq { return f.first }

// Last is the incarnation that the journal was left by; zero: it is new.
func (f *Formers) Last() sequencer.Seq { return f.former }

// Displaced is an incarnation of this agent that was live elsewhere until this process joined; zero: none was.
func (f *Formers) Displaced() sequencer.Seq { return f.displaced }

// is reports whether an incarnation is one of a process before this one.
func (f *Formers) is(inc sequencer.Seq) bool { return inc < f.first }

// EndedByJoin notes that this process's join has ended an incarnation. known: its journal is this one's, or it is of
// this process.
func (f *Formers) EndedByJoin(inc sequencer.Seq, known bool) {
	if !known { // it was alive until now, and its journal is not here
		f.displaced = cmp.Or(f.displaced, inc)
		f.log.Warn("the journal of this agent's former session is not here: a new folder, or an emptied volume. "+
			""+journal.WithIt,
			"former", uint64(inc), "journal", f.delivery.Place())
		f.strangersSince = f.clock.Steady()
		f.strangersLease = max(f.strangersLease, time.Duration(f.view.LeaseOf(inc))*view.TickLength)
	}
	if inc == f.former && f.since == f.former {
		f.others = new(bool) // it was alive until now, so no other process had a session since
	}
}

// leaseNow is how long a lease lasts under the rules of now; zero: they are not known.
func (f *Formers) leaseNow() time.Duration {
	if !f.view.Settings().Known {
		return 0
	}
	return f.view.LeaseTime()
}

// strangersUntil is when no former process that may be alive has a lease any more, by the steady clock. It had its
// lease under the rules of then; later ones can only make that longer.
func (f *Formers) strangersUntil() time.Time {
	if f.strangersSince.IsZero() {
		return time.Time{}
	}
	f.strangersLease = max(f.strangersLease, f.leaseNow())
	if f.strangersLease == 0 {
		return f.clock.Steady().Add(view.PauseMost) // asked again until the rules are known
	}
	return f.strangersSince.Add(f.strangersLease)
}

// ObserveRules draws what follows from rules that a former process may have its lease under: they are in force, or
// were until now. session: this process has had one; else the journal gets it with the session.
func (f *Formers) ObserveRules(o *sequencer.Outcome, session bool) {
	if o.Rules == nil || f.strangersSince.IsZero() ||
		time.Duration(o.Rules.LeaseTicks)*view.TickLength <= f.strangersLease {
		return
	}
	f.strangersLease = time.Duration(o.Rules.LeaseTicks) * view.TickLength
	if session {
		if err := f.recordWaits(); err != nil {
			f.log.Error("that a former process may have a longer lease is not in the journal", "cause", err)
		}
	}
}

// Keep puts what a start has learned into the journal, before the session that it rests on.
func (f *Formers) Keep() error {
	if f.strangersSince.IsZero() {
		return nil
	}
	if until := f.strangersUntil(); !until.After(f.clock.Steady()) {
		f.strangersSince, f.strangersLease = time.Time{}, 0
	}
	return f.recordWaits()
}

// recordWaits journals how long a former process may have its lease.
func (f *Formers) recordWaits() error {
	w := journal.WaitsRecord{Boot: f.delivery.Boot, Lease: f.strangersLease}
	if !f.strangersSince.IsZero() {
		w.Since = f.strangersSince.UnixNano()
	}
	return f.delivery.Record(journal.RecordWaits, w)
}

// IsOthers reports whether a decision lets another process of this agent in that came after this journal's last
// session or, while the log is not searched yet, an earlier one: this journal lacks what was made or undone then.
func (f *Formers) IsOthers(o *sequencer.Outcome) bool {
	between := o.Seq > f.since && (f.first == 0 || o.Seq < f.first)
	return o.Kind == sequencer.OutcomeJoined && o.Agent == f.agent && between && !slices.Contains(f.joins, o.Intent)
}

// HadOthers reports whether there was such a process. A copy of a journal, or one from before a sidecar's last move,
// is whole and locked, and yet not the predecessor's.
func (f *Formers) HadOthers(ctx context.Context) (bool, error) {
	known, from, to := f.others, f.since, f.first
	if known != nil || from == 0 {
		return known != nil && *known, nil
	}
	ctx, cancel := f.clock.Within(ctx, lookTry)
	defer cancel()
	found := false
	concern := func(o *sequencer.Outcome) bool { return o.Kind == sequencer.OutcomeJoined || o.Seq >= to }
	read, seen, err := f.Through(ctx, from, concern, func(o *sequencer.Outcome) bool {
		found = found || f.IsOthers(o)
		return found || o.Seq >= to
	})
	if !seen {
		f.since = max(f.since, read) // the next try goes on here, also after a restart
	}
	gone := errors.Is(err, streams.ErrGone)
	if !seen && !gone {
		return false, fmt.Errorf("find out which sidecars the agent has had: %w", err)
	}
	found = found || gone
	f.others = &found
	return found, nil
}

// MayHaveHadOthers is the session since which there may have been such a process; zero: there was none. The journal
// has it with the next session: the start after that would see an own session in the log, and nothing strange before.
func (f *Formers) MayHaveHadOthers() sequencer.Seq {
	if f.others != nil && !*f.others {
		return 0
	}
	return f.since
}
