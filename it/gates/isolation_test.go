package gates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// orderAt is where the parts of an order are kept: shards, or files that tools read and write.
type orderAt interface {
	read(ctx context.Context, tx *client.Tx, part string) (content string, err error)
	write(ctx context.Context, tx *client.Tx, part, content string) error
}

// parts of the order. One that cancels it writes its status after reading both, one that moves it the address.
const (
	status  = "orders/o/status"
	address = "orders/o/address"
)

// nothing is what the parts hold at first.
const nothing = "nothing yet"

type inShards struct{}

func (inShards) read(ctx context.Context, tx *client.Tx, part string) (string, error) {
	shard, err := tx.Read(ctx, "shard:/"+part)
	if !shard.Exists {
		return nothing, err
	}
	return string(shard.Content), err
}

func (inShards) write(ctx context.Context, tx *client.Tx, part, content string) error {
	return tx.Write(ctx, "shard:/"+part, []byte(content), client.WriteOptions{})
}

type inFiles struct{ errands *harness.Errands }

func (p inFiles) read(ctx context.Context, tx *client.Tx, part string) (string, error) {
	r, err := tx.Effect(ctx, "file.read", map[string]string{"path": part}, client.EffectOptions{})
	if err != nil {
		return "", err
	}
	var out struct{ Content string }
	if r.State != api.EffectDone {
		return "", fmt.Errorf("%s reads %s: it is %s %s", tx.ID(), part, r.State, r.Detail)
	}
	err = json.Unmarshal(r.Result, &out)
	return out.Content, err
}

func (p inFiles) write(ctx context.Context, tx *client.Tx, part, content string) error {
	r, err := p.errands.Call(ctx, tx, "file.write", map[string]string{"path": part, "content": content})
	switch {
	case err != nil || r.State == api.EffectDone:
		return err
	case r.State == api.EffectUndoing || r.State == api.EffectUndone:
		return errOvertaken
	}
	return fmt.Errorf("%s writes %s: it is %s %s", tx.ID(), part, r.State, r.Detail)
}

// errOvertaken says that a transaction was aborted while a call of it ran.
var errOvertaken = errors.New("its transaction was aborted meanwhile")

// seen is what one attempt read, by part.
type seen struct {
	mu    sync.Mutex
	reads map[string]map[string]string // transaction, part
}

func (s *seen) note(tx, part, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[tx] == nil {
		s.reads[tx] = map[string]string{}
	}
	s.reads[tx][part] = content
}

// turn makes one attempt: it reads both parts and writes one.
func turn(ctx context.Context, tx *client.Tx, at orderAt, read *seen, cancels bool) error {
	first, second := status, address
	if cancels {
		first, second = address, status
	}
	for _, part := range []string{first, second} {
		content, err := at.read(ctx, tx, part)
		if err != nil {
			return err
		}
		read.note(tx.ID(), part, content)
	}
	if err := pause.Sleep(ctx, time.Millisecond); err != nil {
		return err
	}
	return at.write(ctx, tx, second, tx.ID())
}

// persist repeats a task until one attempt of it is committed, and says how many were refused before.
func persist(ctx context.Context, e *harness.Errands, tx *client.Tx, try func(*client.Tx) error,
) (refused int, err error) {
	for {
		why := try(tx)
		if why == nil {
			_, why = tx.Seal(ctx)
		}
		d, err := tx.Status(ctx, 0)
		if err == nil && why != nil {
			if harness.ProblemCode(why) == "" && !errors.Is(why, errOvertaken) {
				return refused, why
			}
			if d.State == api.StateOpen { // refused was the call only
				err = tx.Abort(ctx, "a call was refused")
			}
		}
		if err == nil {
			d, err = e.Over(ctx, tx)
		}
		if err != nil || d.State == api.StateCommitted {
			return refused, err
		}
		if refused++; d.GiveUp || refused > 200 {
			return refused, fmt.Errorf("%s was refused for the %d. time: %s %s", tx.ID(), refused, d.Code, d.Detail)
		}
		if err := pause.Sleep(ctx, time.Duration(d.BackoffMs)*time.Millisecond); err != nil {
			return refused, err
		}
		if tx, err = tx.Retry(ctx); err != nil {
			return refused, err
		}
	}
}

// TestIsolation lets agents cancel one order and change its address at the same time: what they commit can be put in
// one order.
func TestIsolation(t *testing.T) {
	harness.Whole(t)
	servers := harness.Start(t)
	for _, agents := range harness.Numbers(t, "HENCE_IT_ISOLATION_AGENTS", []int{4, 8}[:harness.Sample(2)]...) {
		for _, mode := range harness.Orders() {
			for _, where := range []string{"shards", "tools"} {
				t.Run(fmt.Sprintf("%d_agents/%s/%s", agents, mode, where), func(t *testing.T) {
					if n := isolated(t, servers, agents, where, client.BeginOptions{Mode: mode}); n > 0 {
						t.Errorf("%d conflict cycles", n)
					}
				})
			}
		}
	}
}

// TestIsolationSeesCycles lets the same agents work under observation, where nothing is refused: then there are
// cycles.
func TestIsolationSeesCycles(t *testing.T) {
	if n := isolated(t, harness.Start(t), 8, "shards", client.BeginOptions{Observe: true}); n == 0 {
		t.Error("no conflict cycle is found although nothing was refused")
	}
}

