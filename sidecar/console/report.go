package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// ReportFormat names the format of an exported transaction. Later versions only add members to it.
const ReportFormat = "hence.transaction.v1"

const (
	closureRows = 120  // of one graph
	searchBack  = 1024 // seqs before a decision in which the transaction's earlier ones are looked for
	searchOn    = 512  // and after it
	maxContent  = 64 << 10
)

// Report is one transaction with everything that the console could find out about it: what the page draws, and what an
// exported file holds.
type Report struct {
	Format    string             `json:"format"`
	MadeMs    int64              `json:"made_ms"` // unix milliseconds
	Version   string             `json:"version"` // of the binary that made it
	Workspace string             `json:"workspace"`
	Tx        sequencer.TxID     `json:"tx"`
	Agent     string             `json:"agent"`
	State     string             `json:"state"`
	Paragraph string             `json:"paragraph"` // how it stands and why, in words
	Decision  *api.Decision      `json:"decision"`
	BeganMs   int64              `json:"began_ms,omitempty"`   // the agent's first act, by its sidecar's clock
	SealedMs  int64              `json:"sealed_ms,omitempty"`  // by its sidecar's clock
	DecidedMs int64              `json:"decided_ms,omitempty"` // by the console's
	Decisions []told             `json:"decisions"`
	Acts      []act              `json:"acts"`
	Effects   []effect           `json:"effects"`
	Closure   *api.Closure       `json:"closure,omitempty"`
	Live      *liveRow           `json:"live,omitempty"` // while it is not final
	Undo      *api.Undo          `json:"undo,omitempty"` // of a committed one that can still be taken back
	Residue   []topology.Residue `json:"residue"`
	Missing   []string           `json:"missing"` // what could not be found out, and why
	outcomes  []*sequencer.Outcome
}

// told is a decision as hence.decisions has it.
type told struct {
	AtMs  int64           `json:"at_ms,omitempty"` // when the console saw it
	Event json.RawMessage `json:"event"`           // a CloudEvent
}

// report finds out everything about a transaction. content: with arguments and answers of its tool calls.
func (c *Console) report(ctx context.Context, tx sequencer.TxID, content bool) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Limits.AskWait)
	defer cancel()
	r := &Report{Format: ReportFormat, MadeMs: c.watch.nowMs(), Version: c.config.Version, Workspace: c.config.Workspace,
		Tx: tx, Decisions: []told{}, Acts: []act{}, Effects: []effect{}, Residue: []topology.Residue{}, Missing: []string{}}
	closure, err := c.config.Source.Closure(ctx, c.config.Workspace, tx, closureRows)
	switch {
	case errors.Is(err, streams.ErrUnknownTx):
	case err != nil:
		r.miss("what it rests on", err)
	case closure != nil && len(closure.Rows) > 0:
		r.Closure = words.Closure(closure)
	}
	seen, outcomes := c.watch.remembered(tx)
	if seen == nil {
		r.Live = c.watch.liveRowOf(tx)
	}
	if seen == nil && r.Closure == nil && r.Live == nil {
		return nil, notFound("nothing is known of %.100q in workspace %s: it may not have begun, or be forgotten",
			string(tx), c.config.Workspace)
	}
	if seen == nil {
		seen = &work{tx: tx, state: stateOpen}
	}
	if len(outcomes) == 0 && r.Closure != nil && r.Closure.Rows[0].Seq > 0 {
		outcomes, err = c.lookUp(ctx, tx, sequencer.Seq(r.Closure.Rows[0].Seq))
		r.miss("decisions about it that are older than what the console remembers", err)
		for _, k := range outcomes {
			seen.learn(k.outcome, 0)
		}
	}
	if len(seen.acts) == 0 || content {
		events, err := c.config.Source.Effects(ctx, c.config.Workspace, tx)
		r.miss("its tool calls", err)
		if len(seen.acts) == 0 {
			hearAll(seen, events)
			if len(events) > 0 || err == nil {
				r.Missing = append(r.Missing, "when it read and wrote: the console was not there. What it read is in the graph.")
			}
		}
		r.Effects = slices.Clone(seen.effects)
		if content {
			addContent(r.Effects, events)
		}
	} else {
		r.Effects = slices.Clone(seen.effects)
	}
	c.fill(ctx, r, seen, outcomes)
	return r, nil
}

func (r *Report) miss(what string, err error) {
	if err != nil {
		r.Missing = append(r.Missing, fmt.Sprintf("%s: %s", what, cut(err.Error())))
	}
}

func hearAll(t *work, events []*topology.Event) {
	for _, ev := range events {
		t.hear(ev)
	}
}

