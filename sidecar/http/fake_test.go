package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/internal/conform"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// fake is an agent and a workspace that answer what a test says, and note what they were asked.
type fake struct {
	mu     sync.Mutex
	asked  []string                  // the methods, in order
	fails  error                     // what each answers instead
	during func(ctx context.Context) // is called by each

	decision  api.Decision
	touched   string // the state of a touch
	fresh     bool   // a retry is another transaction; a put creates
	announced bool   // a read is of a scope that is not kept
	content   api.Content
	put       api.Put   // the last one
	read      *api.Seen // of what a commit asked to be read again
	session   string    // the conversation of the last call
	parts     map[string]error
	span      trace.SpanContext
	most      int64 // bytes of a content
}

func newFake() *fake {
	return &fake{touched: api.TouchGranted, fresh: true, parts: map[string]error{},
		decision: api.Decision{Tx: "a.1.1", Workspace: "default", State: api.StateCommitted, Seq: 7, Final: true,
			Attempt: 1},
		content: api.Content{Scope: "shard:/x", Version: 5, View: 9, Writer: "b.1.1", MediaType: "text/plain",
			Body: []byte("five")}}
}

// note keeps that a method was asked, does what the test wants meanwhile, and returns what it fails with.
func (f *fake) note(ctx context.Context, method string) error {
	f.mu.Lock()
	f.asked = append(f.asked, method)
	fails, during := f.fails, f.during
	f.mu.Unlock()
	if during != nil {
		during(ctx)
	}
	return fails
}

// calls are the methods that were asked since the last look.
func (f *fake) calls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := strings.Join(f.asked, " ")
	f.asked = nil
	return asked
}

func answer[T any](ctx context.Context, f *fake, method string, v *T) (*T, error) {
	if err := f.note(ctx, method); err != nil {
		return nil, err
	}
	return v, nil
}

func (f *fake) decided(ctx context.Context, method string) (*api.Decision, error) {
	d := f.decision
	return answer(ctx, f, method, &d)
}

func (f *fake) Begin(ctx context.Context, c once.Call, _ *api.Begin) (*api.Decision, error) {
	f.session = c.Session
	return f.decided(ctx, "Begin")
}

func (f *fake) Status(ctx context.Context, _ string) (*api.Decision, error) {
	return f.decided(ctx, "Status")
}

func (f *fake) Read(ctx context.Context, tx string, in *api.Read) (*api.Shard, *api.Announced, error) {
	if f.announced {
		a, err := answer(ctx, f, "Read", &api.Announced{Tx: tx, Scope: in.Scope, Announced: true})
		return nil, a, err
	}
	s, err := answer(ctx, f, "Read", &api.Shard{Scope: in.Scope})
	return s, nil, err
}

func (f *fake) Write(ctx context.Context, tx string, in *api.Write) (*api.Written, error) {
	return answer(ctx, f, "Write", &api.Written{Tx: tx, Scope: in.Scope, Writes: 1})
}

func (f *fake) Touch(ctx context.Context, tx string, in *api.Touch) (*api.Touched, error) {
	return answer(ctx, f, "Touch", &api.Touched{Tx: tx, State: f.touched, Wants: append([]api.Want{}, in.Wants...)})
}

func (f *fake) Plan(ctx context.Context, tx string, in *api.Plan) (*api.Planned, error) {
	out := &api.Planned{Tx: tx, Calls: []api.PlaceOfCall{}}
	for i, call := range in.Calls {
		out.Calls = append(out.Calls, api.PlaceOfCall{Call: call, Index: uint32(i)})
	}
	return answer(ctx, f, "Plan", out)
}

func (f *fake) Effect(ctx context.Context, _ once.Call, tx string, in *api.Effect) (*api.Receipt, error) {
	return answer(ctx, f, "Effect", &api.Receipt{Tx: tx, Tool: in.Tool, Class: "irreversible", State: api.EffectHeld})
}

func (f *fake) Effects(ctx context.Context, tx string) (*api.Effects, error) {
	return answer(ctx, f, "Effects", &api.Effects{Tx: tx, State: api.StateOpen, Effects: []api.Receipt{}})
}

func (f *fake) Seal(ctx context.Context, _ string, _ *api.Seal) (*api.Decision, error) {
	return f.decided(ctx, "Seal")
}

func (f *fake) Abort(ctx context.Context, _, _ string) (*api.Decision, error) {
	return f.decided(ctx, "Abort")
}

