package llm

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
)

func words() *vocabulary {
	return newVocabulary([]gate.Term{
		{Scope: "orders/*", Names: []string{"order *", "Bestellung *"}},
		{Scope: "accounts/main", Names: []string{"main account", "ÄRA"}},
		{Scope: "accounts/main/limits"},
	})
}

func TestVocabulary(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"Order 7.":             "orders/7",
		"order A-7, ORDER 8":   "orders/A-7 orders/8",
		"reorder 7":            "",
		"the main account's":   "accounts/main",
		"main accounts":        "",
		"accounts/main":        "accounts/main",
		"accounts/main/limits": "accounts/main/limits",
		"accounts/main/limit":  "accounts/main",
		"orders/7_x orders/7":  "orders/7_x orders/7",
		"İ order 7 and ära":    "orders/7 accounts/main",
		"order 7 order 7":      "orders/7",
		"order ":               "",
		`{"id":"orders/7"}`:    "orders/7",
		"xaccounts/main accounts/mainx bestellung 9": "orders/9",
	} {
		if got, _ := words().find(text, true); strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %q", text, got, want)
		}
	}
}

// streams are answers as the three providers send them; each uses orders/7 and accounts/main and not orders/70.
func streams() map[string]string {
	return map[string]string{
		"openai": `data: {"id":"orders/70","choices":[{"index":0,"delta":{"role":"assistant","content":"The or"}}]}

data: {"choices":[{"index":0,"delta":{"content":"der 7"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"from\":\"\\nacco"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"unts/main\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`,
		"responses": `event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"m","content_index":0,"delta":"order"}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"m","content_index":0,"delta":" 7, main"}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"m","content_index":0,"delta":" account"}

event: response.completed
data: {"type":"response.completed","response":{"output":[]}}

`,
		"anthropic": `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"orders/"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"7"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"main acc"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"ount\"}"}}

event: message_stop
data: {"type":"message_stop"}

`,
		"gemini": `data: {"candidates":[{"content":{"parts":[{"text":"or"}]}}]}

data: {"candidates":[{"content":{"parts":[{"text":"der 7 "}]}}]}

data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{"from":"accounts/main"}}}]},"finishReason":"STOP"}]}

`,
	}
}

// read takes an answer through, in bits of the given size, and returns what it uses, and how much had been released
// when the last use was found.
func read(t *testing.T, body string, stream bool, bits int) (got string, used []string, released int) {
	t.Helper()
	var in io.Reader = strings.NewReader(body)
	if bits == 1 {
		in = iotest.OneByteReader(in)
	}
	out := &strings.Builder{}
	a := &answer{body: io.NopCloser(in), stream: stream, words: words(), pieces: map[string]*piece{}, over: func() {},
		calls: calls{}, use: func(scopes []string) error {
			for _, s := range scopes {
				if !slices.Contains(used, s) {
					used, released = append(used, s), out.Len()
				}
			}
			return nil
		}}
	_, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{a}, make([]byte, bits))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(used)
	return out.String(), used, released
}

// Whatever bits a stream comes in, it is handed on byte for byte, and what it uses is known before its last byte.
func TestStreams(t *testing.T) {
	for name, body := range streams() {
		for _, bits := range []int{1, 2, 3, 7, 64, 1 << 16} {
			got, used, released := read(t, body, true, bits)
			if got != body {
				t.Fatalf("%s in bits of %d was changed", name, bits)
			}
			if fmt.Sprint(used) != "[accounts/main orders/7]" {
				t.Errorf("%s in bits of %d uses %v", name, bits, used)
			}
			if released >= len(body) {
				t.Errorf("%s in bits of %d: its last use was found after its end", name, bits)
			}
		}
	}
}

// A name may be cut at each of its bytes, also between events.
func TestStreamsCutAnywhere(t *testing.T) {
	const text = "so order 7 goes"
	for cut := range len(text) {
		const event = "data: {\"delta\":{\"content\":%q}}\n\n"
		body := fmt.Sprintf(event+event, text[:cut], text[cut:])
		if _, used, _ := read(t, body, true, 1); fmt.Sprint(used) != "[orders/7]" {
			t.Errorf("cut at %d: %v", cut, used)
		}
	}
}

