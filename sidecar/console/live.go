package console

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

const (
	tickMs      = 250 // of one tick of weight 1, and longer when the log is idle
	maxLiveRows = 1000

	sealReachesLogMs = 10_000 // after its event a seal is in the log, and decided or among the fold's
)

// liveView is what goes on, as the page shows it.
type liveView struct {
	NowMs        int64               `json:"now_ms"`
	TickMs       int                 `json:"tick_ms"`
	Seq          sequencer.Seq       `json:"seq"`
	Tick         sequencer.Tick      `json:"tick"`
	Floor        sequencer.Seq       `json:"floor"`
	Counts       topology.LiveCounts `json:"counts"`
	Unsent       int                 `json:"unsent"` // open ones of which the log has not heard yet
	Transactions []liveRow           `json:"transactions"`
	Truncated    bool                `json:"truncated"`
	Agents       []agentRow          `json:"agents"`
	LeaseTicks   sequencer.Tick      `json:"lease_ticks"`
	Troubles     []string            `json:"troubles"`
}

// liveRow is one transaction that is not final.
type liveRow struct {
	Tx        sequencer.TxID      `json:"tx"`
	Agent     string              `json:"agent"`
	State     string              `json:"state"`
	Committed bool                `json:"committed"`
	Mode      string              `json:"mode,omitempty"`
	Code      sequencer.Code      `json:"code,omitempty"`
	BeganMs   int64               `json:"began_ms,omitempty"` // zero: only AgeTicks is known
	AgeTicks  *sequencer.Tick     `json:"age_ticks,omitempty"`
	LeftTicks *sequencer.Tick     `json:"left_ticks,omitempty"` // until its deadline
	Epoch     sequencer.Epoch     `json:"epoch,omitempty"`
	Waits     []topology.LiveWait `json:"waits"`
	Granted   []topology.LiveHold `json:"granted"`
	Claimed   []topology.LiveHold `json:"claimed"`
	Holds     uint32              `json:"holds"`
	Held      int                 `json:"held"` // tool calls that wait for the commit
	Calls     int                 `json:"calls"`
	Reads     int                 `json:"reads"`
	Writes    int                 `json:"writes"`
	Group     string              `json:"group,omitempty"`
	Unsent    bool                `json:"unsent,omitempty"` // the log has not heard of it yet
	seen      sequencer.Seq
	approvals []sequencer.Approval // who has said what of its calls that need a yes
}

// agentRow is one agent and its sidecar.
type agentRow struct {
	Agent       string          `json:"agent"`
	Live        bool            `json:"live"` // its lease runs
	Incarnation sequencer.Seq   `json:"incarnation,omitempty"`
	LeaseLeft   *sequencer.Tick `json:"lease_left,omitempty"` // ticks
	Watermark   sequencer.Seq   `json:"watermark,omitempty"`
	Lag         sequencer.Seq   `json:"lag"`
	Servers     uint32          `json:"servers"`
	Open        int             `json:"open"` // transactions that are not final
	Commits     int             `json:"commits"`
	Aborts      int             `json:"aborts"`
	Refused     int             `json:"refused"`
	LastMs      int64           `json:"last_ms,omitempty"`
	LastSeq     sequencer.Seq   `json:"last_seq,omitempty"`
	Ended       sequencer.Seq   `json:"ended,omitempty"` // the seq at which its lease ended
}

// reconcile ends what the fold no longer knows: the console may have missed how. w.mu is held.
func (w *watch) reconcile() {
	if w.live.Truncated {
		return
	}
	known := make(map[sequencer.TxID]bool, len(w.live.Transactions))
	for i := range w.live.Transactions {
		known[w.live.Transactions[i].Tx] = true
	}
	for e := w.order.Front(); e != nil; e = e.Next() {
		t := e.Value.(*work)
		switch {
		case t.final || known[t.tx]:
		case t.inFold && t.newest() <= w.live.Seq:
			t.final = true
			if t.decision > 0 && t.state != stateRetracted {
				t.state = t.verdict()
				t.settleEffects(w.liveAt.UnixMilli())
			}
		case !t.inFold && t.sealedMs > 0 && w.liveAt.UnixMilli()-t.sealedMs > sealReachesLogMs:
			t.final = true // the log has its seal, and the fold is done with it
		}
	}
}

// doubts are open transactions of before the console began to look of which no decision was seen.
func (w *watch) doubts() (out []sequencer.TxID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.order.Back(); e != nil && len(out) < maxDoubts; e = e.Prev() {
		if t := e.Value.(*work); t.doubtful && !t.inFold && !t.final {
			out = append(out, t.tx)
		}
	}
	return out
}

// settleDoubts asks the closure table about some of them: they are open, or were decided too long ago to be seen here.
func (w *watch) settleDoubts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Limits.AskWait)
	defer cancel()
	for _, tx := range w.doubts() {
		c, err := w.config.Source.Closure(ctx, w.config.Workspace, tx, 1)
		if err != nil && !errors.Is(err, streams.ErrUnknownTx) {
			return // asked again in the next turn
		}
		w.mu.Lock()
		if e := w.txs[tx]; e != nil {
			t := e.Value.(*work)
			t.doubtful = false
			t.final = t.final || err == nil && len(c.Rows) > 0 && c.Rows[0].Seq > 0 && !t.inFold
		}
		w.mu.Unlock()
	}
}

// newest is the last seq that is remembered of the transaction.
func (t *work) newest() sequencer.Seq {
	if len(t.seqs) == 0 {
		return 0
	}
	return t.seqs[len(t.seqs)-1]
}

