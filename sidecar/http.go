package sidecar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
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
	ctx     context.Context
	request *http.Request
	params  map[string]string
	body    []byte
	slot    *txSlot // of its idempotency key; nil: none was given
	role    role
	talk    string // the agent's conversation that it belongs to
}

// role is what the token that a request carries may do.
type role uint8

const (
	roleNone     role = iota // no token, or a wrong one
	roleAgent                // what concerns the agent's own work
	roleOperator             // what concerns others, too
)

// operates refuses what only an operator may do.
func (c *call) operates(what string) error {
	if c.role == roleOperator {
		return nil
	}
	return api.Problemf(api.CodeOperatorOnly, "%s concerns other agents, and this is the agent's token: send the operator's. It "+
		"is what the sidecar's --operator-token or --operator-token-file says, else in the file operator-token of its data "+
		"folder", what)
}

// reply is what a handler answers: either raw bytes of a media type, or a value that is written as JSON.
type reply struct {
	status int
	header map[string]string
	media  string
	raw    []byte
	value  any
}

func (s *Sidecar) routes() []route {
	const ws, tx = "/v1/workspaces/{workspace}", "/v1/tx/{tx}"
	return []route{
		{"GET", "/healthz", "healthz", true, "", s.healthz},
		{"GET", "/readyz", "readyz", true, "", s.readyz},
		{"GET", "/metrics", "metrics", true, "", nil},
		{"GET", "/v1/openapi.json", "openapi_json", true, "", s.openapiJSON},
		{"GET", "/v1/openapi.yaml", "openapi_yaml", true, "", s.openapiYAML},
		{"GET", ws + "/shards", "list_shards", false, "prefix after limit look", s.listShards},
		{"GET", ws + "/shards/{scope...}", "read_shard", false, "versions version look", s.readShard},
		{"PUT", ws + "/shards/{scope...}", "write_shard", false, "wait_ms", s.writeShard},
		{"DELETE", ws + "/session", "end_session", false, "", s.endSession},
		{"GET", ws + "/tx", "list_tx", false, "state agent code after limit", s.listTx},
		{"GET", ws + "/effects", "list_effects", false, "tool state tx after limit", s.listEffects},
		{"GET", ws + "/agents", "list_agents", false, "agent after limit", s.listAgents},
		{"GET", ws + "/tools", "list_tools", false, "server after limit", s.listTools},
		{"POST", ws + "/tx", "begin", false, "", s.begin},
		{"POST", ws + "/groups", "begin_group", false, "", s.beginGroup},
		{"POST", ws + "/groups/{group}/select", "select", false, "", s.selectBranch},
		{"GET", ws + "/rules", "rules", false, "", s.getRules},
		{"PUT", ws + "/rules", "set_rules", false, "", s.putRules},
		{"PUT", "/v1/tools/{name}", "put_tool", false, "", s.putTool},
		{"DELETE", "/v1/tools/{name}", "delete_tool", false, "server", s.deleteTool},
		{"GET", ws + "/chain", "chain", false, "from limit", s.chain},
		{"GET", ws + "/decisions", "decisions", false, feed.Parameters, nil},
		{"GET", ws + "/frontier", "frontier", false, "prefix limit", s.frontier},
		{"GET", tx, "status", false, "wait_ms", s.status},
		{"POST", tx + "/reads", "read", false, "", s.readTx},
		{"POST", tx + "/writes", "write", false, "", s.writeTx},
		{"POST", tx + "/touches", "touch", false, "", s.touchTx},
		{"POST", tx + "/settlement", "settlement", false, "wait_ms", s.settleTx},
		{"POST", tx + "/effects", "effect", false, "", s.effectTx},
		{"GET", tx + "/effects", "effects", false, "", s.effectsTx},
		{"POST", tx + "/seal", "seal", false, "wait_ms", s.sealTx},
		{"POST", tx + "/abort", "abort", false, "", s.abortTx},
		{"POST", tx + "/retry", "retry", false, "", s.retryTx},
		{"POST", tx + "/retract", "retract", false, "", s.retractTx},
		{"GET", tx + "/explain", "explain", false, "", s.explain},
		{"GET", tx + "/closure", "closure", false, "limit", s.closure},
		{"POST", "/v1/effects", "one_shot", false, "wait_ms", s.oneShot},
		{"GET", "/v1/residue", "residue", false, "tool result state limit", s.listResidue},
		{"POST", "/v1/residue/{tx}/{index}/accept", "accept_residue", false, "", s.acceptResidue},
		{"POST", "/v1/residue/{tx}/{index}/retry", "retry_residue", false, "", s.retryResidue},
	}
}

// face is the HTTP handler: it finds the route, checks what all routes have in common, and writes the answer.
type face struct {
	sidecar  *Sidecar
	routes   []route
	token    [sha256.Size]byte
	operator [sha256.Size]byte
	running  chan struct{}
	metrics  http.Handler
	feed     *feed.Handler
}

