package gates

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

const offerTools = `version: 1
server: office
hosts: ["SINK"]
tools:
  - {tool: offer.send, class: irreversible, approve: required, args: [n], scopes: ["offer:/{n}"], key: "offer/{n}",
     http: {method: POST, url: "http://SINK/offer"}}
`

// approvalBound is how long one step of these tests may take.
const approvalBound = 30 * time.Second

const annsToken, bobsToken = "the-token-of-ann-who-approves", "the-token-of-bob-who-approves"

// approvals is an agent whose calls need a yes, and a sidecar of the people who may say it, which has no policy.
type approvals struct {
	agent, people *harness.Sidecar
	ann, bob      *client.Client
	mu            sync.Mutex
	arrived       map[int]int // by n
}

// ServeHTTP is the sink.
func (a *approvals) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var in struct{ N int }
	if json.NewDecoder(r.Body).Decode(&in) == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.arrived[in.N]++
	}
}

func (a *approvals) sent(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrived[n]
}

func openApprovals(t *testing.T) *approvals {
	t.Helper()
	a := &approvals{arrived: map[int]int{}}
	sink := httptest.NewServer(a)
	t.Cleanup(sink.Close)
	tools, err := policy.Load([]byte(strings.ReplaceAll(offerTools, "SINK", sink.Listener.Addr().String())),
		policy.Options{File: "office.yaml", Build: adapters.Build})
	if err != nil {
		t.Fatal(err)
	}
	d := harness.Deploy(t, harness.Start(t))
	a.agent = d.SidecarWith(t, sidecar.Config{Agent: "office", Tools: tools})
	a.people = d.SidecarWith(t, sidecar.Config{Agent: "people", OperatorToken: "the-operator-s-own-token",
		Approvers: map[string]string{"ann": annsToken, "bob": bobsToken}})
	as := func(token string) *client.Client {
		return client.New(a.people.URL, token, client.WithWorkspace(d.Workspace))
	}
	a.ann, a.bob = as(annsToken), as(bobsToken)
	return a
}

// offer makes a call that waits, and returns it as ann sees it.
func (a *approvals) offer(t *testing.T, n int) api.Receipt {
	t.Helper()
	body := fmt.Sprintf(`{"tool":"offer.send","args":{"n":%d}}`, n)
	var made api.Done
	if status := a.post(t, a.agent, a.agent.Token, "/v1/effects?wait_ms=500", body, &made); status != 202 {
		t.Fatalf("offer %d: %d %+v", n, status, made)
	}
	if made.Effect.State != api.EffectUnapproved && made.Effect.State != api.EffectHeld {
		t.Fatalf("offer %d is %+v", n, made.Effect)
	}
	var shown api.Receipt
	harness.Eventually(t, approvalBound, func() error {
		list, err := a.ann.Effects(t.Context(), client.Page{Pick: map[string]string{"tx": made.Tx}})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d calls of %s wait for approval", len(list.Items), made.Tx)
		}
		if err == nil {
			shown = list.Items[0]
		}
		return err
	})
	return shown
}

// post returns the status of a request, and its answer.
func (a *approvals) post(t *testing.T, s *harness.Sidecar, token, path, body string, out any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// settled waits until a transaction is final, and says how it ended.
func (a *approvals) settled(t *testing.T, tx string) (d client.Decision) {
	t.Helper()
	harness.Eventually(t, approvalBound, func() (err error) {
		if d, err = a.agent.Client.Tx(tx).Status(t.Context(), 0); err == nil && !d.Final {
			err = fmt.Errorf("%s is %s and not final", tx, d.State)
		}
		return err
	})
	return d
}

// Calls leave once after a yes to their arguments, through the sidecar of the people who approve; never after a no.
func TestApproval(t *testing.T) {
	a := openApprovals(t)
	ctx := t.Context()
	for n := range 4 {
		one := a.offer(t, n)
		if want := fmt.Sprintf(`{"n":%d}`, n); string(one.Args) != want || one.Agent != "office" ||
			one.Tool != "offer.send" {
			t.Errorf("ann is shown %+v with %s, want %s", one, one.Args, want)
		}
		if _, err := a.ann.Approve(ctx, one.Tx, 0, true, strings.Repeat("ab", 32)); harness.ProblemCode(err) !=
			"wrong_footprint" {
			t.Errorf("offer %d is approved with other arguments: %v", n, err)
		}
		if a.sent(n) > 0 {
			t.Fatalf("offer %d has left before anybody has approved it", n)
		}
		yes := n%2 == 0
		want := map[bool]string{true: api.StateCommitted, false: api.StateAborted}[yes]
		d, err := a.ann.Approve(ctx, one.Tx, 0, yes, one.ArgsSHA256)
		if err != nil || d.State != want || len(d.Approvals) != 1 || d.Approvals[0].By != "ann" {
			t.Errorf("offer %d, ann says yes %v: %+v, %v", n, yes, d, err)
		}
		_, late := a.bob.Approve(ctx, one.Tx, 0, !yes, "")
		if harness.ProblemCode(late) != api.CodeApprovalLate || !strings.Contains(late.Error(), "ann") {
			t.Errorf("offer %d, bob is told %v", n, late)
		}
		if end := a.settled(t, one.Tx); (end.Code == "denied") == yes || end.Retryable {
			t.Errorf("offer %d ends as %+v", n, end)
		}
		if want := map[bool]int{true: 1}[yes]; a.sent(n) != want {
			t.Errorf("offer %d is at the sink %d times, want %d", n, a.sent(n), want)
		}
	}
}

// An agent's own yes counts nothing, whichever of its tokens it sends and wherever; an operator's does neither.
func TestOwnApprovalsCountNothing(t *testing.T) {
	times := harness.Number(t, "HENCE_IT_OWN_APPROVALS", 50)
	a := openApprovals(t)
	one := a.offer(t, 1)
	for i := range times {
		for _, by := range []struct {
			side  *harness.Sidecar
			token string
		}{{a.agent, a.agent.Token}, {a.people, a.people.Token}, {a.people, "the-operator-s-own-token"}} {
			var p api.Problem
			status := a.post(t, by.side, by.token, "/v1/effects/"+one.Tx+"/0/approve",
				`{"args_sha256":"`+one.ArgsSHA256+`"}`, &p)
			if status != http.StatusForbidden || p.Code != api.CodeApproverOnly {
				t.Fatalf("%d: an agent approves its own call: %d %+v", i, status, p)
			}
		}
	}
	if d, err := a.agent.Client.Tx(one.Tx).Status(t.Context(), 0); err != nil || d.State != api.StateSealed ||
		d.Approvals[0].By != "" || a.sent(1) > 0 {
		t.Errorf("after them it is %+v, %v, and %d times at the sink", d, err, a.sent(1))
	}
	if _, err := a.bob.Approve(t.Context(), one.Tx, 0, true, one.ArgsSHA256); err != nil {
		t.Errorf("bob approves it: %v", err)
	}
	a.settled(t, one.Tx)
	if a.sent(1) != 1 {
		t.Errorf("it is at the sink %d times", a.sent(1))
	}
}