func (f *fake) Retry(ctx context.Context, _ string) (*api.Decision, bool, error) {
	d, err := f.decided(ctx, "Retry")
	return d, f.fresh, err
}

func (f *fake) Retract(ctx context.Context, tx string, in *api.Retract) (*api.Retraction, error) {
	state := map[bool]string{true: api.RetractPossible, false: api.RetractRunning}[in.DryRun]
	return answer(ctx, f, "Retract", &api.Retraction{Tx: tx, State: state, Cone: []api.ConeMember{}})
}

func (f *fake) Settle(ctx context.Context, _ string, _ *api.Settlement) (*api.Decision, error) {
	return f.decided(ctx, "Settle")
}

func (f *fake) Explain(ctx context.Context, _ string) (*api.Explain, error) {
	return answer(ctx, f, "Explain", &api.Explain{Paragraph: "It committed.", Decision: f.decision})
}

func (f *fake) OneShot(ctx context.Context, _ once.Call, in *api.OneShot) (*api.Done, error) {
	return answer(ctx, f, "OneShot", &api.Done{Tx: f.decision.Tx, Decision: f.decision,
		Effect: api.Receipt{Tx: f.decision.Tx, Tool: in.Tool, Class: "read", State: api.EffectDone}})
}

func (f *fake) BeginGroup(ctx context.Context, _ once.Call, _ *api.BeginGroup) (*api.Group, error) {
	return answer(ctx, f, "BeginGroup", &api.Group{Group: "g", Tx: []string{}, Branches: []api.Decision{}})
}

func (f *fake) Select(ctx context.Context, group string, _ *api.Select) (*api.Group, error) {
	return answer(ctx, f, "Select", &api.Group{Group: group, Tx: []string{}, Branches: []api.Decision{}})
}

func (f *fake) Get(ctx context.Context, c once.Call, _ string, how api.Look) (*api.Content, error) {
	f.session = c.Session
	got := f.content
	if how.Version != 0 {
		got.Version = how.Version
	}
	return answer(ctx, f, map[bool]string{true: "Get", false: "Look"}[how.Binds], &got)
}

func (f *fake) Put(ctx context.Context, _ once.Call, in *api.Put) (*api.Decision, bool, error) {
	f.put = *in
	d, err := f.decided(ctx, "Put")
	return d, f.fresh, err
}

func (f *fake) List(ctx context.Context, _ once.Call, page api.Page, _ bool) (*api.List, error) {
	method := "List"
	if _, versions := page.Pick["versions"]; versions {
		method = "Versions"
	}
	return answer(ctx, f, method, &api.List{Workspace: "default", Items: []api.Item{}})
}

func (f *fake) Tools(ctx context.Context, _ api.Page, change *api.ToolChange) (*api.ToolList, *api.Tool, error) {
	if change == nil {
		list, err := answer(ctx, f, "Tools", &api.ToolList{Workspace: "default", Agent: "a", Items: []api.ToolItem{}})
		return list, nil, err
	}
	method := map[bool]string{true: "withdraw ", false: "SetTool "}[change.Withdraw]
	tool, err := answer(ctx, f, method+change.Server+"/"+change.Name, &api.Tool{Server: change.Server, Name: change.Name})
	return nil, tool, err
}

func (f *fake) Rules(ctx context.Context, change *api.ChangeOfRules) (*api.Rules, error) {
	if change != nil {
		return answer(ctx, f, "SetRules", someRules(change.Was+1))
	}
	return answer(ctx, f, "Rules", someRules(3))
}

func (f *fake) Unapproved(ctx context.Context, _ api.Page) (*api.EffectList, error) {
	index := uint32(0)
	return answer(ctx, f, "Unapproved", &api.EffectList{Workspace: "default", Agent: "a", Items: []api.Receipt{
		{Tx: "b.1.1", Index: &index, Tool: "mail", Class: "irreversible", State: api.EffectUnapproved, Agent: "b",
			Args: []byte(`{"to":"ann"}`), ArgsSHA256: strings.Repeat("ab", 32)}}})
}

func (f *fake) Approve(ctx context.Context, _, index string, in *api.Word) (*api.Decision, error) {
	word := "deny "
	if in.Yes {
		word = "approve "
	}
	return answer(ctx, f, word+index+" by "+in.By, &f.decision)
}

