package retail

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// The measures of the built-in data set.
const (
	smallUsers    = 12
	smallOrders   = 24
	smallProducts = 6
	smallVariants = 4
	smallTasks    = 72
)

// Small returns the built-in data set: 12 users, 24 orders, 6 products and 72 tasks, made from the seed alone.
// Every third task goes to one of two popular orders, which no task cancels or closes, so that agents have
// something to contend for; the others are spread over all orders, some of which more than one task wants.
func Small(seed int64) *Dataset {
	s := &small{
		rng: rand.New(rand.NewPCG(uint64(seed), 1)),
		set: &Dataset{
			Name:  "built-in",
			Users: map[string]User{}, Orders: map[string]Order{}, Products: map[string]Product{},
		},
	}
	s.products()
	s.users()
	for i := range smallOrders {
		s.order(i)
	}
	for i := range smallTasks {
		s.task(i)
	}
	if err := s.set.validate(); err != nil {
		panic("retail: built-in data set: " + err.Error())
	}
	return s.set
}

// small makes a data set. Invariant: every choice comes from rng, in one order, never from a map's order.
type small struct {
	rng *rand.Rand
	set *Dataset
}

func (s *small) products() {
	names := []string{"Tide Clock", "Paper Kite", "Oak Stool", "Seed Tin", "Copper Bell", "Wool Rug"}
	colours, sizes := []string{"teal", "ochre"}, []string{"narrow", "wide"}
	for i := range smallProducts {
		p := Product{Name: names[i], ProductID: smallProduct(i), Variants: map[string]Variant{}}
		for v := range smallVariants {
			id := smallItem(i, v)
			p.Variants[id] = Variant{
				ItemID: id, Available: true, Price: roundCents(float64(1000*(i+1)+s.rng.IntN(900)) / 100),
				Options: map[string]string{"colour": colours[v%2], "size": sizes[v/2]},
			}
		}
		s.set.Products[p.ProductID] = p
	}
}

func smallProduct(i int) string { return fmt.Sprintf("product_%02d", i+1) }

func smallItem(product, variant int) string { return fmt.Sprintf("item_%02d_%d", product+1, variant+1) }

func (s *small) users() {
	for i := range smallUsers {
		id, number := smallUser(i), fmt.Sprintf("%02d", i+1)
		balance := float64(200 + s.rng.IntN(100))
		s.set.Users[id] = User{
			Name:    Name{First: "Customer", Last: number},
			Address: smallAddress(i + 1),
			Email:   id + "@example.com",
			PaymentMethods: map[string]PaymentMethod{
				"gift_" + number:    {Source: "gift_card", ID: "gift_" + number, Balance: &balance},
				"invoice_" + number: {Source: "invoice", ID: "invoice_" + number},
			},
			Orders: []string{},
		}
	}
}

func smallUser(i int) string { return fmt.Sprintf("customer_%02d", i+1) }

func smallAddress(number int) Address {
	return Address{
		Address1: fmt.Sprintf("%d Example Street", number), Address2: "", City: "Exampleton",
		Country: "Nowhere", State: "NA", Zip: fmt.Sprintf("%05d", number),
	}
}

func smallOrder(i int) string { return fmt.Sprintf("#S%03d", i+1) }

// order gives every user two orders, one of each half. Of each six in a row four are pending and two delivered;
// the first two, which are the popular ones, are pending.
func (s *small) order(i int) {
	userID := smallUser(i % smallUsers)
	u := s.set.Users[userID]
	o := Order{
		OrderID: smallOrder(i), UserID: userID, Address: u.Address, Status: pending,
		Items: []Item{}, Fulfillments: []Fulfillment{},
	}
	var total float64
	for n := range 2 + s.rng.IntN(2) {
		p := s.set.Products[smallProduct((i+n)%smallProducts)]
		v := p.Variants[smallItem((i+n)%smallProducts, s.rng.IntN(smallVariants))]
		o.Items = append(o.Items, Item{
			Name: p.Name, ProductID: p.ProductID, ItemID: v.ItemID, Price: v.Price, Options: v.Options,
		})
		total += v.Price
	}
	methods := slices.Sorted(maps.Keys(u.PaymentMethods))
	o.History = []Payment{{Type: payment, Amount: roundCents(total), MethodID: methods[i%2]}}
	if i%6 >= 4 {
		o.Status = delivered
		parcel := Fulfillment{TrackingID: []string{fmt.Sprintf("parcel_%03d", i+1)}}
		for _, item := range o.Items {
			parcel.ItemIDs = append(parcel.ItemIDs, item.ItemID)
		}
		o.Fulfillments = append(o.Fulfillments, parcel)
	}
	s.set.Orders[o.OrderID] = o
	u.Orders = append(u.Orders, o.OrderID)
	s.set.Users[userID] = u
}

