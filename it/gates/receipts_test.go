package gates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// receiptTools declares tools by name, by a glob, of a service that is down, and one without an adapter.
const receiptTools = `version: 1
server: receipts
defaults: {max_time_ms: 3000, retry: {attempts: 4, backoff_ms: 20, backoff_most_ms: 60}}
hosts: ["UP", "DOWN"]
tools:
  - {tool: card.charge, class: irreversible, args: [n], scopes: ["card:/{n}"], key: "charge/{n}",
     http: {method: POST, url: "http://UP/charge"}}
  - {tool: "note.*", class: bufferable, args: [n], scopes: ["note:/{n}"], key: "note/{n}",
     http: {method: POST, url: "http://UP/note"}}
  - {tool: parcel.send, class: irreversible, args: [n], scopes: ["parcel:/{n}"], key: "parcel/{n}",
     http: {method: POST, url: "http://DOWN/parcel"}}
  - {tool: page.print, class: irreversible, args: [n], scopes: ["page:/{n}"]}
`

// callsEach is how many calls a transaction of TestReceipts makes; one of them is of a name that nothing serves.
const callsEach = 10

// unserved are such names, with what their refusal says.
var unserved = [][2]string{
	{"card.chrage", "write card.charge"}, {"weather.get", "which serves card.charge, note.*, parcel.send, page.print"},
	{"page.print", "declares no adapter"}, {"notes.add", "no declaration serves this name"},
}

// receipt is one call of TestReceipts and what became of it, by each that says so.
type receipt struct {
	n     int
	tool  string
	tx    string
	index uint32
	state string // of the API
	event gate.Step
	left  string // of the list of residues
}

// receipts is a run of TestReceipts.
type receipts struct {
	down     string // the address of the service that is down
	up       sync.Once
	serve    *http.Server
	mu       sync.Mutex
	arrived  map[int]int // by n: what the sinks have, by their own log
	accepted []*receipt
	refused  int
}

// ServeHTTP is the sinks: they write down what arrives.
func (r *receipts) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var in struct{ N int }
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived[in.N]++
	fmt.Fprint(w, "{}")
}

// listen serves the sinks at an address until the test ends.
func (r *receipts) listen(tb testing.TB, at string) string {
	tb.Helper()
	l, err := net.Listen("tcp", at)
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); l, err = net.Listen("tcp", at) {
		runtime.Gosched() // a connection may have been given the port for a moment
	}
	if err != nil {
		tb.Error(err)
		return at
	}
	go func() { _ = r.serve.Serve(l) }() // it ends with the test
	return l.Addr().String()
}

// toolOf is the tool of a call: most are of services that run.
func toolOf(round, i int) string {
	switch {
	case i == round%callsEach:
		return unserved[round%len(unserved)][0]
	case round%3 != 1 && i%3 == 2:
		return "parcel.send"
	case i%2 == 0:
		return "card.charge"
	}
	return "note.add"
}

// TestReceipts makes HENCE_IT_RECEIPTS calls, one in ten of a name that nothing serves. Exactly those are refused. All
// others get a receipt, and end released or not_sent: by the API, by the events and by the list of residues, call by
// call as the sinks' own log has it. The service of some is down at first, and comes back.
func TestReceipts(t *testing.T) {
	const agents, workers = 2, 8
	rounds := max(1, harness.Number(t, "HENCE_IT_RECEIPTS", 300)/callsEach)
	r := &receipts{arrived: map[int]int{}}
	r.serve = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = r.serve.Close() })
	up := r.listen(t, "127.0.0.1:0")
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.down = reserved.Addr().String()
	if err := reserved.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("UP", up, "DOWN", r.down).Replace(receiptTools)
	tools, err := policy.Load([]byte(text), policy.Options{File: "receipts.yaml", Build: adapters.Build})
	if err != nil {
		t.Fatal(err)
	}
	d := harness.Deploy(t, harness.Start(t))
	sidecars := d.SidecarsWith(t, agents, sidecar.Config{Tools: tools})
	began := time.Now()
	var done atomic.Int64
	harness.Share(t, workers, rounds, func(ctx context.Context, worker, round int) error {
		if done.Add(1) > int64(rounds)/2 {
			r.up.Do(func() { r.listen(t, r.down) })
		}
		return r.round(ctx, sidecars[worker%agents].Client, round)
	})
	took := time.Since(began)
	r.learn(t, d)
	r.judge(t, rounds, took)
}

