package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// turnDoor serves tools and a model that asks for the calls in asks.
type turnDoor struct {
	*door
	asks []map[string]any
}

func openTurns(t *testing.T) *turnDoor {
	t.Helper()
	d := &turnDoor{}
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "message", "content": d.asks})
	}))
	t.Cleanup(stub.Close)
	log := filepath.Join(t.TempDir(), "log")
	set := upstream.Open(map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, log)}, upstream.Options{})
	t.Cleanup(set.Close)
	tools := must(policy.Load([]byte(doorPolicy), policy.Options{Build: adapters.Over(set)}))(t)
	r := start(t, memlog.New("default").Door(), Config{Agent: "a", Tools: tools, MCP: MCP{Upstreams: set},
		Models: Models{APIs: map[string]*url.URL{"anthropic": must(url.Parse(stub.URL))(t)}}})
	set.Settled(background(t))
	d.door = &door{r, set, log}
	return d
}

// answer lets the model ask for calls of s__drop.
func (d *turnDoor) answer(t *testing.T, ats ...string) {
	t.Helper()
	d.asks = nil
	for _, at := range ats {
		d.asks = append(d.asks, map[string]any{"type": "tool_use", "name": "mcp__hence__s__drop",
			"input": map[string]any{"at": at}})
	}
	r := must(http.NewRequestWithContext(background(t), "POST", d.ModelURL("anthropic")+"/v1/messages",
		strings.NewReader(`{"messages":[]}`)))(t)
	out := must(http.DefaultClient.Do(r))(t)
	defer out.Body.Close()
	if err := json.NewDecoder(out.Body).Decode(&map[string]any{}); err != nil {
		t.Fatal(err)
	}
}

// drop calls s__drop and returns the call's transaction.
func (d *turnDoor) drop(ctx context.Context, s *sdk.ClientSession, at string) (string, error) {
	out, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "s__drop", Arguments: map[string]any{"at": at}})
	if err != nil {
		return "", err
	}
	if out.IsError {
		return "", fmt.Errorf("%s", textOf(out))
	}
	tx, _ := out.Meta["hence/tx"].(string)
	return tx, nil
}

// made are the calls of s__drop that the server has had, in order, once there are n.
func (d *turnDoor) made(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	eventually(t, func() error {
		out = slices.DeleteFunc(mcptest.Made(d.log), func(call string) bool { return !strings.HasPrefix(call, "drop") })
		if len(out) < n {
			return fmt.Errorf("the server had %d calls of %d: %q", len(out), n, out)
		}
		return nil
	})
	return out
}

// The calls of one answer have one transaction and take effect in the answer's order, in whichever they come. Equal
// calls are interchangeable.
func TestTurnsByAnswer(t *testing.T) {
	d := openTurns(t)
	s := d.enter(t, "", "", nil)
	had := 0
	for round := range 10 {
		ats := []string{fmt.Sprint(round, "-1"), fmt.Sprint(round, "-2"), fmt.Sprint(round, "-2"), fmt.Sprint(round, "-3")}
		d.answer(t, ats...)
		var group sync.WaitGroup
		txs := make([]string, len(ats))
		for i := len(ats) - 1; i >= 0; i-- {
			group.Go(func() {
				var err error
				if txs[i], err = d.drop(background(t), s, ats[i]); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, tx := range txs {
			if tx == "" || tx != txs[0] {
				t.Fatalf("the calls of one answer are of %q", txs)
			}
		}
		now := d.made(t, had+len(ats))[had:]
		had += len(ats)
		for i, at := range ats {
			if !strings.Contains(now[i], at) {
				t.Fatalf("the server was called in the order %q", now)
			}
		}
	}
}

// A call that the answer did not ask for comes last; one that was alone in its answer, and one after the turn, has a
// transaction of its own. A turn of which a call never comes ends with the conversation's next answer.
func TestTurnsUnmatched(t *testing.T) {
	d := openTurns(t)
	s := d.enter(t, "", "", nil)
	d.answer(t, "1", "2")
	stray := must(d.drop(background(t), s, "other"))(t) // held: the others are still to come
	second := must(d.drop(background(t), s, "2"))(t)
	first := must(d.drop(background(t), s, "1"))(t)
	if stray != first || second != first {
		t.Errorf("one turn, and the transactions are %s, %s, %s", first, second, stray)
	}
	if got := d.made(t, 3); !strings.Contains(got[0], "1") || !strings.Contains(got[1], "2") ||
		!strings.Contains(got[2], "other") {
		t.Errorf("%q", got)
	}
	if after := must(d.drop(background(t), s, "1"))(t); after == first {
		t.Error("a call after its turn is in it")
	}
	d.answer(t, "5", "6")
	half := must(d.drop(background(t), s, "6"))(t)
	d.answer(t, "7")
	if got := d.made(t, 5); !strings.Contains(got[4], "6") {
		t.Errorf("%q", got)
	}
	if alone := must(d.drop(background(t), s, "7"))(t); alone == half {
		t.Error("a call that is alone in its answer is in the turn before")
	}
}
