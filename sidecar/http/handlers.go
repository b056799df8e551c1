package http

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

func (f *Face) begin(c *call) (*reply, error) {
	var in api.Begin
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	d, err := c.agent.Begin(c.ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return begun(d), nil
}

// begun answers that a transaction is there, and where.
func begun(d *api.Decision) *reply {
	out := jsonReply(http.StatusCreated, d)
	out.header = map[string]string{"Location": "/v1/tx/" + d.Tx}
	return out
}

func (f *Face) status(c *call) (*reply, error) {
	ctx, cancel, err := f.polling(c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return ok(c.agent.Status(ctx, c.params.get("tx")))
}

func (f *Face) readTx(c *call) (*reply, error) {
	var in api.Read
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	shard, announced, err := c.agent.Read(c.ctx, c.params.get("tx"), &in)
	switch {
	case err != nil:
		return nil, err
	case announced != nil:
		return jsonReply(http.StatusOK, announced), nil
	}
	return jsonReply(http.StatusOK, shard), nil
}

func (f *Face) writeTx(c *call) (*reply, error) {
	var in api.Write
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.agent.Write(c.ctx, c.params.get("tx"), &in))
}

func (f *Face) touchTx(c *call) (*reply, error) {
	var in api.Touch
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	out, err := c.agent.Touch(c.ctx, c.params.get("tx"), &in)
	if err != nil {
		return nil, err
	}
	return unlessPending(out, out.State == api.TouchWaiting), nil
}

func (f *Face) settleTx(c *call) (*reply, error) {
	var in api.Settlement
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	d, err := c.agent.Settle(ctx, c.params.get("tx"), &in)
	if err != nil {
		return nil, err
	}
	return unlessPending(d, !d.Final), nil
}

func (f *Face) planTx(c *call) (*reply, error) {
	var in api.Plan
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.agent.Plan(c.ctx, c.params.get("tx"), &in))
}

func (f *Face) effectTx(c *call) (*reply, error) {
	var in api.Effect
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.agent.Effect(c.ctx, c.Call, c.params.get("tx"), &in))
}

func (f *Face) effectsTx(c *call) (*reply, error) {
	return ok(c.agent.Effects(c.ctx, c.params.get("tx")))
}

func (f *Face) oneShot(c *call) (*reply, error) {
	var in api.OneShot
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	done, err := c.agent.OneShot(ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return decided(done, &done.Decision)
}

func (f *Face) sealTx(c *call) (*reply, error) {
	var in api.Seal
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	d, err := c.agent.Seal(ctx, c.params.get("tx"), &in)
	if err != nil {
		return nil, err
	}
	return decided(d, d)
}

func (f *Face) abortTx(c *call) (*reply, error) {
	var in api.Abort
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	return ok(c.agent.Abort(c.ctx, c.params.get("tx"), in.Reason))
}

func (f *Face) retryTx(c *call) (*reply, error) {
	if err := c.decode(&struct{}{}, true); err != nil {
		return nil, err
	}
	d, fresh, err := c.agent.Retry(c.ctx, c.params.get("tx"))
	if err != nil {
		return nil, err
	}
	out := begun(d)
	if !fresh {
		out.status = http.StatusOK
	}
	return out, nil
}

func (f *Face) retractTx(c *call) (*reply, error) {
	var in api.Retract
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	if !in.DryRun {
		if err := c.operates("a retraction"); err != nil {
			return nil, err
		}
	}
	out, err := c.agent.Retract(c.ctx, c.params.get("tx"), &in)
	if err != nil {
		return nil, err
	}
	return unlessPending(out, !in.DryRun), nil
}

func (f *Face) approveEffect(c *call) (*reply, error) { return f.word(c, true) }

func (f *Face) denyEffect(c *call) (*reply, error) { return f.word(c, false) }

// word puts a person's yes or no on a call into the log. The token says who it is: no other role may, the operator's
// neither, for it is often the agent's own.
func (f *Face) word(c *call, yes bool) (*reply, error) {
	by := f.approver(c)
	if by == "" {
		return nil, api.Problemf(api.CodeApproverOnly, "only an approver says yes or no to a call: send a token of the "+
			"list that the sidecar's --approvers names (HENCE_APPROVER_TOKEN of hence effects)")
	}
	var in api.Word
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	in.Yes, in.By = yes, by
	return ok(c.agent.Approve(c.ctx, c.params.get("tx"), c.params.get("index"), &in))
}

// approver is the person whose token or signature the request carries; empty: it is no approver's.
func (f *Face) approver(c *call) string {
	a, _, _ := Shown(c.request)
	return f.Agents.Approver(a.Token, a.Key)
}

func (f *Face) explain(c *call) (*reply, error) {
	return ok(c.agent.Explain(c.ctx, c.params.get("tx")))
}

// endSession ends the conversation that the header names: nothing is sealed that rests on what it read loosely.
func (f *Face) endSession(c *call) (*reply, error) {
	n, err := c.agent.EndSession(c.ctx, c.Session)
	return ok(&api.EndedSession{Session: c.Session, Reads: n}, err)
}

func (f *Face) beginGroup(c *call) (*reply, error) {
	var in api.BeginGroup
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	out, err := c.agent.BeginGroup(c.ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusCreated, out), nil
}

func (f *Face) selectBranch(c *call) (*reply, error) {
	var in api.Select
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.agent.Select(c.ctx, c.params.get("group"), &in))
}

