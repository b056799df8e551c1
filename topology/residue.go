package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// ResidueState says how far people are with one residue.
type ResidueState string

// The states of a residue.
const (
	ResidueOpen     ResidueState = "open"     // not looked after yet
	ResidueAccepted ResidueState = "accepted" // accepted as it is; Note says by whom and why
	ResidueResolved ResidueState = "resolved" // a later try has made it clean
)

func (s ResidueState) valid() bool {
	return s == ResidueOpen || s == ResidueAccepted || s == ResidueResolved
}

// The format of hence.residue.
const (
	ResidueType        = "dev.hence.residue.v1" // member "type" of every record
	ResidueContentType = "application/json"
	residuePrefix      = "dev.hence.residue"
	residueVersion     = 1

	// MaxResidueBytes bounds one record of hence.residue.
	MaxResidueBytes = 256 << 10
)

// Residue is a record of hence.residue: one effect that could not be made clean, or whose outcome is unknown. The last
// record of a key counts.
type Residue struct {
	Workspace   string
	Tx          sequencer.TxID
	Index       uint32 // issuance order in its transaction, 0-based
	Agent       string
	Tool        string
	Class       sequencer.Class
	Key         string // what the sink was given; empty: it takes none
	Scopes      []sequencer.Scope
	Result      sequencer.Result
	Detail      string // what was tried and what is left to do
	Tries       int
	State       ResidueState
	Incarnation sequencer.Seq   // of the sidecar that wrote the record
	Seq         sequencer.Seq   // of the settlement; zero: not known to the writer
	AtMs        int64           // unix milliseconds of the writer's clock
	Note        string          // of who accepted it
	Code        string          // why nothing more is tried, where a code says it; "changed_tool" or empty
	Args        json.RawMessage // with a code: the call's arguments, for people who make it by hand; absent: too large
	// Call is how the call itself stands, in the API's words, such as not_sent; empty: of an older release.
	Call string
}

// RecordKey is the key of r's record: workspace|tx|index.
func (r *Residue) RecordKey() string {
	return EventKey(r.Workspace, r.Tx) + keySeparator + strconv.FormatUint(uint64(r.Index), 10)
}

// residueText is a residue as JSON has it.
type residueText struct {
	Type        string                 `json:"type"`
	Workspace   string                 `json:"workspace"`
	Tx          sequencer.TxID         `json:"tx"`
	Index       uint32                 `json:"index"`
	Agent       string                 `json:"agent"`
	Tool        string                 `json:"tool"`
	Class       name[sequencer.Class]  `json:"class"`
	Key         string                 `json:"key,omitempty"`
	Scopes      []sequencer.Scope      `json:"scopes,omitempty"`
	Result      name[sequencer.Result] `json:"result"`
	Detail      string                 `json:"detail,omitempty"`
	Tries       int                    `json:"tries"`
	State       ResidueState           `json:"state"`
	Incarnation sequencer.Seq          `json:"incarnation"`
	Seq         sequencer.Seq          `json:"seq,omitempty"`
	AtMs        int64                  `json:"at_ms"`
	Note        string                 `json:"note,omitempty"`
	Code        string                 `json:"code,omitempty"`
	Args        json.RawMessage        `json:"args,omitempty"`
	Call        string                 `json:"call,omitempty"`
}

// MarshalJSON writes the residue as its record has it. What is not UTF-8 in Detail and Note, which may quote a tool,
// is replaced, and either is cut to 4 KiB.
func (r Residue) MarshalJSON() ([]byte, error) {
	t := residueText{Type: ResidueType, Workspace: r.Workspace, Tx: r.Tx, Index: r.Index, Agent: r.Agent, Tool: r.Tool,
		Class: name[sequencer.Class]{r.Class}, Key: r.Key, Scopes: r.Scopes, Result: name[sequencer.Result]{r.Result},
		Detail: quotable(r.Detail), Tries: r.Tries, State: r.State, Incarnation: r.Incarnation, Seq: r.Seq, AtMs: r.AtMs,
		Note: quotable(r.Note), Code: r.Code, Args: r.Args, Call: r.Call}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&t); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads what MarshalJSON wrote; members that it does not know are passed over.
func (r *Residue) UnmarshalJSON(b []byte) error {
	var t residueText
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	if len(t.Scopes) == 0 {
		t.Scopes = nil
	}
	*r = Residue{Workspace: t.Workspace, Tx: t.Tx, Index: t.Index, Agent: t.Agent, Tool: t.Tool, Class: t.Class.value,
		Key: t.Key, Scopes: t.Scopes, Result: t.Result.value, Detail: t.Detail, Tries: t.Tries, State: t.State,
		Incarnation: t.Incarnation, Seq: t.Seq, AtMs: t.AtMs, Note: t.Note, Code: t.Code, Args: t.Args, Call: t.Call}
	return nil
}

// EncodeResidue writes a record of hence.residue: one JSON object. It fails when the residue names no workspace,
// transaction or state, or when it is over a bound.
func EncodeResidue(r *Residue) ([]byte, error) {
	b, err := r.MarshalJSON()
	if err == nil {
		err = r.check(b)
	}
	if err != nil {
		return nil, fmt.Errorf("encode residue %s: %w", r.RecordKey(), err)
	}
	return b, nil
}

// DecodeResidue reads a record of hence.residue. It fails with ErrMalformed or ErrForeignVersion.
func DecodeResidue(b []byte) (*Residue, error) {
	r, err := readResidue(b)
	if err != nil {
		return nil, fmt.Errorf("decode residue: %w", err)
	}
	return r, nil
}

func readResidue(b []byte) (*Residue, error) {
	if err := checkText(b); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if err := checkType(head.Type, residuePrefix, "residue", residueVersion); err != nil {
		return nil, err
	}
	r := new(Residue)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	// What is read must be what can be written: people's next note is put into this record.
	again, err := r.MarshalJSON()
	if err == nil {
		err = r.check(again)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return r, nil
}

// check holds a residue and its text to the bounds.
func (r *Residue) check(text []byte) error {
	if err := ValidWorkspace(r.Workspace); err != nil {
		return err
	}
	if r.Tx == "" || !r.State.valid() {
		// Its key is made of it, and without a state nothing says whether anything is left to do.
		return fmt.Errorf("transaction %q, state %q: give a transaction and open, accepted or resolved", r.Tx, r.State)
	}
	if len(r.Scopes) > MaxEffectScopes || len(text) > MaxResidueBytes {
		// A list of many such records is one answer, which has a bound.
		return fmt.Errorf("%d scopes, %d bytes: at most %d and %d are allowed",
			len(r.Scopes), len(text), MaxEffectScopes, MaxResidueBytes)
	}
	texts := []string{string(r.Tx), r.Agent, r.Tool, r.Key, r.Code, r.Call}
	for _, s := range r.Scopes {
		texts = append(texts, string(s))
	}
	for _, s := range texts {
		if len(s) > maxNameBytes || !utf8.ValidString(s) {
			// JSON cannot carry the former, and what is shown to people has to end somewhere.
			return fmt.Errorf("the text %q is not UTF-8 or over %d bytes", s[:min(len(s), 64)], maxNameBytes)
		}
	}
	return nil
}

// quotable makes a text of a tool one that JSON can carry.
func quotable(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxNameBytes)], "\uFFFD")
	for len(s) > maxNameBytes { // replacing may have made it longer
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