// now is what goes on: the fold's answer, brought up to date by what was decided since, and what agents have begun
// without telling the log yet.
func (w *watch) now() *liveView {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &liveView{NowMs: w.nowMs(), TickMs: tickMs, Seq: max(w.seq, w.live.Seq), Tick: max(w.tick, w.live.Tick),
		Floor: max(w.floor, w.live.Floor), Counts: w.live.Counts, Truncated: w.live.Truncated,
		LeaseTicks: w.rules.LeaseTicks, Troubles: w.troubles(), Transactions: []liveRow{}, Agents: []agentRow{}}
	shown := map[sequencer.TxID]bool{}
	for i := range w.live.Transactions {
		x := &w.live.Transactions[i]
		shown[x.Tx] = true
		if row, live := w.exactRow(x); live {
			v.Transactions = append(v.Transactions, row)
		}
	}
	for e := w.order.Front(); e != nil; e = e.Next() {
		t := e.Value.(*work)
		if t.final || shown[t.tx] || t.doubtful && !t.inFold {
			continue
		}
		if len(v.Transactions) >= maxLiveRows {
			v.Truncated = true
			break
		}
		if !t.inFold {
			v.Unsent++
		}
		row := seenRow(t)
		row.ageBy(t, w.tick)
		v.Transactions = append(v.Transactions, row)
	}
	slices.SortStableFunc(v.Transactions, func(a, b liveRow) int {
		return cmp.Compare(beganKey(a, v.NowMs), beganKey(b, v.NowMs))
	})
	v.Agents = w.agentRows(v.Transactions)
	return v
}

// beganKey orders by age, the oldest first; where no clock saw the begin, ticks say about when it was.
func beganKey(r liveRow, nowMs int64) int64 {
	if r.BeganMs == 0 && r.AgeTicks != nil {
		return nowMs - int64(*r.AgeTicks)*tickMs
	}
	return r.BeganMs
}

func (w *watch) exactRow(x *topology.LiveTx) (liveRow, bool) {
	row := liveRow{Tx: x.Tx, Agent: x.Agent, State: string(x.State), Committed: x.Committed, Mode: x.Mode, Code: x.Code,
		Epoch: x.Epoch, Waits: x.Waits, Granted: x.Granted, Claimed: x.Claimed, Holds: x.Holds, Group: x.Group,
		approvals: x.Approvals}
	switch {
	case x.State == topology.LiveDecided && x.Retraction != "":
		row.State = stateRetracting
	case x.State == topology.LiveDecided:
		row.State = stateOrphan
	}
	if x.BeganTick > 0 && x.BeganTick <= w.live.Tick {
		age := w.live.Tick - x.BeganTick
		row.AgeTicks = &age
	}
	if x.DeadlineTick > w.live.Tick {
		left := x.DeadlineTick - w.live.Tick
		row.LeftTicks = &left
	}
	e := w.txs[x.Tx]
	if e == nil {
		return row, true
	}
	t := e.Value.(*work)
	t.inFold = true
	row.seen = t.newest()
	if t.final && row.seen > w.live.Seq {
		return row, false
	}
	if row.seen > w.live.Seq {
		newer := seenRow(t)
		row.State, row.Waits, row.Code, row.Committed = newer.State, newer.Waits, newer.Code, newer.Committed
		row.approvals = newer.approvals
	}
	row.count(t)
	row.ageBy(t, w.tick)
	return row, true
}

func seenRow(t *work) liveRow {
	row := liveRow{Tx: t.tx, Agent: t.agent, State: t.state, Committed: t.committed, Mode: t.mode, Code: t.code,
		Group: t.group, Unsent: !t.inFold, seen: t.newest(), approvals: t.approvals}
	for _, b := range t.waits {
		row.Waits = append(row.Waits, topology.LiveWait{Tx: b.Tx, Scope: b.Scope, Why: b.Why})
	}
	row.count(t)
	return row
}

// ageBy counts the age in ticks since the first decision about it, where nothing better is known.
func (r *liveRow) ageBy(t *work, now sequencer.Tick) {
	if r.AgeTicks == nil && t.inFold && t.firstTick <= now {
		age := now - t.firstTick
		r.AgeTicks = &age
	}
}

// count takes over what only events say.
func (r *liveRow) count(t *work) {
	r.BeganMs, r.Reads, r.Writes, r.Calls = t.beganMs, t.reads, t.writes, len(t.effects)
	for i := range t.effects {
		if t.effects[i].State == effectHeld {
			r.Held++
		}
	}
}

func (w *watch) agentRows(txs []liveRow) []agentRow {
	open := map[string]int{}
	for i := range txs {
		open[txs[i].Agent]++
	}
	rows := map[string]*agentRow{}
	for name, a := range w.agents {
		rows[name] = &agentRow{Agent: name, Incarnation: a.incarnation, Commits: a.commits, Aborts: a.aborts,
			Refused: a.refused, LastMs: a.lastMs, LastSeq: a.lastSeq, Ended: a.leaseEnded}
	}
	for i := range w.live.Sidecars {
		s := &w.live.Sidecars[i]
		if rows[s.Agent] == nil {
			rows[s.Agent] = &agentRow{Agent: s.Agent}
		}
		r := rows[s.Agent]
		left := s.LeaseLeft
		r.Live, r.Incarnation, r.LeaseLeft, r.Watermark, r.Lag = true, s.Incarnation, &left, s.Watermark, s.Lag
		r.Servers, r.Ended = s.Servers, 0
	}
	out := make([]agentRow, 0, len(rows))
	for name, r := range rows {
		r.Open = open[name]
		out = append(out, *r)
	}
	slices.SortStableFunc(out, func(a, b agentRow) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}
