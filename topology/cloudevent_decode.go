package topology

import (
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

// envelope is a CloudEvent's attributes, as far as decisions have them, and where its data stands in the text.
type envelope struct {
	specVersion, id, source, kind, time, traceparent string
	data                                             []byte
}

func (env *envelope) read(r *jsonReader) {
	r.object(func(name string) {
		switch name {
		case "specversion":
			env.specVersion = r.text()
		case "id":
			env.id = r.text()
		case "source":
			env.source = r.text()
		case "type":
			env.kind = r.text()
		case "time":
			env.time = r.text()
		case "traceparent":
			env.traceparent = r.text()
		case "data":
			r.peek()
			from := r.at
			r.skip()
			env.data = r.b[from:r.at]
		default:
			r.skip()
		}
	})
	r.end()
}

func readCloudEvent(b []byte) (*CloudEvent, error) {
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrMalformed, len(b), MaxRecordBytes)
	}
	var env envelope
	r := &jsonReader{b: b}
	if env.read(r); r.err != nil {
		return nil, r.err
	}
	if env.specVersion != "1.0" {
		return nil, fmt.Errorf("%w: specversion %q, 1.0 is read", ErrMalformed, env.specVersion)
	}
	if err := checkDecisionType(env.kind); err != nil {
		return nil, err
	}
	e := &CloudEvent{Outcome: &sequencer.Outcome{}, Traceparent: env.traceparent}
	r = &jsonReader{b: env.data}
	if readDecision(r, e.Outcome); r.err != nil {
		return nil, fmt.Errorf("%s: %w", env.id, r.err)
	}
	if env.time != "" {
		at, err := time.Parse(time.RFC3339, env.time)
		if err != nil {
			return nil, fmt.Errorf("%w: time: %v", ErrMalformed, err)
		}
		e.At = at
	}
	if err := env.check(e.Outcome); err != nil {
		return nil, err
	}
	return e, nil
}

// check holds the attributes against the decision that they repeat.
func (env *envelope) check(o *sequencer.Outcome) error {
	id, source, kind := DecisionMessageID(o.Workspace, o.Seq), DecisionSource(o.Workspace), DecisionType(o.Kind)
	if env.id != id || env.source != source || env.kind != kind {
		return fmt.Errorf("%w: id %q, source %q, type %q of a decision that has %q, %q, %q",
			ErrMalformed, env.id, env.source, env.kind, id, source, kind)
	}
	return nil
}

// checkDecisionType says whether a type is a decision's, and of the version that is read here.
func checkDecisionType(name string) error {
	kind, ok := strings.CutPrefix(name, DecisionTypePrefix)
	at := strings.LastIndex(kind, ".v")
	if !ok || at < 0 {
		return fmt.Errorf("%w: type %q is no decision's", ErrMalformed, name)
	}
	version, err := strconv.ParseUint(kind[at+2:], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: type %q has no version", ErrMalformed, name)
	}
	if version != decisionTypeVersion {
		return &ForeignVersion{Record: "decision", Seen: version, Known: decisionTypeVersion}
	}
	return nil
}
