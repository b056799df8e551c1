package tables

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// The tools of a shop beside those of its data set.
const (
	toolConfirm = "confirm" // a confirmation to the customer, which cannot be taken back
	toolUndo    = "undo"    // puts back what a call found
	toolReserve = "reserve" // an order, for those who try and confirm
	toolFree    = "free"
)

// shop is the service that errands are run at: the tools of the retail data set over a ledger, which injects faults,
// heeds keys and keeps what was done. Each room is a shop of its own that begins as the data set does.
type shop struct {
	*sinks.Ledger
	domain  *retail.Domain
	initial retail.Memory

	mu      sync.Mutex
	rooms   map[string]retail.Memory // what differs from the start
	done    []*handled
	named   map[string]*handled // by key, and by the entry's number
	holders map[string]string
}

// handled is one call that the shop has done.
type handled struct {
	room, who, tool string
	step            int
	text            string
	refused         bool
	effect          bool // it changed a record, or told the customer
	undone          bool
	former          map[string][]byte // what it found where it wrote; nil: nothing was there
}

// reply is a call's answer.
type reply struct {
	Text    string `json:"text"`
	Refused bool   `json:"refused,omitempty"`
}

func openShop(set *retail.Dataset, f sinks.Faults) (s *shop, err error) {
	s = &shop{domain: set.Domain(), initial: set.Initial(), rooms: map[string]retail.Memory{},
		named: map[string]*handled{}, holders: map[string]string{}}
	if s.Ledger, err = sinks.StartLedger(sinks.LedgerOptions{Faults: f, Do: s.do}); err != nil {
		return nil, fmt.Errorf("open a shop: %w", err)
	}
	return s, nil
}

// room is a store of one room.
type room struct{ own, start retail.Memory }

// Read is part of retail.Store.
func (r room) Read(key string) ([]byte, bool, error) {
	if value, has := r.own[key]; has {
		return value, value != nil, nil
	}
	return r.start.Read(key)
}

// do does what an entry of the ledger asks for.
func (s *shop) do(e sinks.Entry) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := map[string]any{}
	d := &handled{tool: strings.TrimPrefix(e.Path, "/")}
	if err := json.Unmarshal(e.Body, &args); err != nil {
		d.refused, d.text = true, "the arguments are no object"
	}
	d.room, d.who, d.step = text(args["room"]), text(args["who"]), number(args["step"])
	if s.rooms[d.room] == nil {
		s.rooms[d.room] = retail.Memory{}
	}
	switch d.tool {
	case toolUndo:
		if e.Compensates == "" {
			e.Compensates = fmt.Sprint("#", number(args["entry"]))
		}
		s.undo(e.Compensates)
	case toolConfirm:
		d.effect = true
	case toolReserve, toolFree:
		s.reserve(d, d.room+text(args["order_id"]))
	default:
		s.work(d, args)
	}
	s.done = append(s.done, d)
	s.named[fmt.Sprint("#", e.ID)] = d
	if e.Key != "" {
		s.named[e.Key] = d
	}
	answer, err := json.Marshal(reply{d.text, d.refused})
	if err != nil {
		panic("tables: an answer of the shop is no JSON: " + err.Error())
	}
	return answer
}

// work makes a call of the data set's tools.
func (s *shop) work(d *handled, args map[string]any) {
	given := maps.Clone(args)
	for _, name := range []string{"room", "who", "step"} {
		delete(given, name)
	}
	body, err := json.Marshal(given)
	if err != nil {
		panic("tables: what was JSON is none: " + err.Error())
	}
	own := s.rooms[d.room]
	got, err := s.domain.Run(retail.Task{Actions: []retail.Action{{Name: d.tool, Arguments: body}}},
		room{own, s.initial})
	if err != nil {
		panic("tables: the shop cannot read what it wrote: " + err.Error())
	}
	d.text, d.refused, d.effect = got.Texts[0], len(got.Errors) > 0, len(got.Writes) > 0
	d.former = map[string][]byte{}
	for key, value := range got.Writes {
		d.former[key] = own[key]
		own[key] = value
	}
}

