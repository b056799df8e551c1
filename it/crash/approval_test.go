package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

const (
	approvalPolicy = `version: 1
server: office
defaults: {max_time_ms: 1000, retry: {attempts: 100, backoff_ms: 20, backoff_most_ms: 50}}
hosts: ["SINK"]
tools:
  - {tool: offer.send, class: irreversible, approve: required, args: [n], scopes: ["offer:/{n}"], key: "offer/{n}",
     http: {method: POST, url: "http://SINK/offer"}}
`
	approverToken = "the-token-of-ann-who-approves"
)

// offers is the sink: while it is shut, a call breaks off before it is written down, or just after that.
type offers struct {
	mu    sync.Mutex
	shut  bool
	late  func(n int) bool // of a call that is written down before it breaks off
	tried chan int
	keys  map[int]map[string]int // by n: how often each key arrived
}

// ServeHTTP writes down what arrives.
func (o *offers) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var in struct{ N int }
	err := json.NewDecoder(r.Body).Decode(&in)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil && (!o.shut || o.late(in.N)) {
		if o.keys[in.N] == nil {
			o.keys[in.N] = map[string]int{}
		}
		o.keys[in.N][r.Header.Get("Idempotency-Key")]++
	}
	if o.shut || err != nil {
		select {
		case o.tried <- in.N:
		default:
		}
		panic(http.ErrAbortHandler)
	}
}

func (o *offers) set(shut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = shut
}

// sent is how many offers of a number are at the sink: one key counts once there.
func (o *offers) sent(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.keys[n])
}

// A call that waits outlives the processor: approved afterwards, it leaves once, also when its sidecar is killed
// before the sink has it, or before the sink has answered, and the processor with it. What was denied, or still waited
// when the sidecar died, never leaves.
func TestApprovalFailover(t *testing.T) {
	rounds := harness.Number(t, "HENCE_IT_APPROVAL_KILLS", 1)
	ports, err := harness.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	sink := &offers{tried: make(chan int, 1), keys: map[int]map[string]int{},
		late: func(n int) bool { return n%4 == 3 }}
	server := httptest.NewServer(sink)
	defer server.Close()
	dir := t.TempDir()
	files := map[string]string{"policy.yaml": strings.ReplaceAll(approvalPolicy, "SINK", server.Listener.Addr().String()),
		"approvers.yaml": "- name: ann\n  token: " + approverToken + "\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := &busLab{Deployment: harness.Over(t, harness.StartOwn(t)), tb: t}
	l.member = l.StartMember(t, harness.Binary(t), "a", l.Workspace)
	at := fmt.Sprint("127.0.0.1:", ports[0])
	l.args = []string{"sidecar", "--agent", "office", "--workspace", l.Workspace, "--listen", at,
		"--brokers", strings.Join(l.Brokers, ","), "--nats", l.NATS, "--token", crashToken, "--output", "json",
		"--data-dir", filepath.Join(dir, "journal"), "--policy", filepath.Join(dir, "policy.yaml"),
		"--approvers", filepath.Join(dir, "approvers.yaml")}
	l.startSidecar()
	l.url = "http://" + at
	ann := client.New(l.url, approverToken, client.WithWorkspace(l.Workspace))
	for round := range rounds {
		approvalRound(t, l, sink, ann, round)
	}
}

// offer makes a call that waits for approval, and returns its transaction.
func (l *busLab) offer(n int) string {
	l.tb.Helper()
	body := fmt.Sprintf(`{"tool":"offer.send","args":{"n":%d}}`, n)
	req, err := http.NewRequestWithContext(l.tb.Context(), http.MethodPost, l.url+"/v1/effects?wait_ms=1000",
		strings.NewReader(body))
	if err != nil {
		l.tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+crashToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.tb.Fatal(err)
	}
	defer resp.Body.Close()
	var made api.Done
	err = json.NewDecoder(resp.Body).Decode(&made)
	if err != nil || resp.StatusCode != http.StatusAccepted || made.Decision.State != api.StateSealed {
		l.tb.Fatalf("offer %d: %s %+v %v", n, resp.Status, made, err)
	}
	return made.Tx
}

func approvalRound(t *testing.T, l *busLab, sink *offers, ann *client.Client, round int) {
	ctx := t.Context()
	harness.Eventually(t, crashServing, func() error { return harness.Readyz(ctx, l.url) }) // an offer waits a second
	sink.set(true)
	yes, no, silent, sent := 4*round, 4*round+1, 4*round+2, 4*round+3
	txs := map[int]string{}
	for n := yes; n <= sent; n++ {
		txs[n] = l.offer(n)
	}
	_ = l.member.Kill() // the fold, while all of them wait
	_, _, _ = l.member.Wait(crashServing)
	l.member.Restart(t)
	harness.Eventually(t, crashBound, func() error {
		list, err := ann.Effects(ctx, client.Page{})
		if err == nil && len(list.Items) != len(txs) {
			err = fmt.Errorf("%d calls wait for approval, want %d", len(list.Items), len(txs))
		}
		return err
	})
	if d, err := ann.Approve(ctx, txs[no], 0, false, ""); err != nil || d.Code != "denied" {
		t.Fatalf("round %d: denied: %+v, %v", round, d, err)
	}
	approved := map[int]bool{yes: true, sent: true}
	for n := range approved {
		if d, err := ann.Approve(ctx, txs[n], 0, true, ""); err != nil || d.State != api.StateCommitted {
			t.Fatalf("round %d: approved: %+v, %v", round, d, err)
		}
	}
	for begun := maps.Clone(approved); len(begun) > 0 && ctx.Err() == nil; {
		select {
		case n := <-sink.tried: // its release has begun
			delete(begun, n)
		case <-ctx.Done():
		}
	}
	l.kill(round%2 == 0)
	sink.set(false)
	harness.Eventually(t, crashBound, func() error {
		for n := range approved {
			if times := sink.sent(n); times != 1 {
				return fmt.Errorf("round %d: the approved offer %d is there %d times", round, n, times)
			}
			d, err := ann.Explain(ctx, txs[n])
			if err == nil && !d.Decision.Final {
				err = fmt.Errorf("round %d: %s is not settled: %s", round, txs[n], d.Paragraph)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if d, err := ann.Approve(ctx, txs[silent], 0, true, ""); err == nil {
		t.Errorf("round %d: approved after its sidecar had died: %+v", round, d)
	}
	list, err := ann.Effects(ctx, client.Page{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("round %d: still waiting: %+v, %v", round, list.Items, err)
	}
	if sink.sent(yes) != 1 || sink.sent(sent) != 1 || sink.sent(no)+sink.sent(silent) > 0 {
		t.Errorf("round %d: offers sent: approved %d and %d, denied %d, of a dead sidecar %d", round, sink.sent(yes),
			sink.sent(sent), sink.sent(no), sink.sent(silent))
	}
}
