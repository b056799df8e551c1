package sidecar

import (
	"context"
	"net/http"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// maxDeadlineMs is the longest deadline that a request may ask for: a day.
const maxDeadlineMs = 24 * 60 * 60 * 1000

const maxNameBytes = 128

func (s *Sidecar) begin(c *call) (*reply, error) {
	if err := s.inWorkspace(c); err != nil {
		return nil, err
	}
	var in api.Begin
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	begin, err := s.beginOf(c, &in)
	if err != nil {
		return nil, err
	}
	if err := s.inGroup(in.Group); err != nil {
		return nil, err
	}
	t, err := s.resume(c.ctx, c)
	if err == nil && t == nil {
		note := func(t *tx) { c.slot.set(t.id) }
		if c.slot == nil {
			note = nil // the same request would open another one
		}
		t, err = s.session.start(c.ctx, *begin, note)
	}
	if t == nil {
		c.slot.set("") // nothing was begun: the name is the next one's
	}
	if err != nil {
		return nil, err
	}
	return s.opened(t), nil
}

func (s *Sidecar) beginOf(c *call, in *api.Begin) (*sequencer.Begin, error) {
	mode, err := modeOf(in.Mode, s.config.Order)
	if err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "%v", err)
	}
	levels, err := levelsOf(in.Levels)
	if err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "%v", err)
	}
	if in.DeadlineMs < 0 || in.DeadlineMs > maxDeadlineMs {
		return nil, api.Problemf(api.CodeBadRequest, "deadline_ms is %d: give 0 to %d", in.DeadlineMs, maxDeadlineMs)
	}
	may, err := s.mayOf(c.ctx, mode, in)
	if err != nil {
		return nil, err
	}
	return &sequencer.Begin{Mode: mode, Observe: in.Observe || s.config.Observe, Levels: levels, Group: in.Group,
		DeadlineTicks: ticksOf(in.DeadlineMs), May: may, Session: c.talk}, nil
}

// resume is the transaction that an earlier try of the same request has made, perhaps before a restart; the log has
// begun it where it must. nil: there is none, or it has left nothing and is begun anew.
func (s *Sidecar) resume(ctx context.Context, c *call) (*tx, error) {
	id := c.slot.get()
	if id == "" {
		return nil, nil
	}
	if err := s.session.await(ctx); err != nil { // until then nothing is known of the former process's
		return nil, err
	}
	t, err := s.session.find(id)
	if err != nil {
		return nil, err
	}
	if s.session.beginsAnew(t, c.slot) {
		c.slot.set("")
		return nil, nil
	}
	if t, err = s.session.beginInLog(ctx, t); err != nil {
		return t, err
	}
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if t.gone() {
		return nil, s.session.lost(t)
	}
	return t, nil
}

func (s *Sidecar) opened(t *tx) *reply {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	out := jsonReply(http.StatusCreated, s.session.decision(t))
	out.header = map[string]string{"Location": "/v1/tx/" + string(t.id)}
	return out
}

func (s *Sidecar) status(c *call) (*reply, error) {
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := s.waiting(c, 0)
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer context.AfterFunc(s.drain, cancel)() // a long poll does not hold up a stop
	d, err := s.session.status(ctx, t)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, d), nil
}

func (s *Sidecar) readTx(c *call) (*reply, error) {
	var in api.Read
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	if out, ok, err := s.readForeign(c, t, &in); ok {
		return out, err
	}
	scope, err := shardScope(in.Scope)
	if err != nil {
		return nil, err
	}
	pattern := scope.HasStar() || strings.HasSuffix(in.Scope, "**") || len(scope.Segments()) == 0
	if pattern {
		scope, err = topology.NormalScope(scope)
	} else {
		scope, err = s.session.named(c.ctx, scope)
	}
	if err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > s.config.Limits.ListItems {
		return nil, api.Problemf(api.CodeBadRequest, "limit is %d: give 0 to %d", in.Limit, s.config.Limits.ListItems)
	}
	list := 0
	if pattern {
		if list = in.Limit; list == 0 {
			list = s.config.Limits.ListItems
		}
	}
	got, err := s.session.read(c.ctx, t, scope, list)
	if err != nil {
		return nil, err
	}
	out := &api.Shard{Scope: string(got.scope), View: uint64(got.view), Overtaken: got.overtaken}
	if got.page != nil {
		out.Items, out.Truncated, out.Exists = items(got.page.items), got.page.more, len(got.page.items) > 0
		return jsonReply(http.StatusOK, out), nil
	}
	out.Exists, out.Pending = got.rev.version > 0 || got.pending, got.pending
	out.Version, out.Writer, out.MediaType = uint64(got.rev.version), string(got.rev.writer), got.rev.media
	if out.Exists {
		body, err := s.session.content(c.ctx, got.rev)
		if err != nil {
			return nil, err
		}
		setContent(out, body)
	}
	return jsonReply(http.StatusOK, out), nil
}

func items(list []named) []api.Item {
	out := make([]api.Item, 0, len(list))
	for _, n := range list {
		out = append(out, api.Item{Scope: string(n.scope), Version: uint64(n.version), Writer: string(n.writer),
			MediaType: n.media, Size: n.size(), Lost: n.lost})
	}
	return out
}