// undo puts back what a call found, as a tool that keeps the former record does.
func (s *shop) undo(name string) {
	d := s.named[name]
	if d == nil || d.undone {
		return
	}
	d.undone = true
	own := s.rooms[d.room]
	for key, value := range d.former {
		if value == nil {
			delete(own, key)
		} else {
			own[key] = value
		}
	}
}

// reserve gives an order to one, or takes it back.
func (s *shop) reserve(d *handled, order string) {
	holder, held := s.holders[order]
	switch {
	case d.tool == toolReserve && held && holder != d.who:
		d.refused = true
	case d.tool == toolReserve:
		s.holders[order] = d.who
	case holder == d.who:
		delete(s.holders, order)
	}
}

func text(v any) string {
	t, _ := v.(string) // a number where text belongs names nothing
	return t
}

func number(v any) int {
	n, _ := v.(float64) // the same the other way round
	return int(n)
}

// shopCall is one step of an errand.
type shopCall struct {
	tool string
	args map[string]any
	fill func(answers []string) map[string]any // in place of args, by what the calls before were answered
	acts bool                                  // it may change a record, or tells the customer
}

// errand is what one agent does for one customer.
type errand struct {
	room, who string
	calls     []shopCall
	want      retail.Result // of the calls alone over a fresh shop
	effects   map[int]bool  // the steps that have one then
	stops     bool          // its agent gives it up when all calls are made
}

// body is what a call sends.
func (w *errand) body(step int, answers []string) map[string]any {
	c := w.calls[step]
	body := map[string]any{"room": w.room, "who": w.who, "step": step}
	if c.fill != nil {
		maps.Copy(body, c.fill(answers))
	} else {
		maps.Copy(body, c.args)
	}
	return body
}

// errandOf is a task of the data set and a confirmation at its end. It is an error if the tools do not leave what the
// data set expects.
func errandOf(set *retail.Dataset, task retail.Task) (w errand, err error) {
	const agent = "agent"
	w = errand{who: agent, effects: map[int]bool{}}
	domain, state := set.Domain(), retail.Memory(set.Initial())
	if w.want, err = domain.Run(task, state); err != nil {
		return w, fmt.Errorf("run a task alone: %w", err)
	}
	if i := slices.IndexFunc(set.Expected, func(x retail.Expected) bool { return x.ID == task.ID }); i >= 0 {
		if err := set.Expected[i].Check(w.want); err != nil {
			return w, fmt.Errorf("run a task alone: %w", err)
		}
	}
	own := maps.Clone(state)
	for i, a := range task.Actions {
		c := shopCall{tool: a.Name, acts: !reads(a.Name)}
		if err := json.Unmarshal(a.Arguments, &c.args); err != nil {
			return w, fmt.Errorf("read the arguments of a task: %w", err)
		}
		w.calls = append(w.calls, c)
		got, err := domain.Run(retail.Task{Actions: task.Actions[i : i+1]}, own)
		if err != nil {
			return w, fmt.Errorf("run a step alone: %w", err)
		}
		own.Apply(got)
		w.effects[i] = len(got.Writes) > 0
	}
	w.effects[len(w.calls)] = true
	w.calls = append(w.calls, shopCall{tool: toolConfirm, acts: true})
	return w, nil
}

// reads says whether a tool changes nothing.
func reads(tool string) bool {
	return !strings.HasPrefix(tool, "modify_") && !strings.HasPrefix(tool, "cancel_") && tool != toolConfirm &&
		!strings.HasPrefix(tool, "exchange_") && !strings.HasPrefix(tool, "return_") && tool != "annotate_order"
}