func (f *Face) listShards(c *call) (*reply, error) {
	binds, err := c.binds()
	if err != nil {
		return nil, err
	}
	page, err := f.page(c, nil)
	if err != nil {
		return nil, err
	}
	page.Pick["prefix"] = c.query.Get("prefix")
	return ok(c.agent.List(c.ctx, c.Call, page, binds))
}

// binds says whether a read is the agent's, whose next seal carries it, or only looks, as people do.
func (c *call) binds() (bool, error) {
	query := c.query
	if query.Has("look") && query.Get("look") != "true" {
		return false, api.Problemf(api.CodeBadRequest, "look=%.20q: give true, or leave it out", query.Get("look"))
	}
	return !query.Has("look"), nil
}

func (f *Face) readShard(c *call) (*reply, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	query := c.query
	switch {
	case query.Has("versions") && query.Has("version"):
		return nil, api.Problemf(api.CodeBadRequest, "versions and version are both given: ask for one of them")
	case query.Has("versions") && query.Get("versions") != "true":
		return nil, api.Problemf(api.CodeBadRequest, "versions=%.20q: give true, or leave it out", query.Get("versions"))
	case query.Has("versions"):
		return ok(c.agent.List(c.ctx, c.Call, api.Page{Pick: map[string]string{"versions": scope}}, false))
	}
	binds, err := c.binds()
	if err != nil {
		return nil, err
	}
	version := uint64(0)
	if query.Has("version") {
		if version, err = c.number("version", 0, 1, 1<<63); err != nil {
			return nil, err
		}
	}
	if err := f.awaitVersion(c, scope); err != nil {
		return nil, err
	}
	got, err := c.agent.Get(c.ctx, c.Call, scope, api.Look{Binds: binds, Version: version})
	if err != nil {
		return nil, err
	}
	if got.Version == 0 {
		p := api.Problemf(api.CodeNotFound, "%s does not exist; create it with PUT and If-None-Match: *", got.Scope)
		p.Scope, p.View = got.Scope, got.View
		return nil, p
	}
	out := &reply{status: http.StatusOK, media: got.MediaType, raw: got.Body, header: map[string]string{
		"ETag": etag(got.Version), "Hence-Version": strconv.FormatUint(got.Version, 10),
		"Hence-View": strconv.FormatUint(got.View, 10), "Hence-Writer": got.Writer}}
	if version == 0 && matches(c.request.Header.Get("If-None-Match"), got.Version) {
		out.status, out.media, out.raw = http.StatusNotModified, "", nil
		return out, nil
	}
	if !printable(out.media) { // one that an older release took, and that would break the header
		out.media = api.DefaultMedia
	}
	if got.Parts != nil {
		if err := f.passOn(c, out, got); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

func (f *Face) writeShard(c *call) (*reply, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	in := &api.Put{Scope: scope, MediaType: c.request.Header.Get("Content-Type"), Body: c.body,
		Op: c.query.Get("op")}
	conditional, err := c.condition(in)
	if err != nil {
		return nil, err
	}
	d, created, err := c.agent.Put(ctx, c.Call, in)
	if err == nil && d.State == api.StateAborted {
		err = words.Refusal(d)
	}
	if err != nil {
		p := api.AsProblem(err)
		if conditional && p.Code == string(sequencer.CodeVersionMismatch) {
			p.Status = http.StatusPreconditionFailed
		}
		return nil, p
	}
	out := unlessPending(d, d.State != api.StateCommitted)
	if out.status != http.StatusOK {
		return out, nil
	}
	if created {
		out.status = http.StatusCreated
	}
	out.header = map[string]string{"ETag": etag(d.Seq), "Hence-Version": strconv.FormatUint(d.Seq, 10)}
	return out, nil
}

// condition takes over what a PUT's headers ask of the version that the shard has. It reports whether they ask
// anything.
func (c *call) condition(in *api.Put) (bool, error) {
	match := strings.Join(c.request.Header.Values("If-Match"), ",")
	none := strings.Join(c.request.Header.Values("If-None-Match"), ",")
	switch {
	case match != "" && none != "":
		return false, api.Problemf(api.CodeBadRequest, "If-Match and If-None-Match are both given: send one of them")
	case none == "*":
		in.Versions = []uint64{0} // it is not there
		return true, nil
	case none != "":
		return false, api.Problemf(api.CodeBadRequest, "If-None-Match: %.40q: only * is known when writing", none)
	case match == "*":
		in.Exists = true // any version will do, also one that is written meanwhile
		return true, nil
	case match == "":
		return false, nil
	}
	var err error
	in.Versions, err = versionsOf(in.Scope, match)
	return true, err
}

// versionsOf are the versions that an If-Match lists. A weak tag, and one that no version can have, match nothing.
func versionsOf(scope, match string) (out []uint64, err error) {
	for tag := range strings.SplitSeq(match, ",") {
		tag = strings.TrimSpace(tag)
		quoted := strings.TrimPrefix(tag, "W/")
		if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
			return nil, api.Problemf(api.CodeBadRequest, "If-Match is %.40s: send ETags as they were given, with "+
				"their quotes: If-Match: \"17\"", match)
		}
		text := quoted[1 : len(quoted)-1]
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 && quoted == tag && etag(n) == tag {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		p := api.Problemf(string(sequencer.CodeVersionMismatch), "If-Match: %.40s is no version that %s ever had; its GET "+
			"says the one it has", match, scope)
		p.Status, p.Scope, p.ReRead = http.StatusPreconditionFailed, scope, []string{scope}
		return nil, p
	}
	return out, nil
}

// matches holds a list of ETags against a version.
func matches(list string, version uint64) bool {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag(version) {
			return true
		}
	}
	return false
}

func (f *Face) listTx(c *call) (*reply, error) {
	page, err := f.page(c, []string{api.StateOpen, api.StateSealed, api.StateCommitted, api.StateAborted},
		"state", "agent", "code")
	if err != nil {
		return nil, err
	}
	return ok(c.agent.Transactions(page))
}

func (f *Face) listEffects(c *call) (*reply, error) {
	page, err := f.page(c, api.EffectStates(), "state", "tool", "tx")
	if err != nil {
		return nil, err
	}
	if c.role == RoleApprover { // of all agents, and with arguments: it is what there is to look at
		return ok(c.agent.Unapproved(c.ctx, page))
	}
	return ok(c.agent.Calls(c.ctx, page))
}

func (f *Face) listTools(c *call) (*reply, error) {
	page, err := f.page(c, nil, "server")
	if err != nil {
		return nil, err
	}
	list, _, err := c.agent.Tools(c.ctx, page, nil)
	return ok(list, err)
}

// listMCP answers which MCP servers there are, and how they stand: why a client does not find a tool.
func (f *Face) listMCP(*call) (*reply, error) {
	out := api.MCPServers{Servers: []api.MCPServer{}}
	if f.MCP != nil {
		out.Servers = f.MCP()
	}
	return jsonReply(http.StatusOK, out), nil
}

func (f *Face) listAgents(c *call) (*reply, error) {
	page, err := f.page(c, nil, "agent")
	if err != nil {
		return nil, err
	}
	out, err := f.Workspace.Agents(c.ctx, page)
	if err != nil {
		return nil, err
	}
	for i := range out.Items {
		out.Items[i].Here = f.serves(out.Items[i].Agent)
	}
	return jsonReply(http.StatusOK, out), nil
}

// toolName is the tool that a route names, as it was before it was escaped.
func toolName(c *call) (string, error) {
	name, err := url.PathUnescape(c.params.get("name"))
	if err != nil {
		return "", api.Problemf(api.CodeBadRequest, "the tool's name is not escaped as a path is")
	}
	return name, nil
}

func (f *Face) putTool(c *call) (*reply, error) {
	var in api.PutTool
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	name, err := toolName(c)
	if err != nil {
		return nil, err
	}
	return changedTool(c, &api.ToolChange{Name: name, PutTool: in})
}

func (f *Face) deleteTool(c *call) (*reply, error) {
	name, err := toolName(c)
	if err != nil {
		return nil, err
	}
	in := api.PutTool{Server: c.query.Get("server")}
	return changedTool(c, &api.ToolChange{Name: name, PutTool: in, Withdraw: true})
}

func changedTool(c *call, change *api.ToolChange) (*reply, error) {
	_, changed, err := c.agent.Tools(c.ctx, api.Page{}, change)
	return ok(changed, err)
}

func (f *Face) getRules(c *call) (*reply, error) { return rulesReply(c.agent.Rules(c.ctx, nil)) }

func rulesReply(r *api.Rules, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	out := jsonReply(http.StatusOK, r)
	out.header = map[string]string{"ETag": etag(uint64(r.Version))}
	return out, nil
}

func (f *Face) putRules(c *call) (*reply, error) {
	if err := c.operates("a change of the rules"); err != nil {
		return nil, err
	}
	var in api.RulesChange
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	text := c.request.Header.Get("If-Match")
	was, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 32)
	if err != nil || text != etag(was) {
		return nil, api.Problemf(api.CodeBadRequest, "If-Match is %.40q: send the version of the rules that you have "+
			"read, in quotes", text)
	}
	out, err := c.agent.Rules(c.ctx, &api.ChangeOfRules{Was: uint32(was), To: &in})
	if p := api.AsProblem(err); err != nil && p.Code == string(sequencer.CodeVersionMismatch) {
		p.Status = http.StatusPreconditionFailed
		return nil, p
	}
	return rulesReply(out, err)
}

