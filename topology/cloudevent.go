package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// The attributes of decisions as CloudEvents.
const (
	CloudEventContentType = "application/cloudevents+json; charset=UTF-8"
	DecisionTypePrefix    = "dev.hence.decision."
	DecisionSchema        = "urn:hence:schema:decision:v1" // dataschema; the $id of schemas/decision.json
	decisionTypeVersion   = 1
	decisionTypeSuffix    = ".v1"
	timeLayout            = "2006-01-02T15:04:05.000Z07:00"
)

// DecisionType is the CloudEvents type of a kind of decision: dev.hence.decision.<kind>.v1.
func DecisionType(kind sequencer.OutcomeKind) string {
	return DecisionTypePrefix + nameFor(kind) + decisionTypeSuffix
}

// DecisionSource is the CloudEvents source of a workspace's decisions.
func DecisionSource(workspace string) string { return "/workspaces/" + workspace }

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value string
}

// DecisionHeaders are the headers of a record of hence.decisions: what a viewer shows without opening the record.
// They repeat what EncodeCloudEvent writes for the same arguments.
func DecisionHeaders(o *sequencer.Outcome, at time.Time, traceparent string) []Header {
	headers := make([]Header, 0, 12)
	add := func(key, value string) {
		if value != "" {
			headers = append(headers, Header{key, value})
		}
	}
	add("content-type", CloudEventContentType)
	add("ce_specversion", "1.0")
	add("ce_id", DecisionMessageID(o.Workspace, o.Seq))
	add("ce_type", DecisionType(o.Kind))
	add("ce_source", DecisionSource(o.Workspace))
	if !at.IsZero() {
		add("ce_time", at.UTC().Format(timeLayout))
	}
	add("traceparent", traceparent)
	add("hence-workspace", o.Workspace)
	add("hence-seq", strconv.FormatUint(uint64(o.Seq), 10))
	add("hence-tx", string(o.Tx))
	add("hence-agent", o.Agent)
	add("hence-code", string(o.Code))
	return headers
}

// envelope is a CloudEvent's attributes, as far as decisions have them.
type envelope struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject,omitempty"`
	Time        string `json:"time,omitempty"`
	ContentType string `json:"datacontenttype"`
	Schema      string `json:"dataschema"`
	Traceparent string `json:"traceparent,omitempty"`
}

// cloudEvent is a whole record of hence.decisions.
type cloudEvent struct {
	envelope
	Data decision `json:"data"`
}

// EncodeCloudEvent writes a record of hence.decisions: a CloudEvent 1.0 in structured JSON. It loses nothing of the
// decision. Two replicas write the same bytes when they give the same time, that of the input record; the zero time
// and an empty traceparent are left out. It fails as EncodeOutcome does, and when DecodeCloudEvent would not read the
// record back: over MaxRecordBytes, or of more values than a text may have.
func EncodeCloudEvent(o *sequencer.Outcome, at time.Time, traceparent string) ([]byte, error) {
	event, _, err := bothForms(o, at, traceparent)
	return event, err
}

// EncodeDecision writes a decision in both of its forms: as EncodeCloudEvent does for Kafka, and as EncodeOutcome does
// for NATS. It fails also when the decision could not be cut by its scopes, of which the frontier table is made: what
// it takes, every reader of ours takes.
func EncodeDecision(o *sequencer.Outcome, at time.Time, traceparent string) (event, message []byte, err error) {
	if event, message, err = bothForms(o, at, traceparent); err != nil {
		return nil, nil, err
	}
	if err := checkSplits(o, len(message)); err != nil {
		return nil, nil, fmt.Errorf("encode decision %s: %w", DecisionMessageID(o.Workspace, o.Seq), err)
	}
	return event, message, nil
}

func bothForms(o *sequencer.Outcome, at time.Time, traceparent string) (event, message []byte, err error) {
	id := DecisionMessageID(o.Workspace, o.Seq)
	if message, err = EncodeOutcome(o); err != nil {
		return nil, nil, fmt.Errorf("encode decision %s: %w", id, err)
	}
	if !utf8.ValidString(traceparent) {
		return nil, nil, fmt.Errorf("encode decision %s: the traceparent %q is not UTF-8", id, traceparent)
	}
	e := cloudEvent{Data: decisionOf(o), envelope: envelope{SpecVersion: "1.0", ID: id,
		Source: DecisionSource(o.Workspace), Type: DecisionType(o.Kind), Subject: string(o.Tx),
		ContentType: "application/json", Schema: DecisionSchema, Traceparent: traceparent}}
	if !at.IsZero() {
		e.Time = at.UTC().Format(timeLayout)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&e); err != nil {
		return nil, nil, fmt.Errorf("encode decision %s: %w", id, err)
	}
	event = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if err := checkText(event); err != nil { // what our own decoder refuses would be parked by every reader
		return nil, nil, fmt.Errorf("encode decision %s: %w", id, err)
	}
	return event, message, nil
}

// checkOutcome holds a decision to what its MessagePack record holds: encoding/json would write U+FFFD for what is not
// UTF-8, and has no bound on a text.
func checkOutcome(o *sequencer.Outcome) error {
	_, err := EncodeOutcome(o)
	return err
}
