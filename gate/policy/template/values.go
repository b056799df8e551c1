package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

// Values are what placeholders name.
type Values struct {
	Names  map[string]any                    // decoded JSON; numbers as json.Number
	Secret func(name string) (string, error) // for {$secret.NAME}; nil: none may stand here
}

// maxDepth is how deep arguments may nest.
const maxDepth = 64

// Object decodes a JSON object, keeping numbers as they are written. A name that is written twice is refused: readers
// differ in which of the two they take.
func Object(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decode(d, maxDepth)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object: write {\"name\": value, ...}")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object: send the object alone")
	}
	return object, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("the JSON nests more than %d levels deep", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(d, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decode(d, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, closing(d)
	}
	return token, nil
}

func decodeObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		key := name.(string) // the decoder takes nothing else there
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("%.80q is there twice: send each name once", key)
		}
		if object[key], err = decode(d, depth-1); err != nil {
			return nil, err
		}
	}
	return object, closing(d)
}

func closing(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}

// find returns the value that a placeholder names; nil when it is optional and absent.
func (v Values) find(p Placeholder) (any, error) {
	if p.Path[0] == "$secret" {
		return v.secret(p)
	}
	var value any = v.Names
	for i, step := range p.Path {
		var ok bool
		switch at := value.(type) {
		case map[string]any:
			value, ok = at[step]
		case []any:
			var n int
			n, ok = index(step, len(at))
			if ok {
				value = at[n]
			}
		}
		if !ok || value == nil {
			if p.Optional {
				return nil, nil
			}
			return nil, fmt.Errorf("%w: %s is missing: the call gives no value for %s", ErrValue, p, p.Path[:i+1])
		}
	}
	return value, nil
}

func (v Values) secret(p Placeholder) (any, error) {
	if v.Secret == nil || len(p.Path) != 2 {
		return nil, fmt.Errorf("%w: %s may stand in headers, environment and standard input only", ErrValue, p)
	}
	text, err := v.Secret(p.Path[1])
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrValue, p, err)
	}
	return text, nil
}

func index(step string, length int) (int, bool) {
	n, err := strconv.Atoi(step)
	return n, err == nil && n >= 0 && n < length && strconv.Itoa(n) == step
}

// plain returns a value as text.
func plain(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return number(string(v))
	case float64:
		return number(strconv.FormatFloat(v, 'g', -1, 64))
	case int:
		return strconv.Itoa(v), nil
	}
	return "", errors.New("is a list or an object: name a part of it, such as {list.0}")
}

// number returns the one spelling of a number: 17 for 17, 17.0 and 1.7e1, and 0 for -0.
func number(text string) (string, error) {
	const longest, widest = 64, 308
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	e, err := strconv.Atoi(exponent)
	if len(text) > longest || exponent != "" && (err != nil || e > widest || e < -widest) {
		return "", errors.New("is a number too long to name something: send it as text")
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return "", errors.New("is no number")
	}
	if r.IsInt() {
		return r.Num().String(), nil
	}
	exact := strings.TrimRight(r.FloatString(widest+longest), "0")
	return exact, nil
}
