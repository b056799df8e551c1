package retail

import "slices"

// pendingOrder reads an order that may still be changed. An order whose items were changed may not: in the data
// set that call is always the last one on its order.
func (r *run) pendingOrder(id, deed string) (Order, error) {
	o, err := r.order(id)
	if err != nil {
		return Order{}, err
	}
	if o.Status != pending {
		return Order{}, refusal("non-pending order cannot be " + deed)
	}
	return o, nil
}

// cancelPendingOrder refunds whatever the order still holds, to where it came from; what came from a gift card is
// back on it at once.
func (r *run) cancelPendingOrder(args *arguments) (string, error) {
	id, reason := args.text("order_id"), args.text("reason")
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.pendingOrder(id, cancelled)
	if err != nil {
		return "", err
	}
	if reasons := []string{"no longer needed", "ordered by mistake"}; !slices.Contains(reasons, reason) {
		return "", refusal("reason must be one of: no longer needed, ordered by mistake")
	}
	u, err := r.user(o.UserID)
	if err != nil {
		return "", err
	}
	changed := false
	for _, p := range o.held() {
		o.History = append(o.History, Payment{Type: refund, Amount: p.Amount, MethodID: p.MethodID})
		changed = u.addToGiftCard(p.MethodID, p.Amount) || changed
	}
	o.Status, o.CancelReason = cancelled, reason
	return r.putBoth(o, u, changed)
}

func (r *run) modifyPendingOrderAddress(args *arguments) (string, error) {
	id, address := args.text("order_id"), args.address()
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.pendingOrder(id, "modified")
	if err != nil {
		return "", err
	}
	o.Address = address
	return answer(o, r.put(OrderKey(id), o))
}

// modifyPendingOrderPayment moves all that the order holds from its one method to another: first the new payment,
// then the refund of the old one; gift cards follow at once.
func (r *run) modifyPendingOrderPayment(args *arguments) (string, error) {
	id, methodID := args.text("order_id"), args.text("payment_method_id")
	if err := args.done(); err != nil {
		return "", err
	}
	o, err := r.pendingOrder(id, "modified")
	if err != nil {
		return "", err
	}
	u, err := r.user(o.UserID)
	if err != nil {
		return "", err
	}
	method, ok := u.PaymentMethods[methodID]
	held := o.held()
	switch {
	case !ok:
		return "", refusal("payment method not found")
	case len(held) != 1:
		return "", refusal("order is not paid by exactly one payment method")
	case held[0].MethodID == methodID:
		return "", refusal("new payment method is the one the order is paid by")
	case method.isGiftCard() && method.balance() < held[0].Amount:
		return "", refusal("insufficient gift card balance to pay for the order")
	}
	amount := held[0].Amount
	o.History = append(o.History,
		Payment{Type: payment, Amount: amount, MethodID: methodID},
		Payment{Type: refund, Amount: amount, MethodID: held[0].MethodID})
	taken := u.addToGiftCard(methodID, -amount)
	given := u.addToGiftCard(held[0].MethodID, amount)
	return r.putBoth(o, u, taken || given)
}

// modifyUserAddress changes the user's record only: not the addresses of orders, and not the index by name and
// zip, which keeps finding the user by the zip that the data started with. No expected record says otherwise:
// where a zip changes, no later call of that task looks the user up by it.
func (r *run) modifyUserAddress(args *arguments) (string, error) {
	id, address := args.text("user_id"), args.address()
	if err := args.done(); err != nil {
		return "", err
	}
	u, err := r.user(id)
	if err != nil {
		return "", err
	}
	u.Address = address
	return answer(u, r.put(UserKey(id), u))
}

// putBoth buffers an order and, if it changed, its user.
func (r *run) putBoth(o Order, u User, userChanged bool) (string, error) {
	if userChanged {
		if err := r.put(UserKey(o.UserID), u); err != nil {
			return "", err
		}
	}
	return answer(o, r.put(OrderKey(o.OrderID), o))
}