func (s *Sidecar) newFace() *face {
	return &face{
		sidecar: s, routes: s.routes(), token: sha256.Sum256([]byte(s.config.Token)),
		operator: sha256.Sum256([]byte(cmp.Or(s.config.OperatorToken, s.config.Token))),
		running:  make(chan struct{}, s.config.Limits.Requests), metrics: s.metrics.handler(),
		feed: s.newFeed(),
	}
}

// busy reports whether requests of the agent are under way.
func (f *face) busy() bool { return len(f.running) > 0 || f.feed.Stats().Open > 0 }

func (s *Sidecar) newServer() *http.Server {
	longest := s.config.Limits.WaitMost + 30*time.Second // the read deadline would end a handler's context, too
	return &http.Server{
		Handler: s.face, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: longest, WriteTimeout: longest,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, TLSConfig: s.config.TLS,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what scanners and broken clients leave behind
	}
}

// ServeHTTP answers one request.
func (f *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, params, allowed := f.find(r)
	if route == nil {
		f.write(w, r, "none", f.noRoute(r, allowed))
		return
	}
	switch route.name {
	case "metrics":
		f.metrics.ServeHTTP(w, r)
		return
	case "decisions":
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
func (f *face) answer(w http.ResponseWriter, r *http.Request, route *route, params map[string]string) (*reply, error) {
	if route.public {
		return route.handle(&call{ctx: r.Context(), request: r, params: params})
	}
	role := f.role(r)
	if role == roleNone {
		return nil, api.Problemf(api.CodeUnauthorized, "%s", noToken(r))
	}
	if f.sidecar.drain.Err() != nil {
		return nil, api.ErrStopped
	}
	select {
	case <-f.sidecar.journalOpen:
	default:
		return nil, api.Problemf(api.CodeNotReady, "the journal is not open yet: %v", errNotOpen)
	}
	select {
	case f.running <- struct{}{}:
		defer func() { <-f.running }()
	default:
		return nil, api.Problemf(api.CodeBusy, "%d requests are under way", cap(f.running))
	}
	if err := checkQuery(r, route.query); err != nil {
		return nil, err
	}
	talk, err := talkOf(r)
	if err != nil {
		return nil, err
	}
	sent := r.Body
	body, err := io.ReadAll(http.MaxBytesReader(w, sent, f.sidecar.config.Limits.BodyBytes))
	if err != nil {
		_, _ = io.CopyN(io.Discard, sent, maxDrained) // many clients read no answer before they have sent everything
		if p := api.AsProblem(err); p.Code == api.CodeTooLarge {
			return nil, p
		}
		return nil, api.Problemf(api.CodeBadRequest, "the body could not be read: %v", err)
	}
	c := &call{request: r, params: params, body: body, role: role, talk: talk}
	return f.sidecar.keyed(c, route)
}

// maxDrained is how much of a body that is too large is read for the client to see the answer.
const maxDrained = 64 << 20

// noToken says what a request's Authorization lacks.
func noToken(r *http.Request) string {
	const send = "send Authorization: Bearer TOKEN, with the token that the sidecar was given or printed (HENCE_TOKEN)"
	switch got := r.Header.Get("Authorization"); {
	case got == "":
		return "there is no Authorization header: " + send
	case !strings.HasPrefix(got, "Bearer "):
		return "the Authorization is not of the form Bearer TOKEN: " + send
	}
	return "the token is not this sidecar's: each has its own, and one that made its token up has another after a start"
}

// role holds a request's token against both, in a time that does not depend on it.
func (f *face) role(r *http.Request) role {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got := sha256.Sum256([]byte(token))
	operator := subtle.ConstantTimeCompare(got[:], f.operator[:]) == 1
	agent := subtle.ConstantTimeCompare(got[:], f.token[:]) == 1
	switch {
	case ok && operator:
		return roleOperator
	case ok && agent:
		return roleAgent
	}
	return roleNone
}

// run calls the handler with a context that ends with the bound on waits.
func (s *Sidecar) run(c *call, base context.Context, r *route) (*reply, error) {
	ctx, cancel := context.WithTimeout(base, s.config.Limits.WaitMost)
	defer cancel()
	ctx, end := s.traced(ctx, c, r)
	c.ctx = ctx
	out, err := r.handle(c)
	end(out, err)
	return out, err
}

func checkQuery(r *http.Request, allowed string) error {
	known := strings.Fields(allowed)
	for name, values := range r.URL.Query() {
		ok := false
		for _, k := range known {
			ok = ok || k == name
		}
		if !ok {
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
	text := c.request.URL.Query().Get(name)
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
	case p.Code == api.CodeUnauthorized:
		out.header["WWW-Authenticate"] = `Bearer realm="hence"`
	case p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable || p.Code == api.CodeKeyInFlight:
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
func (f *face) write(w http.ResponseWriter, r *http.Request, name string, out *reply) {
	f.sidecar.metrics.answered(name, out.status)
	out.encode()
	body, media := out.raw, out.media
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	for k, v := range out.header {
		h.Set(k, v)
	}
	if media != "" && out.status != http.StatusNotModified {
		h.Set("Content-Type", media)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(out.status)
	if r.Method != http.MethodHead && out.status != http.StatusNotModified {
		_, _ = w.Write(body)
	}
}
