package sidecar

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// hostileModes are servers that behave badly, each in its own way.
func hostileModes() []string {
	return []string{mcptest.Hang, mcptest.Flood, mcptest.Huge, mcptest.Dies, mcptest.Twice, mcptest.Bad, mcptest.Loops,
		mcptest.Poses, mcptest.Turns}
}

// hostileDoor is a sidecar before a good server and all hostile ones, with the log of each server's own calls.
type hostileDoor struct {
	*door
	logs map[string]string
}

func openHostile(t *testing.T) *hostileDoor {
	t.Helper()
	dir, servers, logs := t.TempDir(), map[string]upstream.Server{}, map[string]string{}
	text := "version: 1\nserver: doors\ntools:\n"
	for _, name := range append(hostileModes(), mcptest.Good) {
		logs[name] = filepath.Join(dir, name)
		servers[name] = mcptest.Config(name, logs[name])
		text += fmt.Sprintf("  - {tool: %[1]s__look, class: read, max_time_ms: 300, retry: {attempts: 1}, scopes: "+
			"[\"%[1]s:/**\"], mcp: {server: %[1]s}}\n"+
			"  - {tool: %[1]s__note, class: known_outcome, keyed: true, max_time_ms: 300, retry: {attempts: 1}, "+
			"scopes: [\"%[1]s:/{at}\"], args: [at], mcp: {server: %[1]s}}\n"+
			"  - {tool: %[1]s__fail, class: irreversible, max_time_ms: 300, retry: {attempts: 1}, scopes: [\"%[1]s:/**\"], "+
			"mcp: {server: %[1]s}}\n", name)
	}
	set := upstream.Open(servers, upstream.Options{Start: 5 * time.Second})
	t.Cleanup(set.Close)
	tools := must(policy.Load([]byte(text), policy.Options{Build: adapters.Over(set)}))(t)
	r := start(t, memlog.New("default").Door(), Config{Agent: "a", Tools: tools, MCP: MCP{Upstreams: set}})
	eventually(t, func() error {
		s, _ := set.State(mcptest.Good)
		return unless(s.Phase == upstream.Ready, s.Err)
	})
	return &hostileDoor{&door{r, set, logs[mcptest.Good]}, logs}
}

// made is how often a server says itself that a tool was called with an argument: a call that is tried again has its
// key again, and is one.
func (d *hostileDoor) made(server, tool, at string) int {
	keys := map[string]bool{}
	for _, call := range mcptest.Made(d.logs[server]) {
		if key, is := strings.CutPrefix(call, tool+":"+at+":"); is {
			keys[key] = true
		}
	}
	return len(keys)
}

// What comes of each call of a hostile server is what that server's own log says: what is taken for done was made,
// what is not taken for begun was not, and nothing was made twice. Meanwhile a good server is served.
func TestMCPHostile(t *testing.T) {
	d := openHostile(t)
	const each = 3
	var all sync.WaitGroup
	quiet := d.looks(t, 40)
	ended := make(chan struct{})
	for _, server := range hostileModes() {
		all.Go(func() {
			s := d.enter(t, "", "", map[string]string{"Hence-Session": "of-" + server})
			for i := range each {
				at := fmt.Sprint(server, "-", i)
				ctx, cancel := context.WithTimeout(background(t), 5*time.Second) // longer than any call of the policy
				_, _ = s.CallTool(ctx, &sdk.CallToolParams{Name: server + "__note", Arguments: map[string]any{"at": at}})
				_, _ = s.CallTool(ctx, &sdk.CallToolParams{Name: server + "__look", Arguments: map[string]any{"at": at}})
				cancel()
			}
			ctx, cancel := context.WithTimeout(background(t), 20*time.Millisecond) // and in the middle of one
			defer cancel()
			at := map[string]any{"at": server + "-cut"}
			_, _ = s.CallTool(ctx, &sdk.CallToolParams{Name: server + "__note", Arguments: at})
		})
	}
	go func() { all.Wait(); close(ended) }()
	var busy []time.Duration
	for over := false; !over || len(busy) < 40; {
		busy = append(busy, d.looks(t, 1)...)
		select {
		case <-ended:
			over = true
		default:
		}
	}
	slices.Sort(quiet)
	slices.Sort(busy)
	t.Logf("a read of the good server: p50 %v, and %v of %d while hostile ones are called",
		quiet[len(quiet)/2], busy[len(busy)/2], len(busy))
	eventually(t, func() error {
		list := must(d.only.agent.Transactions(api.Page{Limit: 1000}))(t)
		open := slices.IndexFunc(list.Items, func(i api.TxItem) bool { return !i.Final })
		return unless(open < 0, fmt.Sprintf("%+v", list.Items))
	})
	d.judge(t, each)
}

