package retail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// User is a customer's record; its id is its shard's name.
type User struct {
	Name           Name                     `json:"name"`
	Address        Address                  `json:"address"`
	Email          string                   `json:"email"`
	PaymentMethods map[string]PaymentMethod `json:"payment_methods"`
	Orders         []string                 `json:"orders"`
}

// Name is a customer's name.
type Name struct {
	First string `json:"first_name"`
	Last  string `json:"last_name"`
}

// Address is where a customer lives or an order goes.
type Address struct {
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`
	City     string `json:"city"`
	Country  string `json:"country"`
	State    string `json:"state"`
	Zip      string `json:"zip"`
}

// PaymentMethod is one way in which a customer pays. Balance is there for gift cards only.
type PaymentMethod struct {
	Source   string   `json:"source"`
	ID       string   `json:"id"`
	Brand    string   `json:"brand,omitempty"`
	LastFour string   `json:"last_four,omitempty"`
	Balance  *float64 `json:"balance,omitempty"`
}

// Order is an order's record. The fields from CancelReason on appear with the tool call that sets them; Notes is
// our own.
type Order struct {
	OrderID      string        `json:"order_id"`
	UserID       string        `json:"user_id"`
	Address      Address       `json:"address"`
	Items        []Item        `json:"items"`
	Fulfillments []Fulfillment `json:"fulfillments"`
	Status       string        `json:"status"`
	History      []Payment     `json:"payment_history"`

	CancelReason            string   `json:"cancel_reason,omitempty"`
	ExchangeItems           []string `json:"exchange_items,omitempty"`
	ExchangeNewItems        []string `json:"exchange_new_items,omitempty"`
	ExchangePaymentMethodID string   `json:"exchange_payment_method_id,omitempty"`
	ExchangePriceDifference *float64 `json:"exchange_price_difference,omitempty"`
	ReturnItems             []string `json:"return_items,omitempty"`
	ReturnPaymentMethodID   string   `json:"return_payment_method_id,omitempty"`
	Notes                   []Note   `json:"notes,omitempty"`
}

// Item is one article of an order, with the price and the options that it was ordered with.
type Item struct {
	Name      string            `json:"name"`
	ProductID string            `json:"product_id"`
	ItemID    string            `json:"item_id"`
	Price     float64           `json:"price"`
	Options   map[string]string `json:"options"`
}

// Fulfillment is one parcel of an order.
type Fulfillment struct {
	TrackingID []string `json:"tracking_id"`
	ItemIDs    []string `json:"item_ids"`
}

// Payment is one movement of money of an order: a payment or a refund.
type Payment struct {
	Type     string  `json:"transaction_type"`
	Amount   float64 `json:"amount"`
	MethodID string  `json:"payment_method_id"`
}

// Note is one entry that annotate_order appends. Number counts an order's notes from 1 without a gap: two notes
// that were written over the same reading carry the same number, and one of them is lost.
type Note struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

// Product is a constant of the domain: one article in its variants, by item id.
type Product struct {
	Name      string             `json:"name"`
	ProductID string             `json:"product_id"`
	Variants  map[string]Variant `json:"variants"`
}

// Variant is one form in which a product is sold.
type Variant struct {
	ItemID    string            `json:"item_id"`
	Options   map[string]string `json:"options"`
	Available bool              `json:"available"`
	Price     float64           `json:"price"`
}

// DecodeUser reads a user's record; an unknown field is an error, because a later write would lose it.
func DecodeUser(data []byte) (User, error) {
	var u User
	err := decodeStrict(data, &u)
	return u, err
}

// DecodeOrder reads an order's record; an unknown field is an error, because a later write would lose it.
func DecodeOrder(data []byte) (Order, error) {
	var o Order
	err := decodeStrict(data, &o)
	return o, err
}

// LastNote returns the number of an order's newest note, 0 when it has none. It grows by one with every
// annotate_order that was not lost.
func (o Order) LastNote() int {
	if len(o.Notes) == 0 {
		return 0
	}
	return o.Notes[len(o.Notes)-1].Number
}

// Canonical returns the one form of a JSON text that is compared byte for byte: keys sorted, no spaces, strings
// escaped only where JSON asks for it, every number in the shortest form that gives the same float64 (1464.0
// becomes 1464).
func Canonical(data []byte) ([]byte, error) {
	var v any
	if err := decodeStrict(data, &v); err != nil {
		return nil, err
	}
	return encode(v)
}

// Equal says whether two JSON texts hold the same value, whatever their spaces, key order and number forms.
func Equal(a, b []byte) bool {
	x, errX := Canonical(a)
	y, errY := Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// marshal returns a record as canonical JSON.
func marshal(record any) ([]byte, error) {
	data, err := encode(record)
	if err != nil {
		return nil, err
	}
	return Canonical(data) // a struct's fields come in its own order: once more, as a map
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return slices.Clip(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

func decodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("decode JSON: text after the value at byte %d", dec.InputOffset())
	}
	return nil
}