// A whole answer is looked through before any of it is released.
func TestWholeAnswer(t *testing.T) {
	const body = `{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"pay",` +
		`"arguments":"{\"to\":\"\\tmain account\"}"}}]}}]}`
	got, used, released := read(t, body, false, 16)
	if got != body || fmt.Sprint(used) != "[accounts/main]" || released != 0 {
		t.Fatalf("%s %v %d", got, used, released)
	}
}

// In what a tool is called with no key hides a name, not even one that says nothing elsewhere.
func TestArgumentsHideNothing(t *testing.T) {
	for name, c := range map[string]struct {
		stream bool
		body   string
	}{
		"openai": {false, `{"choices":[{"message":{"tool_calls":[` +
			`{"function":{"arguments":"{\"id\":\"orders/7\"}"}}]}}]}`},
		"responses": {false, `{"output":[{"type":"function_call","arguments":"{\"data\":{\"id\":\"order 7\"}}"}]}`},
		"anthropic": {false, `{"content":[{"type":"tool_use","id":"orders/8","input":{"id":"orders/7"}}]}`},
		"gemini":    {false, `{"candidates":[{"content":{"parts":[{"functionCall":{"args":{"user":"order 7"}}}]}}]}`},
		"streamed": {true, `data: {"type":"content_block_delta","index":1,"delta":{"partial_json":"{\"id\": \"\\nord"}}

data: {"type":"content_block_delta","index":1,"delta":{"partial_json":"er 7\"}"}}

`},
	} {
		if _, used, _ := read(t, c.body, c.stream, 9); fmt.Sprint(used) != "[orders/7]" {
			t.Errorf("%s: %v", name, used)
		}
	}
}

// An answer whose use cannot be recorded does not reach the client.
func TestUnrecordedUse(t *testing.T) {
	a := &answer{body: io.NopCloser(strings.NewReader(`{"text":"order 7"}`)), words: words(),
		pieces: map[string]*piece{}, calls: calls{}, over: func() {}, use: func([]string) error { return io.ErrClosedPipe }}
	if got, err := io.ReadAll(a); len(got) > 0 || err == nil {
		t.Fatalf("%q %v", got, err)
	}
}

// The calls of an answer, in its order, in the four shapes, streamed and whole.
func TestCalls(t *testing.T) {
	const want = `pay {"a":1} note {"b":12345678901234567890}`
	for name, c := range map[string]struct {
		stream bool
		body   string
	}{
		"openai": {false, `{"choices":[{"index":0,"message":{"tool_calls":[` +
			`{"id":"1","function":{"name":"pay","arguments":"{\"a\":1}"}},` +
			`{"id":"2","function":{"name":"note","arguments":"{\"b\":12345678901234567890}"}}]}},` +
			`{"index":1,"message":{"tool_calls":[{"function":{"name":"other","arguments":"{}"}}]}}]}`},
		"openai streamed": {true, `data: {"choices":[{"index":0,"delta":{"tool_calls":[` +
			`{"index":0,"function":{"name":"pay","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":"note","arguments":"{\"b\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"12345678901234567890}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

`},
		"responses": {false, `{"output":[{"type":"message"},{"type":"function_call","name":"pay","arguments":"{\"a\":1}"},` +
			`{"type":"function_call","name":"note","arguments":"{\"b\":12345678901234567890}"}]}`},
		"responses streamed": {true, `data: {"type":"response.output_item.done","item":{"type":"function_call",` +
			`"name":"pay","arguments":"{\"a\":1}"}}

data: {"type":"response.output_item.done","item":{"type":"function_call","name":"note",` +
			`"arguments":"{\"b\":12345678901234567890}"}}

data: {"type":"response.completed","response":{"output":[{"type":"function_call","name":"pay","arguments":"{}"}]}}

`},
		"anthropic": {false, `{"type":"message","content":[{"type":"text","text":"x"},` +
			`{"type":"tool_use","id":"1","name":"pay","input":{"a":1}},` +
			`{"type":"tool_use","id":"2","name":"note","input":{"b":12345678901234567890}}]}`},
		"anthropic streamed": {true, `data: {"type":"content_block_start","index":1,` +
			`"content_block":{"type":"tool_use","id":"1","name":"pay","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}

data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","name":"note","input":{}}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",` +
			`"partial_json":"{\"b\":12345678901234567890}"}}

data: {"type":"message_stop"}

`},
		"gemini": {false, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"pay","args":{"a":1}}},` +
			`{"functionCall":{"name":"note","args":{"b":12345678901234567890}}}]}}]}`},
		"gemini streamed": {true, `data: {"candidates":[{"content":{"parts":[` +
			`{"functionCall":{"name":"pay","args":{"a":1}}}]}}]}

