package retail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxActions bounds the tool calls of one task.
const maxActions = 1000

// Task is what one agent does for one customer: tool calls in order, together one transaction.
type Task struct {
	ID      int      `json:"id"`
	UserID  string   `json:"user_id"`
	Actions []Action `json:"actions"`
}

// Action is one tool call; Arguments is a JSON object.
type Action struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Store is where a task reads. Read returns a shard's content as it is stored and whether it exists; an error is
// a fault (the store could not be asked), and ends the task. Content that Read returns is not changed by this
// package.
type Store interface {
	Read(key string) (value []byte, found bool, err error)
}

// Result is what a task did, given what it read.
type Result struct {
	// Reads are the shards that were read, absent ones too, in order of the first read, each once.
	Reads []string
	// Writes are the shards that changed, with their new canonical content. Every one of them is also in Reads.
	// One that ended as it was read is not here.
	Writes map[string][]byte
	// Errors are the calls that a tool refused, by index of the action from 0.
	Errors []ToolError
	// Texts are the answers, one for each action; of a refused one, the refusal.
	Texts []string
}

// WriteKeys returns the keys of Writes, sorted.
func (r Result) WriteKeys() []string { return slices.Sorted(maps.Keys(r.Writes)) }

// ToolError is a tool's refusal: a result of the call, not a fault of the run. In JSON it is [index, text].
type ToolError struct {
	Index int
	Text  string
}

// MarshalJSON writes [index, text].
func (e ToolError) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{e.Index, e.Text}) }

// UnmarshalJSON reads [index, text].
func (e *ToolError) UnmarshalJSON(data []byte) error {
	pair := []any{&e.Index, &e.Text}
	if err := json.Unmarshal(data, &pair); err != nil {
		return fmt.Errorf("tool error, want [index, text]: %w", err)
	}
	if len(pair) != 2 {
		return fmt.Errorf("tool error, want [index, text], got %d elements", len(pair))
	}
	return nil
}

// Domain is the part of the shop that never changes: its products. It is safe for concurrent use.
type Domain struct {
	products map[string]Product
}

// NewDomain returns a domain that sells these products, by id. The map must not be changed afterwards.
func NewDomain(products map[string]Product) *Domain { return &Domain{products: products} }

// Run makes a task's calls in order over the store and returns what they read, changed and refused. A refusal
// does not end the task: the next call follows. An error means that the task could not be run (the store failed,
// or a record is not what this package writes); the result is then empty, so nothing of the task can be applied.
func (d *Domain) Run(task Task, store Store) (Result, error) {
	if len(task.Actions) > maxActions {
		return Result{}, fmt.Errorf("task %d has %d actions, at most %d are allowed",
			task.ID, len(task.Actions), maxActions)
	}
	r := &run{domain: d, store: store, seen: map[string]*content{}}
	var result Result
	for i, action := range task.Actions {
		text, err := r.call(action)
		if no, ok := errors.AsType[refusal](err); ok {
			text = no.Error()
			result.Errors = append(result.Errors, ToolError{Index: i, Text: text})
		} else if err != nil {
			return Result{}, fmt.Errorf("task %d, action %d (%s): %w", task.ID, i, action.Name, err)
		}
		result.Texts = append(result.Texts, text)
	}
	result.Reads, result.Writes = r.reads, r.changes()
	return result, nil
}

// refusal is a tool's "no": the error text without its prefix.
type refusal string

func (r refusal) Error() string { return "Error: " + string(r) }

// run is one task under way: what it read, and its own writes over it.
type run struct {
	domain *Domain
	store  Store
	reads  []string
	seen   map[string]*content
}

// content is one shard as the task sees it. Invariant: now differs from read only if a tool of this task put it
// there.
type content struct {
	read, now []byte
	found     bool
}

// get returns a shard's content as of this point of the task; the store is asked once for each key.
func (r *run) get(key string) ([]byte, bool, error) {
	if c, ok := r.seen[key]; ok {
		return c.now, c.found, nil
	}
	value, found, err := r.store.Read(key)
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", key, err)
	}
	r.reads = append(r.reads, key)
	r.seen[key] = &content{read: value, now: value, found: found}
	return value, found, nil
}

// put buffers a record's new content. A tool only changes what it has read.
func (r *run) put(key string, record any) error {
	c, ok := r.seen[key]
	if !ok || !c.found {
		panic("retail: write of " + key + " without a read of it")
	}
	value, err := marshal(record)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	c.now = value
	return nil
}

func (r *run) changes() map[string][]byte {
	changed := map[string][]byte{}
	for key, c := range r.seen {
		if !bytes.Equal(c.read, c.now) {
			changed[key] = c.now
		}
	}
	return changed
}

func (r *run) order(id string) (Order, error) {
	const absent = refusal("order not found")
	if !nameable(strings.TrimPrefix(id, "#")) {
		return Order{}, absent
	}
	data, found, err := r.get(OrderKey(id))
	if err != nil {
		return Order{}, err
	}
	if !found {
		return Order{}, absent
	}
	o, err := DecodeOrder(data)
	if err != nil {
		return Order{}, fmt.Errorf("%s: %w", OrderKey(id), err)
	}
	if o.OrderID != id { // asked without its '#'
		return Order{}, absent
	}
	return o, nil
}

func (r *run) user(id string) (User, error) {
	const absent = refusal("user not found")
	if !nameable(id) {
		return User{}, absent
	}
	data, found, err := r.get(UserKey(id))
	if err != nil {
		return User{}, err
	}
	if !found {
		return User{}, absent
	}
	u, err := DecodeUser(data)
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", UserKey(id), err)
	}
	return u, nil
}