// round is one transaction: its calls, its commit, and how they stand once it is settled.
func (r *receipts) round(ctx context.Context, c *client.Client, round int) error {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	var mine []*receipt
	for i := range callsEach {
		n, tool := round*callsEach+i, toolOf(round, i)
		got, err := tx.Effect(ctx, tool, map[string]int{"n": n}, client.EffectOptions{})
		if i == round%callsEach {
			var p *client.Problem
			want := unserved[round%len(unserved)][1]
			if !errors.As(err, &p) || p.Status != 422 || p.Code != "tool_unusable" || !strings.Contains(p.Detail, want) {
				return fmt.Errorf("call %d of %s: %+v, %v; want it refused, saying %q", n, tool, got, err, want)
			}
			r.mu.Lock()
			r.refused++
			r.mu.Unlock()
			continue
		}
		if err != nil {
			return fmt.Errorf("call %d of %s: %w", n, tool, err)
		}
		if got.State != api.EffectHeld && got.State != api.EffectStaged || got.Index == nil {
			return fmt.Errorf("call %d of %s has the receipt %+v", n, tool, got)
		}
		mine = append(mine, &receipt{n: n, tool: tool, tx: tx.ID(), index: *got.Index})
	}
	if _, err := tx.Seal(ctx); err != nil {
		return err
	}
	list, err := settled(ctx, tx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if int(*e.Index) < len(mine) {
			mine[*e.Index].state = e.State
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, mine...)
	return nil
}

// settled are a transaction's calls once nothing of it is tried any more. Until then none is said to be through that
// may still leave.
func settled(ctx context.Context, tx *client.Tx) ([]api.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		now, err := tx.Effects(ctx)
		if err != nil || now.Final {
			return now.Effects, err
		}
		for _, e := range now.Effects {
			if e.State != api.EffectReleasing && e.State != api.EffectReleased {
				return nil, fmt.Errorf("call %d of %s is %s while it is being released", *e.Index, tx.ID(), e.State)
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-look.C:
		}
	}
}

// learn reads what the events and the list of residues say of each call.
func (r *receipts) learn(t *testing.T, d *harness.Deployment) {
	t.Helper()
	c := d.Dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute/2)
	defer cancel()
	type place struct {
		tx    sequencer.TxID
		index uint32
	}
	at := map[place]*receipt{}
	for _, one := range r.accepted {
		at[place{sequencer.TxID(one.tx), one.index}] = one
	}
	unheard := len(at)
	enough := errors.New("all are heard of")
	err := c.FollowEvents(ctx, d.Workspace, time.Hour, func(ev *topology.Event) error {
		if ev.Kind != topology.EventAnswer {
			return nil
		}
		one := at[place{ev.Tx, ev.Effect.Index}]
		last := gate.Step(ev.Effect.Step)
		if one == nil || last == gate.StepNotSent && ev.Effect.Detail == "" {
			return nil // of a try: another one follows
		}
		if one.event == 0 {
			unheard--
		}
		if one.event = last; unheard == 0 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("the events say nothing of %d calls: %v", unheard, err)
	}
	list, err := c.Residue(t.Context(), d.Workspace, len(at)+1)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if call := at[place{one.Tx, one.Index}]; call != nil {
			call.left = one.Call
		} else {
			t.Errorf("residue of a call that was not made: %+v", one)
		}
	}
}

// judge holds what was said of each call against the sinks' log.
func (r *receipts) judge(t *testing.T, rounds int, took time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	count, wrong, arrived := map[string]int{}, 0, 0
	for _, one := range r.accepted {
		count[one.tool+" "+one.state]++
		arrived += r.arrived[one.n]
		released := one.state == api.EffectReleased && one.event == gate.StepAnswered && one.left == ""
		unsent := one.state == api.EffectNotSent && one.event == gate.StepNotSent && one.left == api.EffectNotSent
		if !(released && r.arrived[one.n] == 1 || unsent && r.arrived[one.n] == 0) {
			if wrong++; wrong <= 5 {
				t.Errorf("the sinks have call %d of %s %d times; it is %+v", one.n, one.tool, r.arrived[one.n], *one)
			}
		}
	}
	total := 0
	for _, n := range r.arrived {
		total += n
	}
	t.Logf("%d calls in %v: %d refused, %d accepted, %d wrong; %v", rounds*callsEach, took.Round(time.Millisecond),
		r.refused, len(r.accepted), wrong, count)
	if r.refused != rounds || len(r.accepted) != rounds*(callsEach-1) || wrong > 0 || total != arrived {
		t.Errorf("%d are refused, %d accepted, %d of those are said wrongly; %d arrived, %d of them of accepted calls",
			r.refused, len(r.accepted), wrong, total, arrived)
	}
	for _, want := range []string{"card.charge released", "note.add released", "parcel.send released",
		"parcel.send not_sent"} {
		if count[want] == 0 {
			t.Errorf("no %s: the run shows nothing", want)
		}
	}
}