func (s *Sidecar) writeTx(c *call) (*reply, error) {
	var in api.Write
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	scope, err := s.shardNamed(c.ctx, in.Scope)
	if err != nil {
		return nil, err
	}
	body, err := contentOf(&in)
	if err != nil {
		return nil, err
	}
	w := writing{scope: scope, media: in.MediaType, content: body}
	if w.media == "" {
		w.media = defaultMedia
	}
	if in.IfVersion != nil {
		w.expect = []sequencer.Seq{sequencer.Seq(*in.IfVersion)}
	}
	out, err := s.session.write(c.ctx, t, w)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, out), nil
}

func (s *Sidecar) sealTx(c *call) (*reply, error) {
	var in api.Seal
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := s.waiting(c, s.config.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := s.session.beforeSeal(t, &in); err != nil {
		return nil, err
	}
	d, err := s.session.seal(ctx, t)
	if err != nil {
		return nil, err
	}
	return decisionReply(d)
}

// decisionReply answers with a decision: 200 committed, 202 not decided yet, a problem otherwise.
func decisionReply(d *api.Decision) (*reply, error) {
	switch d.State {
	case api.StateCommitted:
		return jsonReply(http.StatusOK, d), nil
	case api.StateAborted:
		return nil, words.Refusal(d)
	}
	return jsonReply(http.StatusAccepted, d), nil
}

func (s *Sidecar) abortTx(c *call) (*reply, error) {
	var in api.Abort
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	if len(in.Reason) > maxNameBytes {
		return nil, api.Problemf(api.CodeBadRequest, "reason has more than %d bytes", maxNameBytes)
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	d, err := s.session.abort(c.ctx, t, in.Reason)
	if err != nil {
		return nil, err
	}
	if d.State == api.StateCommitted {
		p := api.Problemf(api.CodeAlreadyCommitted, "%s is committed at seq %d: it cannot be aborted any more", t.id, d.Seq)
		p.Decision = d
		return nil, p
	}
	return jsonReply(http.StatusOK, d), nil
}

func (s *Sidecar) retryTx(c *call) (*reply, error) {
	if err := c.decode(&struct{}{}, true); err != nil {
		return nil, err
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	next, fresh, err := s.session.again(c.ctx, t)
	if err != nil {
		return nil, err
	}
	out := s.opened(next)
	if !fresh {
		out.status = http.StatusOK
	}
	return out, nil
}

func (s *Sidecar) explain(c *call) (*reply, error) {
	id := sequencer.TxID(c.params["tx"])
	t, err := s.session.find(id)
	if err == nil {
		return jsonReply(http.StatusOK, s.withUndo(c, s.session.explain(c.ctx, t))), nil
	}
	seen, ok := s.view.transaction(id)
	if !ok || seen.before() {
		return s.explainRow(c, id, err)
	}
	d := seen.describe()
	d.Workspace = s.config.Workspace
	calls := s.session.callsOf(c.ctx, id, standing{state: d.State, over: seen.final || seen.retraction.final,
		clean: seen.clean, back: seen.retraction.undone, idle: "its own sidecar releases it"})
	out := &api.Explain{Paragraph: words.Sentence(d) + calls, Decision: *d}
	return jsonReply(http.StatusOK, s.withUndo(c, out)), nil
}

// withUndo adds how long a committed transaction can still be taken back, or that it cannot. Without an answer of the
// fold nothing is said of it.
func (s *Sidecar) withUndo(c *call, out *api.Explain) *api.Explain {
	d := &out.Decision
	if d.State != api.StateCommitted || d.Retraction != "" || d.Undone {
		return out
	}
	ctx, cancel := context.WithTimeout(c.ctx, tableWait)
	defer cancel()
	cone, err := s.events.Cone(ctx, s.config.Workspace, sequencer.TxID(d.Tx))
	if err != nil {
		return out
	}
	if out.Undo = words.Undo(cone); out.Undo != nil {
		out.Paragraph += " " + out.Undo.Sentence
	} else if cone.Code == sequencer.CodeTooOld {
		out.Paragraph += " " + words.NoUndo
	}
	return out
}

// explainRow explains what the view does not remember from the closure table; unknown is why nothing is known here.
func (s *Sidecar) explainRow(c *call, id sequencer.TxID, unknown error) (*reply, error) {
	if p := api.AsProblem(unknown); p.Code == api.CodeOtherAgent {
		unknown = api.Problemf(api.CodeUnknownTx, "%s is another agent's, and neither the view nor the closure table knows it; "+
			"hence tail --tx %s looks through all decisions", id, id)
	} else if p.Code == api.CodeUnknownTx || p.Code == api.CodeNotReady {
		return nil, unknown
	}
	ctx, cancel := context.WithTimeout(c.ctx, tableWait)
	defer cancel()
	got, err := s.events.Closure(ctx, s.config.Workspace, id, 1)
	if err != nil || got == nil {
		return nil, unknown
	}
	for i := range got.Rows {
		if got.Rows[i].Tx == id {
			out := words.ExplainRow(s.config.Workspace, &got.Rows[i])
			out.Paragraph += s.session.callsOf(c.ctx, id, standing{state: out.Decision.State, over: out.Decision.Final,
				idle: "its own sidecar releases it"})
			return jsonReply(http.StatusOK, s.withUndo(c, out)), nil
		}
	}
	return nil, unknown
}
