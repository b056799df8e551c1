package http

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// One key is one request: under way it is refused, with another body too, and afterwards it has the first answer with
// its headers.
func TestIdempotencyKey(t *testing.T) {
	f := newFaced(t)
	key := []string{"Idempotency-Key", "k"}
	enter, leave := make(chan struct{}), make(chan struct{})
	f.during = func(context.Context) {
		enter <- struct{}{}
		<-leave
	}
	first := make(chan int)
	go func() {
		resp, _ := f.do("PUT", inDefault+"/shards/x", "1", key...)
		first <- resp.StatusCode
	}()
	<-enter
	f.calls()
	if resp, _ := f.do("PUT", inDefault+"/shards/x", "1", key...); resp.Header.Get("Retry-After") != "1" {
		t.Error("a request under way has no Retry-After")
	}
	f.refused(http.StatusConflict, api.CodeKeyInFlight, "PUT", inDefault+"/shards/x", "1", key...)
	close(leave)
	if status := <-first; status != http.StatusCreated {
		t.Fatalf("the first one: %d", status)
	}
	f.during = nil
	resp, _ := f.do("PUT", inDefault+"/shards/x", "1", key...)
	if resp.StatusCode != 201 || resp.Header.Get("Idempotency-Replayed") != "true" || resp.Header.Get("Etag") != `"7"` {
		t.Errorf("the same again: %d %v", resp.StatusCode, resp.Header)
	}
	f.calls()
	f.refused(http.StatusUnprocessableEntity, api.CodeKeyReused, "PUT", inDefault+"/shards/x", "2", key...)
	f.refused(http.StatusUnprocessableEntity, api.CodeKeyReused, "PUT", inDefault+"/shards/x", "1",
		append(key, "If-Match", "*")...)
	if resp, _ := f.do("PUT", inDefault+"/shards/x", "1", append(key, "Hence-Session", "p")...); resp.Header.Get(
		"Idempotency-Replayed") != "" {
		t.Error("another conversation's key is another key")
	}
	f.calls()
	f.do("GET", inDefault+"/shards/x", "", key...)
	if f.calls() != "Get" {
		t.Error("a GET is asked again, whatever its key")
	}
}

// Several Idempotency-Keys are refused, as which one counts would be a guess; where none counts they do not matter.
func TestSeveralKeys(t *testing.T) {
	f := newFaced(t)
	for _, keys := range [][2]string{{"a", "b"}, {"a", "a"}, {"", "b"}} {
		several := []string{"Idempotency-Key", keys[0], "Idempotency-Key", keys[1]}
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "PUT", inDefault+"/shards/x", "1", several...)
		f.do("GET", inDefault+"/shards/x", "", several...)
		if f.calls() != "Get" {
			t.Error("a GET is asked, whatever its keys")
		}
	}
}

// An answer that may be another one later is not kept: what is under way, what failed for now, what takes the other
// token.
func TestAnswersThatAreNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*fake)
		path   string
		body   string
		then   []string // headers of the second request
		status int      // of the second answer
		asks   string
	}{
		"under way":   {in(api.StateSealed), "/v1/tx/a.1.1/seal", "", nil, 200, "Seal"},
		"for now":     {failing(api.CodeJournal), "/v1/tx/a.1.1/seal", "", nil, 200, "Seal"},
		"a failure":   {func(f *fake) { f.fails = errOdd }, "/v1/tx/a.1.1/seal", "", nil, 200, "Seal"},
		"other token": {nil, "/v1/tx/a.1.1/retract", "", asOperator(), 202, "Retract"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaced(t)
			if c.set != nil {
				c.set(f.fake)
			}
			f.do("POST", c.path, c.body, "Idempotency-Key", "k")
			f.calls()
			in(api.StateCommitted)(f.fake)
			f.fails = nil
			resp, _ := f.do("POST", c.path, c.body, append(c.then, "Idempotency-Key", "k")...)
			if asked := f.calls(); resp.StatusCode != c.status || resp.Header.Get("Idempotency-Replayed") != "" ||
				asked != c.asks {
				t.Errorf("again: %d, asks %q", resp.StatusCode, asked)
			}
		})
	}
	f := newFaced(t)
	failing(api.CodeNoPolicy)(f.fake)
	for n, replayed := range []string{"", "true"} {
		resp, _ := f.do("POST", "/v1/effects", `{"tool":"x"}`, "Idempotency-Key", "k")
		if got := resp.Header.Get("Idempotency-Replayed"); resp.StatusCode != 422 || got != replayed {
			t.Errorf("try %d of what is refused for good: %d, replayed %q", n, resp.StatusCode, got)
		}
	}
}

