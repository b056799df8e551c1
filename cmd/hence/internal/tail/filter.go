package tail

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/streams"
)

// Filter is what of the decisions is shown; the zero Filter shows outcomes.
type Filter struct {
	Tx, Agent string
	Scope     string // decisions that name a scope which overlaps it
	Reason    string // a code, as sequencer.Codes lists them
	Kind      string // of an outcome
	All       bool   // also what leads to outcomes
	Since     string // a seq, how long ago, or a time (RFC 3339); "": see Options.After
}

func (t Filter) filter() (feed.Filter, error) {
	f, err := feed.NewFilter(t.Tx, t.Agent, t.Scope, t.Reason, t.Kind)
	if err != nil {
		return f, fmt.Errorf("--%w", err) // it begins with the name of what is wrong
	}
	if known := sequencer.Codes(); f.Reason != "" && !slices.Contains(known, f.Reason) {
		return f, unknownReason(t.Reason, known)
	}
	f.All = t.All || t.Tx != ""
	return f, nil
}

// unknownReason names the codes that may have been meant.
func unknownReason(reason string, codes []sequencer.Code) error {
	var known []string
	for _, code := range codes {
		known = append(known, string(code))
	}
	hint := "stale_read, deadline and vetoed are some; each has a page in docs/codes"
	if near := spelling.Similar(reason, known, 3); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return fmt.Errorf("--reason: no decision has the code %.60q: %s", reason, hint)
}

// shows: outcomes by default; everything of one transaction, or of a kind that was asked for.
func (t Filter) shows(o *sequencer.Outcome) bool {
	return t.All || t.Tx != "" || t.Kind != "" || outcome(o)
}

// outcome: something came of it, or is to be looked at; other decisions only lead there.
func outcome(o *sequencer.Outcome) bool {
	switch o.Kind {
	case sequencer.OutcomeBegun, sequencer.OutcomeWaiting, sequencer.OutcomeGranted, sequencer.OutcomeTurn,
		sequencer.OutcomeConfirmed:
		return false
	case sequencer.OutcomeSettled:
		return len(o.Residue) > 0 || o.Retraction != ""
	}
	return true
}

// start is where a tail begins: after a seq, or at a time.
type start struct {
	after sequencer.Seq
	at    time.Time // zero: the seq counts
}

// from understands --since, and the seq of --after; only one of them may be given.
func (t Filter) from(seq uint64, now time.Time) (start, error) {
	text := strings.TrimSpace(t.Since)
	if text == "" {
		return start{after: sequencer.Seq(seq)}, nil
	}
	if seq > 0 {
		return start{}, fmt.Errorf("--since and --after both say where to begin: give one of them")
	}
	if seq, err := strconv.ParseUint(text, 10, 63); err == nil {
		return start{after: sequencer.Seq(seq)}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		if ago < 0 {
			return start{}, fmt.Errorf("--since is %s: give how long ago, without a sign", text)
		}
		return start{at: now.Add(-ago)}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return start{}, fmt.Errorf("--since is %.40q: give a seq (120), how long ago (10m), or a time with its zone "+
			"(2026-01-31T12:00:00Z)", text)
	}
	if at.After(now) {
		return start{}, fmt.Errorf("--since is %s, which is still to come: give a time that has passed", text)
	}
	return start{at: at}, nil
}

// seq is the seq to follow after.
func (f start) seq(ctx context.Context, c *streams.Client, workspace string) (sequencer.Seq, error) {
	if f.at.IsZero() {
		return f.after, nil
	}
	return c.SeqBefore(ctx, workspace, f.at)
}
