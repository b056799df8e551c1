package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// turnstile stands before a sink: while it is shut, a call breaks off before it arrives.
type turnstile struct {
	*httptest.Server
	open  atomic.Bool
	tried chan struct{}
}

func openTurnstile(tb testing.TB, sink string) *turnstile {
	tb.Helper()
	at, err := url.Parse(sink)
	if err != nil {
		tb.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(at)
	g := &turnstile{tried: make(chan struct{}, 1)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.open.Load() {
			behind.ServeHTTP(w, r)
			return
		}
		select {
		case g.tried <- struct{}{}:
		default:
		}
		panic(http.ErrAbortHandler)
	}))
	tb.Cleanup(g.Close)
	return g
}

// leftBehind are agents whose sidecars are processes that are killed and do not come back.
type leftBehind struct {
	*harness.Deployment
	shop   *harness.Shop
	gate   *turnstile
	log    *streams.Client
	policy string
	killed []*harness.Process
	txs    []string
}

// TestNobodyComes kills sidecars after a commit and lets none of their agents come back: within two lease times their
// keyed calls are at the sink and their un-keyed ones on the list, by a sidecar of another agent that nothing asks.
func TestNobodyComes(t *testing.T) {
	harness.Whole(t)
	const agents = 2
	lease := uint32(20)
	rounds := harness.Number(t, "HENCE_IT_NOBODY", 1)
	l := &leftBehind{Deployment: harness.Deploy(t, harness.Start(t)), shop: harness.OpenShop(t)}
	l.log = l.Dial(t)
	l.gate = openTurnstile(t, l.shop.Ledger.URL())
	l.shop.Address = strings.TrimPrefix(l.gate.URL, "http://")
	l.shop.MaxTime, l.shop.Attempts = time.Second, 100
	l.policy = filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(l.policy, []byte(l.shop.Policy(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	idle := l.SidecarWith(t, sidecar.Config{Agent: "idle", Tools: l.shop.Tools(t)})
	l.Sidecar(t, "without-policy")
	if _, err := idle.Client.SetRules(t.Context(), 0, client.RulesChange{LeaseTicks: &lease}); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		took, ticks := l.round(t, idle, round, agents)
		t.Logf("round %d: settled %v after the kill, %d ticks of the log; two lease times are %d", round,
			took.Round(time.Millisecond), ticks, 2*lease)
		if ticks > sequencer.Tick(2*lease) {
			t.Errorf("round %d: it took more than two lease times", round)
		}
	}
}

// round returns how long it took, also in the log's time, which passes slower where the machine has much to do.
func (l *leftBehind) round(t *testing.T, idle *harness.Sidecar, round, agents int) (time.Duration, sequencer.Tick) {
	t.Helper()
	l.gate.open.Store(false)
	l.killed, l.txs = nil, nil
	for i := range agents {
		l.commits(t, fmt.Sprintf("gone-%d-%d", round, i))
	}
	for _, p := range l.killed {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	died, from := time.Now(), l.time(t, idle)
	l.gate.open.Store(true)
	ctx, cancel := context.WithDeadline(t.Context(), died.Add(time.Minute))
	defer cancel()
	if err := l.shop.Ledger.WaitFor(ctx, (round+1)*agents); err != nil {
		t.Fatalf("the keyed calls are not at the sink: %v", err)
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for listed := 0; listed < agents; <-look.C {
		list, err := idle.Client.Residue(ctx, client.ResidueQuery{})
		if err != nil {
			t.Fatalf("%d of %d un-keyed calls are on the list: %v", listed, agents, err)
		}
		listed = 0
		for _, r := range list.Items {
			for _, tx := range l.txs {
				if r.Tx == tx && r.Tool == "mail.send" && r.Result == "unresolved" {
					listed++
				}
			}
		}
	}
	took, ticks := time.Since(died), l.time(t, idle)-from
	if n, twice := len(l.shop.Ledger.Entries()), l.shop.Ledger.Duplicates(); n != (round+1)*agents || twice > 0 {
		t.Errorf("round %d: %d charges, %d of them twice, want %d", round, n, twice, (round+1)*agents)
	}
	return took, ticks
}

// time is the log's, as a decision of now has it.
func (l *leftBehind) time(t *testing.T, by *harness.Sidecar) (now sequencer.Tick) {
	t.Helper()
	d, err := by.Client.Put(t.Context(), "shard:/now", nil, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	err = l.Follow(t.Context(), l.log, sequencer.Seq(d.Seq-1), func(o *sequencer.Outcome, _ streams.Way) error {
		now = o.Time
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return now
}

// commits starts an agent's sidecar and lets it commit a charge, which does not get through, and a mail behind it.
func (l *leftBehind) commits(t *testing.T, agent string) {
	t.Helper()
	p, line := harness.SpawnServing(t, crashServing, harness.Binary(t), "sidecar", "--agent", agent, "--workspace",
		l.Workspace, "--listen", "127.0.0.1:0", "--brokers", strings.Join(l.Brokers, ","), "--nats", l.NATS,
		"--data-dir", t.TempDir(), "--policy", l.policy, "--token", crashToken, "--output", "json")
	var ready struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	cl := clientOf(t, ready.Address, crashToken, l.Workspace)
	tx, err := cl.Begin(t.Context(), client.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"card.charge", "mail.send"} {
		args := harness.Task{Task: agent, Customer: agent}
		if _, err := tx.Effect(t.Context(), tool, args, client.EffectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := tx.Seal(t.Context())
	if err != nil || d.State != api.StateCommitted {
		t.Fatalf("%+v, %v", d, err)
	}
	select {
	case <-l.gate.tried:
	case <-t.Context().Done():
	}
	l.killed, l.txs = append(l.killed, p), append(l.txs, tx.ID())
}
