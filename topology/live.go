package topology

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Live is what goes on in a workspace: everything that is not final, exactly as of one seq.
type Live struct {
	Workspace    string         `json:"workspace"`
	Seq          sequencer.Seq  `json:"seq"`  // what the fold that answered has decided
	Tick         sequencer.Tick `json:"tick"` // the log's time; one is about 250 ms while something is pending
	Floor        sequencer.Seq  `json:"floor"`
	Counts       LiveCounts     `json:"counts"`       // of all, also of those that are not shown
	Transactions []LiveTx       `json:"transactions"` // in the order of their first appearance
	Sidecars     []LiveSidecar  `json:"sidecars"`     // by Incarnation
	Truncated    bool           `json:"truncated"`    // not all transactions or sidecars are shown
}

// LiveCounts are how many there are of each.
type LiveCounts struct {
	Open        uint32 `json:"open"`
	Waiting     uint32 `json:"waiting"`
	Sealed      uint32 `json:"sealed"`
	Decided     uint32 `json:"decided"`
	Settling    uint32 `json:"settling"`
	Orphans     uint32 `json:"orphans"` // of the decided ones, those that no sidecar owns
	Sidecars    uint32 `json:"sidecars"`
	Retractions uint32 `json:"retractions"` // accepted and not done
}

// LiveState is where a transaction stands.
type LiveState string

// The states of a transaction that is not final.
const (
	LiveOpen     LiveState = "open"     // it reads and acts
	LiveWaiting  LiveState = "waiting"  // open, and a touch of it waits for a grant
	LiveSealed   LiveState = "sealed"   // its decision waits
	LiveDecided  LiveState = "decided"  // no sidecar settles it now: an orphan, or its turn in a cone has not come
	LiveSettling LiveState = "settling" // its owner releases or compensates
)

// LiveTx is one transaction that is not final.
type LiveTx struct {
	Tx           sequencer.TxID  `json:"tx"`
	Agent        string          `json:"agent"`
	State        LiveState       `json:"state"`
	Committed    bool            `json:"committed"` // of a decided one: what the decision was
	Mode         string          `json:"mode"`
	Epoch        sequencer.Epoch `json:"epoch"`         // its age; zero: not taken yet
	Base         sequencer.Seq   `json:"base"`          // what its agent had seen when it began
	Decision     sequencer.Seq   `json:"decision"`      // zero: undecided
	BeganTick    sequencer.Tick  `json:"began_tick"`    // zero: not known to the processor that answers
	DeadlineTick sequencer.Tick  `json:"deadline_tick"` // of an undecided one
	Waits        []LiveWait      `json:"waits"`
	Granted      []LiveHold      `json:"granted"`
	Claimed      []LiveHold      `json:"claimed"`    // declared, asked for, or gated and not released
	Holds        uint32          `json:"holds"`      // all of Granted and Claimed, also those that are not shown
	Gated        uint32          `json:"gated"`      // scopes that its held effects will change
	Code         sequencer.Code  `json:"code"`       // of an aborted one
	Group        string          `json:"group"`      // branch group; empty: none
	Owner        sequencer.Seq   `json:"owner"`      // incarnation that settles it; zero: none
	Retraction   sequencer.TxID  `json:"retraction"` // the retracted transaction whose cone it is in; empty: none
	// Approvals are who has said what of a sealed one's effects that need a yes, also of those without a word yet.
	Approvals []sequencer.Approval `json:"-"`
}

// LiveWait is one thing that a transaction waits for.
type LiveWait struct {
	Tx    sequencer.TxID  `json:"tx"` // itself where it waits for its branch, its verdict or an approval
	Scope sequencer.Scope `json:"scope"`
	Why   string          `json:"why"` // as in sequencer.Blocker
}

// LiveHold is one scope that a transaction holds or asks for.
type LiveHold struct {
	Scope  sequencer.Scope `json:"scope"`
	Access string          `json:"access"` // read or write
}

// LiveSidecar is one sidecar whose lease runs.
type LiveSidecar struct {
	Agent       string         `json:"agent"`
	Incarnation sequencer.Seq  `json:"incarnation"`
	LeaseLeft   sequencer.Tick `json:"lease_left"` // ticks
	Watermark   sequencer.Seq  `json:"watermark"`
	Lag         sequencer.Seq  `json:"lag"` // seqs between the watermark and the head
	Servers     uint32         `json:"servers"`
}

// maxLiveHolds is how many holds of one transaction are shown.
const maxLiveHolds = 32

// LiveIn is what goes on in a fold: at most so many transactions, the oldest first, and as many sidecars.
func LiveIn(f *sequencer.Fold, limit int) *Live {
	st := f.State()
	l := &Live{Workspace: st.Workspace, Seq: st.Seq, Tick: st.Time, Floor: st.Floor}
	l.Counts.Sidecars, l.Counts.Retractions = uint32(len(st.Sidecars)), uint32(len(st.Retractions))
	turn, _ := turnIn(&st)
	for i := range st.Txs {
		t := &st.Txs[i]
		state, live := liveState(t, turn)
		if !live {
			continue
		}
		l.Counts.add(state, t.Owner)
		if len(l.Transactions) == limit {
			l.Truncated = true
			continue
		}
		l.Transactions = append(l.Transactions, liveTx(f, t, state))
	}
	for i := range st.Sidecars {
		if len(l.Sidecars) == limit {
			l.Truncated = true
			break
		}
		s := &st.Sidecars[i]
		l.Sidecars = append(l.Sidecars, LiveSidecar{Agent: s.Agent, Incarnation: s.Incarnation,
			LeaseLeft: s.Due - min(s.Due, st.Time), Watermark: s.Watermark, Lag: st.Seq - min(st.Seq, s.Watermark),
			Servers: uint32(len(s.Servers))})
	}
	return l
}

