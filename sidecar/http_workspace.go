package sidecar

import (
	"context"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

//go:embed openapi.yaml
var openapiYAML []byte

//go:embed openapi.json
var openapiJSON []byte

// tableWait is how long a derived table may take to answer.
const tableWait = 5 * time.Second

// readyWait is how long a dependency may take to say that it is there.
const readyWait = 2 * time.Second

func (s *Sidecar) openapiYAML(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/yaml", raw: openapiYAML}, nil
}

func (s *Sidecar) openapiJSON(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/json", raw: openapiJSON}, nil
}

func (s *Sidecar) healthz(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "text/plain; charset=utf-8", raw: []byte("ok\n")}, nil
}

// readyz says per part what keeps the sidecar from serving.
func (s *Sidecar) readyz(c *call) (*reply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readyWait)
	defer cancel()
	parts := map[string]error{
		"view": s.view.ready(), "session": s.session.health(), "journal": s.session.delivery.health(),
	}
	for name, err := range s.events.Ready(ctx) {
		parts[name] = err
	}
	if s.drain.Err() != nil {
		parts["sidecar"] = api.ErrStopped
	}
	out := &api.Ready{Ready: true, Agent: s.config.Agent, Workspace: s.config.Workspace, View: uint64(s.view.at()),
		Incarnation: uint64(s.session.now()), Parts: map[string]api.Health{}}
	for name, err := range parts {
		health := api.Health{OK: err == nil}
		if err != nil {
			health.Problem, out.Ready = err.Error(), false
		}
		out.Parts[name] = health
	}
	if !out.Ready {
		return jsonReply(http.StatusServiceUnavailable, out), nil
	}
	return jsonReply(http.StatusOK, out), nil
}

// chain lists the chain hashes that the view has recomputed.
func (s *Sidecar) chain(c *call) (*reply, error) {
	if err := s.inWorkspace(c); err != nil {
		return nil, err
	}
	from, err := c.number("from", 0, 0, 1<<63)
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return nil, err
	}
	if err := s.view.ready(); err != nil {
		return nil, notReady(err)
	}
	if err := s.session.reachSeq(c.ctx, sequencer.Seq(from)); err != nil {
		return nil, err
	}
	links, seq, first := s.view.chainFrom(sequencer.Seq(from), int(limit))
	if from > 0 && sequencer.Seq(from) < first {
		return nil, api.Problemf(api.CodeForgotten, "the chain is known from seq %d on", first)
	}
	out := &api.Chain{Workspace: s.config.Workspace, Seq: uint64(seq), First: uint64(first), Links: []api.ChainLink{}}
	for _, link := range links {
		out.Links = append(out.Links, api.ChainLink{Seq: uint64(link.seq), Chain: hex.EncodeToString(link.hash[:])})
	}
	return jsonReply(http.StatusOK, out), nil
}

func (s *Sidecar) frontier(c *call) (*reply, error) {
	if err := s.inWorkspace(c); err != nil {
		return nil, err
	}
	prefix, exact := everyShard, everyShard
	if text := c.request.URL.Query().Get("prefix"); text != "" {
		var err error
		if exact, err = sequencer.ParseScope(text); err != nil {
			return nil, err
		}
		if prefix, err = topology.NormalScope(exact); err != nil {
			return nil, err
		}
	}
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, tableWait)
	defer cancel()
	rows, err := s.events.Frontier(ctx, s.config.Workspace, prefix, int(limit))
	if err == nil && exact != prefix && len(rows) < int(limit) { // what is stored under these bytes, too
		var more []topology.FrontierRow
		more, err = s.events.Frontier(ctx, s.config.Workspace, exact, int(limit)-len(rows))
		rows = append(rows, more...)
	}
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "the frontier table did not answer: %v", err)
	}
	out := &api.Frontier{Workspace: s.config.Workspace, Limit: int(limit), Rows: []api.FrontierRow{}}
	for i := range rows {
		out.Rows = append(out.Rows, frontierRow(&rows[i]))
	}
	return jsonReply(http.StatusOK, out), nil
}

func frontierRow(r *topology.FrontierRow) api.FrontierRow {
	out := api.FrontierRow{Scope: string(r.Scope), Seq: uint64(r.Seq), Version: uint64(r.Version),
		Writer: string(r.Writer.Tx), Frontier: uint64(r.Frontier)}
	for _, o := range r.Open {
		out.Open = append(out.Open, api.OpenEpoch{Epoch: uint64(o.Epoch), Tx: string(o.Tx), Since: uint64(o.Since)})
	}
	return out
}

// closure answers what a transaction rests on, any agent's.
func (s *Sidecar) closure(c *call) (*reply, error) {
	id := sequencer.TxID(c.params["tx"])
	if _, _, ok := ownerOf(id); !ok {
		return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", string(id))
	}
	limit, err := c.number("limit", min(100, uint64(s.config.Limits.ListItems)), 1, uint64(s.config.Limits.ListItems))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, tableWait)
	defer cancel()
	got, err := s.events.Closure(ctx, s.config.Workspace, id, int(limit))
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "the closure table did not answer: %v", err)
	}
	if got == nil || len(got.Rows) == 0 {
		return nil, api.Problemf(api.CodeUnknownTx, "the closure table knows nothing of %s; it may lag behind", id)
	}
	return jsonReply(http.StatusOK, words.Closure(got)), nil
}

// now is the incarnation of the live session; zero: there is none.
func (s *session) now() sequencer.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return 0
	}
	return s.incarnation
}

// health says why there is no session.
func (s *session) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.live:
		return nil
	case s.superseded:
		return api.Problemf(api.CodeNotReady, "another sidecar of this agent has joined")
	case s.joinRefused != nil:
		return s.notLetIn()
	}
	return api.Problemf(api.CodeNotReady, "the sidecar is joining the log")
}
