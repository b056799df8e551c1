package http

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/streams"
)

// route is one row of the interface.
type route struct {
	method  string
	pattern string // {x} is one segment, {x...} the rest as it was written
	name    string // as metrics and the OpenAPI document call it
	public  bool   // needs no token and no idempotency key
	query   string // the parameters that it takes, with spaces
	handle  func(*call) (*reply, error)
}

// call is one request on its way through a handler.
type call struct {
	once.Call // on whose behalf: the conversation, and the slot of its Idempotency-Key
	ctx       context.Context
	agent     *Seat // nil on public routes
	request   *http.Request
	params    params
	query     url.Values
	body      []byte
	role      Role
}

// Role is what the token that a request carries may do.
type Role uint8

// The roles.
const (
	RoleNone     Role = iota // no token, or a wrong one
	RoleApprover             // to look, and to approve or deny calls
	RoleAgent                // what concerns the agent's own work
	RoleOperator             // what concerns others, too
)

// operates refuses what only an operator may do: it stands first in the four handlers that concern others, before the
// body is read. One token has both roles where no second one is configured, so that a person at a laptop needs one.
func (c *call) operates(what string) error {
	if c.role == RoleOperator {
		return nil
	}
	return api.Problemf(api.CodeOperatorOnly, "%s concerns other agents, and this is the agent's token: send the "+
		"operator's. It is what the sidecar's --operator-token or --operator-token-file says, else in the file "+
		"operator-token of its data folder", what)
}

// reply is what a handler answers: either raw bytes of a media type, or a value that is written as JSON.
type reply struct {
	status int
	header map[string]string
	media  string
	raw    []byte
	value  any

	parts func(context.Context, func([]byte) error) error // gives the body in place of raw; its place is freed by done
	size  int64                                           // of that body
	done  func()
}

// table is the interface.
func (f *Face) table() []route {
	const ws, tx = "/v1/workspaces/{workspace}", "/v1/tx/{tx}"
	return []route{
		{"GET", "/healthz", "healthz", true, "", f.healthz},
		{"GET", "/readyz", "readyz", true, "", f.readyz},
		{"GET", "/metrics", "metrics", true, "", nil},
		{"GET", "/v1/openapi.json", "openapi_json", true, "", f.openapiJSON},
		{"GET", "/v1/openapi.yaml", "openapi_yaml", true, "", f.openapiYAML},
		{"GET", ws + "/shards", "list_shards", false, "prefix after limit look", f.listShards},
		{"GET", ws + "/shards/{scope...}", "read_shard", false, "versions version look wait_ms", f.readShard},
		{"PUT", ws + "/shards/{scope...}", "write_shard", false, "wait_ms op", f.writeShard},
		{"DELETE", ws + "/session", "end_session", false, "", f.endSession},
		{"GET", ws + "/tx", "list_tx", false, "state agent code after limit", f.listTx},
		{"GET", ws + "/effects", "list_effects", false, "tool state tx after limit", f.listEffects},
		{"GET", ws + "/agents", "list_agents", false, "agent after limit", f.listAgents},
		{"GET", ws + "/tools", "list_tools", false, "server after limit", f.listTools},
		{"POST", ws + "/reads", "read_all", false, "", f.readAll},
		{"POST", ws + "/commit", "commit", false, "wait_ms", f.commit},
		{"POST", ws + "/tx", "begin", false, "", f.begin},
		{"POST", ws + "/groups", "begin_group", false, "", f.beginGroup},
		{"POST", ws + "/groups/{group}/select", "select", false, "", f.selectBranch},
		{"GET", ws + "/rules", "rules", false, "", f.getRules},
		{"PUT", ws + "/rules", "set_rules", false, "", f.putRules},
		{"GET", "/v1/tools", "offers", false, "", f.offers},
		{"GET", "/v1/mcp", "list_mcp", false, "", f.listMCP},
		{"PUT", "/v1/tools/{name}", "put_tool", false, "", f.putTool},
		{"DELETE", "/v1/tools/{name}", "delete_tool", false, "server", f.deleteTool},
		{"GET", ws + "/chain", "chain", false, "from limit", f.chain},
		{"GET", ws + "/decisions", "decisions", false, feed.Parameters, nil},
		{"GET", ws + "/anomalies", "anomalies", false, feed.AnomalyParameters, nil},
		{"GET", ws + "/level", "level", false, "", f.level},
		{"GET", ws + "/frontier", "frontier", false, "prefix limit", f.frontier},
		{"GET", tx, "status", false, "wait_ms", f.status},
		{"POST", tx + "/reads", "read", false, "", f.readTx},
		{"POST", tx + "/writes", "write", false, "", f.writeTx},
		{"POST", tx + "/touches", "touch", false, "", f.touchTx},
		{"POST", tx + "/settlement", "settlement", false, "wait_ms", f.settleTx},
		{"POST", tx + "/plan", "plan", false, "", f.planTx},
		{"POST", tx + "/effects", "effect", false, "", f.effectTx},
		{"GET", tx + "/effects", "effects", false, "", f.effectsTx},
		{"POST", tx + "/seal", "seal", false, "wait_ms", f.sealTx},
		{"POST", tx + "/abort", "abort", false, "", f.abortTx},
		{"POST", tx + "/retry", "retry", false, "", f.retryTx},
		{"POST", tx + "/retract", "retract", false, "", f.retractTx},
		{"GET", tx + "/explain", "explain", false, "", f.explain},
		{"GET", tx + "/closure", "closure", false, "limit", f.closure},
		{"POST", "/v1/effects", "one_shot", false, "wait_ms", f.oneShot},
		{"POST", "/v1/effects/{tx}/{index}/approve", "approve_effect", false, "", f.approveEffect},
		{"POST", "/v1/effects/{tx}/{index}/deny", "deny_effect", false, "", f.denyEffect},
		{"GET", "/v1/residue", "residue", false, "tool result state limit", f.listResidue},
		{"POST", "/v1/residue/{tx}/{index}/accept", "accept_residue", false, "", f.acceptResidue},
		{"POST", "/v1/residue/{tx}/{index}/retry", "retry_residue", false, "", f.retryResidue},
	}
}

