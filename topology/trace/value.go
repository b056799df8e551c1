package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Value is what a cell holds: any JSON, in one spelling, so that two values are equal if and only if their texts are.
// Objects have their names sorted, numbers their shortest decimal form without rounding (1.0, 1e0 and 1 are equal),
// texts no needless escapes, and nothing has spaces. A Value that is made by hand is made by Text, Of or Null.
type Value string

// Null is the value of a cell that was never written, or that was deleted. In a file it is null or "NULL".
const Null Value = "null"

// nullText is how published files spell Null.
const nullText = "NULL"

// Text is the Value of a JSON text.
func Text(text string) Value {
	if text == nullText {
		return Null
	}
	return Value(quoted(text))
}

// Of is the Value of JSON. It returns an error if the bytes are not one JSON value.
func Of(text []byte) (Value, error) {
	if !json.Valid(text) {
		return "", fmt.Errorf("not a JSON value: %s", short(text))
	}
	return canonical(text)
}

// MarshalJSON writes the value as it is.
func (v Value) MarshalJSON() ([]byte, error) {
	if v == "" {
		return nil, fmt.Errorf("a value without content: use Null, Text or Of")
	}
	return []byte(v), nil
}

// UnmarshalJSON reads any JSON value.
func (v *Value) UnmarshalJSON(text []byte) (err error) {
	*v, err = canonical(text)
	return err
}

// canonical is the one spelling of a valid JSON value.
func canonical(text []byte) (Value, error) {
	text = bytes.TrimSpace(text)
	if plain(text) {
		if string(text) == `"`+nullText+`"` {
			return Null, nil
		}
		return Value(text), nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return "", err
	}
	if s, is := decoded.(string); is {
		return Text(s), nil
	}
	var out strings.Builder
	err := spell(&out, decoded)
	return Value(out.String()), err
}

// plain reports whether a value stands in its one spelling already: most do.
func plain(text []byte) bool {
	switch {
	case len(text) == 0:
		return false
	case text[0] == '"':
		for _, b := range text[1 : len(text)-1] {
			if b < 0x20 || b >= 0x7f || b == '\\' {
				return false
			}
		}
		return true
	case text[0] >= '1' && text[0] <= '9':
		return len(text) < 20 && len(bytes.Trim(text, "0123456789")) == 0
	}
	return string(text) == "0" || string(text) == "null" || string(text) == "true" || string(text) == "false"
}

func spell(out *strings.Builder, decoded any) error {
	switch v := decoded.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		fmt.Fprint(out, v)
	case string:
		out.WriteString(quoted(v))
	case json.Number:
		number, err := decimal(v.String())
		out.WriteString(number)
		return err
	case []any:
		out.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := spell(out, element); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		out.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(quoted(name) + ":")
			if err := spell(out, v[name]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	}
	return nil
}

func quoted(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text always encodes
	return strings.TrimSuffix(out.String(), "\n")
}

// decimal spells a JSON number by its digits and its power of ten, without rounding: whole numbers of up to 30 digits
// as such, others as digits with an exponent.
func decimal(text string) (string, error) {
	text, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	power := new(big.Int)
	if exponent != "" {
		if _, ok := power.SetString(exponent, 10); !ok {
			return "", fmt.Errorf("the exponent of %se%s is no number", text, exponent)
		}
	}
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	power.Sub(power, big.NewInt(int64(len(fraction))))
	digits = strings.TrimLeft(whole+fraction, "0")
	kept := strings.TrimRight(digits, "0")
	power.Add(power, big.NewInt(int64(len(digits)-len(kept))))
	const longest = 30
	switch {
	case kept == "":
		return "0", nil
	case power.Sign() >= 0 && power.Cmp(big.NewInt(int64(longest-len(kept)))) <= 0:
		kept += strings.Repeat("0", int(power.Int64()))
	default:
		kept += "e" + power.String()
	}
	if negative {
		kept = "-" + kept
	}
	return kept, nil
}