// fill writes down what was found.
func (c *Console) fill(ctx context.Context, r *Report, seen *work, outcomes []kept) {
	for _, k := range outcomes {
		event, err := topology.EncodeCloudEvent(k.outcome, time.Time{}, "")
		if err != nil {
			r.miss("a decision", err)
			continue
		}
		r.Decisions = append(r.Decisions, told{k.row.AtMs, event})
		r.outcomes = append(r.outcomes, k.outcome)
	}
	if seen.forgotten > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("%d further acts: the console remembers %d of one transaction",
			seen.forgotten, maxActs))
	}
	r.Agent, r.State, r.Acts = seen.agent, seen.state, append(r.Acts, seen.acts...)
	r.BeganMs, r.SealedMs, r.DecidedMs = seen.beganMs, seen.sealedMs, seen.decidedMs
	if r.Effects == nil {
		r.Effects = []effect{}
	}
	if r.Closure != nil {
		r.takeRow(&r.Closure.Rows[0], seen)
	}
	if !seen.final {
		r.Live = c.watch.liveRowOf(r.Tx)
		if r.Live != nil {
			r.State, r.Agent = r.Live.State, orElse(r.Live.Agent, r.Agent)
		}
	}
	r.Decision = r.decide(seen)
	r.Paragraph = words.Sentence(r.Decision) + r.calls(seen)
	c.unapproved(ctx, r)
	if r.State == stateCommitted {
		if cone, err := c.config.Source.Cone(ctx, c.config.Workspace, r.Tx); err != nil {
			r.miss("how long it can still be taken back", err)
		} else if r.Undo = words.Undo(cone); r.Undo == nil && cone.Code == sequencer.CodeTooOld {
			r.Paragraph += " " + words.NoUndo
		}
	}
	if list, err := c.residue(ctx); err != nil {
		r.miss("what of it could not be made clean", err)
	} else {
		for _, one := range list.Items {
			if one.Tx == r.Tx {
				r.Residue = append(r.Residue, one)
			}
		}
	}
}

// calls puts the tool calls as they stand into the report, and says that in words.
func (r *Report) calls(seen *work) string {
	if seen.effects = r.Effects; seen.final {
		seen.settleEffects(seen.decidedMs)
	}
	asReceipt := map[string]string{effectRefused: api.EffectFailed, effectStuck: api.EffectUndoLost}
	var list []api.Receipt
	for i := range r.Effects {
		e := seen.shown(r.Effects[i], r.State)
		if approvalOf(r.Decision, e.Index) != nil {
			e.State = api.EffectUnapproved
		}
		r.Effects[i] = e
		if word, ok := asReceipt[e.State]; ok {
			e.State = word
		}
		list = append(list, api.Receipt{Index: &e.Index, Tool: e.Tool, State: e.State, Detail: e.Detail})
	}
	return words.Calls(list)
}

// approvalOf is the approval that a call of an undecided transaction still needs; nil: none.
func approvalOf(d *api.Decision, index uint32) *api.Approval {
	i := slices.IndexFunc(d.Approvals, func(a api.Approval) bool { return a.Index == index && a.By == "" })
	if i < 0 || d.State != api.StateSealed {
		return nil
	}
	return &d.Approvals[i]
}

// unapproved gives the calls that wait for approval what there is to look at: their arguments, if they are those that
// were sealed.
func (c *Console) unapproved(ctx context.Context, r *Report) {
	if !slices.ContainsFunc(r.Effects, func(e effect) bool { return e.State == api.EffectUnapproved }) {
		return
	}
	events, err := c.config.Source.Effects(ctx, c.config.Workspace, r.Tx)
	r.miss("the arguments of calls that wait for approval", err)
	for i := range r.Effects {
		e := &r.Effects[i]
		a := approvalOf(r.Decision, e.Index)
		if a == nil {
			continue
		}
		e.ArgsSHA, e.Args, e.Detail = a.ArgsSHA256, "", "its arguments are not those that were sealed: deny it"
		for _, ev := range events {
			if ev.Kind != topology.EventEffect || ev.Effect.Index != e.Index {
				continue
			}
			if sum := sha256.Sum256(ev.Effect.Args); hex.EncodeToString(sum[:]) == a.ArgsSHA256 {
				e.Args, e.Detail = bounded(ev.Effect.Args), ""
			}
		}
	}
}