func isolated(t *testing.T, servers *harness.Servers, agents int, where string, o client.BeginOptions) (cycles int) {
	t.Helper()
	tasks := harness.Number(t, "HENCE_IT_ISOLATION_TASKS", harness.OnReal(5, 3))
	d, shop, e := harness.Deploy(t, servers), harness.OpenShop(t), harness.NewErrands()
	read := &seen{reads: map[string]map[string]string{}}
	var at orderAt = inShards{}
	if where == "tools" {
		at = inFiles{e}
		for _, part := range []string{status, address} {
			path := filepath.Join(shop.Root, part)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(nothing), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	sidecars := shop.Sidecars(t, d, agents)
	refused, mu := 0, sync.Mutex{}
	harness.Share(t, agents, agents*tasks, func(ctx context.Context, worker, job int) error {
		tx, err := sidecars[worker].Client.Begin(ctx, o)
		if err != nil {
			return err
		}
		n, err := persist(ctx, e, tx, func(tx *client.Tx) error { return turn(ctx, tx, at, read, worker%2 == 0) })
		mu.Lock()
		defer mu.Unlock()
		refused += n
		return err
	})
	for _, s := range sidecars {
		s.Stop() // what still waits to be published is published
	}
	h := consumed(t, d, e, read)
	harness.NoViolations(t, h.Contiguous())
	harness.NoViolations(t, h.LostAcknowledged())
	harness.NoViolations(t, h.Unfounded())
	found := h.Cycles()
	t.Logf("%d committed, %d refused, %d conflict cycles", agents*tasks, refused, len(found))
	if !o.Observe {
		harness.NoViolations(t, h.Overtaken())
		harness.NoViolations(t, found)
	}
	if where == "tools" {
		lastStand(t, shop, h)
	}
	return len(found)
}

// consumed is the history as hence.decisions and hence.events have it. What a tool answered is not in the topic: whose
// value it was is told by its content, as the agent recorded it.
func consumed(t *testing.T, d *harness.Deployment, e *harness.Errands, read *seen) *check.History {
	t.Helper()
	h := &check.History{}
	for tx, end := range e.Ends {
		h.Attempts = append(h.Attempts, check.Attempt{Tx: tx, State: check.State(end.State), Seq: end.Seq})
	}
	h.Decisions = harness.Checked(harness.DecisionsOf(t, d.Servers, d.Workspace, h.Attempts))
	commits := map[string]uint64{nothing: 0}
	for _, one := range h.Decisions {
		if one.Kind == string(check.Committed) {
			commits[one.Tx] = one.Seq
		}
	}
	byTx := map[string]*check.Attempt{}
	for i := range h.Attempts {
		byTx[h.Attempts[i].Tx] = &h.Attempts[i]
	}
	copies := map[string]bool{}
	for _, ev := range harness.ReadEvents(t, d.Brokers, d.Workspace) {
		id := fmt.Sprintf("%s/%d/%d", ev.Agent, ev.Incarnation, ev.Index)
		a := byTx[string(ev.Tx)]
		if copies[id] || a == nil {
			continue
		}
		copies[id] = true
		switch ev.Kind {
		case topology.EventRead:
			one := check.Read{Scope: string(ev.Scope), Version: uint64(ev.Version), View: uint64(ev.View)}
			if content, ok := read.of(a.Tx, ev.Scope); ok {
				if one.Version, ok = commits[content]; !ok {
					one.Version = 1 << 62 // a value that was taken back: no transaction may commit on it
				}
				one.View = max(one.View, one.Version)
			}
			a.Reads = append(a.Reads, one)
		case topology.EventWrite:
			a.Writes = append(a.Writes, check.Write{Scope: string(ev.Scope)})
		case topology.EventEffect:
			for _, scope := range ev.Effect.Scopes {
				a.Writes = append(a.Writes, check.Write{Scope: string(scope)})
			}
		}
	}
	for tx := range commits {
		if a := byTx[tx]; a != nil && (len(a.Reads) != 2 || len(a.Writes) != 1) {
			t.Errorf("hence.events has %d reads and %d writes of %s: want 2 and 1", len(a.Reads), len(a.Writes), tx)
		}
	}
	return h
}

// of is what a transaction's tool read at a scope of files.
func (s *seen) of(tx string, scope sequencer.Scope) (string, bool) {
	for _, part := range []string{status, address} {
		if canonicalOf("file:/"+part) == string(scope) {
			content, ok := s.reads[tx][part]
			return content, ok
		}
	}
	return "", false
}

func canonicalOf(text string) string {
	scope, err := sequencer.ParseScope(text)
	if err != nil {
		panic(err)
	}
	return string(scope)
}

// lastStand holds that each file has what its last committed writer wrote.
func lastStand(t *testing.T, shop *harness.Shop, h *check.History) {
	t.Helper()
	seqs := map[string]uint64{}
	for _, d := range h.Decisions {
		if d.Kind == string(check.Committed) {
			seqs[d.Tx] = d.Seq
		}
	}
	for _, part := range []string{status, address} {
		last, by := uint64(0), nothing
		for _, a := range h.Attempts {
			for _, w := range a.Writes {
				if seq := seqs[a.Tx]; w.Scope == canonicalOf("file:/"+part) && seq > last {
					last, by = seq, a.Tx
				}
			}
		}
		if got := shop.File(t, part); got != by {
			t.Errorf("%s holds what %q wrote, its last committed writer is %q", part, got, by)
		}
	}
}
