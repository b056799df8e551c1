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
	Effect(ctx context.Context, c once.Call, tx string, in *api.Effect) (*api.Receipt, error)
	Effects(ctx context.Context, tx string) (*api.Effects, error)
	Seal(ctx context.Context, tx string, in *api.Seal) (*api.Decision, error)
	Abort(ctx context.Context, tx, reason string) (*api.Decision, error)
	Retry(ctx context.Context, tx string) (d *api.Decision, fresh bool, err error)
	Retract(ctx context.Context, tx string, in *api.Retract) (*api.Retraction, error)
	Settle(ctx context.Context, tx string, in *api.Settlement) (*api.Decision, error)
	Explain(ctx context.Context, tx string) (*api.Explain, error)
	OneShot(ctx context.Context, c once.Call, in *api.OneShot) (*api.Done, error)

	BeginGroup(ctx context.Context, c once.Call, in *api.BeginGroup) (*api.Group, error)
	Select(ctx context.Context, group string, in *api.Select) (*api.Group, error)

	Get(ctx context.Context, c once.Call, scope string, how api.Look) (*api.Content, error)
	Put(ctx context.Context, c once.Call, in *api.Put) (d *api.Decision, created bool, err error)
	Versions(ctx context.Context, scope string) (*api.List, error)
	List(ctx context.Context, c once.Call, page api.Page, binds bool) (*api.List, error)
	EndSession(ctx context.Context, name string) (int, error)

	Transactions(page api.Page) (*api.TxList, error)
	Calls(ctx context.Context, page api.Page) (*api.EffectList, error)
	Tools(ctx context.Context, page api.Page) (*api.ToolList, error)
	SetTool(ctx context.Context, name string, in api.PutTool, withdraw bool) (*api.Tool, error)
	Rules(ctx context.Context) (*api.Rules, error)
	SetRules(ctx context.Context, was uint32, in *api.RulesChange) (*api.Rules, error)

	Residue(ctx context.Context, page api.Page) (*api.ResidueList, error)
	AcceptResidue(ctx context.Context, tx, index string, in *api.AcceptResidue) (*api.Residue, error)
	RetryResidue(ctx context.Context, c once.Call, tx, index string, in *api.RetryResidue) (*api.Residue, error)

	ReadAll(ctx context.Context, c once.Call, in *api.Reads) (*api.Seen, error)
	Commit(ctx context.Context, c once.Call, in *api.Commit) (*api.Committed, error)
	AwaitVersion(ctx context.Context, scope string, match func(version uint64) bool) error
	Offers() *api.Offers

	Ready() (parts map[string]error, incarnation sequencer.Seq)
	Span(tx string) trace.SpanContext
}

// Workspace is what the interface needs of a workspace, whoever asks.
type Workspace interface {
	Ready(ctx context.Context) map[string]error
	Reached() sequencer.Seq
	From(ctx context.Context, workspace string, after sequencer.Seq, named bool) (sequencer.Seq, error)
	Chain(ctx context.Context, from uint64, limit int) (*api.Chain, error)
	Frontier(ctx context.Context, under string, limit int) (*api.Frontier, error)
	Closure(ctx context.Context, tx string, limit int) (*api.Closure, error)
	Agents(ctx context.Context, page api.Page) (*api.AgentList, error)
}
