package retail

import (
	"encoding/json"
	"strings"
	"testing"
)

// shop is one small state, tool by tool; a gift card of 50, a pending order of 30, a delivered one with two equal
// items.
func shop() (*Domain, Memory) {
	gift := 50.0
	item := func(id string, price float64) Item {
		return Item{Name: "Tide Clock", ProductID: "clock", ItemID: id, Price: price, Options: map[string]string{}}
	}
	paid := func(amount float64) []Payment { return []Payment{{Type: payment, Amount: amount, MethodID: "invoice"}} }
	set := &Dataset{
		Users: map[string]User{"customer_01": {
			Name: Name{First: "Customer", Last: "01"}, Email: "Customer_01@example.com", Address: smallAddress(1),
			PaymentMethods: map[string]PaymentMethod{
				"gift":    {Source: "gift_card", ID: "gift", Balance: &gift},
				"invoice": {Source: "invoice", ID: "invoice"},
				"other":   {Source: "invoice", ID: "other"},
			},
			Orders: []string{"#P", "#D"},
		}},
		Orders: map[string]Order{
			"#P": {OrderID: "#P", UserID: "customer_01", Status: pending, History: paid(30),
				Items: []Item{item("low", 10), item("low", 10), item("mid", 10)}},
			"#D": {OrderID: "#D", UserID: "customer_01", Status: delivered, History: paid(20),
				Items: []Item{item("low", 10), item("low", 10)}},
		},
		Products: map[string]Product{"clock": {Name: "Tide Clock", ProductID: "clock", Variants: map[string]Variant{
			"low":  {ItemID: "low", Available: true, Price: 10},
			"mid":  {ItemID: "mid", Available: true, Price: 10.1, Options: map[string]string{"size": "wide"}},
			"high": {ItemID: "high", Available: true, Price: 100},
			"gone": {ItemID: "gone", Available: false, Price: 1},
		}}},
	}
	return set.Domain(), set.Initial()
}

func call(name, args string) Action { return Action{Name: name, Arguments: json.RawMessage(args)} }

// TestRefusals: each is a result with its text, and nothing is written.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ tool, args, want string }{
		{"sing", `{}`, `there is no tool "sing"`},
		{"get_order_details", `{}`, "argument order_id is missing"},
		{"get_order_details", `{"order_id":null}`, "argument order_id is missing"},
		{"get_order_details", `{"order_id":7}`, "argument order_id must be a string"},
		{"get_order_details", `[]`, "arguments must be a JSON object"},
		{"get_order_details", `{"order_id":"#P","b":1,"a":1}`, "unknown argument a"},
		{"get_order_details", `{"order_id":"#X"}`, "order not found"},
		{"get_order_details", `{"order_id":"P"}`, "order not found"},
		{"get_order_details", `{"order_id":""}`, "order not found"},
		{"get_order_details", `{"order_id":"#"}`, "order not found"},
		{"get_order_details", `{"order_id":"#.."}`, "order not found"},
		{"get_order_details", `{"order_id":"*"}`, "order not found"},
		{"get_user_details", `{"user_id":"nobody"}`, "user not found"},
		{"get_user_details", `{"user_id":".."}`, "user not found"},
		{"get_product_details", `{"product_id":"high"}`, "product not found"},
		{"find_user_id_by_email", `{"email":"nobody@example.com"}`, "user not found"},
		{"find_user_id_by_email", `{"email":""}`, "user not found"},
		{"find_user_id_by_name_zip", `{"first_name":"Customer","last_name":"01","zip":"00002"}`, "user not found"},
		{"cancel_pending_order", `{"order_id":"#P","reason":"bored"}`, "reason must be one of"},
		{"cancel_pending_order", `{"order_id":"#D","reason":"no longer needed"}`,
			"non-pending order cannot be cancelled"},
		{"modify_pending_order_payment", `{"order_id":"#P","payment_method_id":"invoice"}`, "is the one"},
		{"modify_pending_order_payment", `{"order_id":"#P","payment_method_id":"none"}`, "payment method not found"},
		{"modify_pending_order_items",
			`{"order_id":"#P","payment_method_id":"gift","item_ids":["low"],"new_item_ids":["high"]}`,
			"insufficient gift card balance to pay for the price difference"},
		{"modify_pending_order_items",
			`{"order_id":"#P","payment_method_id":"gift","item_ids":["low"],"new_item_ids":["gone"]}`,
			"new item gone is no available variant"},
		{"modify_pending_order_items",
			`{"order_id":"#P","payment_method_id":"gift","item_ids":["low"],"new_item_ids":[]}`, "same length"},
		{"modify_pending_order_items",
			`{"order_id":"#P","payment_method_id":"gift","item_ids":[],"new_item_ids":[]}`, "at least one item"},
		{"exchange_delivered_order_items",
			`{"order_id":"#P","payment_method_id":"gift","item_ids":["low"],"new_item_ids":["mid"]}`,
			"non-delivered order cannot be exchanged"},
		{"exchange_delivered_order_items",
			`{"order_id":"#D","payment_method_id":"none","item_ids":["low"],"new_item_ids":["mid"]}`,
			"payment method not found"},
		{"return_delivered_order_items",
			`{"order_id":"#D","payment_method_id":"other","item_ids":["low"]}`,
			"payment method should be either the original payment method or a gift card"},
		{"return_delivered_order_items",
			`{"order_id":"#D","payment_method_id":"gift","item_ids":["low","low","low"]}`, "as often as named"},
		{"annotate_order", `{"order_id":"#P","text":""}`, "a note has between"},
		{"calculate", `{"expression":"1/0"}`, "no finite value"},
		{"think", `{}`, "argument thought is missing"},
	} {
		domain, state := shop()
		result := mustRun(t, domain, Task{Actions: []Action{call(c.tool, c.args)}}, state)
		if len(result.Errors) != 1 || !strings.HasPrefix(result.Errors[0].Text, "Error: ") ||
			!strings.Contains(result.Errors[0].Text, c.want) {
			t.Errorf("%s %s: refused with %v, want %q", c.tool, c.args, result.Errors, c.want)
		}
		if len(result.Writes) > 0 {
			t.Errorf("%s %s: refused, but writes %v", c.tool, c.args, result.WriteKeys())
		}
	}
}

