package topology

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

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

// EncodeCloudEvent writes a record of hence.decisions: a CloudEvent 1.0 in structured JSON. It loses nothing of the
// decision. Two replicas write the same bytes when they give the same time, that of the input record; the zero time
// and an empty traceparent are left out. It fails when a text is not UTF-8 or the record over MaxRecordBytes.
func EncodeCloudEvent(o *sequencer.Outcome, at time.Time, traceparent string) ([]byte, error) {
	room := 1024 + 96*(len(o.Added)+len(o.Ended)+len(o.Writes))
	for i := range o.Shards {
		room += 256 + len(o.Shards[i].Content)*3/2
	}
	j := &object{b: make([]byte, 0, room)}
	j.open('{')
	j.text("specversion", "1.0")
	j.text("id", DecisionMessageID(o.Workspace, o.Seq))
	j.text("source", DecisionSource(o.Workspace))
	j.text("type", DecisionType(o.Kind))
	j.text("subject", string(o.Tx))
	if !at.IsZero() {
		j.text("time", at.UTC().Format(timeLayout))
	}
	j.text("datacontenttype", "application/json")
	j.text("dataschema", DecisionSchema)
	j.text("traceparent", traceparent)
	j.member("data")
	j.decision(o)
	j.close('}')
	if j.err == nil && len(j.b) > MaxRecordBytes {
		j.err = fmt.Errorf("%d bytes, at most %d are allowed", len(j.b), MaxRecordBytes)
	}
	if j.err != nil {
		return nil, fmt.Errorf("encode decision %s: %w", DecisionMessageID(o.Workspace, o.Seq), j.err)
	}
	return j.b, nil
}

func (j *object) decision(o *sequencer.Outcome) {
	j.open('{')
	j.member("workspace")
	j.quote(o.Workspace)
	j.uint("seq", uint64(o.Seq))
	j.text("kind", nameFor(o.Kind))
	j.text("tx", string(o.Tx))
	j.text("agent", o.Agent)
	j.reason(o)
	j.moves(o)
	j.text("intent", o.Intent)
	j.some("incarnation", uint64(o.Incarnation))
	if o.Tx != "" || o.Mode != 0 {
		j.text("mode", nameFor(o.Mode))
	}
	j.some("epoch", uint64(o.Epoch))
	j.hash("footprint", o.Footprint)
	if o.At != nil {
		j.member("at")
		j.open('{')
		j.int("partition", int64(o.At.Partition))
		j.int("offset", o.At.Offset)
		j.close('}')
	}
	j.text("group", o.Group)
	j.text("winner", string(o.Winner))
	j.text("server", o.Server)
	j.hash("catalogue", o.Catalogue)
	j.truth("final", o.Final)
	if o.Rules != nil {
		j.rules(o.Rules)
	}
	j.int("offset", o.Offset)
	j.uint("rules_version", uint64(o.RulesVersion))
	j.uint("tick", uint64(o.Time))
	j.uint("floor", uint64(o.Floor))
	j.hash("chain", o.Chain)
	if o.StateHash != nil {
		j.text("state_hash", hex.EncodeToString(o.StateHash[:]))
	}
	j.close('}')
}

func (j *object) reason(o *sequencer.Outcome) {
	j.text("code", string(o.Code))
	j.text("detail", o.Detail)
	j.text("scope", string(o.Scope))
	j.writer("moved", o.Moved)
	objects(j, "blocked_by", o.BlockedBy, func(b sequencer.Blocker) {
		j.open('{')
		j.text("tx", string(b.Tx))
		j.text("scope", string(b.Scope))
		j.text("why", b.Why)
		j.close('}')
	})
	j.truth("retryable", o.Retryable)
	j.text("would", string(o.Would))
}

func (j *object) moves(o *sequencer.Outcome) {
	j.holds("added", o.Added)
	j.holds("ended", o.Ended)
	objects(j, "may", o.May, func(v sequencer.Want) {
		j.open('{')
		j.text("scope", string(v.Scope))
		j.text("access", nameFor(v.Access))
		j.close('}')
	})
	objects(j, "writes", o.Writes, func(v sequencer.Write) {
		j.open('{')
		j.text("scope", string(v.Scope))
		j.writer("writer", v.Writer)
		j.writer("former", v.Former)
		j.close('}')
	})
	objects(j, "shards", o.Shards, j.shard)
	words(j, "rests_on", o.RestsOn)
	words(j, "residue", o.Residue)
}

func (j *object) holds(name string, list []sequencer.Hold) {
	objects(j, name, list, func(h sequencer.Hold) {
		j.open('{')
		j.text("scope", string(h.Scope))
		j.text("kind", nameFor(h.Kind))
		j.text("access", nameFor(h.Access))
		j.close('}')
	})
}

// writer appends a member unless there is no writer.
func (j *object) writer(name string, v sequencer.Writer) {
	if v == (sequencer.Writer{}) {
		return
	}
	j.member(name)
	j.open('{')
	j.uint("seq", uint64(v.Seq))
	j.text("tx", string(v.Tx))
	j.truth("residue", v.Residue)
	j.close('}')
}

func (j *object) shard(s sequencer.ShardWrite) {
	j.open('{')
	j.text("scope", string(s.Scope))
	j.text("media_type", s.Type)
	if s.Ref == nil || len(s.Content) > 0 {
		j.content(s.Content)
	}
	if r := s.Ref; r != nil {
		j.member("ref")
		j.open('{')
		j.int("partition", int64(r.Partition))
		j.int("offset", r.Offset)
		j.int("size_bytes", r.Size)
		j.hash("sha256", r.SHA256)
		j.close('}')
	}
	if e := s.Expect; e != nil {
		j.member("expect")
		j.open('{')
		j.uint("version", uint64(e.Version))
		j.uint("view", uint64(e.View))
		j.close('}')
	}
	j.close('}')
}