// looks are how long reads of the good server take.
func (d *hostileDoor) looks(t *testing.T, n int) (took []time.Duration) {
	t.Helper()
	s := d.enter(t, "", "", nil)
	for range n {
		began := time.Now()
		out := calls(t, s, mcptest.Good+"__look", map[string]any{"at": "x"}, "")
		if took = append(took, time.Since(began)); out.IsError {
			t.Fatalf("a call of the good server: %s", textOf(out))
		}
	}
	return took
}

// judge holds each decision against the log of the server that was called.
func (d *hostileDoor) judge(t *testing.T, each int) {
	t.Helper()
	seen, noted := map[string]int{}, map[string]bool{}
	list := must(d.only.agent.Transactions(api.Page{Limit: 1000}))(t)
	for _, one := range list.Items {
		effects := must(d.client.Tx(one.Tx).Effects(background(t)))(t)
		for _, e := range effects.Effects {
			server, tool, _ := strings.Cut(e.Tool, "__")
			if tool != "note" {
				continue
			}
			at := strings.TrimPrefix(e.Scopes[0], server+":/")
			made := d.made(server, tool, at)
			noted[at] = true
			if !strings.HasSuffix(at, "-cut") { // that one may not have begun
				seen[server]++
			}
			switch {
			case made > 1:
				t.Errorf("%s was called %d times with %s", server, made, at)
			case e.State == api.EffectDone && made != 1:
				t.Errorf("%s of %s is done, and the server was called %d times", at, one.State, made)
			case e.State == api.EffectFailed && made != 0 && one.State == api.StateCommitted:
				t.Errorf("%s is committed without it, and the server was called %d times", at, made)
			}
		}
	}
	for _, server := range hostileModes() { // no server was called without an effect that says so
		for _, call := range mcptest.Made(d.logs[server]) {
			if tool, rest, _ := strings.Cut(call, ":"); tool == "note" {
				if at, _, _ := strings.Cut(rest, ":"); !noted[at] {
					t.Errorf("%s was called with %s, and no effect says so", server, at)
				}
			}
		}
	}
	for _, server := range []string{mcptest.Twice, mcptest.Poses} { // those that do make calls
		if seen[server] != each {
			t.Errorf("%s has %d effects, wanted %d", server, seen[server], each)
		}
		for i := range each {
			if at := fmt.Sprint(server, "-", i); d.made(server, "note", at) != 1 {
				t.Errorf("%s was not called with %s", server, at)
			}
		}
	}
}

// Tools that have the names of Hence's own are their server's alone: none of them begins or commits anything here.
func TestMCPPosing(t *testing.T) {
	d := openHostile(t)
	eventually(t, func() error {
		s, _ := d.set.State(mcptest.Poses)
		return unless(s.Phase == upstream.Ready, s.Err)
	})
	s := d.enter(t, "", "", map[string]string{"Hence-Session": "one"})
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx")
	own := d.enter(t, "/"+mcptest.Poses, "", map[string]string{"Hence-Session": "one"})
	if out := calls(t, own, "tx_commit", nil, ""); !out.IsError { // the policy has no such tool of that server
		t.Errorf("the server's own tx_commit: %s", textOf(out))
	}
	if made := d.made(mcptest.Poses, "tx_commit", ""); made != 0 {
		t.Errorf("it was called %d times", made)
	}
	if out := calls(t, s, "tx_commit", nil, ""); field(t, out, "tx") != tx || field(t, out, "state") != "committed" {
		t.Errorf("%s", textOf(out))
	}
}
