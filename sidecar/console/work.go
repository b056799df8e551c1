package console

import (
	"bytes"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// The states of a transaction as the page shows them.
const (
	stateOpen       = "open"
	stateWaiting    = "waiting" // a touch of it waits
	stateSealed     = "sealed"  // its decision waits
	stateCommitted  = "committed"
	stateAborted    = "aborted"
	stateSettling   = "settling" // decided, and something is released or undone
	stateOrphan     = "orphan"   // decided, and no sidecar settles it now
	stateRetracting = "retracting"
	stateRetracted  = "retracted"
	stateGone       = "gone" // its session ended before the log heard of it
)

// The states of a tool call.
const (
	effectHeld      = "held"
	effectCalled    = "called"
	effectDone      = "done"
	effectRefused   = "refused"
	effectReleasing = "releasing" // committed, and its owner is at it
	effectReleased  = "released"  // its sink has acknowledged it
	effectNotSent   = "not_sent"  // committed, and it never left
	effectDropped   = "dropped"
	effectUnknown   = "unknown"
	effectUndone    = "undone"
	effectStuck     = "not undone"
)

// Bounds of what is remembered of one transaction.
const (
	maxSeqs    = 256
	maxActs    = 256
	maxEffects = 256
	maxDetail  = 512 // bytes of a text that others wrote
)

// act is one thing that an agent did, as hence.events has it.
type act struct {
	Kind    string          `json:"kind"` // read, write, content, seal, effect, answer, touch
	AtMs    int64           `json:"at_ms"`
	Index   uint64          `json:"index"`
	Scope   sequencer.Scope `json:"scope,omitempty"`
	View    sequencer.Seq   `json:"view,omitempty"`
	Version sequencer.Seq   `json:"version,omitempty"`
	Writer  sequencer.TxID  `json:"writer,omitempty"`
	Size    int64           `json:"size,omitempty"`
	Effect  *uint32         `json:"effect,omitempty"` // issuance order of the call that it is about
	Tool    string          `json:"tool,omitempty"`
	Step    string          `json:"step,omitempty"` // of an answer
	Detail  string          `json:"detail,omitempty"`
}

// effect is one tool call with what became of it.
type effect struct {
	Index     uint32            `json:"index"`
	Tool      string            `json:"tool"`
	Class     string            `json:"class"`
	Gated     bool              `json:"gated"`
	Key       string            `json:"key,omitempty"`
	Scopes    []sequencer.Scope `json:"scopes,omitempty"`
	State     string            `json:"state"`
	AtMs      int64             `json:"at_ms"`      // when it was asked for
	ChangedMs int64             `json:"changed_ms"` // when its state was last heard of
	Detail    string            `json:"detail,omitempty"`
	Args      string            `json:"args,omitempty"`        // asked for, or to be approved
	ArgsSHA   string            `json:"args_sha256,omitempty"` // to be approved: of those that were sealed
	Answer    string            `json:"answer,omitempty"`      // only where they were asked for

	unsent bool   // its owner said that it did not leave
	idle   bool   // its owner said that it cannot release it now
	before string // its state before a try by hand whose end was not heard
}

// work is one transaction as the console has seen it.
type work struct {
	tx          sequencer.TxID
	agent       string
	incarnation sequencer.Seq
	mode        string
	group       string
	state       string
	code        sequencer.Code
	would       sequencer.Code   // observe: what would have been decided
	scope       sequencer.Scope  // where code, or would, was found
	moved       sequencer.Writer // what moved it
	committed   bool
	final       bool
	clean       bool // its settlement left no residue: all that was held has left
	inFold      bool // the log has decided something about it
	doubtful    bool // of before the console began to look: it may be over
	decision    sequencer.Seq
	beganMs     int64
	sealedMs    int64
	decidedMs   int64
	lastMs      int64
	firstTick   sequencer.Tick // of the first outcome that was seen
	waits       []sequencer.Blocker
	approvals   []sequencer.Approval // who has said what of its calls that need a yes
	seqs        []sequencer.Seq
	reads       int
	writes      int
	acts        []act
	effects     []effect
	forgotten   int // acts and effects beyond the bounds
}

// learn takes what an outcome says of the transaction; atMs is zero for one of the past.
func (t *work) learn(o *sequencer.Outcome, atMs int64) {
	t.inFold, t.mode = true, o.Mode.String()
	t.agent, t.group = orElse(t.agent, o.Agent), orElse(t.group, o.Group)
	if t.incarnation == 0 {
		t.incarnation = o.Incarnation
	}
	if t.firstTick == 0 {
		t.firstTick = o.Time
	}
	if len(t.seqs) < maxSeqs {
		t.seqs = append(t.seqs, o.Seq)
	}
	if atMs > 0 {
		t.lastMs = atMs
		if t.beganMs == 0 {
			t.beganMs = atMs
		}
	}
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		t.state, t.waits, t.approvals = stateWaiting, o.BlockedBy, o.Approvals
		if t.sealedMs > 0 || sealIntent(o.Intent) || len(o.Approvals) > 0 {
			t.state = stateSealed
		}
	case sequencer.OutcomeGranted:
		t.state, t.waits = stateOpen, nil
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		t.decide(o, atMs)
	case sequencer.OutcomeSettled:
		t.settle(o)
	case sequencer.OutcomeRetracting:
		t.state, t.final, t.waits = stateRetracting, false, o.BlockedBy
	case sequencer.OutcomeTurn:
		t.waits = nil
	case sequencer.OutcomeRefused:
		t.code = orElse(t.code, o.Code)
	}
}

