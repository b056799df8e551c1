package llm

import (
	"encoding/json"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// textsOf are the texts that a scan finds, and those of what is parsed.
func textsOf(t *testing.T, body string) (got, parsed []string) {
	var v any
	valid := json.Unmarshal([]byte(body), &v) == nil
	if valid {
		texts(v, "", func(_, text string) { parsed = append(parsed, text) })
	}
	if is := scanned([]byte(body), silent, func(text string) { got = append(got, text) }); is != valid {
		t.Fatalf("%q is JSON: %t", body, is)
	}
	slices.Sort(got)
	slices.Sort(parsed)
	return got, parsed
}

// bodies are requests of several shapes, and what is easily taken for another thing.
func bodies() []string {
	return []string{
		`{"messages":[{"content":"order 7"},{"role":"tool","tool_call_id":"orders/8","content":"a \"b\" é"}]}`,
		`{"messages":[{"tool_calls":[{"id":"orders/8","function":{"arguments":"{\"id\":\"orders\\/7\"}"}}]}]}`,
		`{"content":[{"type":"tool_use","input":{"id":"orders/7","tools":["x"]}}],"input":[{"id":"no","text":"yes"}]}`,
		`{"contents":[{"parts":[{"functionResponse":{"response":{"data":"order 7","n":-1.5e3,"t":[true,null]}}}]}]}`,
		`{"tools":[{"a":{"input":{"b":"silent"}}}],"metadata":{"a":[["silent"]]},"\u0069nput":{"user":"heard"}}`,
		"\t[ \"a\" , [ ] , { } , {\"b\" : [\"c\",\"\\\\\", \"{\\\"a\\\":[\\\"deep\\\"]}\"]} ]\n", "\"\xff order 7\"",
		`"[\"[\\\"twice\\\"]\"]"`, `"{no JSON"`, `" [] "`, `7`, `null`, ``, ` `, `{`, `[1,]`, `{} {}`, `--boundary`,
	}
}

// A scan finds the texts that are found in what is parsed, and no others.
func TestScan(t *testing.T) {
	for _, body := range bodies() {
		if got, parsed := textsOf(t, body); !slices.Equal(got, parsed) {
			t.Errorf("%q: %q, and parsed %q", body, got, parsed)
		}
	}
	for body, want := range map[string]string{
		// Which of two members of one name the model is told is not known.
		`{"a":"first","a":"second"}`:                                        "first second",
		`{"a":"{\"id\":\"in\",\"b\":\"[\\\"twice\\\"]\"}","id":["silent"]}`: "in twice",
	} {
		if got, _ := textsOf(t, body); strings.Join(got, " ") != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, body := range bodies() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, parsed := textsOf(t, body)
		for _, text := range parsed { // which has a key once
			if _, is := slices.BinarySearch(got, text); !is {
				t.Errorf("%q: %q is not found in %q", body, text, got)
			}
		}
	})
}

// What is kept of a request is by its size, and not by how many values it has.
func TestRequestOfManyValues(t *testing.T) {
	v := &gate.Vocabulary{Terms: []gate.Term{{Scope: "orders/*", Names: []string{"order *"}}}}
	const size = 4 << 20
	for name, one := range map[string]string{"objects": "{},", "lists": "[],", "numbers": "1,", "members": `{"a":1},`} {
		body := "[" + strings.Repeat(one, size/len(one)) + `"order 7"]`
		inner, err := json.Marshal(map[string]string{"content": body})
		if err != nil {
			t.Fatal(err)
		}
		for where, body := range map[string][]byte{"": []byte(body), " in a text": inner} {
			n := 0
			p := &pass{f: &Face{Config: Config{Figures: uncounted{}, Log: slog.New(slog.DiscardHandler)}},
				guest: &Guest{Agent: counts{mentioned: &n}, Vocabulary: v}, words: newVocabulary(v.Terms)}
			var was, is runtime.MemStats
			runtime.ReadMemStats(&was)
			err := p.note(t.Context(), body)
			runtime.ReadMemStats(&is)
			if took := is.TotalAlloc - was.TotalAlloc; err != nil || n != 1 || took > 6*size {
				t.Errorf("%s%s: %d MiB for a body of %d MiB, %d mentions, %v", name, where, took>>20, len(body)>>20, n, err)
			}
		}
	}
}
