package retail

import (
	"fmt"
	"strconv"
)

// Money stays the float64 that the data has. Whole cents would be the better model of a shop, but the expected
// records hold differences such as 0.04999999999999716 (the price difference of a changed item, not rounded),
// while balances and exchange differences are rounded to cents; only the same arithmetic gives the same bytes.

// roundCents rounds to two decimals, correctly from the exact binary value and without a negative zero.
func roundCents(amount float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(amount, 'f', 2, 64), 64)
	if err != nil {
		panic(fmt.Sprintf("retail: amount %v does not survive its own text: %v", amount, err))
	}
	return rounded + 0
}

func (m PaymentMethod) isGiftCard() bool { return m.Source == "gift_card" }

func (m PaymentMethod) balance() float64 {
	if m.Balance == nil {
		return 0
	}
	return *m.Balance
}

// addToGiftCard adds an amount (negative: takes it) to a method's balance and reports whether the user changed:
// only gift cards hold money here, the other methods settle elsewhere.
func (u *User) addToGiftCard(methodID string, amount float64) bool {
	method, ok := u.PaymentMethods[methodID]
	if !ok || !method.isGiftCard() {
		return false
	}
	balance := roundCents(method.balance() + amount)
	method.Balance = &balance
	u.PaymentMethods[methodID] = method
	return true
}

// held lists, in order of first use, the methods that an order still holds money of and how much. An order with a
// single payment holds exactly that amount; sums are rounded to cents.
func (o Order) held() []Payment {
	var sums []Payment
	for _, p := range o.History {
		amount := p.Amount
		if p.Type == refund {
			amount = -amount
		}
		sums = addTo(sums, p.MethodID, amount)
	}
	left := sums[:0]
	for _, s := range sums {
		if roundCents(s.Amount) > 0 {
			left = append(left, s)
		}
	}
	return left
}

func addTo(sums []Payment, methodID string, amount float64) []Payment {
	for i := range sums {
		if sums[i].MethodID == methodID {
			sums[i].Amount = roundCents(sums[i].Amount + amount)
			return sums
		}
	}
	return append(sums, Payment{Type: payment, Amount: amount, MethodID: methodID})
}