func sealIntent(id string) bool {
	return bytes.Contains([]byte(id), []byte(":"+sequencer.IntentSeal.String()+":"))
}

func (t *work) decide(o *sequencer.Outcome, atMs int64) {
	t.committed, t.final, t.waits = o.Kind == sequencer.OutcomeCommitted, o.Final, nil
	t.code, t.decision, t.decidedMs, t.state = o.Code, o.Seq, atMs, stateSettling
	t.would, t.scope, t.moved = o.Would, o.Scope, o.Moved
	if o.Final {
		t.state, t.clean = t.verdict(), true
		t.settleEffects(atMs)
	}
}

func (t *work) settle(o *sequencer.Outcome) {
	t.final, t.waits = true, nil
	if t.state = t.verdict(); o.Retraction != "" && t.committed {
		t.state = stateRetracted
	}
	if o.Retraction == "" {
		t.clean = len(o.Residue) == 0
	}
	t.settleEffects(t.lastMs)
}

func (t *work) verdict() string {
	if t.committed {
		return stateCommitted
	}
	return stateAborted
}

// settleEffects says what became of held calls of which no answer was heard. Only a clean settlement proves that they
// left; events may still come behind it, and say more.
func (t *work) settleEffects(atMs int64) {
	for i := range t.effects {
		e := &t.effects[i]
		if e.State != effectHeld {
			continue
		}
		switch e.ChangedMs = atMs; {
		case !t.committed:
			e.State = effectDropped
		case t.clean: // what a former try or owner said no longer counts
			if e.State = effectReleased; e.unsent {
				e.Detail = ""
			}
		case e.unsent:
			e.State = effectNotSent
		default:
			e.State = effectUnknown
		}
	}
}

// hear takes what an event says; it reports whether it was new.
func (t *work) hear(ev *topology.Event) bool {
	for i := len(t.acts) - 1; i >= 0 && t.acts[i].Index >= ev.Index; i-- {
		if t.acts[i].Index == ev.Index && t.acts[i].AtMs == ev.AtMs {
			return false
		}
	}
	t.agent, t.lastMs = orElse(t.agent, ev.Agent), max(t.lastMs, ev.AtMs)
	if t.incarnation == 0 {
		t.incarnation = ev.Incarnation
	}
	if t.beganMs == 0 || ev.AtMs < t.beganMs {
		t.beganMs = ev.AtMs
	}
	switch ev.Kind {
	case topology.EventRead:
		t.reads++
	case topology.EventWrite:
		t.writes++
	case topology.EventSeal:
		if t.sealedMs = ev.AtMs; t.state == stateOpen || t.state == stateWaiting {
			t.state = stateSealed
		}
	case topology.EventEffect, topology.EventAnswer:
		t.hearEffect(ev)
	}
	if ev.Kind == topology.EventContent {
		return true // the write behind it says the same
	}
	if len(t.acts) == maxActs {
		t.forgotten++
		return true
	}
	t.acts = append(t.acts, actOf(ev))
	return true
}

