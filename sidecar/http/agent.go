// Package http is the face /v1: it finds a request's route, checks token, role, size, query and body, runs a request
// with an Idempotency-Key once, and writes the answer of an Agent or a Workspace, or the problem that came instead.
//
// Guarantees: every answer with a status from 400 on is a problem of a documented code (RFC 9457), but for /readyz,
// which says per part what is missing; only the five public routes answer without a token; a request
// whose body or query has something unknown changes nothing; a handler that panics frees its key.
//
// It keeps no state of an agent: no transaction, no read, no journal. What it is told of them are shapes of package
// api. It imports no other face, and neither agent, journal nor view.
package http

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// Agent is what the interface needs of an agent.
type Agent interface {
	Begin(ctx context.Context, c once.Call, in *api.Begin) (*api.Decision, error)
	Status(ctx context.Context, tx string) (*api.Decision, error)
	Read(ctx context.Context, tx string, in *api.Read) (*api.Shard, *api.Announced, error)
	Write(ctx context.Context, tx string, in *api.Write) (*api.Written, error)
	Touch(ctx context.Context, tx string, in *api.Touch) (*api.Touched, error)
	Plan(ctx context.Context, tx string, in *api.Plan) (*api.Planned, error)
	Effect(ctx context.Context, c once.Call, tx string, in *api.Effect) (*api.Receipt, error)
	Effects(ctx context.Context, tx string) (*api.Effects, error)
	Seal(ctx context.Context, tx string, in *api.Seal) (*api.Decision, error)
	Abort(ctx context.Context, tx, reason string) (*api.Decision, error)
	Retry(ctx context.Context, tx string) (d *api.Decision, fresh bool, err error)
	Retract(ctx context.Context, tx string, in *api.Retract) (*api.Retraction, error)
	Settle(ctx context.Context, tx string, in *api.Settlement) (*api.Decision, error)
	Unapproved(ctx context.Context, page api.Page) (*api.EffectList, error)
	Approve(ctx context.Context, tx, index string, in *api.Word) (*api.Decision, error)
	Explain(ctx context.Context, tx string) (*api.Explain, error)
	OneShot(ctx context.Context, c once.Call, in *api.OneShot) (*api.Done, error)

	BeginGroup(ctx context.Context, c once.Call, in *api.BeginGroup) (*api.Group, error)
	Select(ctx context.Context, group string, in *api.Select) (*api.Group, error)

	Get(ctx context.Context, c once.Call, scope string, how api.Look) (*api.Content, error)
	Put(ctx context.Context, c once.Call, in *api.Put) (d *api.Decision, created bool, err error)
	List(ctx context.Context, c once.Call, page api.Page, binds bool) (*api.List, error)
	EndSession(ctx context.Context, name string) (int, error)

	Transactions(page api.Page) (*api.TxList, error)
	Calls(ctx context.Context, page api.Page) (*api.EffectList, error)
	Tools(ctx context.Context, page api.Page, change *api.ToolChange) (*api.ToolList, *api.Tool, error)
	Rules(ctx context.Context, change *api.ChangeOfRules) (*api.Rules, error)

	Residue(ctx context.Context, page api.Page) (*api.ResidueList, error)
	Resolve(ctx context.Context, c once.Call, tx, index string, in *api.Resolve) (*api.Residue, error)

	ReadAll(ctx context.Context, c once.Call, in *api.Reads) (*api.Seen, error)
	Commit(ctx context.Context, c once.Call, in *api.Commit) (*api.Committed, error)

	Health() api.Standing
}

// Seat is one agent as the interface serves it.
type Seat struct {
	Agent
	Name      string
	Keys      *once.Keys
	Span      func(tx string) trace.SpanContext // that the work of a transaction belongs to; nil: none is known
	Offers    func() *api.Offers                // the tools that the agent may call; nil: none
	Opened    <-chan struct{}                   // closed once the agent's journal is open; until then no request is taken
	Transient bool                              // it leaves after an idle time, and comes back with its next request
}

// closed says why the agent's journal is not open.
func (s *Seat) closed() string {
	standing := s.Health()
	if err := standing.Parts["journal"]; err != nil {
		return err.Error()
	}
	return "it is being opened; ask again"
}

// offers are the tools that the agent may call.
func (s *Seat) offers() *api.Offers {
	if s.Offers == nil {
		return &api.Offers{Tools: []api.Offer{}}
	}
	return s.Offers()
}

// Asking is what a request shows: whose it is, and what it is about.
type Asking struct {
	Token string
	Key   string // that has signed it, by its id; empty: none has
	Name  string // the header Hence-Agent; empty: it is not there
	Tx    string // the transaction that the route names; empty: none
	Acts  bool   // it acts for an agent, and is not answered alike by all
}

// shown is in words what a request is let in by.
func (a *Asking) shown() string {
	if a.Key != "" {
		return "key"
	}
	return "token"
}

// Agents finds the agent that a request is of.
type Agents interface {
	// Enter returns the agent, which does not leave before leave is called, and what the token may do. Without an agent
	// the token is known, and the problem says what else is wrong; RoleNone: the token is none of this process.
	Enter(a Asking) (seat *Seat, role Role, leave func(), err error)
	// Approver is the name of the approver whose token, or key, it is; empty: it is no approver's.
	Approver(token, key string) string
	// All are the agents that are here, by name.
	All() []*Seat
	// Several says that the process may have more than one agent.
	Several() bool
}

// Workspace is what the interface needs of a workspace, for any client.
type Workspace interface {
	Ready(ctx context.Context) map[string]error
	Reached() sequencer.Seq
	// MostContent is how long a shard's content may be; zero: no longer than any body.
	MostContent() int64
	From(ctx context.Context, workspace string, after sequencer.Seq, named bool) (sequencer.Seq, error)
	// AwaitVersion returns once a shard has another version than those that match holds for known. The end of ctx ends
	// the wait, too, and is no error; nor is a scope that is no shard: the read that follows says so.
	AwaitVersion(ctx context.Context, scope string, match func(version uint64) bool) error
	Chain(ctx context.Context, from uint64, limit int) (*api.Chain, error)
	Frontier(ctx context.Context, under string, limit int) (*api.Frontier, error)
	Closure(ctx context.Context, tx string, limit int) (*api.Closure, error)
	Level(ctx context.Context) (*api.Level, error)
	Agents(ctx context.Context, page api.Page) (*api.AgentList, error)
}
