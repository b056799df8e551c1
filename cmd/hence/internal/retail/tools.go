package retail

import (
	"fmt"
	"slices"
	"strings"
)

// The statuses that a tool asks for or leaves, and the two kinds of payment.
const (
	pending           = "pending"
	itemsModified     = "pending (item modified)"
	delivered         = "delivered"
	cancelled         = "cancelled"
	exchangeRequested = "exchange requested"
	returnRequested   = "return requested"

	payment = "payment"
	refund  = "refund"
)

// Tools returns the names of all tools, sorted: the sixteen of the data set and our annotate_order.
func Tools() []string {
	return []string{
		"annotate_order", "calculate", "cancel_pending_order", "exchange_delivered_order_items",
		"find_user_id_by_email", "find_user_id_by_name_zip", "get_order_details", "get_product_details",
		"get_user_details", "list_all_product_types", "modify_pending_order_address", "modify_pending_order_items",
		"modify_pending_order_payment", "modify_user_address", "return_delivered_order_items", "think",
		"transfer_to_human_agents",
	}
}

// call makes one tool call. A refusal leaves everything as it was: each tool checks first and puts last.
func (r *run) call(action Action) (string, error) {
	args := parseArguments(action.Arguments)
	switch action.Name {
	case "annotate_order":
		return r.annotateOrder(args)
	case "calculate":
		return r.calculate(args)
	case "cancel_pending_order":
		return r.cancelPendingOrder(args)
	case "exchange_delivered_order_items":
		return r.exchangeDeliveredOrderItems(args)
	case "find_user_id_by_email":
		return r.findUserByEmail(args)
	case "find_user_id_by_name_zip":
		return r.findUserByNameZip(args)
	case "get_order_details":
		return r.getOrder(args)
	case "get_product_details":
		return r.getProduct(args)
	case "get_user_details":
		return r.getUser(args)
	case "list_all_product_types":
		return r.listProductTypes(args)
	case "modify_pending_order_address":
		return r.modifyPendingOrderAddress(args)
	case "modify_pending_order_items":
		return r.modifyPendingOrderItems(args)
	case "modify_pending_order_payment":
		return r.modifyPendingOrderPayment(args)
	case "modify_user_address":
		return r.modifyUserAddress(args)
	case "return_delivered_order_items":
		return r.returnDeliveredOrderItems(args)
	case "think":
		_ = args.text("thought")
		return "", args.done()
	case "transfer_to_human_agents":
		_ = args.text("summary")
		return "handed over to a person", args.done()
	}
	return "", refusal(fmt.Sprintf("there is no tool %q", action.Name))
}

func (r *run) findUserByEmail(args *arguments) (string, error) {
	email := args.text("email")
	if err := args.done(); err != nil {
		return "", err
	}
	if !nameable(email) {
		return "", refusal("user not found")
	}
	return r.lookUp(EmailKey(email))
}

func (r *run) findUserByNameZip(args *arguments) (string, error) {
	first, last, zip := args.text("first_name"), args.text("last_name"), args.text("zip")
	if err := args.done(); err != nil {
		return "", err
	}
	if !nameable(first, last, zip) {
		return "", refusal("user not found")
	}
	return r.lookUp(NameZipKey(first, last, zip))
}

// lookUp reads an index shard, a JSON list of user ids in order; the first one is the answer.
func (r *run) lookUp(key string) (string, error) {
	data, found, err := r.get(key)
	if err != nil {
		return "", err
	}
	var ids []string
	if found {
		if err := decodeStrict(data, &ids); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(ids) == 0 {
		return "", refusal("user not found")
	}
	return ids[0], nil
}

func (r *run) getOrder(args *arguments) (string, error) {
	id := args.text("order_id")
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.order(id)
	return answer(o, err)
}

func (r *run) getUser(args *arguments) (string, error) {
	id := args.text("user_id")
	if err := args.done(); err != nil {
		return "", err
	}
	u, err := r.user(id)
	return answer(u, err)
}

func (r *run) getProduct(args *arguments) (string, error) {
	id := args.text("product_id")
	if err := args.done(); err != nil {
		return "", err
	}
	p, ok := r.domain.products[id]
	if !ok {
		return "", refusal("product not found")
	}
	return answer(p, nil)
}

func (r *run) listProductTypes(args *arguments) (string, error) {
	if err := args.done(); err != nil {
		return "", err
	}
	types := map[string]string{}
	for id, p := range r.domain.products {
		types[p.Name] = max(types[p.Name], id) // two products of one name: the same one is shown each time
	}
	return answer(types, nil)
}

func (r *run) calculate(args *arguments) (string, error) {
	expression := args.text("expression")
	if err := args.done(); err != nil {
		return "", err
	}
	return evaluate(expression)
}

// annotateOrder is our own tool, no part of the data set: it appends a note, numbered one above the newest, to an
// order in any status. Only the newest notes are kept, so that the record stays small however often it is called.
func (r *run) annotateOrder(args *arguments) (string, error) {
	id, text := args.text("order_id"), args.text("text")
	if err := args.done(); err != nil {
		return "", err
	}
	if text == "" || len(text) > maxNoteBytes {
		return "", refusal(fmt.Sprintf("a note has between 1 and %d bytes", maxNoteBytes))
	}
	o, err := r.order(id)
	if err != nil {
		return "", err
	}
	o.Notes = append(o.Notes, Note{Number: o.LastNote() + 1, Text: strings.ToValidUTF8(text, "?")})
	if len(o.Notes) > maxNotes {
		o.Notes = slices.Clone(o.Notes[len(o.Notes)-maxNotes:])
	}
	return answer(o, r.put(OrderKey(id), o))
}

// An order keeps so many notes of so many bytes each.
const (
	maxNotes     = 32
	maxNoteBytes = 256
)

// answer is a record as the text of a tool's answer.
func answer(record any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	data, err := marshal(record)
	return string(data), err
}