func actOf(ev *topology.Event) act {
	a := act{Kind: eventName(ev.Kind), AtMs: ev.AtMs, Index: ev.Index, Scope: ev.Scope, View: ev.View,
		Version: ev.Version, Writer: ev.Writer, Size: ev.Size}
	if x := ev.Effect; x != nil {
		index := x.Index
		a.Effect, a.Tool, a.Detail = &index, x.Tool, cut(x.Detail)
		if len(x.Scopes) > 0 {
			a.Scope = x.Scopes[0]
		}
		if ev.Kind == topology.EventAnswer {
			a.Step = gate.Step(x.Step).String()
		}
	}
	return a
}

func eventName(k topology.EventKind) string {
	names := [...]string{"", "read", "write", "content", "seal", "effect", "answer", "touch", "plan"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

func (t *work) hearEffect(ev *topology.Event) {
	x := ev.Effect
	if x == nil {
		return
	}
	at := slices.IndexFunc(t.effects, func(e effect) bool { return e.Index == x.Index })
	if ev.Kind == topology.EventEffect {
		e := effectOf(ev)
		if at >= 0 {
			t.effects[at] = e // issued again: the former one never ran
		} else if len(t.effects) < maxEffects {
			t.effects = append(t.effects, e)
		} else {
			t.forgotten++
		}
		return
	}
	if at >= 0 {
		t.effects[at].answer(x, ev.AtMs)
		if e := &t.effects[at]; t.final && t.committed && e.unsent && e.State == effectUnknown && e.before == "" {
			e.State = effectNotSent // it was settled before this was heard
		}
	}
}

func effectOf(ev *topology.Event) effect {
	x := ev.Effect
	e := effect{Index: x.Index, Tool: x.Tool, Class: x.Class.String(), Gated: x.Class.Gated(), Key: x.Key,
		Scopes: x.Scopes, State: effectCalled, AtMs: ev.AtMs, ChangedMs: ev.AtMs, Detail: cut(x.Detail)}
	if e.Gated {
		e.State = effectHeld
	}
	return e
}

// answer takes what an answer says became of the call.
func (e *effect) answer(x *topology.EffectText, atMs int64) {
	e.ChangedMs = atMs
	if x.Detail != "" || e.idle {
		e.Detail = cut(x.Detail)
	}
	e.idle = gate.Step(x.Step) == gate.StepIssued
	try, byHand := x.Hand()
	undone := byHand && try.Undo
	refused := bytes.Contains(x.Answer, []byte(`"refused":true`))
	switch step := gate.Step(x.Step); {
	case byHand && step == gate.StepStarted && !undone:
		e.before, e.State = e.State, effectUnknown
	case byHand && step == gate.StepNotSent:
		e.State, e.before = orElse(e.before, e.State), ""
	case undone && step == gate.StepAnswered && refused:
		e.State = effectStuck
	case undone && step == gate.StepAnswered, step == gate.StepUndone:
		e.State = effectUndone
	case step == gate.StepAnswered && e.Gated && bytes.Contains(x.Answer, []byte(`"absent":true`)):
		e.State = effectNotSent // it was looked up
	case step == gate.StepAnswered && refused:
		e.State, e.before = effectRefused, ""
	case step == gate.StepAnswered && e.Gated:
		e.State, e.before = effectReleased, ""
	case step == gate.StepAnswered:
		e.State = effectDone
	case step == gate.StepGivenUp:
		e.State = effectUnknown
	case step == gate.StepUndoLost:
		e.State = effectStuck
	case step == gate.StepDropped && !e.unsent:
		e.State = effectDropped
	case step == gate.StepNotSent && e.Gated && x.Detail != "":
		e.unsent = true
	}
}

func orElse[T ~string](a, b T) T {
	if a != "" {
		return a
	}
	return b
}

// cut bounds a text that others wrote.
func cut(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return s[:maxDetail] + "…"
}
