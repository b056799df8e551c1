package tables

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

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

// mostRefused is how often an errand is begun anew for what other agents did.
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