// errands are so many tasks of the data, or all of it.
func (e *Env) errands(n int) (set *retail.Dataset, all []errand, err error) {
	if set = retail.Small(int64(e.Seed)); e.Data != "" {
		if set, err = retail.Load(e.Data, "test"); err != nil {
			return nil, nil, fmt.Errorf("load the retail tasks: %w", err)
		}
	}
	for _, task := range set.Tasks[:min(n, len(set.Tasks))] {
		w, err := errandOf(set, task)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, w)
	}
	if len(all) == 0 {
		return nil, nil, errors.New("the retail data has no task")
	}
	return set, all, nil
}

// ended is how an errand ended, as the one who ran it says.
type ended struct {
	committed bool
	reported  []int // steps that it says are not clean
}

// found is what the shop's own record shows beside that.
type found struct {
	success    bool // committed, and clean
	leaks      int  // effects that stand of what did not commit
	twice      int
	absent     int
	unreported int  // of these: of steps that were not reported; and a final state that is another
	idle       int  // steps that were reported, and have nothing
	clean      bool // what was committed is whole and once, what was not is not there, and nothing is left
}

// counted holds the effects that stand in a room against what was said of an errand.
func (s *shop) counted(w *errand, said ended) (f found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stands := map[int]int{}
	for _, d := range s.done {
		if d.room == w.room && d.who == w.who && d.effect && !d.undone {
			stands[d.step]++
		}
	}
	for step := range w.calls {
		wrong := 0
		switch n := stands[step]; {
		case !said.committed && n > 0:
			f.leaks, wrong = f.leaks+n, n
		case said.committed && n > 1:
			f.twice, wrong = f.twice+1, 1
		case said.committed && n == 0 && w.effects[step]:
			f.absent, wrong = f.absent+1, 1
		}
		if reported := slices.Contains(said.reported, step); !reported {
			f.unreported += wrong
		} else if wrong == 0 {
			f.idle++
		}
	}
	return f
}

// audit also holds the room's final state against what the errand leaves when it is run alone.
func (s *shop) audit(w *errand, said ended) found {
	f := s.counted(w, said)
	s.mu.Lock()
	defer s.mu.Unlock()
	want := retail.Memory{}
	if said.committed {
		want = w.want.Writes
	}
	own := maps.Clone(s.rooms[w.room])
	maps.DeleteFunc(own, func(key string, value []byte) bool { return string(s.initial[key]) == string(value) })
	same := len(own.Diff(want)) == 0
	if !same && f.leaks+f.twice+f.absent == 0 && len(said.reported) == 0 {
		f.unreported++
	}
	f.clean = same && f.leaks+f.twice+f.absent+len(said.reported) == 0
	f.success = said.committed && f.clean
	return f
}

// shopPolicy declares the tools that each shop has beside its data set's.
//
//go:embed shop.yaml
var shopPolicy string

// shopTool is one tool of the data set: what a call moves or reads, below its room, and its arguments. Those with a
// star are lists.
type shopTool struct{ tool, scopes, args string }

// shopTools are those of the data set. Orders are told apart, customers are not: some tools of orders move what is on
// a customer's card, and do not name whose it is.
func shopTools() []shopTool {
	const address = " address1 address2 city country state zip"
	const order, customer = "orders/{order_id}", "customers"
	return []shopTool{
		{"annotate_order", order, "order_id text"},
		{"calculate", "nothing", "expression"},
		{"cancel_pending_order", order + " " + customer, "order_id reason"},
		{"exchange_delivered_order_items", order + " " + customer, "order_id item_ids* new_item_ids* payment_method_id"},
		{"find_user_id_by_email", customer, "email"},
		{"find_user_id_by_name_zip", customer, "first_name last_name zip"},
		{"get_order_details", order, "order_id"},
		{"get_product_details", "products", "product_id"},
		{"get_user_details", customer, "user_id"},
		{"list_all_product_types", "products", ""},
		{"modify_pending_order_address", order, "order_id" + address},
		{"modify_pending_order_items", order + " " + customer, "order_id item_ids* new_item_ids* payment_method_id"},
		{"modify_pending_order_payment", order + " " + customer, "order_id payment_method_id"},
		{"modify_user_address", customer, "user_id" + address},
		{"return_delivered_order_items", order + " " + customer, "order_id item_ids* payment_method_id"},
		{"think", "nothing", "thought"},
		{"transfer_to_human_agents", "nothing", "summary"},
	}
}