data: {"candidates":[{"content":{"parts":[` +
			`{"functionCall":{"name":"note","args":{"b":12345678901234567890}}}]},"finishReason":"STOP"}]}

`},
	} {
		told := 0
		a := &answer{body: io.NopCloser(iotest.OneByteReader(strings.NewReader(c.body))), stream: c.stream,
			words: words(), pieces: map[string]*piece{}, calls: calls{}, over: func() {}}
		a.told = func(uses []api.ToolUse) {
			told++
			var got []string
			for _, u := range uses {
				got = append(got, u.Name+" "+string(u.Args))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		if _, err := io.ReadAll(a); err != nil || told != 1 {
			t.Errorf("%s: told %d times, %v", name, told, err)
		}
	}
}

// TestWordsOfTheEnd: an answer that speaks of how a stream ends, in its text or in the arguments of a call, is not at
// its end: what comes after is looked through and told.
func TestWordsOfTheEnd(t *testing.T) {
	for name, word := range map[string]string{"none": "nothing", "OpenAI's": "[DONE]", "Anthropic's": "message_stop",
		"of a response": "response.completed", "Gemini's": `\"finishReason\":\"STOP\"`,
		"of a choice": `\"finish_reason\":\"stop\"`} {
		for shape, body := range map[string]string{
			"openai": `data: {"choices":[{"index":0,"delta":{"content":"it ends with ` + word + `, ord"}}]}

data: {"choices":[{"index":0,"delta":{"content":"er 12"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"pay","arguments":"{\"a\":1}"}},` +
				`{"index":1,"function":{"name":"ship","arguments":"{\"a\":2}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`,
			"gemini": `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"pay",` +
				`"args":{"finishReason":"` + word + `","finish_reason":"x"}}}]}}]}

data: {"candidates":[{"content":{"parts":[{"text":"order 12"},{"functionCall":{"name":"ship","args":{}}}]}}]}

data: {"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}

`,
			"anthropic": `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"pay",` +
				`"input":{"a":"` + word + `"}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"order 12"}}

data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","name":"ship","input":{}}}

data: {"type":"message_stop"}

`} {
			var told, said []string
			a := &answer{body: io.NopCloser(strings.NewReader(body)), stream: true, words: words(),
				pieces: map[string]*piece{}, over: func() {}, calls: calls{}, use: func([]string) error { return nil },
				told: func(uses []api.ToolUse) {
					for _, u := range uses {
						told = append(told, u.Name)
					}
				},
				extract: func(s []string) ([]string, error) { said = append(said, s...); return nil, nil }}
			if _, err := io.ReadAll(a); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(told) != "[pay ship]" || !strings.Contains(strings.Join(said, "|"), "order 12") {
				t.Errorf("%s, the word %s: told of %q; the extractor was asked about %q", shape, name, told, said)
			}
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, body := range streams() {
		f.Add(body, true)
	}
	f.Add(`{"a":"order 7"}`, false)
	f.Fuzz(func(t *testing.T, body string, stream bool) {
		if got, _, _ := read(t, body, stream, 5); got != body {
			t.Fatalf("%q became %q", body, got)
		}
	})
}

// BenchmarkVocabulary is the cost of a text by the number of names: it has to be the same.
func BenchmarkVocabulary(b *testing.B) {
	text := strings.Repeat("The customer of order 7 asks for the state of the main account. ", 64)
	for _, n := range []int{4, 100, 10_000} {
		terms := []gate.Term{}
		for i := range n {
			name := fmt.Sprintf("thing no. %d", i)
			terms = append(terms, gate.Term{Scope: fmt.Sprintf("things/%d", i), Names: []string{name}})
		}
		v := newVocabulary(terms)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				v.find(text, true)
			}
		})
	}
}