func (f *fake) Resolve(ctx context.Context, _ once.Call, tx, _ string, in *api.Resolve) (*api.Residue, error) {
	if in.Accept != nil {
		return answer(ctx, f, "AcceptResidue", oneResidue(tx, "accepted"))
	}
	return answer(ctx, f, "RetryResidue", oneResidue(tx, "resolved"))
}

func (f *fake) Health() api.Standing {
	return api.Standing{Agent: "a", Incarnation: 4,
		Parts: map[string]error{"session": f.parts["session"], "journal": nil}}
}

func (f *fake) ReadAll(ctx context.Context, c once.Call, _ *api.Reads) (*api.Seen, error) {
	f.session = c.Session
	return answer(ctx, f, "ReadAll", &api.Seen{Workspace: "default", Items: []api.Shard{}})
}

func (f *fake) Commit(ctx context.Context, c once.Call, _ *api.Commit) (*api.Committed, error) {
	f.session = c.Session
	d, err := f.decided(ctx, "Commit")
	if err != nil {
		return nil, err
	}
	return &api.Committed{Tx: d.Tx, Decision: *d, Read: f.read}, nil
}

func (f *fake) EndSession(ctx context.Context, _ string) (int, error) {
	return 2, f.note(ctx, "EndSession")
}

func (f *fake) Transactions(api.Page) (*api.TxList, error) {
	return answer(context.Background(), f, "Transactions", &api.TxList{Workspace: "default", Items: []api.TxItem{}})
}

func (f *fake) Calls(ctx context.Context, _ api.Page) (*api.EffectList, error) {
	return answer(ctx, f, "Calls", &api.EffectList{Workspace: "default", Agent: "a", Items: []api.Receipt{}})
}

func someRules(version uint32) *api.Rules {
	return &api.Rules{Version: version, Logic: 1, HorizonSeqs: 64, CapSeqs: 1, LeaseTicks: 40,
		DeadlineTicks: 1, BoundTicks: 1, VerdictTicks: 1,
		MaxOpen: 1, MaxScopes: 1, MaxBytes: 1 << 10, MaxInline: 1 << 10, MaxContent: 1 << 10, MaxInlineTotal: 1 << 10,
		MaxKept: 1 << 10}
}

func (f *fake) Residue(ctx context.Context, _ api.Page) (*api.ResidueList, error) {
	return answer(ctx, f, "Residue", &api.ResidueList{Workspace: "default", Items: []api.Residue{}})
}

func oneResidue(tx, state string) *api.Residue {
	return &api.Residue{Tx: tx, Agent: "a", Tool: "mail", Class: "irreversible", Result: "leaked", State: state}
}

// fakeWorkspace is the workspace's part of a fake.
type fakeWorkspace struct{ *fake }

func (f fakeWorkspace) Ready(context.Context) map[string]error {
	return map[string]error{"view": f.parts["view"]}
}

func (f fakeWorkspace) Reached() sequencer.Seq { return 9 }

func (f fakeWorkspace) MostContent() int64 { return f.most }

func (f fakeWorkspace) From(_ context.Context, _ string, after sequencer.Seq, named bool) (sequencer.Seq, error) {
	if after > 9 {
		return 0, api.Problemf(api.CodeSeqFromFuture, "seq %d", after)
	}
	if !named {
		after = 9
	}
	return after, nil
}

func (f fakeWorkspace) AwaitVersion(ctx context.Context, _ string, match func(uint64) bool) error {
	if match(f.content.Version) {
		<-ctx.Done() // nothing is written
	}
	return nil
}

func (f fakeWorkspace) Chain(ctx context.Context, _ uint64, _ int) (*api.Chain, error) {
	return answer(ctx, f.fake, "Chain", &api.Chain{Workspace: "default", Links: []api.ChainLink{}})
}

func (f fakeWorkspace) Level(ctx context.Context) (*api.Level, error) {
	return answer(ctx, f.fake, "Level", &api.Level{Workspace: "default", Seq: 9, Window: 1000, Most: 4,
		PointLeast: "{}", PointMost: "{A1,A2,A3,A6}", Undecided: []api.LevelUndecided{{Kind: "A1", Count: 1, Why: "w"}},
		Kinds: []api.LevelCount{{Kind: "A1", Title: "stale generation"}}})
}

