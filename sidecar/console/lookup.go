package console

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

const (
	maxHits       = 12 // of one kind, in an answer to a search
	maxListed     = 500
	maxResidue    = 1000
	residueFresh  = 2 * time.Second
	maxGateUnseen = 8 // transactions whose calls are looked up for one answer
)

// hit is one thing that a search found.
type hit struct {
	Kind  string `json:"kind"` // transaction, agent, scope, decision, reason
	ID    string `json:"id"`
	State string `json:"state,omitempty"`
	Note  string `json:"note,omitempty"`
}

// search looks for a text in what the console knows, and in the tables where it may be the name of something.
func (c *Console) search(ctx context.Context, text string) []hit {
	text = strings.TrimSpace(text)
	hits := []hit{}
	if text == "" {
		return hits
	}
	hits = append(hits, c.watch.search(text)...)
	ctx, cancel := context.WithTimeout(ctx, c.config.Limits.AskWait/2)
	defer cancel()
	known := slices.ContainsFunc(hits, func(h hit) bool { return h.ID == text })
	if strings.Count(text, ".") >= 2 && !known {
		closure, err := c.config.Source.Closure(ctx, c.config.Workspace, sequencer.TxID(text), 1)
		if err == nil && len(closure.Rows) > 0 {
			row := closure.Rows[0]
			hits = append(hits, hit{Kind: "transaction", ID: text, State: row.Status, Note: row.Agent})
		}
	}
	if strings.Contains(text, ":") {
		scopes, err := c.config.Source.Scopes(ctx, c.config.Workspace, sequencer.Scope(text), maxHits)
		if err == nil {
			for _, s := range scopes.Rows[:min(len(scopes.Rows), maxHits)] {
				version := strconv.FormatUint(uint64(s.Version), 10)
				hits = append(hits, hit{Kind: "scope", ID: string(s.Scope), Note: "version " + version})
			}
		}
	}
	return hits
}

