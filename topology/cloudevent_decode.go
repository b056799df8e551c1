package topology

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// maxJSONValues bounds the values of one decision: the smallest takes two bytes, and up to a hundred once decoded.
const maxJSONValues = 1 << 17

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

type envelope struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Time        string          `json:"time"`
	Traceparent string          `json:"traceparent"`
	Data        json.RawMessage `json:"data"`
}

func readCloudEvent(b []byte) (*CloudEvent, error) {
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrMalformed, len(b), MaxRecordBytes)
	}
	if n := jsonValues(b); n > maxJSONValues {
		return nil, fmt.Errorf("%w: %d values, at most %d are read", ErrMalformed, n, maxJSONValues)
	}
	var env envelope
	if err := json.Unmarshal(b, &env); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if env.SpecVersion != "1.0" {
		return nil, fmt.Errorf("%w: specversion %q, 1.0 is read", ErrMalformed, env.SpecVersion)
	}
	if err := checkDecisionType(env.Type); err != nil {
		return nil, err
	}
	var data decisionData
	if err := json.Unmarshal(env.Data, &data); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	o, err := data.outcome()
	if err != nil {
		return nil, err
	}
	e := &CloudEvent{Outcome: o, Traceparent: env.Traceparent}
	if env.Time != "" {
		if e.At, err = time.Parse(time.RFC3339, env.Time); err != nil {
			return nil, fmt.Errorf("%w: time: %v", ErrMalformed, err)
		}
	}
	return e, env.check(o)
}

// check holds the attributes against the decision that they repeat.
func (env *envelope) check(o *sequencer.Outcome) error {
	id, source, kind := DecisionMessageID(o.Workspace, o.Seq), DecisionSource(o.Workspace), DecisionType(o.Kind)
	if env.ID != id || env.Source != source || env.Type != kind {
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

// jsonValues counts the values of a JSON text without reading them: one more than the commas and brackets outside
// strings, at most.
func jsonValues(b []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// hexHash is a hash in hexadecimal; an empty text is the zero hash.
func hexHash(name, text string) (h sequencer.Hash, err error) {
	if text == "" {
		return h, nil
	}
	if len(text) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("%w: %s has %d digits, a hash has %d", ErrMalformed, name, len(text), hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return h, fmt.Errorf("%w: %s: %v", ErrMalformed, name, err)
	}
	return h, nil
}