func (f *Face) listResidue(c *call) (*reply, error) {
	page, err := f.page(c, nil)
	if err != nil {
		return nil, err
	}
	query := c.query
	for _, name := range []string{"tool", "result", "state"} {
		if query.Has(name) {
			page.Pick[name] = topology.NormalName(query.Get(name))
		}
	}
	return ok(c.agent.Residue(c.ctx, page))
}

func (f *Face) acceptResidue(c *call) (*reply, error) {
	if err := c.operates("accepting a residue"); err != nil {
		return nil, err
	}
	var in api.AcceptResidue
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.agent.Resolve(c.ctx, c.Call, c.params.get("tx"), c.params.get("index"), &api.Resolve{Accept: &in}))
}

func (f *Face) retryResidue(c *call) (*reply, error) {
	if err := c.operates("trying a residue again"); err != nil {
		return nil, err
	}
	var in api.RetryResidue
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	return ok(c.agent.Resolve(c.ctx, c.Call, c.params.get("tx"), c.params.get("index"), &api.Resolve{Retry: &in}))
}

// chain lists the chain hashes that the view has recomputed.
func (f *Face) chain(c *call) (*reply, error) {
	from, err := c.number("from", 0, 0, 1<<63)
	if err != nil {
		return nil, err
	}
	limit, err := f.limit(c)
	if err != nil {
		return nil, err
	}
	return ok(f.Workspace.Chain(c.ctx, from, limit))
}

