package policy

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// A call whose arguments are not of the declared types is refused, with the type to send.
func TestArgumentTypes(t *testing.T) {
	p := typedPolicy(t)
	for args, want := range map[string]string{
		`{"order_id":"W17","count":2}`:                             "",
		`{"order_id":"W17","count":2.0,"parts":[1],"any":{"x":1}}`: "",
		`{"order_id":"W17","count":2,"parts":null}`:                "",
		`{"order_id":17,"count":2}`:                                `"order_id" is of type number: send a string`,
		`{"order_id":"W17","count":2.5}`:                           `"count" is of type number: send an integer`,
		`{"order_id":"W17","count":"2"}`:                           `"count" is of type string: send an integer`,
		`{"order_id":"W17","count":2,"parts":{}}`:                  `"parts" is of type object: send an array`,
		`{"order_id":null,"count":2}`:                              `"order_id" is of type null: send a string`,
		`{"order_id":"W17","count":2,"part":[]}`:                   `"part" is not among its arguments: write "parts"`,
	} {
		err := p.CheckArguments("order.note", []byte(args))
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrArguments) || !strings.Contains(err.Error(),
			want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if e := p.Explain("order.note", []byte(args)); (e.Refused != "") != (want != "") {
			t.Errorf("%s is explained as %+v", args, e)
		}
	}
	e := p.Explain("order.note", []byte(`{"order_id":"W17","count":2}`))
	if takes := "It takes any, may be left out; count, an integer; order_id, a string: As order.get shows it; " +
		"parts, an " +
		"array, may be left out."; !slices.ContainsFunc(e.Sentences, func(s string) bool {
		return sameWords(s,
			takes)
	}) {
		t.Errorf("explained as %q", e.Sentences)
	}
}

// sameWords compares a sentence whose parts may stand in any order.
func sameWords(a, b string) bool {
	words := func(s string) []string {
		list := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s, "It takes "), "."), "; ")
		slices.Sort(list)
		return list
	}
	return slices.Equal(words(a), words(b))
}

// What agents may call is offered with the JSON Schema of its arguments.
func TestOffers(t *testing.T) {
	list := typedPolicy(t).Offers()
	want := `{"type":"object","properties":{"any":{},"count":{"type":"integer"},"order_id":{"type":"string",` +
		`"description":"As order.get shows it."},"parts":{"type":"array"}},"required":["order_id","count"],` +
		`"additionalProperties":false}`
	if len(list) != 1 || string(list[0].Arguments) != want || list[0].Description != "Leaves a note at an order." {
		t.Errorf("offered are %+v %s", list, list[0].Arguments)
	}
}

// The signature of a tool whose arguments have no types is that of a list of names, and a type changes it.
func TestTypesAreSigned(t *testing.T) {
	sign := func(args string) string {
		p, err := Load([]byte("version: 1\nserver: s\ntools:\n  - {tool: a, class: irreversible, args: "+args+
			", scopes: [\"a:/{x}\"]}\n"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p.tools[0].signature
	}
	names := sign("[x, y?]")
	if sign("{x: {description: about x}, y: {required: false}}") != names {
		t.Error("a mapping without types is signed otherwise than a list")
	}
	if sign("{x: {type: string}, y: {required: false}}") == names {
		t.Error("a type is not signed")
	}
}

func typedPolicy(t *testing.T) *Policy {
	t.Helper()
	text, err := os.ReadFile("testdata/taken/typed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A whole number is an integer however large it is.
func TestLargeInteger(t *testing.T) {
	for text, whole := range map[string]bool{"9223372036854775807": true, "9223372036854775808": true,
		"-9223372036854775809": true, "1e300": true, "17.0": true, "1.5": false, "1e-1": false} {
		if wholeNumber(json.Number(text)) != whole {
			t.Errorf("%s is whole: %t", text, !whole)
		}
	}
}
