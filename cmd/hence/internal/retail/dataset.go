package retail

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Dataset is a shop at its start, and the tasks that are done in it. Orders are keyed by their id with its '#'.
type Dataset struct {
	// Name says where it comes from, e.g. "built-in" or "tau-retail test".
	Name     string
	Users    map[string]User
	Orders   map[string]Order
	Products map[string]Product
	Tasks    []Task
	// Expected has, for some data sets, what each task leaves when it is run alone; otherwise it is empty.
	Expected []Expected
}

// Expected is what one task leaves when it is run alone over the initial state.
type Expected struct {
	ID      int         `json:"id"`
	Errors  []ToolError `json:"errors"`
	Changed Changed     `json:"changed"`
}

// Changed holds the records that differ from the initial state, by user id and by order id with its '#'.
type Changed struct {
	Orders map[string]json.RawMessage `json:"orders"`
	Users  map[string]json.RawMessage `json:"users"`
}

// Domain returns the domain of this data set's products.
func (d *Dataset) Domain() *Domain { return NewDomain(d.Products) }

// Initial returns every shard of the shop at its start, in canonical form: users, orders and both indexes.
func (d *Dataset) Initial() map[string][]byte {
	shards := map[string][]byte{}
	put := func(key string, record any) {
		data, err := marshal(record)
		if err != nil {
			panic(fmt.Sprintf("retail: %s has no JSON form: %v", key, err))
		}
		shards[key] = data
	}
	index := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(d.Users)) {
		u := d.Users[id]
		put(UserKey(id), u)
		byEmail, byName := EmailKey(u.Email), NameZipKey(u.Name.First, u.Name.Last, u.Address.Zip)
		index[byEmail] = append(index[byEmail], id)
		index[byName] = append(index[byName], id)
	}
	for id, o := range d.Orders {
		put(OrderKey(id), o)
	}
	for key, ids := range index {
		put(key, ids)
	}
	return shards
}

// Contended returns a task that always wants the same order (see [Dataset.ContendedOrder]) and succeeds any
// number of times: it reads the order and appends a numbered note to it, with annotate_order, a tool of our own.
// After n of them alone the order's [Order.LastNote] is n; it is lower when updates were lost.
func (d *Dataset) Contended(id int, note string) Task {
	orderID := d.ContendedOrder()
	return Task{ID: id, UserID: d.Orders[orderID].UserID, Actions: []Action{
		action("get_order_details", arg{"order_id", orderID}),
		action("annotate_order", arg{"order_id", orderID}, arg{"text", note}),
	}}
}

// ContendedOrder returns the id of the order that the most tasks name, of several the first in order of their
// ids; the data set must have an order.
func (d *Dataset) ContendedOrder() string {
	if len(d.Orders) == 0 {
		panic("retail: data set " + d.Name + " has no order")
	}
	named := map[string]int{}
	for _, task := range d.Tasks {
		for _, a := range task.Actions {
			named[orderOf(a)]++
		}
	}
	ids := slices.Sorted(maps.Keys(d.Orders))
	return slices.MaxFunc(ids, func(a, b string) int { return named[a] - named[b] })
}

func orderOf(a Action) string {
	var named struct {
		OrderID string `json:"order_id"`
	}
	if err := json.Unmarshal(a.Arguments, &named); err != nil {
		return "" // a tool will refuse it
	}
	return named.OrderID
}

// arg is one argument of an action.
type arg struct {
	name  string
	value any
}

func action(name string, args ...arg) Action {
	given := map[string]any{}
	for _, a := range args {
		given[a.name] = a.value
	}
	data, err := marshal(given)
	if err != nil {
		panic("retail: arguments of " + name + " have no JSON form: " + err.Error())
	}
	return Action{Name: name, Arguments: data}
}

// Check compares a task's result, run alone over the initial state, with what is expected: the refusals with
// their texts, and every changed record as a JSON value. It returns nil or one error that lists all differences.
func (e Expected) Check(result Result) error {
	var wrong []error
	if !slices.Equal(e.Errors, result.Errors) {
		wrong = append(wrong, fmt.Errorf("tool errors: got %v, want %v", result.Errors, e.Errors))
	}
	want := map[string]json.RawMessage{}
	for id, record := range e.Changed.Orders {
		want[OrderKey(id)] = record
	}
	for id, record := range e.Changed.Users {
		want[UserKey(id)] = record
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		got, ok := result.Writes[key]
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s is not changed, want %s", key, want[key]))
		} else if !Equal(got, want[key]) {
			wrong = append(wrong, fmt.Errorf("%s:\n got  %s\n want %s", key, got, want[key]))
		}
	}
	for _, key := range result.WriteKeys() {
		if _, ok := want[key]; !ok {
			wrong = append(wrong, fmt.Errorf("%s is changed, want it as it was; got %s", key, result.Writes[key]))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("task %d: %w", e.ID, errors.Join(wrong...))
}
