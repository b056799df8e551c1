package retail

import (
	"fmt"
	"math"
	"slices"
)

const tooPoor = refusal("insufficient gift card balance to pay for the price difference")

// modifyPendingOrderItems replaces items in place, each by another variant of its product, and settles the price
// difference (as it is, not rounded) with the given method; a gift card's balance moves at once. It can be done
// once.
func (r *run) modifyPendingOrderItems(args *arguments) (string, error) {
	id, methodID := args.text("order_id"), args.text("payment_method_id")
	oldIDs, newIDs := args.list("item_ids"), args.list("new_item_ids")
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.pendingOrder(id, "modified")
	if err != nil {
		return "", err
	}
	swaps, difference, err := r.swaps(o, oldIDs, newIDs)
	if err != nil {
		return "", err
	}
	u, method, err := r.payer(o, methodID)
	if err != nil {
		return "", err
	}
	if method.isGiftCard() && method.balance() < difference {
		return "", tooPoor
	}
	entry := Payment{Type: refund, Amount: math.Abs(difference), MethodID: methodID}
	if difference > 0 {
		entry.Type = payment
	}
	o.History = append(o.History, entry)
	for _, s := range swaps {
		item := &o.Items[s.at]
		item.ItemID, item.Price, item.Options = s.to.ItemID, s.to.Price, s.to.Options
	}
	o.Status = itemsModified
	return r.putBoth(o, u, u.addToGiftCard(methodID, -difference))
}

// exchangeDeliveredOrderItems notes on the order what is to be exchanged for what, sorted, and the price
// difference in whole cents. No money moves yet, but a gift card must be able to pay.
func (r *run) exchangeDeliveredOrderItems(args *arguments) (string, error) {
	id, methodID := args.text("order_id"), args.text("payment_method_id")
	oldIDs, newIDs := args.list("item_ids"), args.list("new_item_ids")
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.deliveredOrder(id, "exchanged")
	if err != nil {
		return "", err
	}
	_, difference, err := r.swaps(o, oldIDs, newIDs)
	if err != nil {
		return "", err
	}
	_, method, err := r.payer(o, methodID)
	if err != nil {
		return "", err
	}
	difference = roundCents(difference)
	if method.isGiftCard() && method.balance() < difference {
		return "", tooPoor
	}
	o.Status = exchangeRequested
	o.ExchangeItems = slices.Sorted(slices.Values(oldIDs))
	o.ExchangeNewItems = slices.Sorted(slices.Values(newIDs))
	o.ExchangePaymentMethodID, o.ExchangePriceDifference = methodID, &difference
	return answer(o, r.put(OrderKey(id), o))
}

// returnDeliveredOrderItems notes on the order what comes back, sorted, and where the refund will go. No money
// moves yet.
func (r *run) returnDeliveredOrderItems(args *arguments) (string, error) {
	id, methodID, itemIDs := args.text("order_id"), args.text("payment_method_id"), args.list("item_ids")
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.deliveredOrder(id, "returned")
	if err != nil {
		return "", err
	}
	_, method, err := r.payer(o, methodID)
	if err != nil {
		return "", err
	}
	if !method.isGiftCard() && (len(o.History) == 0 || o.History[0].MethodID != methodID) {
		return "", refusal("payment method should be either the original payment method or a gift card")
	}
	if _, err := places(o, itemIDs); err != nil {
		return "", err
	}
	o.Status = returnRequested
	o.ReturnItems, o.ReturnPaymentMethodID = slices.Sorted(slices.Values(itemIDs)), methodID
	return answer(o, r.put(OrderKey(id), o))
}

func (r *run) deliveredOrder(id, deed string) (Order, error) {
	o, err := r.order(id)
	if err != nil {
		return Order{}, err
	}
	if o.Status != delivered {
		return Order{}, refusal("non-delivered order cannot be " + deed)
	}
	return o, nil
}

// payer reads the order's user and the payment method, which must be the user's.
func (r *run) payer(o Order, methodID string) (User, PaymentMethod, error) {
	u, err := r.user(o.UserID)
	if err != nil {
		return User{}, PaymentMethod{}, err
	}
	method, ok := u.PaymentMethods[methodID]
	if !ok {
		return User{}, PaymentMethod{}, refusal("payment method not found")
	}
	return u, method, nil
}

// swap replaces the order's item at an index by a variant of its product.
type swap struct {
	at int
	to Variant
}

// swaps pairs the items to replace with their new variants and sums the price differences in that order.
func (r *run) swaps(o Order, oldIDs, newIDs []string) ([]swap, float64, error) {
	if len(oldIDs) != len(newIDs) {
		return nil, 0, refusal("item_ids and new_item_ids must have the same length")
	}
	at, err := places(o, oldIDs)
	if err != nil {
		return nil, 0, err
	}
	var out []swap
	var difference float64
	for i, newID := range newIDs {
		item := o.Items[at[i]]
		v, ok := r.domain.products[item.ProductID].Variants[newID]
		if !ok || !v.Available {
			return nil, 0, refusal(fmt.Sprintf("new item %s is no available variant of %s", newID, item.Name))
		}
		difference += v.Price - item.Price
		out = append(out, swap{at: at[i], to: v})
	}
	return out, difference, nil
}

// places finds an index in the order for each item id; an id that is given twice needs two such items.
func places(o Order, itemIDs []string) ([]int, error) {
	if len(itemIDs) == 0 {
		return nil, refusal("name at least one item")
	}
	taken := make([]bool, len(o.Items))
	at := make([]int, 0, len(itemIDs))
	for _, id := range itemIDs {
		i := 0
		for i < len(o.Items) && (taken[i] || o.Items[i].ItemID != id) {
			i++
		}
		if i == len(o.Items) {
			return nil, refusal(fmt.Sprintf("item %s is not in the order as often as named", id))
		}
		taken[i] = true
		at = append(at, i)
	}
	return at, nil
}