// A refusal that is kept under its key is given again without what was read: others may have written that since, and
// it would take the room of other answers. The first answer has it, whether the log or the sidecar refused.
func TestReadIsNotKept(t *testing.T) {
	seen := &api.Seen{Workspace: "default", View: 9, Items: []api.Shard{{Scope: "shard:/x", Version: 5, View: 9}}}
	refusal := api.Problemf("stale_read", "shard:/x moved")
	refusal.Read = seen
	for name, set := range map[string]func(*fake){
		"by the sidecar": func(f *fake) { f.fails = refusal },
		"by the log": func(f *fake) {
			f.decision.State, f.decision.Code, f.read = api.StateAborted, "stale_read", seen
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaced(t)
			set(f.fake)
			for _, replayed := range []string{"", "true"} {
				resp, text := f.do("POST", inDefault+"/commit", "{}", "Idempotency-Key", "k")
				var p api.Problem
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					t.Fatal(err)
				}
				if got := resp.Header.Get("Idempotency-Replayed"); got != replayed || resp.StatusCode != http.StatusConflict ||
					p.Code != "stale_read" || p.Detail == "" {
					t.Errorf("replayed %q, want %q: %d %+v", got, replayed, resp.StatusCode, p)
				}
				if first := replayed == ""; first != (p.Read != nil) {
					t.Errorf("replayed %q: read are %+v", replayed, p.Read)
				}
			}
			if asked := f.calls(); asked != "Commit" {
				t.Errorf("asked: %s", asked)
			}
		})
	}
	if refusal.Read != seen {
		t.Error("what is kept is taken out of the agent's own refusal")
	}
}

// A handler that panics does not keep its key: the same request may come again. Nor does a client that goes away take
// the request with it.
func TestKeyOfAPanic(t *testing.T) {
	f := newFaced(t)
	f.during = func(ctx context.Context) {
		if _, bound := ctx.Deadline(); !bound {
			t.Error("a request with a key may run for ever")
		}
		panic("a fault")
	}
	func() {
		defer func() { _ = recover() }()
		f.do("POST", inDefault+"/tx", "", "Idempotency-Key", "k")
	}()
	f.during = nil
	if resp, text := f.do("POST", inDefault+"/tx", "", "Idempotency-Key", "k"); resp.StatusCode != http.StatusCreated {
		t.Errorf("again: %d %s", resp.StatusCode, text)
	}
}

// The conditions of a PUT, as the agent is given them.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		match, none string
		status      int
		want        string // versions, * or nothing
	}{
		{match: `"4"`, want: "4"}, {match: `"1", "4"`, want: "1 4"}, {match: `W/"1","4"`, want: "4"},
		{match: `*`, want: "*"},
		{none: `*`, want: "0"}, {},
		{match: `W/"4"`, status: 412}, {match: `"04"`, status: 412}, {match: `"0"`, status: 412},
		{match: `"abc", W/"7"`, status: 412}, {match: `"1`, status: 400}, {match: `1`, status: 400},
		{match: `"1", 2`, status: 400}, {match: `"1"`, none: "*", status: 400}, {none: `"1"`, status: 400},
	} {
		f := newFaced(t)
		var header []string
		if c.match != "" {
			header = append(header, "If-Match", c.match)
		}
		if c.none != "" {
			header = append(header, "If-None-Match", c.none)
		}
		status, _ := f.codeOf("PUT", inDefault+"/shards/x", "1", header...)
		if c.status != 0 {
			if asked := f.calls(); status != c.status || asked != "" {
				t.Errorf("%q: %d, asks %q", header, status, asked)
			}
			continue
		}
		if got := versionsText(&f.put); status != http.StatusCreated || got != c.want {
			t.Errorf("%q: %d, the agent is given %q, want %q", header, status, got, c.want)
		}
	}
}

func versionsText(in *api.Put) string {
	if in.Exists {
		return "*"
	}
	var all []string
	for _, v := range in.Versions {
		all = append(all, strings.Trim(etag(v), `"`))
	}
	return strings.Join(all, " ")
}

// A no to an agent's token is not kept under the key: an approver may send the same request. What one approver was
// answered is another's answer never, whatever the key: who repeats a request is told what that person has said.
func TestKeyOfAnApproval(t *testing.T) {
	f := newFaced(t)
	const path = "/v1/effects/a.1.1/0/approve"
	bob := []string{"Authorization", "Bearer " + otherApprover}
	for i, c := range []struct {
		header []string
		status int
		asks   string
	}{{nil, http.StatusForbidden, ""}, {asApprover(), http.StatusOK, "approve 0 by ann"},
		{bob, http.StatusOK, "approve 0 by bob"}, {asApprover(), http.StatusOK, ""}, {bob, http.StatusOK, ""}} {
		resp, _ := f.do("POST", path, "", append(c.header, "Idempotency-Key", "k")...)
		again := c.asks == "" && c.status == http.StatusOK
		if asks := f.calls(); resp.StatusCode != c.status || asks != c.asks ||
			(resp.Header.Get("Idempotency-Replayed") != "") != again {
			t.Errorf("%d: %d, asks %q, %v; want %d, %q", i, resp.StatusCode, asks, resp.Header, c.status, c.asks)
		}
	}
	bob = append(bob, "Idempotency-Key", "k")
	f.refused(http.StatusUnprocessableEntity, api.CodeKeyReused, "POST", path,
		`{"args_sha256":"`+strings.Repeat("ab", 32)+`"}`, bob...)
}
