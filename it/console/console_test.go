package console

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/console"
)

const consoleToken = "secret-of-the-test"

// openConsole serves a console until the test ends.
func openConsole(t *testing.T, c console.Config) (*console.Console, string) {
	t.Helper()
	page, err := console.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- page.Run(ctx) }()
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		cancel()
		<-ended
		server.CloseClientConnections()
		server.Close()
	})
	return page, server.URL
}

// stage is a workspace in which everything that the console shows can be seen.
type stage struct {
	d       *harness.Deployment
	agents  []*harness.Sidecar
	waiting string // a transaction that waits for another
	held    string // one with held calls
	left    string // one of which something could not be made clean
	refused string // one that was aborted
	chain   string // one that rests on others, which rest on others
}

// setStage makes one transaction of each kind, and some traffic before.
func setStage(t *testing.T) *stage {
	t.Helper()
	d, shop := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t)
	shop.MaxTime, shop.Attempts = time.Second, 1
	st := &stage{d: d, agents: shop.Sidecars(t, d, 4)}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	plan := traffic.Plan{Transactions: 20, Scopes: 12, Reads: 3, Writes: 1, Think: 2 * time.Millisecond, Seed: 7,
		Modes: []string{"optimistic", "ordered", "optimistic", "locked"}}
	if err := traffic.Run(ctx, st.agents, plan, traffic.NewRecorder()); err != nil {
		t.Fatal(err)
	}
	st.refused, st.chain = st.refuse(t, ctx), st.link(t, ctx)
	st.left = st.leave(t, ctx)
	st.hold(t, ctx)
	return st
}