// Face is the HTTP handler: it finds the route, checks what all routes have in common, and writes the answer.
type Face struct {
	Config
	paths   *step // of all routes
	running chan struct{}
	waiters chan struct{} // requests that wait for a shard's next version; they hold no place in running
	writing chan struct{} // bodies over BodyBytes that are held
	reading chan struct{} // contents that are read part by part
	feed    *feed.Handler
}

// Config is what the face is made of.
type Config struct {
	Agents    Agents
	Workspace Workspace
	Name      string // of the workspace
	Limits    Limits
	Drain     context.Context // ends when no new request is taken any more
	Tracer    trace.Tracer    // nil: none
	Metrics   *metrics.Process
	Log       *slog.Logger
	Follow    FeedFollow // what streams of decisions read
	Anomalies feed.FollowAnomalies
	MCP       func() []api.MCPServer // the MCP servers that are served; nil: none are
}

// Limits bound what is taken and answered.
type Limits struct {
	BodyBytes int64         // of a request's body
	Requests  int           // worked on at once
	Watchers  int           // streams of decisions at once
	ListItems int           // of one answer
	WaitMost  time.Duration // of one request
}

// FeedFollow gives every decision after a seq, with the time of the record that it answers.
type FeedFollow = func(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way, time.Time) error) error

// New makes the handler and registers its metrics. It panics when the metrics of another face are in the registry.
func New(c Config) *Face {
	f := &Face{
		Config: c, waiters: make(chan struct{}, maxWaiters), running: make(chan struct{}, c.Limits.Requests),
		writing: make(chan struct{}, maxWriting), reading: make(chan struct{}, maxReading),
		feed: feed.New(feed.Config{Follow: c.Follow, Anomalies: c.Anomalies, Start: c.Workspace.From, Stop: c.Drain.Done(),
			Subscribers: c.Limits.Watchers, Logger: c.Log}),
	}
	f.paths = paths(f.table())
	f.measured()
	return f
}

// measured registers what is looked at of the face when it is asked for.
func (f *Face) measured() {
	f.Metrics.Gauge("hence_sidecar_watchers", "Streams of decisions that are open.",
		func() float64 { return float64(f.feed.Stats().Open) })
	f.Metrics.Count("hence_sidecar_watched_decisions_total", "Decisions written to streams.", nil,
		func() uint64 { return f.feed.Stats().Sent })
	f.Metrics.Count("hence_sidecar_watchers_cut_total", "Streams that were ended because their reader was too slow.", nil,
		func() uint64 { return f.feed.Stats().Cut })
}

// serves reports whether an agent's requests are taken here.
func (f *Face) serves(agent string) bool {
	return slices.ContainsFunc(f.Agents.All(), func(s *Seat) bool { return s.Name == agent })
}

