package topology

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// The types of this file are the data of a decision as encoding/json reads it; cloudevent.go writes it.

type decisionData struct {
	Workspace    string           `json:"workspace"`
	Seq          sequencer.Seq    `json:"seq"`
	Kind         string           `json:"kind"`
	Tx           sequencer.TxID   `json:"tx"`
	Agent        string           `json:"agent"`
	Code         sequencer.Code   `json:"code"`
	Detail       string           `json:"detail"`
	Scope        sequencer.Scope  `json:"scope"`
	Moved        writerData       `json:"moved"`
	BlockedBy    []blockerData    `json:"blocked_by"`
	Retryable    bool             `json:"retryable"`
	Would        sequencer.Code   `json:"would"`
	Added        []holdData       `json:"added"`
	Ended        []holdData       `json:"ended"`
	May          []holdData       `json:"may"`
	Writes       []writeData      `json:"writes"`
	Shards       []shardData      `json:"shards"`
	RestsOn      []sequencer.TxID `json:"rests_on"`
	Residue      []sequencer.TxID `json:"residue"`
	Intent       string           `json:"intent"`
	Incarnation  sequencer.Seq    `json:"incarnation"`
	Mode         string           `json:"mode"`
	Epoch        sequencer.Epoch  `json:"epoch"`
	Footprint    string           `json:"footprint"`
	At           *placeData       `json:"at"`
	Group        string           `json:"group"`
	Winner       sequencer.TxID   `json:"winner"`
	Server       string           `json:"server"`
	Catalogue    string           `json:"catalogue"`
	Final        bool             `json:"final"`
	Rules        *rulesData       `json:"rules"`
	Offset       int64            `json:"offset"`
	RulesVersion uint32           `json:"rules_version"`
	Tick         sequencer.Tick   `json:"tick"`
	Floor        sequencer.Seq    `json:"floor"`
	Chain        string           `json:"chain"`
	StateHash    string           `json:"state_hash"`
}

type writerData struct {
	Seq     sequencer.Seq  `json:"seq"`
	Tx      sequencer.TxID `json:"tx"`
	Residue bool           `json:"residue"`
}

func (v writerData) writer() sequencer.Writer {
	return sequencer.Writer{Seq: v.Seq, Tx: v.Tx, Residue: v.Residue}
}

type blockerData struct {
	Tx    sequencer.TxID  `json:"tx"`
	Scope sequencer.Scope `json:"scope"`
	Why   string          `json:"why"`
}

func (b blockerData) blocker() (sequencer.Blocker, error) {
	return sequencer.Blocker{Tx: b.Tx, Scope: b.Scope, Why: b.Why}, nil
}

// holdData is a hold, or without a kind a want.
type holdData struct {
	Scope  sequencer.Scope `json:"scope"`
	Kind   string          `json:"kind"`
	Access string          `json:"access"`
}

func (h holdData) hold() (sequencer.Hold, error) {
	kind, err := valueFor[sequencer.HoldKind](h.Kind)
	if err != nil {
		return sequencer.Hold{}, err
	}
	access, err := valueFor[sequencer.Access](h.Access)
	return sequencer.Hold{Scope: h.Scope, Kind: kind, Access: access}, err
}

func (h holdData) want() (sequencer.Want, error) {
	access, err := valueFor[sequencer.Access](h.Access)
	return sequencer.Want{Scope: h.Scope, Access: access}, err
}

type writeData struct {
	Scope  sequencer.Scope `json:"scope"`
	Writer writerData      `json:"writer"`
	Former writerData      `json:"former"`
}

func (v writeData) write() (sequencer.Write, error) {
	return sequencer.Write{Scope: v.Scope, Writer: v.Writer.writer(), Former: v.Former.writer()}, nil
}

type placeData struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

type refData struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Size      int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"`
}

type expectData struct {
	Version sequencer.Seq `json:"version"`
	View    sequencer.Seq `json:"view"`
}

type shardData struct {
	Scope   sequencer.Scope `json:"scope"`
	Type    string          `json:"media_type"`
	Content string          `json:"content"`
	Base64  []byte          `json:"content_base64"`
	Ref     *refData        `json:"ref"`
	Expect  *expectData     `json:"expect"`
}

func (s shardData) shard() (sequencer.ShardWrite, error) {
	v := sequencer.ShardWrite{Scope: s.Scope, Type: s.Type, Content: s.Base64}
	if s.Content != "" {
		v.Content = []byte(s.Content)
	}
	if len(v.Content) == 0 {
		v.Content = nil
	}
	if s.Expect != nil {
		v.Expect = &sequencer.Expect{Version: s.Expect.Version, View: s.Expect.View}
	}
	if s.Ref != nil {
		sum, err := hexHash("sha256", s.Ref.SHA256)
		if err != nil {
			return v, err
		}
		v.Ref = &sequencer.Ref{Partition: s.Ref.Partition, Offset: s.Ref.Offset, Size: s.Ref.Size, SHA256: sum}
	}
	return v, nil
}

// reader keeps the first error of a decision's parts.
type reader struct{ err error }

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) hash(name, text string) sequencer.Hash {
	h, err := hexHash(name, text)
	r.keep(err)
	return h
}

func each[D, T any](r *reader, list []D, one func(D) (T, error)) []T {
	if len(list) == 0 {
		return nil
	}
	out := make([]T, len(list))
	for i := range list {
		var err error
		out[i], err = one(list[i])
		r.keep(err)
	}
	return out
}

func (d *decisionData) outcome() (*sequencer.Outcome, error) {
	r := &reader{}
	kind, err := valueFor[sequencer.OutcomeKind](d.Kind)
	r.keep(err)
	mode, err := valueFor[sequencer.Mode](d.Mode)
	r.keep(err)
	o := &sequencer.Outcome{
		Workspace: d.Workspace, Seq: d.Seq, Offset: d.Offset, RulesVersion: d.RulesVersion,
		Chain: r.hash("chain", d.Chain), Time: d.Tick, Floor: d.Floor, Kind: kind, Intent: d.Intent,
		Tx: d.Tx, Agent: d.Agent, Incarnation: d.Incarnation, Mode: mode, Epoch: d.Epoch,
		Code: d.Code, Detail: d.Detail, Scope: d.Scope, Moved: d.Moved.writer(),
		BlockedBy: each(r, d.BlockedBy, blockerData.blocker), Retryable: d.Retryable, Would: d.Would,
		Added: each(r, d.Added, holdData.hold), Ended: each(r, d.Ended, holdData.hold),
		May:    each(r, d.May, holdData.want),
		Writes: each(r, d.Writes, writeData.write), Shards: each(r, d.Shards, shardData.shard),
		Footprint: r.hash("footprint", d.Footprint), Group: d.Group, Winner: d.Winner, Server: d.Server,
		Catalogue: r.hash("catalogue", d.Catalogue), Final: d.Final,
	}
	if len(d.RestsOn) > 0 {
		o.RestsOn = d.RestsOn
	}
	if len(d.Residue) > 0 {
		o.Residue = d.Residue
	}
	if d.At != nil {
		o.At = &sequencer.Place{Partition: d.At.Partition, Offset: d.At.Offset}
	}
	if d.Rules != nil {
		o.Rules, err = d.Rules.rules()
		r.keep(err)
	}
	if d.StateHash != "" {
		h := r.hash("state_hash", d.StateHash)
		o.StateHash = &h
	}
	if r.err != nil {
		return nil, fmt.Errorf("decision %s: %w", DecisionMessageID(d.Workspace, d.Seq), r.err)
	}
	return o, nil
}