// declare is a tool as the policy has it.
func (d shopTool) declare(b *strings.Builder) {
	class := "read"
	if !reads(d.tool) {
		class = "reversible"
	}
	fmt.Fprintf(b, "  - tool: %s\n    class: %s\n    args:\n      room: {type: string}\n      who: {type: string}\n"+
		"      step: {type: integer}\n", d.tool, class)
	for arg := range strings.FieldsSeq(d.args) {
		name, list := strings.CutSuffix(arg, "*")
		kind := "string"
		if list {
			kind = "array"
		}
		fmt.Fprintf(b, "      %s: {type: %s}\n", name, kind)
	}
	var scopes []string
	for s := range strings.FieldsSeq(d.scopes) {
		scopes = append(scopes, strconv.Quote("shop:/{room}/"+s))
	}
	fmt.Fprintf(b, "    scopes: [%s]\n", strings.Join(scopes, ", "))
	lookup := ""
	if class != "read" {
		lookup = ", lookup: {url: \"http://{{shop}}/keys/{$key}\"}"
		b.WriteString("    keyed: true\n    compensation: {tool: undo, forbids: true, args: {room: \"{args.room}\", " +
			"who: \"{args.who}\"}}\n")
	}
	fmt.Fprintf(b, "    http: {method: POST, url: \"http://{{shop}}/%s\"%s}\n", d.tool, lookup)
}

// policyOf is the policy for a shop.
func policyOf(s *shop, p shopPace) string {
	var tools strings.Builder
	for _, d := range shopTools() {
		d.declare(&tools)
	}
	return strings.NewReplacer("{{shop}}", s.Addr(), "{{most_ms}}", fmt.Sprint(p.most.Milliseconds()), "{{tries}}",
		fmt.Sprint(p.tries)).Replace(strings.Replace(shopPolicy, "{{tools}}", tools.String(), 1))
}

// gatedShop runs errands on Hence: each is a transaction, and its calls go through the gate.
type gatedShop struct {
	place Place
	begin client.BeginOptions
	spent *spent

	mu  sync.Mutex
	at  map[*errand]int // which agent
	txs []string
}

// gatedAt is Hence before a shop, for so many agents.
func (e *Env) gatedAt(ctx context.Context, s *shop, p shopPace, agents int, begin client.BeginOptions,
) (*gatedShop, error) {
	place, err := e.Ground.Workspace(ctx, 1, agents, policyOf(s, p))
	return &gatedShop{place: place, begin: begin, spent: &spent{}, at: map[*errand]int{}}, err
}

func (g *gatedShop) cost() *spent { return g.spent }

// agent is the agent of an errand: they take turns.
func (g *gatedShop) agent(w *errand) *client.Client {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, has := g.at[w]; !has {
		g.at[w] = len(g.at)
	}
	return g.place.Agents[g.at[w]%len(g.place.Agents)]
}

// mostRefused is how often an errand is retried because of other agents.
const mostRefused = 100

func (g *gatedShop) run(ctx context.Context, w *errand, p shopPace) (out ended, err error) {
	agent, failed := g.agent(w), 0
	var last *client.Tx
	for range mostRefused {
		tx, err := g.open(ctx, agent, last)
		if err != nil {
			return out, err
		}
		g.mu.Lock()
		g.txs = append(g.txs, tx.ID())
		g.mu.Unlock()
		steps, d, err := g.try(ctx, tx, w, p)
		if err != nil {
			return out, err
		}
		if d, err = g.settled(ctx, tx, d); err != nil {
			return out, err
		}
		g.spent.add(0, time.Duration(d.WaitedMs)*time.Millisecond)
		left, err := g.residue(ctx, agent, tx.ID(), steps)
		if err != nil {
			return out, err
		}
		out.reported = append(out.reported, left...)
		if d.State == api.StateCommitted {
			out.committed = true
			return out, nil
		}
		if last = nil; w.stops {
			return out, nil
		} else if d.Retryable {
			last = tx
			g.spent.add(1, 0)
		} else if failed++; failed >= p.tries {
			return out, nil
		}
	}
	return out, fmt.Errorf("an errand was refused %d times", mostRefused)
}

