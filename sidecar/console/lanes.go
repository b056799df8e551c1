package console

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// The bounds of one drawing; what is beyond them is counted.
const (
	maxLanes = 24
	maxBars  = 40 // of one lane, the newest
	maxMarks = 12 // of one bar, the first
)

// lanesView is what all agents did in the last seconds, one lane each, as one would draw it on a whiteboard.
type lanesView struct {
	NowMs   int64   `json:"now_ms"`
	FromMs  int64   `json:"from_ms"`
	Lanes   []lane  `json:"lanes"` // by name
	LeftOut leftOut `json:"left_out"`
}

// leftOut is how much of the stretch is not in the drawing.
type leftOut struct {
	Lanes int `json:"lanes"`
	Bars  int `json:"bars"`
	Marks int `json:"marks"`
}

type lane struct {
	Agent string `json:"agent"`
	Bars  []bar  `json:"bars"` // by their begin
}

// bar is one transaction from its begin to its decision and to its end. A time is zero where there is none yet.
type bar struct {
	Tx        sequencer.TxID      `json:"tx"`
	State     string              `json:"state"`
	Committed bool                `json:"committed"`
	Code      sequencer.Code      `json:"code,omitempty"`
	Would     sequencer.Code      `json:"would,omitempty"`
	Scope     sequencer.Scope     `json:"scope,omitempty"` // where it was refused
	By        sequencer.TxID      `json:"by,omitempty"`    // who moved that
	BySeq     sequencer.Seq       `json:"by_seq,omitempty"`
	BeganMs   int64               `json:"began_ms"`
	SealedMs  int64               `json:"sealed_ms,omitempty"`
	DecidedMs int64               `json:"decided_ms,omitempty"`
	EndMs     int64               `json:"end_ms,omitempty"` // when the last was heard of it, where nothing more will be
	Seq       sequencer.Seq       `json:"seq,omitempty"`
	Waits     []topology.LiveWait `json:"waits"`
	Reads     int                 `json:"reads"`
	Writes    int                 `json:"writes"`
	Calls     int                 `json:"calls"`
	Marks     []laneMark          `json:"marks"`
}

// laneMark is one thing that the agent did.
type laneMark struct {
	Kind  string          `json:"kind"` // of an act
	AtMs  int64           `json:"at_ms"`
	Scope sequencer.Scope `json:"scope,omitempty"`
	Tool  string          `json:"tool,omitempty"`
}

func (c *Console) lanes(r *http.Request) (any, error) {
	seconds, err := secondsOf(r)
	if err != nil {
		return nil, err
	}
	return c.watch.lanes(seconds), nil
}

func (w *watch) lanes(seconds int) *lanesView {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.nowMs()
	v := &lanesView{NowMs: now, FromMs: now - int64(seconds)*1000, Lanes: []lane{}}
	lanes, others := map[string]*lane{}, map[string]bool{}
	for e := w.order.Back(); e != nil; e = e.Prev() {
		t := e.Value.(*work)
		if t.beganMs == 0 || cmp.Or(t.endMs(), now) < v.FromMs || t.agent == "" || t.doubtful && !t.inFold {
			continue // no clock saw it, or it was over before
		}
		l := lanes[t.agent]
		switch {
		case l == nil && len(lanes) == maxLanes:
			others[t.agent] = true
			v.LeftOut.Bars++
			continue
		case l == nil:
			l = &lane{Agent: t.agent}
			lanes[t.agent] = l
		case len(l.Bars) == maxBars:
			v.LeftOut.Bars++
			continue
		}
		b := barOf(t)
		v.LeftOut.Marks += b.mark(t)
		l.Bars = append(l.Bars, b)
	}
	for i := range w.live.Sidecars { // who is there and does nothing has an empty lane
		agent := w.live.Sidecars[i].Agent
		if lanes[agent] != nil {
			continue
		}
		if len(lanes) == maxLanes {
			others[agent] = true
			continue
		}
		lanes[agent] = &lane{Agent: agent, Bars: []bar{}}
	}
	v.LeftOut.Lanes = len(others)
	for _, l := range lanes {
		slices.SortStableFunc(l.Bars, func(a, b bar) int { return cmp.Compare(a.BeganMs, b.BeganMs) })
		v.Lanes = append(v.Lanes, *l)
	}
	slices.SortStableFunc(v.Lanes, func(a, b lane) int { return cmp.Compare(a.Agent, b.Agent) })
	return v
}

func barOf(t *work) bar {
	return bar{Tx: t.tx, State: t.state, Committed: t.committed, Code: t.code, Would: t.would, Scope: t.scope,
		By: t.moved.Tx, BySeq: t.moved.Seq, BeganMs: t.beganMs, SealedMs: t.sealedMs, DecidedMs: t.decidedMs,
		EndMs: t.endMs(), Seq: t.decision, Waits: append([]topology.LiveWait{}, seenRow(t).Waits...), Reads: t.reads,
		Writes: t.writes, Calls: len(t.effects), Marks: []laneMark{}}
}

// endMs is when the last was heard of a transaction of which nothing more will be; zero: it goes on.
func (t *work) endMs() int64 {
	if !t.final {
		return 0
	}
	return max(t.lastMs, t.decidedMs)
}

// mark puts the first acts on the bar; it answers how many there are beyond.
func (b *bar) mark(t *work) int {
	left := t.forgotten
	for _, a := range t.acts {
		if a.Kind == "seal" {
			continue // the bar says it
		}
		if len(b.Marks) == maxMarks {
			left++
			continue
		}
		b.Marks = append(b.Marks, laneMark{Kind: a.Kind, AtMs: a.AtMs, Scope: a.Scope, Tool: a.Tool})
	}
	return left
}