// Busy reports whether requests are under way: those that wait for a shard's next version have no place in running,
// and are still to be answered.
func (f *Face) Busy() bool {
	return len(f.running)+len(f.waiters) > 0 || f.feed.Stats().Open > 0
}

// ServeHTTP answers one request.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, params, allowed := f.find(r.Method, r.URL.EscapedPath())
	if route == nil {
		f.write(w, r, "none", f.noRoute(r, allowed))
		return
	}
	switch route.name {
	case "metrics":
		f.Metrics.Handler().ServeHTTP(w, r)
		return
	case "decisions", "anomalies":
		f.stream(w, r, route, params)
		return
	}
	out, err := f.answer(w, r, route, params)
	if err != nil {
		out = problemReply(err)
	}
	f.write(w, r, route.name, out)
}

// answer takes a request through the checks that all routes share.
func (f *Face) answer(w http.ResponseWriter, r *http.Request, route *route, params params) (*reply, error) {
	if route.public {
		return route.handle(&call{ctx: r.Context(), request: r, params: params})
	}
	query, unread := queryOf(r)
	acts := route.acts(query) // one that is not read says no look
	seat, role, leave, err := f.enter(r, params, acts)
	defer leave()
	if role == RoleNone {
		return nil, cmp.Or(err, error(api.Problemf(api.CodeUnauthorized, "%s", noToken(r))))
	}
	if f.Drain.Err() != nil {
		return nil, api.ErrStopped
	}
	if unread != nil {
		return nil, unread
	}
	if role == RoleApprover && acts {
		// Else an approver could act as an agent, whose own calls no second person has seen.
		return nil, api.Problemf(api.CodeApproverOnly, "the token is an approver's: it looks, approves and denies")
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-seat.Opened:
	default:
		return nil, api.Problemf(api.CodeNotReady, "the journal is not open yet: %s", seat.closed())
	}
	select {
	case f.running <- struct{}{}:
		defer func() { <-f.running }()
	default:
		return nil, api.Problemf(api.CodeBusy, "%d requests are under way", cap(f.running))
	}
	if err := checkQuery(query, route.query); err != nil {
		return nil, err
	}
	talk, err := api.SessionOf(r.Header)
	if err != nil {
		return nil, err
	}
	body, free, err := f.body(w, r, route)
	defer free()
	if err != nil {
		return nil, err
	}
	c := &call{Call: once.Call{Session: talk}, agent: seat, request: r, params: params, query: query,
		body: body, role: role}
	if name := params.get("workspace"); name != "" && name != f.Name {
		return nil, f.otherWorkspace(name)
	}
	return f.keyed(c, route)
}

// noToken says what a request's Authorization lacks.
func noToken(r *http.Request) string {
	const send = "send Authorization: Bearer TOKEN, with the token that the sidecar was given or printed (HENCE_TOKEN)"
	switch got := r.Header.Get("Authorization"); {
	case got == "" && r.Header.Get("Signature-Input") != "":
		return `no signature of the request has tag="hence", which is how one for this sidecar is known, and there is no ` +
			"Authorization header: sign it so (docs/signatures.md), or " + send
	case got == "":
		return "there is no Authorization header: " + send
	case !strings.HasPrefix(got, "Bearer "):
		return "the Authorization is not of the form Bearer TOKEN: " + send
	}
	return "the token is not this sidecar's: each sidecar has its own, and a generated one changes at each start"
}

// Shown is what a request is let in by: a signature, or else a token. ok: it shows something.
func Shown(r *http.Request) (a Asking, ok bool, err error) {
	token, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a = Asking{Token: token, Name: r.Header.Get("Hence-Agent")}
	signed := api.SignedOf(r.Context())
	switch {
	case signed.Err != nil: // also beside a token that is right: what is signed is meant to hold
		return a, false, signed.Err
	case signed.Key != "" && bears: // which one counts would be a guess
		return a, false, api.Problemf(api.CodeBadSignature, "the request has a token and a signature: send one of the two")
	}
	a.Key = signed.Key
	return a, bears || a.Key != "", nil
}

// enter finds the agent that a request is of. leave is never nil.
func (f *Face) enter(r *http.Request, params params, acts bool) (*Seat, Role, func(), error) {
	nothing := func() {}
	a, ok, err := Shown(r)
	if !ok {
		return nil, RoleNone, nothing, err
	}
	names := r.Header.Values("Hence-Agent")
	a.Tx, a.Acts = params.get("tx"), acts
	seat, role, leave, err := f.Agents.Enter(a)
	if leave == nil {
		leave = nothing
	}
	if len(names) > 1 && err == nil { // which one counts would be a guess
		err = api.Problemf(api.CodeBadRequest, "the header Hence-Agent is there %d times: send it once", len(names))
	}
	return seat, role, leave, err
}

