package console

import (
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

//go:embed static
var static embed.FS

const (
	maxBody     = 16 << 10
	maxExport   = 8 << 20
	maxScopes   = 200
	maxQueryLen = 256
)

// routes is everything that the console answers. Its page and the files of it are for everybody: an exported
// transaction can be looked at without a token. What the workspace says is for those who logged in.
func (c *Console) routes(decisions *feed.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", c.ready)
	mux.HandleFunc("GET /session", func(w http.ResponseWriter, r *http.Request) {
		_, err := c.door.enter(r)
		writeJSON(w, map[string]bool{"open": err == nil})
	})
	mux.HandleFunc("POST /login", c.door.login)
	mux.HandleFunc("POST /logout", c.door.logout)
	members := func(pattern string, handle func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, c.door.members(func(w http.ResponseWriter, r *http.Request) {
			v, err := handle(r)
			if err != nil {
				refuse(w, err)
				return
			}
			writeJSON(w, v)
		}))
	}
	members("GET /api/about", c.about)
	members("GET /api/live", func(*http.Request) (any, error) { return c.watch.now(), nil })
	members("GET /api/gate", func(r *http.Request) (any, error) { return c.gate(r.Context()), nil })
	members("GET /api/window", c.window)
	members("GET /api/lanes", c.lanes)
	members("GET /api/residue", func(r *http.Request) (any, error) { return c.residue(r.Context()) })
	members("GET /api/anomalies", c.foundAnomalies)
	members("GET /api/scopes", c.scopes)
	members("GET /api/classes", c.classes)
	members("GET /api/search", func(r *http.Request) (any, error) {
		q := r.URL.Query().Get("q")
		if len(q) > maxQueryLen {
			return nil, badRequest("the text has more than %d bytes", maxQueryLen)
		}
		return c.search(r.Context(), q), nil
	})
	members("GET /api/decisions", c.decisions)
	members("GET /api/decisions/{seq}", c.decision)
	members("GET /api/tx/{tx}", c.transaction)
	members("GET /api/tx/{tx}/cone", c.cone)
	members("POST /api/tx/{tx}/retract", c.retract)
	members("POST /api/effects/{tx}/{index}/approve", c.approve)
	members("POST /api/effects/{tx}/{index}/deny", c.deny)
	members("POST /api/residue/{tx}/{index}/retry", c.retryResidue)
	members("POST /api/residue/{tx}/{index}/accept", c.acceptResidue)
	mux.HandleFunc("GET /api/tx/{tx}/export", c.door.members(c.export))
	mux.HandleFunc("GET /api/stream", c.door.streaming(c.stream))
	mux.HandleFunc("GET /v1/workspaces/{workspace}/decisions", c.door.streaming(decisions.ServeHTTP))
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} { // the ports are easily taken for one another
		mux.HandleFunc(method+" /v1/", func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, refusal(http.StatusNotFound, "no_route", "this is the console: send requests to the sidecar's own "+
				"address, which hence dev prints as HENCE_URL (port 7420 where none is given)"))
		})
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic("console: its files are not in the binary: " + err.Error())
	}
	mux.Handle("GET /", cached(http.FileServerFS(files)))
	return newGuard(c.config.Hosts, mux)
}

// cached lets browsers keep the page's files for as long as they ask whether they are still the same: the files of a
// binary have no date.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("console: an answer cannot be written: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}

// refuse writes an error as a problem; those of a sidecar are passed on.
func refuse(w http.ResponseWriter, err error) {
	var p *api.Problem
	if !errors.As(err, &p) {
		err = refusal(http.StatusServiceUnavailable, "log_unavailable", "%s", cut(err.Error()))
	}
	feed.Refuse(w, err)
}