func (f *Face) frontier(c *call) (*reply, error) {
	limit, err := f.limit(c)
	if err != nil {
		return nil, err
	}
	return ok(f.Workspace.Frontier(c.ctx, c.query.Get("prefix"), limit))
}

// level answers what the last operations leave of the levels.
func (f *Face) level(c *call) (*reply, error) { return ok(f.Workspace.Level(c.ctx)) }

// closure answers what a transaction rests on, any agent's.
func (f *Face) closure(c *call) (*reply, error) {
	limit, err := f.limit(c)
	if err != nil {
		return nil, err
	}
	return ok(f.Workspace.Closure(c.ctx, c.params.get("tx"), limit))
}

// limit is how many items an answer may have.
func (f *Face) limit(c *call) (int, error) {
	most := uint64(f.Limits.ListItems)
	n, err := c.number("limit", min(100, most), 1, most)
	return int(n), err
}

// page is what a list is asked for. The state must be one of states, where there are some.
func (f *Face) page(c *call, states []string, picks ...string) (api.Page, error) {
	limit, err := f.limit(c)
	if err != nil {
		return api.Page{}, err
	}
	query := c.query
	p := api.Page{Limit: limit, After: query.Get("after"), Pick: map[string]string{}}
	for _, name := range picks {
		if query.Has(name) {
			p.Pick[name] = topology.NormalName(query.Get(name))
		}
	}
	if state, asked := p.Pick["state"]; asked && !slices.Contains(states, state) {
		return api.Page{}, api.Problemf(api.CodeBadRequest, "state=%.40q: give one of %s", state, strings.Join(states, ", "))
	}
	return p, nil
}