func (f fakeWorkspace) Frontier(ctx context.Context, _ string, limit int) (*api.Frontier, error) {
	return answer(ctx, f.fake, "Frontier", &api.Frontier{Workspace: "default", Rows: []api.FrontierRow{}, Limit: limit})
}

func (f fakeWorkspace) Closure(ctx context.Context, tx string, limit int) (*api.Closure, error) {
	return answer(ctx, f.fake, "Closure", &api.Closure{Tx: tx, Rows: []api.ClosureRow{}, Limit: limit})
}

func (f fakeWorkspace) Agents(ctx context.Context, _ api.Page) (*api.AgentList, error) {
	return answer(ctx, f.fake, "Agents", &api.AgentList{Workspace: "default", Items: []api.AgentItem{{Agent: "a"},
		{Agent: "b"}}})
}

// The tokens of a faced agent.
const (
	agentToken    = "the-agent's-own-token"
	operatorToken = "the-operator's-own-token"
	approverToken = "the-token-of-ann-who-approves"
	otherApprover = "the-token-of-bob-who-approves"
)

// faced is a fake behind the face of agent a in workspace default.
type faced struct {
	*fake
	face   *Face
	t      *testing.T
	opened chan struct{}
	drain  context.CancelFunc
}

// told is what a faced agent is made with.
type told struct {
	Config
	operator string        // empty: the agent's token has that role, too
	opened   chan struct{} // of the agent's journal
}

func newFaced(t *testing.T, change ...func(*told)) *faced {
	t.Helper()
	f := newFake()
	drain, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	out := &faced{fake: f, t: t, opened: make(chan struct{}), drain: stop}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	c := told{operator: operatorToken, opened: out.opened, Config: Config{Workspace: fakeWorkspace{f}, Name: "default",
		Drain: drain, Log: log, Metrics: metrics.New(func() float64 { return 9 }),
		Limits: Limits{BodyBytes: 1 << 10, Requests: 4, Watchers: 2, ListItems: 1000, WaitMost: 30 * time.Second},
		Follow: func(ctx context.Context, _ string, _ sequencer.Seq, _ func(*sequencer.Outcome, streams.Way,
			time.Time) error) error {
			<-ctx.Done()
			return ctx.Err()
		}, Anomalies: func(context.Context, string, int64, func(int64, *topology.Anomaly, []byte) error) error {
			return streams.ErrAnomaliesOff
		}}}
	for _, one := range change {
		one(&c)
	}
	seats := NewSeats(false, nil)
	seats.Add(&Seat{Agent: f, Name: "a", Keys: once.New(100, 1<<20, time.Hour, time.Now, log), Opened: c.opened,
		Span: func(string) trace.SpanContext { return f.span }})
	role := RoleAgent
	if c.operator == "" {
		role = RoleOperator
	} else if err := seats.Grant("a", c.operator, RoleOperator); err != nil {
		t.Fatal(err)
	}
	if err := seats.Grant("a", agentToken, role); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"ann": approverToken, "bob": otherApprover} {
		if err := seats.GrantApprover(name, token); err != nil {
			t.Fatal(err)
		}
	}
	c.Agents = seats
	out.face = New(c.Config)
	close(out.opened)
	return out
}

// do answers one request, with the agent's token unless it brings another Authorization, and checks that the answer
// is a described one. header are names and values in turn; a value "-" leaves the header out.
func (f *faced) do(method, path, body string, header ...string) (*http.Response, string) {
	f.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+agentToken)
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "-" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Add(header[i], header[i+1])
		if header[i] == "Authorization" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	f.face.ServeHTTP(w, r)
	resp := w.Result()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	err = described(f.t).Answer(method, r.URL.EscapedPath(), resp.StatusCode, resp.Header, bytes.Clone(text))
	if err != nil {
		f.t.Errorf("%s %s: %d %s: %v", method, path, resp.StatusCode, text, err)
	}
	return resp, string(text)
}

var loadDocument = sync.OnceValues(func() (*conform.Document, error) { return conform.Load(Document()) })

func described(t *testing.T) *conform.Document {
	t.Helper()
	d, err := loadDocument()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asOperator is the header that makes a request the operator's.
func asOperator(header ...string) []string {
	return append([]string{"Authorization", "Bearer " + operatorToken}, header...)
}

// asApprover is the header that makes a request an approver's.
func asApprover() []string { return []string{"Authorization", "Bearer " + approverToken} }

var errOdd = errors.New("an odd failure")
