package replay

import (
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// story is what became of one transaction in both runs.
type story struct {
	id          sequencer.TxID
	agent       string
	order       int           // of first appearance
	base        sequencer.Seq // as recorded
	incarnation sequencer.Seq // as recorded
	first       *sequencer.Intent
	seal        *sequencer.Seal // the first that was recorded

	then, now  side
	held       []record          // of the second run: what its sidecar would not have sent yet, in order
	shut       bool              // of the second run: it was not let in
	asked      uint32            // of the second run: touches that were put in
	numbers    map[uint32]uint32 // of its touches in the second run, as recorded; zero: put in
	lastTouch  uint32
	put        []*sequencer.Intent // touches that were put in
	writing    []uint32            // touches that were put in for calls
	views      map[*sequencer.Intent]sequencer.Seq
	askedFirst bool
	reads      map[uint32]sequencer.Seq // views of the reads that a touch was put in for, by its number
	later      []moved                  // grants that came later than recorded, by the seq as recorded
	settles    uint32                   // of the second run: settlements that were supposed
	unknown    []string                 // what its decision rests on that no log has
}

// record is one that waits for the answer to an earlier one.
type record struct {
	in  *sequencer.Intent
	was phase // of its transaction as recorded, when the record came
}

// moved is where a seq as recorded lies in the second run.
type moved struct{ then, now sequencer.Seq }

// phase is where a transaction stands.
type phase uint8

const (
	absent phase = iota
	open
	waiting // a touch waits
	sealed
	decided
	final
	retracting
	turn // it is to be compensated now
)

func (p phase) undecided() bool { return p < decided }

// side is what became of a transaction in one run.
type side struct {
	events    []event
	at        int // of the first run: how many events came before the record that is looked at
	phase     phase
	decision  *event // nil: none
	settled   int    // settlements
	turns     int
	footprint sequencer.Hash
}

// event is one outcome about a transaction.
type event struct {
	kind     sequencer.OutcomeKind
	intent   sequencer.IntentKind
	n        uint32 // of the intent, as recorded; zero: put in, or the intent is another one's
	code     sequencer.Code
	would    sequencer.Code
	scope    sequencer.Scope
	moved    sequencer.Writer
	blockers []sequencer.TxID
	seq      sequencer.Seq
	offset   int64
	final    bool
	sealed   bool // of waiting: a seal waits
}

func (s *side) note(o *sequencer.Outcome) {
	e := event{kind: o.Kind, code: o.Code, would: o.Would, scope: o.Scope, moved: o.Moved, seq: o.Seq, offset: o.Offset,
		final: o.Final}
	for _, b := range o.BlockedBy {
		e.blockers = append(e.blockers, b.Tx)
	}
	if o.Retraction != "" && o.Retraction != o.Tx {
		e.moved.Tx = o.Retraction
	}
	e.intent, e.n = intentOf(o)
	e.sealed = e.intent == sequencer.IntentSeal
	if o.Footprint != (sequencer.Hash{}) {
		s.footprint = o.Footprint
	}
	s.events = append(s.events, e)
	s.phase = e.after(s.phase)
	switch o.Kind {
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		d := e
		s.decision = &d
	case sequencer.OutcomeSettled:
		s.settled++
	case sequencer.OutcomeTurn:
		s.turns++
	}
}

// intentOf reads kind and number out of the id of the intent that an outcome of a transaction answers.
func intentOf(o *sequencer.Outcome) (sequencer.IntentKind, uint32) {
	rest, own := strings.CutPrefix(o.Intent, string(o.Tx)+":")
	if !own {
		return 0, 0
	}
	kind, number, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0, 0
	}
	for k := sequencer.IntentJoin; k <= sequencer.IntentTick; k++ {
		if k.String() == kind {
			return k, uint32(n)
		}
	}
	return 0, 0
}

// after is where a transaction stands after an event.
func (e *event) after(p phase) phase {
	switch e.kind {
	case sequencer.OutcomeBegun, sequencer.OutcomeGranted:
		return max(open, min(p, open))
	case sequencer.OutcomeWaiting:
		if e.sealed {
			return sealed
		}
		if e.intent == sequencer.IntentTouch {
			return waiting
		}
	case sequencer.OutcomeRefused:
		if p == waiting && e.code == sequencer.CodeTouchBound || p == absent && e.opens() {
			return open
		}
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		if e.final {
			return final
		}
		return decided
	case sequencer.OutcomeSettled:
		if !e.final {
			return retracting
		}
		return final
	case sequencer.OutcomeRetracting:
		if p == final {
			return retracting
		}
	case sequencer.OutcomeTurn:
		return turn
	}
	return p
}

// opens: a touch or a seal that is refused for what it asks has opened its transaction all the same.
func (e *event) opens() bool {
	return e.code == sequencer.CodeOwnTransaction || e.code == sequencer.CodeSibling
}

// before moves the first run's side on to just before a record, and returns where the transaction stood.
func (s *side) before(offset int64) phase {
	for s.at < len(s.events) && s.events[s.at].offset < offset {
		s.phase = s.events[s.at].after(s.phase)
		s.at++
	}
	return s.phase
}

// rewind goes back to before the first event.
func (s *side) rewind() { s.at, s.phase = 0, absent }

// committed: the transaction committed in answer to a record before an offset.
func (s *side) committed(before int64) bool {
	return s.decision != nil && s.decision.kind == sequencer.OutcomeCommitted && s.decision.offset < before
}
