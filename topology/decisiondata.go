package topology

import (
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// decision is the data of a decision as JSON has it: the same struct is written and read. What is empty, zero or false
// is left out, but for what every decision has. Structs that differ from the fold's in nothing but tags are converted
// whole, so that a field that the fold gets is missed here by the compiler.
type decision struct {
	Workspace    string                      `json:"workspace"`
	Seq          sequencer.Seq               `json:"seq"`
	Kind         name[sequencer.OutcomeKind] `json:"kind"`
	Tx           sequencer.TxID              `json:"tx,omitempty"`
	Agent        string                      `json:"agent,omitempty"`
	Code         sequencer.Code              `json:"code,omitempty"`
	Detail       string                      `json:"detail,omitempty"`
	Scope        sequencer.Scope             `json:"scope,omitempty"`
	Moved        mover                       `json:"moved,omitzero"`
	By           string                      `json:"by,omitempty"`
	Tool         string                      `json:"tool,omitempty"`
	BlockedBy    []blocker                   `json:"blocked_by,omitempty"`
	Retryable    bool                        `json:"retryable,omitempty"`
	Would        sequencer.Code              `json:"would,omitempty"`
	Added        []hold                      `json:"added,omitempty"`
	Ended        []hold                      `json:"ended,omitempty"`
	May          []want                      `json:"may,omitempty"`
	Writes       []write                     `json:"writes,omitempty"`
	Shards       []shard                     `json:"shards,omitempty"`
	RestsOn      []sequencer.TxID            `json:"rests_on,omitempty"`
	Residue      []sequencer.TxID            `json:"residue,omitempty"`
	Intent       string                      `json:"intent,omitempty"`
	Incarnation  sequencer.Seq               `json:"incarnation,omitempty"`
	Mode         *name[sequencer.Mode]       `json:"mode,omitempty"` // of a transaction: its zero has a name
	Epoch        sequencer.Epoch             `json:"epoch,omitempty"`
	Footprint    hexHash                     `json:"footprint,omitzero"`
	At           *place                      `json:"at,omitempty"`
	Group        string                      `json:"group,omitempty"`
	Winner       sequencer.TxID              `json:"winner,omitempty"`
	Server       string                      `json:"server,omitempty"`
	Catalogue    hexHash                     `json:"catalogue,omitzero"`
	Final        bool                        `json:"final,omitempty"`
	Rules        *rules                      `json:"rules,omitempty"`
	Offset       int64                       `json:"offset"`
	RulesVersion uint32                      `json:"rules_version"`
	Tick         sequencer.Tick              `json:"tick"`
	Floor        sequencer.Seq               `json:"floor"`
	Chain        hexHash                     `json:"chain,omitzero"`
	StateHash    *hexHash                    `json:"state_hash,omitempty"`
	Retraction   sequencer.TxID              `json:"retraction,omitempty"`
	Cone         []sequencer.TxID            `json:"cone,omitempty"`
	Approvals    []approval                  `json:"approvals,omitempty"`
	Signer       string                      `json:"signer,omitempty"`
}

// approval is what was said of an effect that needs a yes; without By nothing was said yet.
type approval struct {
	Index uint32  `json:"index"`
	Yes   bool    `json:"yes"`
	By    string  `json:"by,omitempty"`
	Args  hexHash `json:"args,omitzero"`
}

type writer struct {
	Seq     sequencer.Seq  `json:"seq"`
	Tx      sequencer.TxID `json:"tx,omitempty"`
	Residue bool           `json:"residue,omitempty"`
}

// mover is who moved something and when: a transaction, or else an agent's sidecar.
type mover struct {
	Seq     sequencer.Seq  `json:"seq"`
	Tx      sequencer.TxID `json:"tx,omitempty"`
	Residue bool           `json:"residue,omitempty"`
	Agent   string         `json:"agent,omitempty"`
}

type blocker struct {
	Tx    sequencer.TxID  `json:"tx,omitempty"`
	Scope sequencer.Scope `json:"scope,omitempty"`
	Why   string          `json:"why,omitempty"`
}

type hold struct {
	Scope  sequencer.Scope          `json:"scope,omitempty"`
	Kind   name[sequencer.HoldKind] `json:"kind"`
	Access name[sequencer.Access]   `json:"access"`
}

type want struct {
	Scope  sequencer.Scope        `json:"scope,omitempty"`
	Access name[sequencer.Access] `json:"access"`
}

type write struct {
	Scope  sequencer.Scope `json:"scope,omitempty"`
	Writer writer          `json:"writer,omitzero"`
	Former writer          `json:"former,omitzero"`
}

type shard struct {
	Scope   sequencer.Scope `json:"scope,omitempty"`
	Type    string          `json:"media_type,omitempty"`
	Content *string         `json:"content,omitempty"` // where it is text
	Base64  []byte          `json:"content_base64,omitempty"`
	Ref     *ref            `json:"ref,omitempty"`
	Expect  *expect         `json:"expect,omitempty"`
	Former  *former         `json:"former,omitempty"`
	Absent  bool            `json:"absent,omitempty"`

	Restored sequencer.Seq      `json:"restored,omitempty"`
	Op       name[sequencer.Op] `json:"op,omitzero"`
	Removes  sequencer.Seq      `json:"removes,omitempty"`
}

type former struct {
	Version sequencer.Seq `json:"version"`
	View    sequencer.Seq `json:"view"`
	Type    string        `json:"media_type,omitempty"`
	Content *string       `json:"content,omitempty"` // where it is text
	Base64  []byte        `json:"content_base64,omitempty"`
	Ref     *ref          `json:"ref,omitempty"`

	Restored sequencer.Seq `json:"restored,omitempty"`
}

type ref struct {
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Size      int64   `json:"size_bytes"`
	SHA256    hexHash `json:"sha256,omitzero"`
	Chunks    uint32  `json:"chunks,omitempty"` // of a chain of events, the last of which is at Last
	Last      int64   `json:"last_offset,omitempty"`
}

type place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

type expect struct {
	Version sequencer.Seq `json:"version"`
	View    sequencer.Seq `json:"view"`
}

// each converts a list; an empty one is nil.
func each[From, To any](list []From, one func(From) To) []To {
	if len(list) == 0 {
		return nil
	}
	to := make([]To, len(list))
	for i := range list {
		to[i] = one(list[i])
	}
	return to
}

func decisionOf(o *sequencer.Outcome) decision {
	d := decision{
		Workspace: o.Workspace, Seq: o.Seq, Kind: name[sequencer.OutcomeKind]{o.Kind}, Tx: o.Tx, Agent: o.Agent,
		Code: o.Code, Detail: o.Detail, Scope: o.Scope, Moved: mover{o.Moved.Seq, o.Moved.Tx, o.Moved.Residue, o.MovedAgent},
		By: o.By, Tool: o.Tool,
		BlockedBy: each(o.BlockedBy, func(b sequencer.Blocker) blocker { return blocker(b) }),
		Retryable: o.Retryable, Would: o.Would,
		Added: each(o.Added, holdOf), Ended: each(o.Ended, holdOf), May: each(o.May, wantOf),
		Writes: each(o.Writes, writeOf), Shards: each(o.Shards, shardOf), RestsOn: o.RestsOn, Residue: o.Residue,
		Intent: o.Intent, Incarnation: o.Incarnation, Epoch: o.Epoch, Footprint: hexHash(o.Footprint),
		At: (*place)(o.At), Group: o.Group, Winner: o.Winner, Server: o.Server, Catalogue: hexHash(o.Catalogue),
		Final: o.Final, Rules: rulesOf(o.Rules), Offset: o.Offset, RulesVersion: o.RulesVersion, Tick: o.Time,
		Floor: o.Floor, Chain: hexHash(o.Chain), StateHash: (*hexHash)(o.StateHash), Retraction: o.Retraction, Cone: o.Cone,
		Approvals: each(o.Approvals, func(a sequencer.Approval) approval {
			return approval{a.Index, a.Yes, a.By, hexHash(a.Args)}
		}),
		Signer: o.Signer,
	}
	if o.Tx != "" || o.Mode != 0 {
		d.Mode = &name[sequencer.Mode]{o.Mode}
	}
	return d
}

func (d *decision) outcome() *sequencer.Outcome {
	o := &sequencer.Outcome{
		Workspace: d.Workspace, Seq: d.Seq, Kind: d.Kind.value, Tx: d.Tx, Agent: d.Agent,
		Code: d.Code, Detail: d.Detail, Scope: d.Scope, By: d.By, Tool: d.Tool,
		Moved:      sequencer.Writer{Seq: d.Moved.Seq, Tx: d.Moved.Tx, Residue: d.Moved.Residue},
		MovedAgent: d.Moved.Agent,
		BlockedBy:  each(d.BlockedBy, func(b blocker) sequencer.Blocker { return sequencer.Blocker(b) }),
		Retryable:  d.Retryable, Would: d.Would,
		Added: each(d.Added, hold.back), Ended: each(d.Ended, hold.back), May: each(d.May, want.back),
		Writes: each(d.Writes, write.back), Shards: each(d.Shards, shard.back), RestsOn: d.RestsOn, Residue: d.Residue,
		Intent: d.Intent, Incarnation: d.Incarnation, Epoch: d.Epoch, Footprint: sequencer.Hash(d.Footprint),
		At: (*sequencer.Place)(d.At), Group: d.Group, Winner: d.Winner, Server: d.Server,
		Catalogue: sequencer.Hash(d.Catalogue), Final: d.Final, Rules: d.Rules.back(), Offset: d.Offset,
		RulesVersion: d.RulesVersion, Time: d.Tick, Floor: d.Floor, Chain: sequencer.Hash(d.Chain),
		StateHash: (*sequencer.Hash)(d.StateHash), Retraction: d.Retraction, Cone: d.Cone,
		Approvals: each(d.Approvals, func(a approval) sequencer.Approval {
			return sequencer.Approval{Index: a.Index, Yes: a.Yes, By: a.By, Args: sequencer.Hash(a.Args)}
		}),
		Signer: d.Signer,
	}
	if d.Mode != nil {
		o.Mode = d.Mode.value
	}
	if len(o.RestsOn) == 0 {
		o.RestsOn = nil
	}
	if len(o.Residue) == 0 {
		o.Residue = nil
	}
	if len(o.Cone) == 0 {
		o.Cone = nil
	}
	return o
}

func holdOf(h sequencer.Hold) hold {
	return hold{h.Scope, name[sequencer.HoldKind]{h.Kind}, name[sequencer.Access]{h.Access}}
}

func (h hold) back() sequencer.Hold {
	return sequencer.Hold{Scope: h.Scope, Kind: h.Kind.value, Access: h.Access.value}
}

func wantOf(v sequencer.Want) want { return want{v.Scope, name[sequencer.Access]{v.Access}} }

func (v want) back() sequencer.Want { return sequencer.Want{Scope: v.Scope, Access: v.Access.value} }

func writeOf(v sequencer.Write) write { return write{v.Scope, writer(v.Writer), writer(v.Former)} }

func (v write) back() sequencer.Write {
	return sequencer.Write{Scope: v.Scope, Writer: sequencer.Writer(v.Writer), Former: sequencer.Writer(v.Former)}
}

func shardOf(s sequencer.ShardWrite) shard {
	to := shard{Scope: s.Scope, Type: s.Type, Ref: refOf(s.Ref), Expect: (*expect)(s.Expect), Absent: s.Absent,
		Restored: s.Restored, Op: name[sequencer.Op]{s.Op}, Removes: s.Removes}
	if s.Ref == nil && !s.Absent && s.Restored == 0 && s.Removes == 0 || len(s.Content) > 0 {
		to.Content, to.Base64 = contentOf(s.Content)
	}
	if f := s.Former; f != nil {
		to.Former = &former{Version: f.Version, View: f.View, Type: f.Type, Ref: refOf(f.Ref), Restored: f.Restored}
		if len(f.Content) > 0 {
			to.Former.Content, to.Former.Base64 = contentOf(f.Content)
		}
	}
	return to
}

func refOf(r *sequencer.Ref) *ref {
	if r == nil {
		return nil
	}
	return &ref{r.Partition, r.Offset, r.Size, hexHash(r.SHA256), r.Chunks, r.Last}
}

func (r *ref) back() *sequencer.Ref {
	if r == nil {
		return nil
	}
	return &sequencer.Ref{Partition: r.Partition, Offset: r.Offset, Size: r.Size, SHA256: sequencer.Hash(r.SHA256),
		Chunks: r.Chunks, Last: r.Last}
}

// contentOf writes content as text where it is text.
func contentOf(b []byte) (text *string, base64 []byte) {
	if !readable(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

func contentBack(text *string, base64 []byte) []byte {
	switch {
	case text != nil && *text != "":
		return []byte(*text)
	case len(base64) > 0:
		return base64
	}
	return nil
}

func (s shard) back() sequencer.ShardWrite {
	to := sequencer.ShardWrite{Scope: s.Scope, Type: s.Type, Content: contentBack(s.Content, s.Base64), Ref: s.Ref.back(),
		Expect: (*sequencer.Expect)(s.Expect), Absent: s.Absent, Restored: s.Restored, Op: s.Op.value, Removes: s.Removes}
	if f := s.Former; f != nil {
		to.Former = &sequencer.Former{Version: f.Version, View: f.View, Type: f.Type,
			Content: contentBack(f.Content, f.Base64), Ref: f.Ref.back(), Restored: f.Restored}
	}
	return to
}

// readable says whether content is written as text. Text that is mostly control characters counts as bytes: its
// escapes would take six times its size, and a record has a bound.
func readable(b []byte) bool {
	controls := 0
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			controls++
		}
	}
	return utf8.Valid(b) && controls <= len(b)/8
}