// ok answers with a value, or with the error that came instead.
func ok[T any](value *T, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, value), nil
}

// unlessPending answers 200, or 202 where what was asked for is accepted and not done yet.
func unlessPending(value any, pending bool) *reply {
	if pending {
		return jsonReply(http.StatusAccepted, value)
	}
	return jsonReply(http.StatusOK, value)
}

// decided answers by a decision: 200 committed, 202 not decided yet, a problem otherwise.
func decided(value any, d *api.Decision) (*reply, error) {
	if d.State == api.StateAborted {
		return nil, words.Refusal(d)
	}
	return unlessPending(value, d.State != api.StateCommitted), nil
}

func (f *Face) readAll(c *call) (*reply, error) {
	var in api.Reads
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.agent.ReadAll(c.ctx, c.Call, &in))
}

func (f *Face) commit(c *call) (*reply, error) {
	var in api.Commit
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	done, err := c.agent.Commit(ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	out, err := decided(done, &done.Decision)
	if p, refused := errors.AsType[*api.Problem](err); refused {
		p.Read = done.Read
	}
	return out, err
}

func (f *Face) offers(c *call) (*reply, error) { return ok(c.agent.offers(), nil) }

// maxWaiters bounds the requests that wait for a shard's next version.
const maxWaiters = 1000

// awaitVersion waits as long as wait_ms says until a shard has another version than If-None-Match names. "0" names an
// absent one.
func (f *Face) awaitVersion(c *call, scope string) error {
	query, known := c.query, c.request.Header.Get("If-None-Match")
	switch {
	case !query.Has("wait_ms"):
		return nil
	case known == "" || query.Has("version"):
		return api.Problemf(api.CodeBadRequest, "wait_ms waits for the version after the one that If-None-Match names: "+
			"send that, and no version")
	}
	ctx, cancel, err := f.polling(c) // the sidecar's stop ends the wait
	if err != nil {
		return err
	}
	defer cancel()
	select {
	case f.waiters <- struct{}{}:
		defer func() { <-f.waiters }()
	default:
		return api.Problemf(api.CodeLimit, "%d requests wait for versions of shards already", cap(f.waiters))
	}
	ctx, end := context.WithTimeout(ctx, f.Limits.WaitMost*9/10) // the read that follows may have to fetch a content
	defer end()
	<-f.running // one that waits does no work: others have its place
	defer func() { f.running <- struct{}{} }()
	return f.Workspace.AwaitVersion(ctx, scope, func(version uint64) bool { return matches(known, version) })
}