// takeRow takes what the closure table knows of a transaction that was over before the console began to look.
func (r *Report) takeRow(row *api.ClosureRow, seen *work) {
	r.Agent = orElse(r.Agent, row.Agent)
	if seen.inFold {
		return
	}
	switch row.Status {
	case "settled":
		r.State = stateCommitted
		if row.Code != "" {
			r.State = stateAborted
		}
		seen.final = true
	case stateCommitted, stateAborted, stateRetracted:
		r.State, seen.final = row.Status, true
	case stateSealed, stateRetracting:
		r.State = row.Status
	}
	seen.state, seen.code, seen.decision = r.State, sequencer.Code(row.Code), sequencer.Seq(row.Seq)
	seen.committed = row.Code == "" && row.Seq > 0
}

// decide is how the transaction stands, in the shape that sentences are made of.
func (r *Report) decide(seen *work) *api.Decision {
	d := &api.Decision{Tx: string(r.Tx), Workspace: r.Workspace, Mode: seen.mode, Seq: uint64(seen.decision),
		Code: string(seen.code), Final: seen.final}
	for _, o := range r.outcomes {
		switch o.Kind {
		case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
			d = words.Decision(o)
			d.Final = seen.final
		case sequencer.OutcomeRefused:
			if d.Code == "" {
				d.Detail, d.Scope = o.Detail, string(o.Scope)
			}
		case sequencer.OutcomeSettled:
			if o.Retraction != "" {
				d.Retraction, d.UndoneSeq = string(o.Retraction), uint64(o.Seq)
			}
		}
	}
	switch {
	case seen.committed:
		d.State = api.StateCommitted
	case seen.decision > 0, r.State == stateGone:
		d.State = api.StateAborted
	case r.State == stateSealed:
		d.State = api.StateSealed
	default:
		d.State = api.StateOpen
	}
	if r.State == stateGone {
		d.Code, d.Detail = string(sequencer.CodeLeaseExpired), "its session ended before the log heard of it"
	}
	d.Undone = r.State == stateRetracted
	if seen.decision == 0 && r.Live != nil {
		d.BlockedBy, d.Approvals = nil, words.Approvals(r.Live.approvals)
		for _, wait := range r.Live.Waits {
			d.BlockedBy = append(d.BlockedBy, api.Blocker{Tx: string(wait.Tx), Scope: string(wait.Scope), Why: wait.Why})
		}
	}
	return d
}

// addContent puts arguments and answers to the calls that they belong to.
func addContent(effects []effect, events []*topology.Event) {
	for _, ev := range events {
		x := ev.Effect
		if x == nil {
			continue
		}
		at := slices.IndexFunc(effects, func(e effect) bool { return e.Index == x.Index })
		switch {
		case at < 0:
		case ev.Kind == topology.EventEffect:
			effects[at].Args = bounded(x.Args)
		case len(x.Answer) > 0:
			effects[at].Answer = bounded(x.Answer)
		}
	}
}

func bounded(b []byte) string {
	if len(b) > maxContent {
		return fmt.Sprintf("%s… (%d bytes)", b[:maxContent], len(b))
	}
	return string(b)
}

// remembered is a copy of what the console has seen of a transaction, and its decisions; nil: nothing.
func (w *watch) remembered(tx sequencer.TxID) (*work, []kept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.txs[tx]
	if e == nil {
		return nil, nil
	}
	t := *e.Value.(*work)
	t.acts, t.effects = slices.Clone(t.acts), slices.Clone(t.effects)
	var out []kept
	for _, seq := range t.seqs {
		if k := w.recent.get(seq); k != nil {
			out = append(out, *k)
		}
	}
	return &t, out
}

// liveRowOf is one transaction as the list of live ones has it; nil: it is not there.
func (w *watch) liveRowOf(tx sequencer.TxID) *liveRow {
	v := w.now()
	at := slices.IndexFunc(v.Transactions, func(r liveRow) bool { return r.Tx == tx })
	if at < 0 {
		return nil
	}
	return &v.Transactions[at]
}

var errFound = errors.New("found")

// lookUp reads decisions about a transaction that the console has not seen, around the one that decided it.
func (c *Console) lookUp(ctx context.Context, tx sequencer.TxID, decision sequencer.Seq) (found []kept, err error) {
	c.watch.mu.Lock()
	end := min(decision+searchOn, c.watch.seq)
	c.watch.mu.Unlock()
	if end < decision {
		return nil, fmt.Errorf("the console has read only up to seq %d yet", end)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Limits.AskWait/2)
	defer cancel()
	after := decision - min(decision, searchBack)
	err = c.config.Source.Follow(ctx, c.config.Workspace, after, func(o *sequencer.Outcome, _ streams.Way) error {
		if o.Tx == tx {
			found = append(found, kept{rowOf(o, 0), slim(o)})
		}
		if o.Seq >= end || o.Seq >= decision && o.Final && o.Tx == tx {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}