func liveState(t *sequencer.TxState, turn sequencer.TxID) (state LiveState, live bool) {
	switch t.Phase {
	case sequencer.PhaseOpen:
		if t.Waiting != nil {
			return LiveWaiting, true
		}
		return LiveOpen, true
	case sequencer.PhaseSealed:
		return LiveSealed, true
	case sequencer.PhaseCommitted, sequencer.PhaseAborted:
		if t.Owner == 0 {
			return LiveDecided, true
		}
		return LiveSettling, true
	case sequencer.PhaseRetracting:
		if t.Owner == 0 || t.ID != turn {
			return LiveDecided, true
		}
		return LiveSettling, true
	}
	return "", false
}

func (c *LiveCounts) add(s LiveState, owner sequencer.Seq) {
	switch s {
	case LiveOpen:
		c.Open++
	case LiveWaiting:
		c.Waiting++
	case LiveSealed:
		c.Sealed++
	case LiveDecided:
		c.Decided++
	case LiveSettling:
		c.Settling++
	}
	if owner == 0 && (s == LiveDecided || s == LiveSettling) {
		c.Orphans++
	}
}

func liveTx(f *sequencer.Fold, t *sequencer.TxState, state LiveState) LiveTx {
	l := LiveTx{Tx: t.ID, Agent: t.Agent, State: state, Mode: t.Mode.String(), Epoch: t.Epoch, Base: t.Base,
		Decision: t.Decision, Code: t.Code, Group: t.Group, Owner: t.Owner, Retraction: t.Retraction,
		Committed: t.Phase == sequencer.PhaseCommitted || t.Phase == sequencer.PhaseRetracting}
	if t.Decision == 0 {
		l.DeadlineTick = t.Due
	}
	for _, b := range f.Blockers(t.ID) {
		l.Waits = append(l.Waits, LiveWait{Tx: b.Tx, Scope: b.Scope, Why: b.Why})
	}
	l.Approvals = approvalsOf(t)
	gated, claimed := gatedOf(t), claimedOf(t)
	l.Gated = uint32(len(gated))
	for _, h := range t.Grants {
		l.Granted = append(l.Granted, LiveHold{Scope: h.Scope, Access: h.Access.String()})
	}
	l.Claimed = claimed
	l.Holds = uint32(len(l.Granted) + len(l.Claimed))
	l.Granted = l.Granted[:min(len(l.Granted), maxLiveHolds)]
	l.Claimed = l.Claimed[:min(len(l.Claimed), maxLiveHolds)]
	return l
}

// approvalsOf are the effects of a sealed transaction that need a yes, each with the word that was said of it.
func approvalsOf(t *sequencer.TxState) (out []sequencer.Approval) {
	if t.Phase != sequencer.PhaseSealed || t.Seal == nil {
		return nil
	}
	for _, e := range t.Seal.Effects {
		if !e.Approve {
			continue
		}
		a := sequencer.Approval{Index: e.Index, Args: e.Args}
		if i := slices.IndexFunc(t.Approvals, func(a sequencer.Approval) bool { return a.Index == e.Index }); i >= 0 {
			a = t.Approvals[i]
		}
		out = append(out, a)
	}
	return out
}

// gatedOf are the scopes that a transaction's held effects will change, in order.
func gatedOf(t *sequencer.TxState) []sequencer.Scope {
	if t.Seal == nil {
		return t.Gated
	}
	var scopes []sequencer.Scope
	for _, e := range t.Seal.Effects {
		if e.Class.Gated() {
			scopes = append(scopes, e.Scopes...)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// claimedOf are the scopes that bind others although they are not granted, each once.
func claimedOf(t *sequencer.TxState) (holds []LiveHold) {
	add := func(s sequencer.Scope, a sequencer.Access) {
		h := LiveHold{Scope: s, Access: a.String()}
		if !slices.Contains(holds, h) {
			holds = append(holds, h)
		}
	}
	if t.Phase == sequencer.PhaseOpen {
		for _, w := range t.May {
			add(w.Scope, w.Access)
		}
		if t.Waiting != nil {
			for _, w := range t.Waiting.Wants {
				add(w.Scope, w.Access)
			}
		}
	}
	for _, s := range gatedOf(t) {
		add(s, sequencer.WriteAccess)
	}
	if t.Seal != nil {
		for _, w := range t.Seal.Shards {
			add(w.Scope, sequencer.WriteAccess)
		}
	}
	if t.Phase == sequencer.PhaseRetracting && t.Past != nil {
		for _, w := range t.Past.Writes {
			add(w.Scope, sequencer.WriteAccess)
		}
	}
	return holds
}
