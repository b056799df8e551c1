package console

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
)

const (
	defaultSeconds  = 120
	maxContended    = 100 // scopes in one answer
	lastOfContended = 3   // refusals that are named for each of them
)

// windowView is what happened in the seconds that the page's plots show: the closed ones, up to now.
type windowView struct {
	Seconds   int         `json:"seconds"`   // that the console has counted, at most as many as asked for
	ListedMs  int64       `json:"listed_ms"` // of them: of which single decisions are remembered, too
	Took      tookView    `json:"took"`
	Refusals  int         `json:"refusals"` // decisions that refuse something, or would have
	Nameless  int         `json:"nameless"` // of them, those that name no scope
	Contended []contended `json:"contended"`
	More      int         `json:"more"` // scopes that are not listed
}

// tookView is how long decisions took, from their sidecar's seal until they were seen here.
type tookView struct {
	P50Ms   float64 `json:"p50_ms"`
	P99Ms   float64 `json:"p99_ms"`
	Samples int     `json:"samples"`
}

// contended is a scope at which something was refused or had to wait.
type contended struct {
	Scope   sequencer.Scope        `json:"scope"`
	Refused int                    `json:"refused"`
	Would   int                    `json:"would"` // observe: would have been refused
	Waits   int                    `json:"waits"`
	Codes   map[sequencer.Code]int `json:"codes"`
	Agents  int                    `json:"agents"` // that were refused or waited
	Last    []refusedAt            `json:"last"`   // the newest first

	agents map[string]bool
}

// refusedAt is one decision that refused something, and what moved the scope, where it is known.
type refusedAt struct {
	Tx    sequencer.TxID `json:"tx"`
	Seq   sequencer.Seq  `json:"seq"`
	Code  sequencer.Code `json:"code"`
	By    sequencer.TxID `json:"by,omitempty"`
	BySeq sequencer.Seq  `json:"by_seq,omitempty"`
	AtMs  int64          `json:"at_ms"`
}

// secondsOf is the stretch that a page asks for.
func secondsOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return defaultSeconds, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > seriesSeconds {
		return 0, badRequest("seconds=%.40q is not a whole number from 1 to %d", text, seriesSeconds)
	}
	return n, nil
}

func (c *Console) window(r *http.Request) (any, error) {
	seconds, err := secondsOf(r)
	if err != nil {
		return nil, err
	}
	return c.watch.window(seconds), nil
}

// window is counted once a second for all pages: closed seconds do not change any more.
func (w *watch) window(seconds int) *windowView {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.series.at(w.config.Clock.Now())
	if w.windowsAt != w.series.now.At {
		w.windowsAt, w.windows = w.series.now.At, map[int]*windowView{}
	}
	if w.windows[seconds] == nil {
		w.windows[seconds] = w.countWindow(seconds)
	}
	return w.windows[seconds]
}

func (w *watch) countWindow(seconds int) *windowView {
	v := &windowView{Seconds: min(seconds, len(w.series.done)), Took: w.series.over(seconds), Contended: []contended{}}
	end := w.series.now.At * 1000
	from := end - int64(v.Seconds)*1000
	by := map[sequencer.Scope]*contended{}
	v.ListedMs = end - from
	for seq := w.recent.next; seq > w.recent.first(); seq-- {
		k := w.recent.get(seq - 1)
		if k.row.AtMs < from {
			break // older than the stretch, or than the console
		}
		if seq-1 == w.recent.first() && len(w.recent.rows) == w.recent.size {
			v.ListedMs = min(v.ListedMs, end-k.row.AtMs) // those before it were forgotten
		}
		if k.row.AtMs < end {
			v.take(by, k)
		}
	}
	for _, c := range by {
		c.Agents = len(c.agents)
		v.Contended = append(v.Contended, *c)
	}
	slices.SortStableFunc(v.Contended, func(a, b contended) int {
		return cmp.Or(cmp.Compare(b.Refused+b.Would, a.Refused+a.Would), cmp.Compare(b.Waits, a.Waits),
			cmp.Compare(a.Scope, b.Scope))
	})
	if v.More = len(v.Contended) - maxContended; v.More > 0 {
		v.Contended = v.Contended[:maxContended]
	}
	v.More = max(0, v.More)
	return v
}

// take counts a decision at the scopes that it was refused at or waits for.
func (v *windowView) take(by map[sequencer.Scope]*contended, k *kept) {
	o := k.outcome
	if k.row.quiet {
		return // a sidecar that made sure of its lease before logic 3: written as a refusal, and it refuses nothing
	}
	at := func(scope sequencer.Scope) *contended {
		c := by[scope]
		if c == nil {
			c = &contended{Scope: scope, Codes: map[sequencer.Code]int{}, agents: map[string]bool{}, Last: []refusedAt{}}
			by[scope] = c
		}
		c.agents[o.Agent] = true
		return c
	}
	if o.Kind == sequencer.OutcomeWaiting {
		for i, b := range o.BlockedBy {
			first := func(x sequencer.Blocker) bool { return x.Scope == b.Scope }
			if b.Scope != "" && slices.IndexFunc(o.BlockedBy, first) == i {
				at(b.Scope).Waits++
			}
		}
		return
	}
	code := cmp.Or(o.Code, o.Would)
	if code == "" || code == sequencer.CodeAbortedByAgent || code == sequencer.CodeWaiting {
		return // its own agent gave it up, or it would have been decided the same, later
	}
	v.Refusals++
	if o.Scope == "" {
		v.Nameless++
		return
	}
	c := at(o.Scope)
	c.Codes[code]++
	if o.Code != "" {
		c.Refused++
	} else {
		c.Would++
	}
	if len(c.Last) < lastOfContended {
		c.Last = append(c.Last, refusedAt{Tx: o.Tx, Seq: o.Seq, Code: code, By: o.Moved.Tx, BySeq: o.Moved.Seq,
			AtMs: k.row.AtMs})
	}
}
