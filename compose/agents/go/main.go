// Command agent sells from a stock that it shares with others, through its Hence sidecar. Copy it: outside of the
// standard library it needs the package sidecar/client only.
//
// Each round it reads what is left of an item, thinks, and then acts in one transaction: one piece less in the stock,
// an order, a label for the parcel, a charge, and a mail. The label is written at once and put back if the transaction
// is refused; charge and mail are held and leave only once it is committed. When another agent was faster, the sidecar
// says so, and the round is tried again on what is there now.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
)

const (
	mark     = "/tmp/committed" // touched at each commit, for --check
	delivery = 20               // pieces
	shelves  = 50
	tries    = 8
)

// item is one row of the catalogue.
type item struct {
	name  string
	cents int
}

// order is one round's work.
type order struct {
	id, shelf string
	item      item
}

func catalogue() []item { return []item{{"mug", 1200}, {"lamp", 4900}, {"chair", 8900}} }

// agent is one seller.
type agent struct {
	name  string
	think time.Duration // on average
	hence *client.Client
	shown string // the token that hence shows
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	think, err := strconv.ParseFloat(env("THINK_SECONDS", "2"), 64)
	if err != nil {
		return fmt.Errorf("read THINK_SECONDS: %w", err)
	}
	a := &agent{name: env("AGENT", "agent-1"), think: time.Duration(think * float64(time.Second))}
	if len(args) == 1 && args[0] == "--check" {
		return a.check()
	}
	started := strconv.FormatInt(time.Now().Unix(), 16)
	for n := 1; ctx.Err() == nil; n++ {
		if err := a.connect(ctx); err != nil {
			return err
		}
		err := a.round(ctx, n, started)
		if err != nil && ctx.Err() == nil { // for example session_lost: the sidecar was killed, what was open is aborted
			fmt.Printf("%s: round %d: begun again: %v\n", a.name, n, err)
			a.pause(ctx, time.Second/2+rand.N(time.Second))
		}
	}
	return ctx.Err()
}

// connect makes a client with the token as it is now: a pod that lost its volume has another one.
func (a *agent) connect(ctx context.Context) error {
	token, err := a.token(ctx, env("HENCE_TOKEN_FILE", "/run/hence/token"))
	if err != nil || token == a.shown {
		return err
	}
	if a.hence != nil {
		a.hence.Close()
	}
	a.shown, a.hence = token, client.New(env("HENCE_URL", "http://127.0.0.1:7420"), token,
		client.WithWorkspace(env("WORKSPACE", "default")), client.WithTries(tries))
	return nil
}

// round tries until the work is committed, or the sidecar says to give it back.
func (a *agent) round(ctx context.Context, n int, started string) error {
	o := order{id: fmt.Sprintf("%s-%s-%d", a.name, started, n), shelf: fmt.Sprintf("%s-%d", a.name, n%shelves),
		item: catalogue()[rand.N(len(catalogue()))]}
	start := time.Now()
	tx, err := a.hence.Begin(ctx, client.BeginOptions{})
	for {
		if err != nil {
			return err
		}
		decision, done, err := a.attempt(ctx, tx, o)
		if err != nil {
			return err
		}
		try, took := max(1, decision.Attempt), time.Since(start).Seconds()
		if decision.State == "committed" {
			fmt.Printf("%s: round %d: %s; committed as %d at try %d, %.1f s\n", a.name, n, done, decision.Seq, try, took)
			return os.WriteFile(mark, nil, 0o600)
		}
		if decision.GiveUp || !decision.Retryable {
			fmt.Printf("%s: round %d: given back after try %d, %.1f s: %s %s\n", a.name, n, try, took, decision.Code,
				decision.Scope)
			return nil
		}
		a.pause(ctx, time.Duration(cmp.Or(decision.BackoffMs, 100))*time.Millisecond)
		tx, err = tx.Retry(ctx)
		if err != nil {
			return err
		}
	}
}

// attempt goes to the decision. What is refused before the seal is a decision, too.
func (a *agent) attempt(ctx context.Context, tx *client.Tx, o order) (client.Decision, string, error) {
	done, err := a.sell(ctx, tx, o)
	var p *client.Problem
	if errors.As(err, &p) && p.Decision != nil && p.Decision.State == "aborted" {
		return *p.Decision, "", nil
	}
	if err != nil {
		a.abort(ctx, tx)
		return client.Decision{}, "", err
	}
	decision, err := a.seal(ctx, tx)
	return decision, done, err
}