// open begins a transaction, or the successor of a refused one.
func (g *gatedShop) open(ctx context.Context, agent *client.Client, last *client.Tx) (*client.Tx, error) {
	if last == nil {
		tx, err := agent.Begin(ctx, g.begin)
		if err != nil {
			return nil, fmt.Errorf("begin an errand: %w", err)
		}
		return tx, nil
	}
	d, err := last.Status(ctx, 0)
	if err == nil {
		err = pause.Sleep(ctx, time.Duration(d.BackoffMs)*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("begin an errand again: %w", err)
	}
	if tx, err := last.Retry(ctx); err == nil {
		return tx, nil
	}
	return g.open(ctx, agent, nil) // its budget is used up: another errand
}

// try makes an errand's calls in a transaction and seals it, or aborts it where a call failed. Steps are those of the
// calls that the gate numbers.
func (g *gatedShop) try(ctx context.Context, tx *client.Tx, w *errand, p shopPace) (steps []int, d client.Decision,
	err error) {
	answers, thought := make([]string, len(w.calls)), false
	for step, c := range w.calls {
		if p.turns || c.acts && !thought {
			thought = true
			if err := pause.Sleep(ctx, p.think); err != nil {
				return steps, d, err
			}
		}
		tries := 1 // what acts is tried again by the gate
		if c.acts {
			steps = append(steps, step)
		} else {
			tries = p.tries
		}
		var receipt client.Receipt
		err := repeat(tries, func() (err error) {
			receipt, err = tx.Effect(ctx, c.tool, w.body(step, answers), client.EffectOptions{})
			if no := (*client.Problem)(nil); errors.As(err, &no) || receipt.State == "failed" || receipt.State == "unknown" {
				return errFailed
			}
			return err
		})
		if errors.Is(err, errFailed) {
			return steps, d, g.abort(ctx, tx)
		} else if err != nil {
			return steps, d, fmt.Errorf("call %s: %w", c.tool, err)
		}
		var answer struct {
			Result reply `json:"result"`
		}
		if err := json.Unmarshal(receipt.Result, &answer); err != nil && receipt.Result != nil {
			return steps, d, fmt.Errorf("read the answer of %s: %w", c.tool, err)
		}
		answers[step] = answer.Result.Text
	}
	if w.stops {
		return steps, d, g.abort(ctx, tx)
	}
	d, err = tx.Seal(ctx)
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		err = g.abort(ctx, tx)
	}
	return steps, d, err
}

// abort ends a transaction; one that has ended already is no error.
func (g *gatedShop) abort(ctx context.Context, tx *client.Tx) error {
	err := tx.Abort(ctx, "a call failed")
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("abort an errand: %w", err)
	}
	return nil
}

// settled waits until nothing of a transaction is still to be made or taken back.
func (g *gatedShop) settled(ctx context.Context, tx *client.Tx, d client.Decision) (client.Decision, error) {
	for !d.Final {
		var err error
		if d, err = tx.Status(ctx, time.Second); err != nil {
			return d, fmt.Errorf("wait for the settlement of an errand: %w", err)
		}
	}
	return d, nil
}

// residue are the steps of a transaction that are on the list of what could not be made clean.
func (g *gatedShop) residue(ctx context.Context, agent *client.Client, tx string, steps []int) (left []int,
	err error) {
	list, err := agent.Residue(ctx, client.ResidueQuery{})
	if err != nil {
		return nil, fmt.Errorf("read the residue: %w", err)
	}
	for _, r := range list.Items {
		if r.Tx == tx && int(r.Index) < len(steps) {
			left = append(left, steps[r.Index])
		}
	}
	return left, nil
}
