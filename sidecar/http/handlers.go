package http

import (
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

func (f *Face) begin(c *Call) (*Reply, error) {
	var in api.Begin
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	d, err := c.Agent.Begin(c.Ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return begun(d), nil
}

// begun answers that a transaction is there, and where.
func begun(d *api.Decision) *Reply {
	out := jsonReply(http.StatusCreated, d)
	out.header = map[string]string{"Location": "/v1/tx/" + d.Tx}
	return out
}

func (f *Face) status(c *Call) (*Reply, error) {
	ctx, cancel, err := f.polling(c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return ok(c.Agent.Status(ctx, c.Params["tx"]))
}

func (f *Face) readTx(c *Call) (*Reply, error) {
	var in api.Read
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	shard, announced, err := c.Agent.Read(c.Ctx, c.Params["tx"], &in)
	switch {
	case err != nil:
		return nil, err
	case announced != nil:
		return jsonReply(http.StatusOK, announced), nil
	}
	return jsonReply(http.StatusOK, shard), nil
}

func (f *Face) writeTx(c *Call) (*Reply, error) {
	var in api.Write
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.Agent.Write(c.Ctx, c.Params["tx"], &in))
}

func (f *Face) touchTx(c *Call) (*Reply, error) {
	var in api.Touch
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	out, err := c.Agent.Touch(c.Ctx, c.Params["tx"], &in)
	if err != nil {
		return nil, err
	}
	return unlessPending(out, out.State == api.TouchWaiting), nil
}

func (f *Face) settleTx(c *Call) (*Reply, error) {
	var in api.Settlement
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	d, err := c.Agent.Settle(ctx, c.Params["tx"], &in)
	if err != nil {
		return nil, err
	}
	return unlessPending(d, !d.Final), nil
}

func (f *Face) effectTx(c *Call) (*Reply, error) {
	var in api.Effect
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.Agent.Effect(c.Ctx, c.Call, c.Params["tx"], &in))
}

func (f *Face) effectsTx(c *Call) (*Reply, error) { return ok(c.Agent.Effects(c.Ctx, c.Params["tx"])) }

func (f *Face) oneShot(c *Call) (*Reply, error) {
	var in api.OneShot
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	done, err := c.Agent.OneShot(ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return decided(done, &done.Decision)
}

func (f *Face) sealTx(c *Call) (*Reply, error) {
	var in api.Seal
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	d, err := c.Agent.Seal(ctx, c.Params["tx"], &in)
	if err != nil {
		return nil, err
	}
	return decided(d, d)
}

func (f *Face) abortTx(c *Call) (*Reply, error) {
	var in api.Abort
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	return ok(c.Agent.Abort(c.Ctx, c.Params["tx"], in.Reason))
}

func (f *Face) retryTx(c *Call) (*Reply, error) {
	if err := c.decode(&struct{}{}, true); err != nil {
		return nil, err
	}
	d, fresh, err := c.Agent.Retry(c.Ctx, c.Params["tx"])
	if err != nil {
		return nil, err
	}
	out := begun(d)
	if !fresh {
		out.Status = http.StatusOK
	}
	return out, nil
}

func (f *Face) retractTx(c *Call) (*Reply, error) {
	var in api.Retract
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	if !in.DryRun {
		if err := c.operates("a retraction"); err != nil {
			return nil, err
		}
	}
	out, err := c.Agent.Retract(c.Ctx, c.Params["tx"], &in)
	if err != nil {
		return nil, err
	}
	return unlessPending(out, !in.DryRun), nil
}

func (f *Face) explain(c *Call) (*Reply, error) { return ok(c.Agent.Explain(c.Ctx, c.Params["tx"])) }

// endSession ends the conversation that the header names: nothing is sealed that rests on what it read loosely.
func (f *Face) endSession(c *Call) (*Reply, error) {
	n, err := c.Agent.EndSession(c.Ctx, c.Session)
	return ok(&api.EndedSession{Session: c.Session, Reads: n}, err)
}

func (f *Face) beginGroup(c *Call) (*Reply, error) {
	var in api.BeginGroup
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	out, err := c.Agent.BeginGroup(c.Ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusCreated, out), nil
}

func (f *Face) selectBranch(c *Call) (*Reply, error) {
	var in api.Select
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.Agent.Select(c.Ctx, c.Params["group"], &in))
}

func (f *Face) listShards(c *Call) (*Reply, error) {
	binds, err := c.binds()
	if err != nil {
		return nil, err
	}
	page, err := f.page(c, nil)
	if err != nil {
		return nil, err
	}
	page.Pick["prefix"] = c.Request.URL.Query().Get("prefix")
	return ok(c.Agent.List(c.Ctx, c.Call, page, binds))
}

// binds says whether a read is the agent's, whose next seal carries it, or only looks, as people do.
func (c *Call) binds() (bool, error) {
	query := c.Request.URL.Query()
	if query.Has("look") && query.Get("look") != "true" {
		return false, api.Problemf(api.CodeBadRequest, "look=%.20q: give true, or leave it out", query.Get("look"))
	}
	return !query.Has("look"), nil
}

func (f *Face) readShard(c *Call) (*Reply, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	query := c.Request.URL.Query()
	switch {
	case query.Has("versions") && query.Has("version"):
		return nil, api.Problemf(api.CodeBadRequest, "versions and version are both given: ask for one of them")
	case query.Has("versions") && query.Get("versions") != "true":
		return nil, api.Problemf(api.CodeBadRequest, "versions=%.20q: give true, or leave it out", query.Get("versions"))
	case query.Has("versions"):
		return ok(c.Agent.Versions(c.Ctx, scope))
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
	got, err := c.Agent.Get(c.Ctx, c.Call, scope, api.Look{Binds: binds, Version: version})
	if err != nil {
		return nil, err
	}
	if got.Version == 0 {
		p := api.Problemf(api.CodeNotFound, "%s does not exist; create it with PUT and If-None-Match: *", got.Scope)
		p.Scope, p.View = got.Scope, got.View
		return nil, p
	}
	out := &Reply{Status: http.StatusOK, media: got.MediaType, raw: got.Body, header: map[string]string{
		"ETag": etag(got.Version), "Hence-Version": strconv.FormatUint(got.Version, 10),
		"Hence-View": strconv.FormatUint(got.View, 10), "Hence-Writer": got.Writer}}
	if version == 0 && matches(c.Request.Header.Get("If-None-Match"), got.Version) {
		out.Status, out.media, out.raw = http.StatusNotModified, "", nil
	} else if !printable(out.media) { // one that an older release took, and that would break the header
		out.media = api.DefaultMedia
	}
	return out, nil
}

func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

func (f *Face) writeShard(c *Call) (*Reply, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	in := &api.Put{Scope: scope, MediaType: c.Request.Header.Get("Content-Type"), Body: c.body}
	conditional, err := c.Condition(in)
	if err != nil {
		return nil, err
	}
	d, created, err := c.Agent.Put(ctx, c.Call, in)
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
	if out.Status != http.StatusOK {
		return out, nil
	}
	if created {
		out.Status = http.StatusCreated
	}
	out.header = map[string]string{"ETag": etag(d.Seq), "Hence-Version": strconv.FormatUint(d.Seq, 10)}
	return out, nil
}

// Condition takes over what a PUT's headers ask of the version that the shard has. It reports whether they ask
// anything.
func (c *Call) Condition(in *api.Put) (bool, error) {
	match := strings.Join(c.Request.Header.Values("If-Match"), ",")
	none := strings.Join(c.Request.Header.Values("If-None-Match"), ",")
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
			return nil, api.Problemf(api.CodeBadRequest, "If-Match is %.40s: send ETags as they were given, with their "+
				"quotes: "+
				"If-Match: \"17\"", match)
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

func (f *Face) listTx(c *Call) (*Reply, error) {
	page, err := f.page(c, []string{api.StateOpen, api.StateSealed, api.StateCommitted, api.StateAborted},
		"state", "agent", "code")
	if err != nil {
		return nil, err
	}
	return ok(c.Agent.Transactions(page))
}

func (f *Face) listEffects(c *Call) (*Reply, error) {
	page, err := f.page(c, api.EffectStates(), "state", "tool", "tx")
	if err != nil {
		return nil, err
	}
	return ok(c.Agent.Calls(c.Ctx, page))
}

func (f *Face) listTools(c *Call) (*Reply, error) {
	page, err := f.page(c, nil, "server")
	if err != nil {
		return nil, err
	}
	return ok(c.Agent.Tools(c.Ctx, page))
}

func (f *Face) listAgents(c *Call) (*Reply, error) {
	page, err := f.page(c, nil, "agent")
	if err != nil {
		return nil, err
	}
	out, err := f.Workspace.Agents(c.Ctx, page)
	if err != nil {
		return nil, err
	}
	for i := range out.Items {
		out.Items[i].Here = f.serves(out.Items[i].Agent)
	}
	return jsonReply(http.StatusOK, out), nil
}

// toolName is the tool that a route names, as it was before it was escaped.
func toolName(c *Call) (string, error) {
	name, err := url.PathUnescape(c.Params["name"])
	if err != nil {
		return "", api.Problemf(api.CodeBadRequest, "the tool's name is not escaped as a path is")
	}
	return name, nil
}

func (f *Face) putTool(c *Call) (*Reply, error) {
	var in api.PutTool
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	name, err := toolName(c)
	if err != nil {
		return nil, err
	}
	return ok(c.Agent.SetTool(c.Ctx, name, in, false))
}

func (f *Face) deleteTool(c *Call) (*Reply, error) {
	name, err := toolName(c)
	if err != nil {
		return nil, err
	}
	return ok(c.Agent.SetTool(c.Ctx, name, api.PutTool{Server: c.Request.URL.Query().Get("server")}, true))
}

func (f *Face) getRules(c *Call) (*Reply, error) { return rulesReply(c.Agent.Rules(c.Ctx)) }

func rulesReply(r *api.Rules, err error) (*Reply, error) {
	if err != nil {
		return nil, err
	}
	out := jsonReply(http.StatusOK, r)
	out.header = map[string]string{"ETag": etag(uint64(r.Version))}
	return out, nil
}

func (f *Face) putRules(c *Call) (*Reply, error) {
	if err := c.operates("a change of the rules"); err != nil {
		return nil, err
	}
	var in api.RulesChange
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	text := c.Request.Header.Get("If-Match")
	was, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 32)
	if err != nil || text != etag(was) {
		return nil, api.Problemf(api.CodeBadRequest, "If-Match is %.40q: send the version of the rules that you have "+
			"read, in "+
			"quotes", text)
	}
	out, err := c.Agent.SetRules(c.Ctx, uint32(was), &in)
	if p := api.AsProblem(err); err != nil && p.Code == string(sequencer.CodeVersionMismatch) {
		p.Status = http.StatusPreconditionFailed
		return nil, p
	}
	return rulesReply(out, err)
}

func (f *Face) listResidue(c *Call) (*Reply, error) {
	page, err := f.page(c, nil)
	if err != nil {
		return nil, err
	}
	query := c.Request.URL.Query()
	for _, name := range []string{"tool", "result", "state"} {
		if query.Has(name) {
			page.Pick[name] = topology.NormalName(query.Get(name))
		}
	}
	return ok(c.Agent.Residue(c.Ctx, page))
}

func (f *Face) acceptResidue(c *Call) (*Reply, error) {
	if err := c.operates("accepting a residue"); err != nil {
		return nil, err
	}
	var in api.AcceptResidue
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.Agent.AcceptResidue(c.Ctx, c.Params["tx"], c.Params["index"], &in))
}

func (f *Face) retryResidue(c *Call) (*Reply, error) {
	if err := c.operates("trying a residue again"); err != nil {
		return nil, err
	}
	var in api.RetryResidue
	if err := c.decode(&in, true); err != nil {
		return nil, err
	}
	return ok(c.Agent.RetryResidue(c.Ctx, c.Call, c.Params["tx"], c.Params["index"], &in))
}

// chain lists the chain hashes that the view has recomputed.
func (f *Face) chain(c *Call) (*Reply, error) {
	from, err := c.number("from", 0, 0, 1<<63)
	if err != nil {
		return nil, err
	}
	limit, err := f.limit(c)
	if err != nil {
		return nil, err
	}
	return ok(f.Workspace.Chain(c.Ctx, from, limit))
}

func (f *Face) frontier(c *Call) (*Reply, error) {
	limit, err := f.limit(c)
	if err != nil {
		return nil, err
	}
	return ok(f.Workspace.Frontier(c.Ctx, c.Request.URL.Query().Get("prefix"), limit))
}

// closure answers what a transaction rests on, any agent's.
func (f *Face) closure(c *Call) (*Reply, error) {
	limit, err := f.limit(c)
	if err != nil {
		return nil, err
	}
	return ok(f.Workspace.Closure(c.Ctx, c.Params["tx"], limit))
}

// limit is how many items an answer may have.
func (f *Face) limit(c *Call) (int, error) {
	most := uint64(f.Limits.ListItems)
	n, err := c.number("limit", min(100, most), 1, most)
	return int(n), err
}

// page is what a list is asked for. The state must be one of states, where there are some.
func (f *Face) page(c *Call, states []string, picks ...string) (api.Page, error) {
	limit, err := f.limit(c)
	if err != nil {
		return api.Page{}, err
	}
	query := c.Request.URL.Query()
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
func ok[T any](value *T, err error) (*Reply, error) {
	if err != nil {
		return nil, err
	}
	return jsonReply(http.StatusOK, value), nil
}

// unlessPending answers 200, or 202 where what was asked for is accepted and not done yet.
func unlessPending(value any, pending bool) *Reply {
	if pending {
		return jsonReply(http.StatusAccepted, value)
	}
	return jsonReply(http.StatusOK, value)
}

// decided answers by a decision: 200 committed, 202 not decided yet, a problem otherwise.
func decided(value any, d *api.Decision) (*Reply, error) {
	if d.State == api.StateAborted {
		return nil, words.Refusal(d)
	}
	return unlessPending(value, d.State != api.StateCommitted), nil
}

func (f *Face) readAll(c *Call) (*Reply, error) {
	var in api.Reads
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	return ok(c.Agent.ReadAll(c.Ctx, c.Call, &in))
}

func (f *Face) commit(c *Call) (*Reply, error) {
	var in api.Commit
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	ctx, cancel, err := f.waiting(c, f.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	done, err := c.Agent.Commit(ctx, c.Call, &in)
	if err != nil {
		return nil, err
	}
	return decided(done, &done.Decision)
}

func (f *Face) offers(c *Call) (*Reply, error) { return ok(c.Agent.Offers(), nil) }

// maxWaiters bounds the requests that wait for a shard's next version.
const maxWaiters = 1000

// awaitVersion waits as long as wait_ms says until a shard has another version than If-None-Match names. "0" names an
// absent one.
func (f *Face) awaitVersion(c *Call, scope string) error {
	query, known := c.Request.URL.Query(), c.Request.Header.Get("If-None-Match")
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
	<-f.running // one that waits does no work: others have its place
	defer func() { f.running <- struct{}{} }()
	return c.Agent.AwaitVersion(ctx, scope, func(version uint64) bool { return matches(known, version) })
}
