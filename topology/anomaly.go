package topology

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// The format of hence.anomalies.
const (
	AnomalyType   = "dev.hence.anomaly.v1"        // CloudEvents type of every record
	AnomalySchema = "urn:hence:schema:anomaly:v1" // dataschema; the $id of schemas/anomaly.json

	anomalyPrefix  = "dev.hence.anomaly"
	anomalyVersion = 1

	// MaxAnomalyBytes bounds one record, MaxAnomalyOps the operations that it names: a cycle may have more.
	MaxAnomalyBytes = 128 << 10
	MaxAnomalyOps   = 16
)

// Anomaly is one finding of hence.anomalies: what the detectors found among the last operations of a workspace. A
// record may be there twice, also from two replicas: its ID says so.
type Anomaly struct {
	Workspace  string        `json:"workspace"`
	Seq        sequencer.Seq `json:"seq"`  // of the decision that completed it
	Kind       string        `json:"kind"` // as hence check names it
	Title      string        `json:"title"`
	Certain    bool          `json:"certain"` // false: the history does not exclude it, and cannot prove it
	Sentence   string        `json:"sentence"`
	Operations []AnomalyOp   `json:"operations"` // its witness, as the kind orders them
	Cell       string        `json:"cell,omitempty"`
	OtherCell  string        `json:"other_cell,omitempty"`
	Count      int           `json:"count"`           // how many there are of what one is named of
	Class      string        `json:"class,omitempty"` // of a cycle
	Window     int           `json:"window"`          // operations among which it was looked for, at most
	// Would is why an enforcing workspace would have refused the operation that completed it, where it only observed.
	Would sequencer.Code `json:"would,omitempty"`
}

// AnomalyOp is one operation of a finding.
type AnomalyOp struct {
	Tx        sequencer.TxID `json:"tx"`
	Agent     string         `json:"agent"`
	ReadTime  sequencer.Seq  `json:"read_time"`
	WriteTime sequencer.Seq  `json:"write_time"` // 0: it was never visible
	Aborted   bool           `json:"aborted,omitempty"`
}

// ID names the finding: the same one has the same id, whatever found it and however often.
func (a *Anomaly) ID() string {
	h := sha256.New()
	for _, op := range a.Operations {
		fmt.Fprintf(h, "%d:%s", len(op.Tx), op.Tx)
	}
	fmt.Fprintf(h, "|%s|%t|%d:%s|%s", a.Kind, a.Certain, len(a.Cell), a.Cell, a.OtherCell)
	return a.Workspace + "/" + hex.EncodeToString(h.Sum(nil)[:16])
}

// anomalyEvent is a whole record of hence.anomalies.
type anomalyEvent struct {
	envelope
	Data Anomaly `json:"data"`
}

// EncodeAnomaly writes a record of hence.anomalies: a CloudEvent 1.0 in structured JSON. Its time is that of the
// decision that completed it; the zero time is left out. It fails when the finding names no workspace, kind or
// operation, or is over a bound.
func EncodeAnomaly(a *Anomaly, at time.Time) ([]byte, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("encode anomaly: %w", err)
	}
	e := anomalyEvent{Data: *a, envelope: envelope{SpecVersion: "1.0", ID: a.ID(), Source: DecisionSource(a.Workspace),
		Type: AnomalyType, Subject: string(a.Operations[0].Tx), ContentType: "application/json", Schema: AnomalySchema}}
	if !at.IsZero() {
		e.Time = at.UTC().Format(timeLayout)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&e); err != nil {
		return nil, fmt.Errorf("encode anomaly: %w", err)
	}
	if b.Len() > MaxAnomalyBytes {
		return nil, fmt.Errorf("encode anomaly: %d bytes, at most %d", b.Len(), MaxAnomalyBytes)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeAnomaly reads a record of hence.anomalies; members that it does not know are passed over. It fails with
// ErrMalformed or ErrForeignVersion.
func DecodeAnomaly(b []byte) (*Anomaly, error) {
	if len(b) > MaxAnomalyBytes {
		return nil, fmt.Errorf("decode anomaly: %w: %d bytes, at most %d", ErrMalformed, len(b), MaxAnomalyBytes)
	}
	var e anomalyEvent
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("decode anomaly: %w: %w", ErrMalformed, err)
	}
	if err := checkType(e.Type, anomalyPrefix, "anomaly", anomalyVersion); err != nil {
		return nil, fmt.Errorf("decode anomaly: %w", err)
	}
	if err := e.Data.check(); err != nil {
		return nil, fmt.Errorf("decode anomaly: %w: %w", ErrMalformed, err)
	}
	return &e.Data, nil
}

func (a *Anomaly) check() error {
	if err := ValidWorkspace(a.Workspace); err != nil {
		return err
	}
	switch {
	case a.Kind == "":
		return fmt.Errorf("it names no kind")
	case len(a.Operations) == 0 || len(a.Operations) > MaxAnomalyOps:
		return fmt.Errorf("it names %d operations: at least 1, at most %d", len(a.Operations), MaxAnomalyOps)
	}
	for _, text := range []string{a.Sentence, a.Cell, a.OtherCell} {
		if !utf8.ValidString(text) { // else it would be another text in the record
			return fmt.Errorf("%.40q is not UTF-8", text)
		}
	}
	return nil
}

// AnomalyHeaders are the headers of a record of hence.anomalies: what a viewer shows without opening the record.
func AnomalyHeaders(a *Anomaly) []Header {
	return []Header{{"content-type", CloudEventContentType}, {"ce_specversion", "1.0"}, {"ce_id", a.ID()},
		{"ce_type", AnomalyType}, {"ce_source", DecisionSource(a.Workspace)}, {"hence-workspace", a.Workspace},
		{"hence-kind", a.Kind}}
}

// AnomalyLevel is what the last operations of a workspace leave of the chain L0 to L4, as the owner of its partition
// answers AskLevel. Least and Most differ where something is possible or cannot be decided.
type AnomalyLevel struct {
	Workspace    string             `json:"workspace"`
	Seq          sequencer.Seq      `json:"seq"`          // of the last decision that was judged; 0: none
	Since        sequencer.Seq      `json:"since"`        // operations committed at or before it are not held
	Window       int                `json:"window"`       // operations that are held at most
	Operations   int                `json:"operations"`   // that are held
	Aborted      int                `json:"aborted"`      // of these: they are judged as predecessors only
	Spanning     int                `json:"spanning"`     // of these: what began at or before Since
	OwnOverlaps  int                `json:"own_overlaps"` // what would be A1 but that one agent did both
	Least        int                `json:"least"`        // 0 to 4
	Most         int                `json:"most"`         // 0 to 4
	PointLeast   string             `json:"point_least"`  // such as {A1,A3}
	PointMost    string             `json:"point_most"`   //
	Serializable bool               `json:"serializable"` // some serial order explains the operations
	Kinds        []AnomalyCount     `json:"kinds"`
	Undecided    []AnomalyUndecided `json:"undecided"`
}

// AnomalyCount is how often a kind is found among the operations of a level.
type AnomalyCount struct {
	Kind     string `json:"kind"`
	Title    string `json:"title"`
	Certain  int    `json:"certain"`
	Possible int    `json:"possible"`
}

// AnomalyUndecided is what the operations of a level cannot show.
type AnomalyUndecided struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Why   string `json:"why"`
}