// seal goes to the decision. Until that is known the transaction may commit, and nothing is begun before.
func (a *agent) seal(ctx context.Context, tx *client.Tx) (client.Decision, error) {
	decision, cause := tx.Seal(ctx)
	err := cause
	for asked := false; err != nil; asked = true {
		var p *client.Problem
		over := asked && errors.As(err, &p) && (p.Status == 403 || p.Status == 404 || p.Status == 410)
		if over || ctx.Err() != nil { // what is sealed is decided without us
			return decision, err
		}
		if !asked {
			fmt.Printf("%s: waiting to be told how %s ended: %v\n", a.name, tx.ID(), err)
		}
		a.pause(ctx, time.Second)
		if err = a.connect(ctx); err == nil {
			decision, err = a.hence.Tx(tx.ID()).Ended(ctx)
		}
	}
	if decision.State == "open" {
		a.abort(ctx, tx)
		return decision, errors.Join(fmt.Errorf("the seal of %s was not accepted", tx.ID()), cause)
	}
	return decision, nil
}

// abort ends a transaction that goes nowhere, so that no other one waits for it until its deadline.
func (a *agent) abort(ctx context.Context, tx *client.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = tx.Abort(ctx, "the agent gave it up") // where that fails it is over, or its deadline ends it
}

// sell reads, thinks and acts, and returns what was sold, as a sentence.
func (a *agent) sell(ctx context.Context, tx *client.Tx, o order) (string, error) {
	shard, err := tx.Read(ctx, "shard:/stock/"+o.item.name)
	if err != nil {
		return "", err
	}
	left, word := 0, "sold"
	if shard.Exists {
		if err := json.Unmarshal(shard.Content, &left); err != nil {
			return "", fmt.Errorf("read the stock of %s: %w", o.item.name, err)
		}
	}
	a.pause(ctx, rand.N(2*a.think+1)) // where a model would think about the numbers
	if left == 0 {
		left, word = delivery, "restocked and sold"
	}
	if err := a.act(ctx, tx, o, left-1); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s one %s, %d left", word, o.item.name, left-1), nil
}

func (a *agent) act(ctx context.Context, tx *client.Tx, o order, left int) error {
	for scope, value := range map[string]any{
		"shard:/stock/" + o.item.name: left,
		"shard:/orders/" + o.shelf:    map[string]any{"order": o.id, "item": o.item.name, "cents": o.item.cents},
	} {
		content, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write %s as JSON: %w", scope, err)
		}
		if err := tx.Write(ctx, scope, content, client.WriteOptions{MediaType: "application/json"}); err != nil {
			return err
		}
	}
	for _, call := range []struct {
		tool string
		args map[string]any
	}{
		{"label.write", map[string]any{"shelf": o.shelf, "text": o.id + ": one " + o.item.name}},
		{"payment.charge", map[string]any{"order_id": o.id, "cents": o.item.cents}},
		{"mail.send", map[string]any{"order_id": o.id, "to": "bob@example.com",
			"text": "Your " + o.item.name + " is on its way."}},
	} {
		receipt, err := tx.Effect(ctx, call.tool, call.args, client.EffectOptions{})
		if err != nil {
			return err
		}
		if receipt.State == "failed" { // the tool refused it, and nothing happened
			return fmt.Errorf("%s: %s", call.tool, receipt.Detail)
		}
	}
	return nil
}

// token waits for the file that the sidecar makes at its first start.
func (a *agent) token(ctx context.Context, path string) (string, error) {
	for said := false; ; said = true {
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			return strings.TrimSpace(string(text)), nil
		}
		if !said {
			fmt.Printf("%s: waiting for the sidecar's token: %v\n", a.name, err)
		}
		if a.pause(ctx, time.Second/2); ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

// pause returns after d, or earlier when ctx ends.
func (a *agent) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// check is for the container's health: was anything committed in the last minutes?
func (a *agent) check() error {
	info, err := os.Stat(mark)
	if err != nil {
		return fmt.Errorf("nothing was committed yet: %w", err)
	}
	if age := time.Since(info.ModTime()); age > time.Minute+20*a.think {
		return fmt.Errorf("the last commit is %v ago", age)
	}
	return nil
}

func env(name, otherwise string) string { return cmp.Or(os.Getenv(name), otherwise) }