// task makes the i-th task: find the customer, read what there is, then change it.
func (s *small) task(i int) {
	popular := i%3 == 0
	orderID := smallOrder(i / 3 % 2)
	if !popular {
		orderID = smallOrder(2 + s.rng.IntN(smallOrders-2))
	}
	o := s.set.Orders[orderID]
	t := Task{ID: i, UserID: o.UserID, Actions: s.opening(o)}
	switch {
	case popular:
		t.Actions = append(t.Actions, s.popularChange(i, o)...)
	case o.Status == delivered:
		t.Actions = append(t.Actions, s.deliveredChange(o))
	default:
		t.Actions = append(t.Actions, s.pendingChange(i, o)...)
	}
	s.set.Tasks = append(s.set.Tasks, t)
}

func (s *small) opening(o Order) []Action {
	u := s.set.Users[o.UserID]
	find := action("find_user_id_by_email", arg{"email", u.Email})
	if s.rng.IntN(2) == 0 {
		find = action("find_user_id_by_name_zip", arg{"first_name", u.Name.First},
			arg{"last_name", u.Name.Last}, arg{"zip", u.Address.Zip})
	}
	actions := []Action{find, action("get_order_details", arg{"order_id", o.OrderID})}
	switch s.rng.IntN(5) {
	case 0:
		actions = append(actions, action("get_user_details", arg{"user_id", o.UserID}))
	case 1:
		actions = append(actions, action("list_all_product_types"))
	case 2:
		actions = append(actions, action("get_product_details", arg{"product_id", o.Items[0].ProductID}))
	case 3:
		sum := fmt.Sprintf("%.2f + %.2f", o.Items[0].Price, o.Items[1].Price)
		actions = append(actions, action("calculate", arg{"expression", sum}))
	default:
		actions = append(actions, action("think", arg{"thought", "the order is there, now the change"}))
	}
	return actions
}

// popularChange always changes the order and leaves it pending: a new address with the task's own number, and
// every other time a note.
func (s *small) popularChange(i int, o Order) []Action {
	actions := []Action{addressAction("modify_pending_order_address", arg{"order_id", o.OrderID}, 100+i)}
	if i%2 == 0 {
		note := fmt.Sprintf("task %d moved this order", i)
		actions = append(actions, action("annotate_order", arg{"order_id", o.OrderID}, arg{"text", note}))
	}
	return actions
}

func (s *small) pendingChange(i int, o Order) []Action {
	order := arg{"order_id", o.OrderID}
	switch s.rng.IntN(6) {
	case 0:
		return []Action{action("cancel_pending_order", order, arg{"reason", "no longer needed"})}
	case 1:
		return []Action{action("modify_pending_order_payment", order, s.method(o))}
	case 2:
		return []Action{addressAction("modify_pending_order_address", order, 100+i)}
	case 3:
		return []Action{addressAction("modify_user_address", arg{"user_id", o.UserID}, 100+i)}
	case 4:
		return []Action{action("transfer_to_human_agents", arg{"summary", "the customer wants to talk to a person"})}
	}
	return []Action{action("modify_pending_order_items", append(s.items(o), order, s.method(o))...)}
}

func (s *small) deliveredChange(o Order) Action {
	order := arg{"order_id", o.OrderID}
	if s.rng.IntN(2) == 0 {
		return action("exchange_delivered_order_items", append(s.items(o), order, s.method(o))...)
	}
	original := arg{"payment_method_id", o.History[0].MethodID}
	return action("return_delivered_order_items", order, original, arg{"item_ids", []string{o.Items[0].ItemID}})
}

// items swaps the order's first item for a variant of the same product, at times for the same variant.
func (s *small) items(o Order) []arg {
	item := o.Items[0]
	variants := slices.Sorted(maps.Keys(s.set.Products[item.ProductID].Variants))
	to := variants[s.rng.IntN(len(variants))]
	return []arg{{"item_ids", []string{item.ItemID}}, {"new_item_ids", []string{to}}}
}

func (s *small) method(o Order) arg {
	methods := slices.Sorted(maps.Keys(s.set.Users[o.UserID].PaymentMethods))
	return arg{"payment_method_id", methods[s.rng.IntN(len(methods))]}
}

func addressAction(tool string, whose arg, number int) Action {
	a := smallAddress(number)
	return action(tool, whose, arg{"address1", a.Address1}, arg{"address2", a.Address2}, arg{"city", a.City},
		arg{"country", a.Country}, arg{"state", a.State}, arg{"zip", a.Zip})
}