// TestMoneyMoves covers what the expected records do not show: payments that move between methods before an order
// is changed or cancelled.
func TestMoneyMoves(t *testing.T) {
	toGift := call("modify_pending_order_payment", `{"order_id":"#P","payment_method_id":"gift"}`)
	toInvoice := call("modify_pending_order_payment", `{"order_id":"#P","payment_method_id":"invoice"}`)
	cancel := call("cancel_pending_order", `{"order_id":"#P","reason":"ordered by mistake"}`)
	swap := call("modify_pending_order_items",
		`{"order_id":"#P","payment_method_id":"gift","item_ids":["low","low"],"new_item_ids":["mid","mid"]}`)
	for _, c := range []struct {
		name    string
		actions []Action
		refused int
		gift    float64
		entries int
	}{
		{"to the gift card", []Action{toGift}, 0, 20, 3},
		{"and back", []Action{toGift, toInvoice}, 0, 50, 5},
		{"to it and cancelled", []Action{toGift, cancel}, 0, 50, 4},
		{"cancelled", []Action{cancel}, 0, 50, 2},
		{"cancelled twice", []Action{cancel, cancel}, 1, 50, 2},
		{"items changed", []Action{swap}, 0, 49.8, 2},
		{"items changed twice", []Action{swap, swap}, 1, 49.8, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			domain, state := shop()
			result := mustRun(t, domain, Task{Actions: c.actions}, state)
			if len(result.Errors) != c.refused {
				t.Errorf("refused %v, want %d", result.Errors, c.refused)
			}
			state.Apply(result)
			u, errUser := DecodeUser(state[UserKey("customer_01")])
			o, errOrder := DecodeOrder(state[OrderKey("#P")])
			if errUser != nil || errOrder != nil {
				t.Fatal(errUser, errOrder)
			}
			if got := u.PaymentMethods["gift"]; got.balance() != c.gift {
				t.Errorf("gift card holds %v, want %v", got.balance(), c.gift)
			}
			if len(o.History) != c.entries {
				t.Errorf("history %v, want %d entries", o.History, c.entries)
			}
		})
	}
}

// TestEqualItems: an id that is named twice takes two items of the order, in order.
func TestEqualItems(t *testing.T) {
	domain, state := shop()
	swap := call("modify_pending_order_items",
		`{"order_id":"#P","payment_method_id":"other","item_ids":["low","low"],"new_item_ids":["high","mid"]}`)
	result := mustRun(t, domain, Task{Actions: []Action{swap}}, state)
	o, err := DecodeOrder(result.Writes[OrderKey("#P")])
	if err != nil || len(result.Errors) > 0 {
		t.Fatal(err, result.Errors)
	}
	if o.Items[0].ItemID != "high" || o.Items[1].ItemID != "mid" || o.Items[1].Options["size"] != "wide" {
		t.Errorf("items %v, want high, mid, mid", o.Items)
	}
	if len(result.Writes) != 1 {
		t.Errorf("writes %v, want the order only: no gift card is involved", result.WriteKeys())
	}
}

func TestFindIgnoresCase(t *testing.T) {
	domain, state := shop()
	result := mustRun(t, domain, Task{Actions: []Action{
		call("find_user_id_by_email", `{"email":"CUSTOMER_01@example.COM"}`),
		call("find_user_id_by_name_zip", `{"first_name":"customer","last_name":"01","zip":"00001"}`),
	}}, state)
	if result.Texts[0] != "customer_01" || result.Texts[1] != "customer_01" {
		t.Errorf("found %q, refused %v", result.Texts, result.Errors)
	}
}

func TestCalculate(t *testing.T) {
	for expression, want := range map[string]string{
		"3131.1 + 4777.75 + 367.38":          "8276.23",
		"155.33 - 147.05 + 268.77 - 235.13":  "41.92",
		"164.28":                             "164.28",
		" 2*(3+4) / -7 ":                     "-2",
		"0.1+0.2":                            "0.3",
		"-0":                                 "0",
		"1 2":                                `Error: expression is not understood at "2"`,
		"":                                   `Error: expression lacks a number at ""`,
		"(1":                                 "Error: expression lacks a closing parenthesis",
		"1+x":                                `Error: expression lacks a number at "x"`,
		strings.Repeat("(", 100) + "1":       "Error: expression is nested deeper than 50",
		strings.Repeat("9", maxExpression+1): "Error: expression is longer than 1000 bytes",
	} {
		got, err := evaluate(expression)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q gives %q, want %q", expression, got, want)
		}
	}
}

func TestRoundCents(t *testing.T) {
	for in, want := range map[float64]float64{
		14.039999999999992: 14.04, 0.125: 0.12, 0.375: 0.38, 2.675: 2.67, -0.001: 0, -16.630000000000003: -16.63,
	} {
		if got := roundCents(in); got != want {
			t.Errorf("%v rounds to %v, want %v", in, got, want)
		}
	}
	if data, err := marshal(roundCents(-0.001)); err != nil || string(data) != "0" {
		t.Errorf("a negative nothing is written as %s, %v", data, err)
	}
}