// acts reports whether a request is an agent's own: what it reads binds the agent, or what it does is done in
// its name.
// All others are answered alike by every agent of the workspace, or are an operator's.
func (r *route) acts(query url.Values) bool {
	switch r.name {
	case "list_shards", "read_shard":
		return !query.Has("look")
	case "set_rules", "accept_residue", "retry_residue", "retract", "approve_effect", "deny_effect":
		return false
	}
	return r.method != http.MethodGet
}

// run calls the handler with a context that ends with the bound on waits.
func (f *Face) run(c *call, base context.Context, r *route) (*reply, error) {
	bound := within(base, f.Limits.WaitMost)
	defer bound.end()
	ctx, end := f.traced(bound, c, r)
	c.ctx = ctx
	out, err := r.handle(c)
	end(out, err)
	return out, err
}

// queryOf reads a request's query.
func queryOf(r *http.Request) (url.Values, error) {
	if r.URL.RawQuery == "" { // as it mostly is
		return nil, nil
	}
	query, err := api.Query(r.URL.RawQuery)
	if err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "%v", err)
	}
	return query, nil
}

func checkQuery(query url.Values, allowed string) error {
	for name, values := range query {
		if !slices.Contains(strings.Fields(allowed), name) {
			return api.Problemf(api.CodeBadRequest, "query parameter %.40q is not known here; known are: %s", name, allowed)
		}
		if len(values) > 1 {
			return api.Problemf(api.CodeBadRequest, "query parameter %q is given twice", name)
		}
	}
	return nil
}

// number reads a query parameter that is a whole number from least to most.
func (c *call) number(name string, def, least, most uint64) (uint64, error) {
	text := c.query.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, api.Problemf(api.CodeBadRequest, "%s=%.40q: give a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}

func jsonReply(status int, value any) *reply { return &reply{status: status, value: value} }

func problemReply(err error) *reply {
	p := api.AsProblem(err)
	out := &reply{status: p.Status, media: "application/problem+json", value: p, header: map[string]string{}}
	switch {
	case p.Status == http.StatusUnauthorized:
		out.header["WWW-Authenticate"] = `Bearer realm="hence"`
		if p.Code != api.CodeUnauthorized {
			out.header["Accept-Signature"] = api.AcceptSignature
		}
	case p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable ||
		p.Code == api.CodeKeyInFlight:
		out.header["Retry-After"] = "1"
	}
	return out
}

// encode turns a reply's value into the bytes that travel.
func (r *reply) encode() {
	if r.value == nil {
		return
	}
	body, err := json.Marshal(r.value)
	if err != nil {
		panic("sidecar: an answer cannot be written: " + err.Error())
	}
	r.raw, r.value = body, nil
	if r.media == "" {
		r.media = "application/json"
	}
}

// write sends a reply.
func (f *Face) write(w http.ResponseWriter, r *http.Request, name string, out *reply) {
	f.Metrics.Answered(name, out.status)
	out.encode()
	body, media, size := out.raw, out.media, int64(len(out.raw))
	if out.parts != nil {
		defer out.done()
		size = out.size
	}
	h := w.Header()
	// The lists of one value each have one array: Set makes one for each.
	values := append(make([]string, 0, 4+len(out.header)), "no-store", "nosniff")
	h["Cache-Control"], h["X-Content-Type-Options"] = values[0:1:1], values[1:2:2]
	set := func(name, value string) {
		n := len(values)
		values = append(values, value)
		h[http.CanonicalHeaderKey(name)] = values[n : n+1 : n+1]
	}
	for k, v := range out.header {
		set(k, v)
	}
	if media != "" && out.status != http.StatusNotModified {
		set("Content-Type", media)
		set("Content-Length", strconv.FormatInt(size, 10))
	}
	w.WriteHeader(out.status)
	switch {
	case r.Method == http.MethodHead || out.status == http.StatusNotModified:
	case out.parts != nil:
		f.give(w, r, out)
	default:
		_, _ = w.Write(body)
	}
}

// otherWorkspace is the problem of a route that names another workspace.
func (f *Face) otherWorkspace(name string) error {
	return api.Problemf(api.CodeUnknownWorkspace, "workspace %.70q is not served here: this sidecar serves %q", name,
		f.Name)
}