// search looks among transactions, newest first, agents, seqs and reasons.
func (w *watch) search(name string) (hits []hit) {
	text := strings.ToLower(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, err := strconv.ParseUint(text, 10, 63); err == nil {
		if k := w.recent.get(sequencer.Seq(n)); k != nil {
			hits = append(hits, hit{Kind: "decision", ID: text, State: k.row.Kind, Note: string(k.row.Tx)})
		}
	}
	for name := range w.agents {
		if strings.Contains(strings.ToLower(name), text) && len(hits) < maxHits {
			hits = append(hits, hit{Kind: "agent", ID: name})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return strings.Compare(a.ID, b.ID) })
	codes := map[sequencer.Code]int{}
	found := 0
	exact := w.txs[sequencer.TxID(name)]
	if exact != nil {
		found++
		hits = append(hits, exact.Value.(*work).hit())
	}
	for e := w.order.Back(); e != nil; e = e.Prev() {
		t := e.Value.(*work)
		if t.code != "" && strings.Contains(string(t.code), text) {
			codes[t.code]++
		}
		if e != exact && found < maxHits && strings.Contains(strings.ToLower(string(t.tx)), text) {
			found++
			hits = append(hits, t.hit())
		}
	}
	for code, n := range codes {
		hits = append(hits, hit{Kind: "reason", ID: string(code), Note: strconv.Itoa(n) + " lately"})
	}
	return hits
}

func (t *work) hit() hit {
	return hit{Kind: "transaction", ID: string(t.tx), State: t.state, Note: t.agent}
}

// list are remembered decisions that a filter picks, newest first, before a seq where one is given.
func (w *watch) list(f feed.Filter, before sequencer.Seq, limit int) (rows []row, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows = []row{}
	for seq := w.recent.next; seq > w.recent.first(); seq-- {
		if before > 0 && seq > before {
			continue
		}
		k := w.recent.get(seq - 1)
		if !f.Match(k.outcome) {
			continue
		}
		if len(rows) == limit {
			return rows, true
		}
		rows = append(rows, k.row)
	}
	return rows, false
}

// residueList is what could not be made clean, newest first.
type residueList struct {
	Items     []topology.Residue `json:"items"`
	Truncated bool               `json:"truncated"`
	Actions   bool               `json:"actions"`              // an operator may retry and accept here
	NoActions string             `json:"no_actions,omitempty"` // why not
}

// residueCache keeps the list for a moment: reading it is reading a topic.
type residueCache struct {
	mu   sync.Mutex
	at   time.Time
	list residueList
}

func (c *Console) residue(ctx context.Context) (residueList, error) {
	r := &c.residues
	r.mu.Lock()
	defer r.mu.Unlock()
	now := c.config.Clock.Now()
	if !r.at.IsZero() && now.Sub(r.at) < residueFresh {
		return r.list, nil
	}
	items, err := c.config.Source.Residue(ctx, c.config.Workspace, maxResidue)
	cutShort := errors.Is(err, streams.ErrTruncated)
	if err != nil && !cutShort {
		return residueList{}, err
	}
	if items == nil {
		items = []topology.Residue{}
	}
	r.at, r.list = now, residueList{Items: items, Truncated: cutShort, Actions: c.config.Actions != nil,
		NoActions: c.config.NoActions}
	return r.list, nil
}

// stale makes the next look at the residue a fresh one.
func (r *residueCache) stale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

// gateRow is one transaction with tool calls that wait for its commit, or waited.
type gateRow struct {
	Tx      sequencer.TxID `json:"tx"`
	Agent   string         `json:"agent"`
	State   string         `json:"state"`
	Effects []effect       `json:"effects"` // gated ones, in issuance order
}

// gateView is what the gate holds, and what left it lately.
type gateView struct {
	NowMs  int64     `json:"now_ms"`
	Held   []gateRow `json:"held"`   // oldest first
	Passed []gateRow `json:"passed"` // newest first
}

// gate lists them. Calls that were made before the console began to look are read from the log, of a few at a time.
func (c *Console) gate(ctx context.Context) *gateView {
	ctx, cancel := context.WithTimeout(ctx, c.config.Limits.AskWait)
	defer cancel()
	for _, tx := range c.watch.unheard(maxGateUnseen) {
		events, err := c.config.Source.Effects(ctx, c.config.Workspace, tx)
		if err != nil {
			continue // asked again the next time
		}
		c.watch.mu.Lock()
		hearAll(c.watch.tx(tx), events)
		c.watch.mu.Unlock()
	}
	return c.watch.gate()
}

// unheard are transactions that the fold says hold gated scopes, whose calls the console has not seen.
func (w *watch) unheard(most int) (out []sequencer.TxID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.live.Transactions {
		x := &w.live.Transactions[i]
		if x.Gated == 0 || len(out) == most {
			continue
		}
		if e := w.txs[x.Tx]; e == nil || len(e.Value.(*work).effects) == 0 {
			out = append(out, x.Tx)
		}
	}
	return out
}

// shown is a call as the page shows it in a transaction of a state: its owner makes a held one after the commit.
func (t *work) shown(e effect, state string) effect {
	if e.State == effectHeld && !e.idle && t.committed && state == stateSettling {
		e.State = effectReleasing
	}
	return e
}

func (w *watch) gate() *gateView {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &gateView{NowMs: w.nowMs(), Held: []gateRow{}, Passed: []gateRow{}}
	orphans := map[sequencer.TxID]bool{}
	for i := range w.live.Transactions {
		if x := &w.live.Transactions[i]; x.State == topology.LiveDecided && x.Retraction == "" {
			orphans[x.Tx] = true
		}
	}
	for e := w.order.Back(); e != nil; e = e.Prev() {
		t := e.Value.(*work)
		row := gateRow{Tx: t.tx, Agent: t.agent, State: t.state}
		if row.State == stateSettling && orphans[t.tx] {
			row.State = stateOrphan
		}
		held := false
		for _, x := range t.effects {
			if x.Gated {
				held = held || x.State == effectHeld
				row.Effects = append(row.Effects, t.shown(x, row.State))
			}
		}
		switch {
		case len(row.Effects) == 0:
		case held && !t.final && len(v.Held) < maxListed:
			v.Held = append(v.Held, row)
		case !held && len(v.Passed) < maxListed/10:
			v.Passed = append(v.Passed, row)
		}
	}
	slices.SortStableFunc(v.Held, func(a, b gateRow) int { return int(a.Effects[0].AtMs - b.Effects[0].AtMs) })
	return v
}
