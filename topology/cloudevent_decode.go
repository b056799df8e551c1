package topology

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// CloudEvent is a record of hence.decisions with the attributes that are not the decision's own.
type CloudEvent struct {
	Outcome     *sequencer.Outcome
	At          time.Time // zero: not given
	Traceparent string
}

// DecodeCloudEvent reads a record of hence.decisions back into the decision that it was written from.
// It fails with ErrMalformed or ErrForeignVersion.
func DecodeCloudEvent(b []byte) (*sequencer.Outcome, error) {
	e, err := ReadCloudEvent(b)
	if err != nil {
		return nil, err
	}
	return e.Outcome, nil
}

// ReadCloudEvent is DecodeCloudEvent with the attributes. It fails with ErrMalformed or ErrForeignVersion.
func ReadCloudEvent(b []byte) (*CloudEvent, error) {
	e, err := readCloudEvent(b)
	if err != nil {
		return nil, fmt.Errorf("decode decision: %w", err)
	}
	return e, nil
}

func readCloudEvent(b []byte) (*CloudEvent, error) {
	if err := checkText(b); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	var ev cloudEvent
	dataErr := json.Unmarshal(b, &ev)
	if dataErr != nil { // the data of another version may be anything; what version it is stands in the envelope
		ev = cloudEvent{}
		if err := json.Unmarshal(b, &ev.envelope); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
		}
	}
	if ev.SpecVersion != "1.0" {
		// Another envelope may mean other things by the same members.
		return nil, fmt.Errorf("%w: specversion %q, 1.0 is read", ErrMalformed, ev.SpecVersion)
	}
	if err := checkDecisionType(ev.Type); err != nil {
		return nil, err
	}
	if dataErr != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrMalformed, ev.ID, dataErr)
	}
	e := &CloudEvent{Outcome: ev.Data.outcome(), Traceparent: ev.Traceparent}
	if ev.Time != "" {
		at, err := time.Parse(time.RFC3339, ev.Time)
		if err != nil {
			return nil, fmt.Errorf("%w: time: %v", ErrMalformed, err)
		}
		e.At = at
	}
	if err := checkOutcome(e.Outcome); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if err := ev.check(e.Outcome); err != nil {
		return nil, err
	}
	return e, nil
}

// check holds the attributes against the decision that they repeat.
func (env *envelope) check(o *sequencer.Outcome) error {
	id, source, kind := DecisionMessageID(o.Workspace, o.Seq), DecisionSource(o.Workspace), DecisionType(o.Kind)
	if env.ID != id || env.Source != source || env.Type != kind {
		// Consumers route by the attributes: two truths in one record would be believed by different readers.
		return fmt.Errorf("%w: id %q, source %q, type %q of a decision that has %q, %q, %q",
			ErrMalformed, env.ID, env.Source, env.Type, id, source, kind)
	}
	return nil
}

// checkDecisionType says whether a type is a decision's, and of the version that is read here.
func checkDecisionType(name string) error {
	kind, ok := strings.CutPrefix(name, DecisionTypePrefix)
	at := strings.LastIndex(kind, ".v")
	if !ok || at < 0 {
		return fmt.Errorf("%w: type %q is not the type of a decision", ErrMalformed, name)
	}
	return checkType(kind, kind[:at], "decision", decisionTypeVersion)
}

// checkType holds a type of the form prefix.v<version> to the version that is read here.
func checkType(name, prefix, record string, known uint64) error {
	digits, ok := strings.CutPrefix(name, prefix+".v")
	version, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("%w: type %q is no %s's with a version", ErrMalformed, name, record)
	}
	if version != known {
		// Not malformed: a newer binary can read it, so the reader stops and does not park.
		return &ForeignVersion{Record: record, Seen: version, Known: known}
	}
	return nil
}