// refuse makes a transaction rest on something that moves.
func (st *stage) refuse(t *testing.T, ctx context.Context) string {
	t.Helper()
	tx := begin(t, ctx, st.agents[0], "")
	if _, err := tx.Read(ctx, traffic.ScopeName(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := st.agents[1].Client.Put(ctx, traffic.ScopeName(1), []byte("moved"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Write(ctx, traffic.ScopeName(2), []byte("late"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	d, err := tx.Seal(ctx)
	var p *client.Problem
	if d.State != "aborted" && !errors.As(err, &p) {
		t.Fatalf("a stale transaction is %s: %v", d.State, err)
	}
	return tx.ID()
}

// link makes transactions that read what others wrote, and returns the last one.
func (st *stage) link(t *testing.T, ctx context.Context) (last string) {
	t.Helper()
	for i := range 8 {
		for last = ""; last == ""; { // a view that has not seen the one before yet: the transaction is refused
			last = st.order(t, ctx, i)
		}
	}
	return last
}

// order writes an order that rests on a few before; empty: it was refused.
func (st *stage) order(t *testing.T, ctx context.Context, i int) string {
	t.Helper()
	name := func(i int) string { return fmt.Sprintf("shard:/orders/%d", i) }
	tx := begin(t, ctx, st.agents[i%len(st.agents)], "")
	for _, from := range []int{i - 1, i - 2, i / 2} {
		if from < 0 || from >= i {
			continue
		}
		if _, err := tx.Read(ctx, name(from)); err != nil {
			t.Fatal(err)
		}
	}
	err := tx.Write(ctx, name(i), []byte("ordered"), client.WriteOptions{})
	if err == nil {
		var d client.Decision
		if d, err = tx.Seal(ctx); err == nil && d.State == "committed" {
			return tx.ID()
		}
	}
	var p *client.Problem
	if ctx.Err() != nil || err != nil && !errors.As(err, &p) {
		t.Fatalf("order %d: %v", i, err)
	}
	return ""
}

// leave commits calls, one of which is never answered.
func (st *stage) leave(t *testing.T, ctx context.Context) string {
	t.Helper()
	tx := begin(t, ctx, st.agents[1], "")
	effect(t, ctx, tx, "note.post", map[string]any{"task": "t1"})
	effect(t, ctx, tx, "row.fail", map[string]any{"task": "t1"})
	if d, err := tx.Seal(ctx); err == nil && d.State == "aborted" {
		t.Logf("the transaction with the call that fails is aborted: %s", d.Code)
	}
	return tx.ID()
}

// hold leaves a transaction open that holds calls and a scope, and another that waits for that scope.
func (st *stage) hold(t *testing.T, ctx context.Context) {
	t.Helper()
	tx := begin(t, ctx, st.agents[2], "ordered")
	effect(t, ctx, tx, "card.charge", map[string]any{"task": "t2", "customer": "mia"})
	effect(t, ctx, tx, "mail.send", map[string]any{"task": "t2", "customer": "mia"})
	want := []client.Want{{Scope: "door:/front", Access: "write"}}
	if _, err := tx.Touch(ctx, want, client.TouchOptions{}); err != nil {
		t.Fatal(err)
	}
	st.held = tx.ID()
	second := begin(t, ctx, st.agents[3], "ordered")
	wait := 300 * time.Millisecond
	if _, err := second.Touch(ctx, want, client.TouchOptions{Wait: &wait}); err != nil {
		t.Logf("the second touch: %v", err)
	}
	st.waiting = second.ID()
}

func begin(t *testing.T, ctx context.Context, s *harness.Sidecar, mode string) *client.Tx {
	t.Helper()
	tx, err := s.Client.Begin(ctx, client.BeginOptions{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func effect(t *testing.T, ctx context.Context, tx *client.Tx, tool string, args any) {
	t.Helper()
	if _, err := tx.Effect(ctx, tool, args, client.EffectOptions{}); err != nil {
		t.Logf("%s: %v", tool, err)
	}
}

// TestConsole walks every view of the console of a real workspace in a browser.
func TestConsole(t *testing.T) {
	chromium(t)
	st := setStage(t)
	page, base := openConsole(t, console.Config{Source: st.d.Dial(t), Workspace: st.d.Workspace, Token: consoleToken,
		Actions: st.agents[0].Client, Version: "test", Logger: harness.Logger(t)})
	b := openBrowser(t, base)
	b.do("log in by the printed link", chromedp.Navigate(base+"/"+page.LoginFragment()))
	b.until("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	worked := make(chan error, 1)
	go func() {
		plan := traffic.Plan{Transactions: 400, Scopes: 12, Reads: 3, Writes: 1, Think: 20 * time.Millisecond, Seed: 8,
			Modes: []string{"optimistic"}}
		worked <- traffic.Run(ctx, st.agents[:2], plan, traffic.NewRecorder())
	}()
	defer func() { cancel(); <-worked }()
	b.until("some seconds of figures", `parseFloat(document.querySelector(".tile .value").textContent) > 0`)
	b.scheme("dark")
	walk(b, st, "dark")
	byKeyboard(b, st)
	operate(b, st)
	carry(b, st)
	b.holds()
}

// walk looks at every view and takes pictures.
func walk(b *browser, st *stage, scheme string) {
	b.t.Helper()
	for _, v := range []struct{ name, hash, heading, shows string }{
		{"overview", "#/", "Overview", `document.querySelectorAll("tbody tr[aria-rowindex]").length > 5`},
		{"decisions", "#/decisions", "Decisions", `document.querySelectorAll("tbody tr[aria-rowindex]").length > 10`},
		{"live", "#/live", "Live transactions", fmt.Sprintf(`document.body.innerText.includes(%q)`, st.waiting)},
		{"gate", "#/gate", "Gate", `document.body.innerText.includes("mail.send")`},
		{"residue", "#/residue", "Residue", `document.querySelector(".residue, .empty")`},
		{"lanes", "#/lanes", "Lanes", `document.querySelector(".lane-bar")`},
		{"agents", "#/agents", "Agents", `document.body.innerText.includes("agent-4")`},
		{"scopes", "#/scopes", "Scopes", `document.body.innerText.includes("shard:/counters")`},
		{"tx-refused", "#/tx/" + st.refused, st.refused, `document.body.innerText.includes("stale_read")`},
		{"tx-waiting", "#/tx/" + st.waiting, st.waiting, `document.body.innerText.includes("waits for")`},
		{"tx-held", "#/tx/" + st.held, st.held, `document.body.innerText.includes("card.charge")`},
		{"tx-left", "#/tx/" + st.left, st.left, `document.querySelector(".timeline li")`},
		{"tx-graph", "#/tx/" + st.chain, st.chain, `document.querySelectorAll("svg.graph .node").length > 3`},
		{"file", "#/file", "Open a file", `document.querySelector(".drop")`},
	} {
		b.visit(v.hash, v.heading)
		b.until(v.name, v.shows)
		b.shot(scheme + "-" + v.name)
	}
}