// ready says whether decisions can be shown, and per dependency what is wrong.
func (c *Console) ready(w http.ResponseWriter, r *http.Request) {
	problems := map[string]string{}
	for name, err := range c.config.Source.Ready(r.Context()) {
		if err != nil && name != "nats" {
			problems[name] = cut(err.Error())
		}
	}
	status := "ready"
	if len(problems) > 0 {
		status = "not ready"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	writeJSON(w, map[string]any{"status": status, "problems": problems})
}

func (c *Console) about(r *http.Request) (any, error) {
	parts := map[string]string{}
	for name, err := range c.config.Source.Ready(r.Context()) {
		parts[name] = ""
		if err != nil {
			parts[name] = cut(err.Error())
		}
	}
	return map[string]any{"workspace": c.config.Workspace, "version": c.config.Version, "parts": parts,
		"actions": c.config.Actions != nil, "no_actions": c.config.NoActions,
		"classes": c.config.Classes != nil, "tick_ms": tickMs, "kinds": feed.Kinds()}, nil
}

// classes are those of the shards that clients of S-Bus commit to.
func (c *Console) classes(*http.Request) (any, error) {
	if c.config.Classes == nil { // empty lists would look as if no commits met
		return nil, notFound("no clients of S-Bus are served here: hence dev --sbus ADDR serves them")
	}
	return c.config.Classes(), nil
}

func (c *Console) scopes(r *http.Request) (any, error) {
	prefix := r.URL.Query().Get("prefix")
	if len(prefix) > maxQueryLen {
		return nil, badRequest("the prefix has more than %d bytes", maxQueryLen)
	}
	list, err := c.config.Source.Scopes(r.Context(), c.config.Workspace, sequencer.Scope(prefix), maxScopes)
	if err != nil {
		return nil, err
	}
	if list.Rows == nil {
		list.Rows = []topology.ScopeInfo{}
	}
	c.watch.mu.Lock()
	seq := c.watch.seq
	c.watch.mu.Unlock()
	return struct {
		topology.Scopes
		Seq sequencer.Seq `json:"seq"`
	}{list, seq}, nil
}

func (c *Console) decisions(r *http.Request) (any, error) {
	q := r.URL.Query()
	filter, err := feed.NewFilter(q.Get("tx"), q.Get("agent"), q.Get("scope"), q.Get("reason"), q.Get("kind"))
	if err != nil {
		return nil, badRequest("%v", err)
	}
	before, limit := uint64(0), uint64(100)
	for name, to := range map[string]*uint64{"before": &before, "limit": &limit} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseUint(text, 10, 63); err != nil {
				return nil, badRequest("%s=%.40q is not a whole number", name, text)
			}
		}
	}
	rows, more := c.watch.list(filter, sequencer.Seq(before), int(min(max(limit, 1), maxListed)))
	return map[string]any{"rows": rows, "more": more}, nil
}

func (c *Console) decision(r *http.Request) (any, error) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 63)
	if err != nil {
		return nil, badRequest("%.40q is not a seq", r.PathValue("seq"))
	}
	c.watch.mu.Lock()
	k := c.watch.recent.get(sequencer.Seq(seq))
	var row kept
	if k != nil {
		row = *k
	}
	c.watch.mu.Unlock()
	if k == nil {
		return nil, notFound("the console does not remember seq %d any more: hence tail --all --after %d shows it", seq,
			max(seq, 1)-1)
	}
	return c.told(row)
}

func (c *Console) transaction(r *http.Request) (any, error) {
	return c.report(r.Context(), sequencer.TxID(r.PathValue("tx")), r.URL.Query().Get("content") == "1")
}

// export is the transaction as a file.
func (c *Console) export(w http.ResponseWriter, r *http.Request) {
	report, err := c.report(r.Context(), sequencer.TxID(r.PathValue("tx")), r.URL.Query().Get("content") == "1")
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		panic("console: a report cannot be written: " + err.Error())
	}
	if len(body) > maxExport {
		refuse(w, refusal(http.StatusRequestEntityTooLarge, "too_large", "the file would have %d bytes, at most %d: "+
			"export it without arguments and answers", len(body), maxExport))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(string(report.Tx))+`.hence.json"`)
	_, _ = w.Write(body)
}

// fileName is a transaction's id as a name that every system takes.
func fileName(tx string) string {
	out := []byte(tx)
	for i, b := range out {
		ok := b == '-' || b == '.' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
		if !ok {
			out[i] = '_'
		}
	}
	return string(out[:min(len(out), 100)])
}

func (c *Console) cone(r *http.Request) (any, error) {
	cone, err := c.config.Source.Cone(r.Context(), c.config.Workspace, sequencer.TxID(r.PathValue("tx")))
	if err != nil {
		return nil, err
	}
	if cone.Code != "" {
		return nil, refusal(http.StatusConflict, string(cone.Code), "it cannot be retracted: %s", cone.Detail)
	}
	return words.Cone(cone), nil
}

// decode reads a small body.
func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return badRequest("the body is not a small JSON object: %v", err)
	}
	return nil
}
