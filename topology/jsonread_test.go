package topology

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readAny reads a whole text the way encoding/json would into an any, with numbers left as their text.
func readAny(b []byte) error {
	r := &jsonReader{b: b}
	r.skip()
	r.end()
	return r.err
}

// TestSkipAgrees holds what is skipped to what encoding/json takes as a value.
func TestSkipAgrees(t *testing.T) {
	texts := []string{`{}`, `[]`, `{"a":1}`, `{"a":[1,-2.5e+7,true,null,"\u00e9\ud83d\ude00"]}`, ` { "a" : [ ] } `,
		`0`, `-0`, `01`, `1.`,
		`.5`, `-`, `1e`, `1e5`, `1E-5`, `tru`, `nul`, `truee`, `"a`, `"\x"`, `"\u12"`, `"\u12G4"`, `{"a"}`, `{"a":}`,
		`{,}`, `[1,]`, `[,1]`,
		`{"a":1,}`, `{a:1}`, `[1 2]`, `"` + "\n" + `"`, ``, ` `, `1 2`, `{"a":1}}`, `[[[[]]]]`, `-1.5`, `--1`, `+1`,
		`1-1`, `Inf`, `0x1`, `1_0`, "\"\x7f\""}
	for _, text := range texts {
		if got, want := readAny([]byte(text)) == nil, json.Valid([]byte(text)); got != want {
			t.Errorf("%q is taken: %t, by encoding/json: %t", text, got, want)
		}
	}
	alphabet := rapid.SliceOfN(rapid.SampledFrom([]string{"{", "}", "[", "]", ",", ":", `"a"`, `"`, "1", "-", ".",
		"e", "0", "true",
		"null", " ", `\`, `\u00`}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(alphabet.Draw(t, "pieces"), "")
		if got, want := readAny([]byte(text)) == nil, json.Valid([]byte(text)); got != want {
			t.Fatalf("%q is taken: %t, by encoding/json: %t", text, got, want)
		}
	})
}

// TestStringsAgree holds that strings are read as encoding/json reads them, and what quote writes is read by it.
func TestStringsAgree(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, quoted []byte) {
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatalf("%s: %v", quoted, err)
		}
		r := &jsonReader{b: quoted}
		if got := r.text(); got != want || r.err != nil {
			t.Fatalf("%s is read as %q (%v), by encoding/json as %q", quoted, got, r.err, want)
		}
	}
	for _, quoted := range []string{`"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\ud83d\ude00"`, `"\ude00"`,
		`"\/\b\f\n\r\t\"\\"`,
		`"a\u0000\u00E9b"`, `""`} {
		check(t, []byte(quoted))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		theirs, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		check(t, theirs)
		j := &object{}
		j.quote(s)
		check(t, j.b)
	})
}

// TestDecisionFromAnyWriter holds that a decision which another program has rewritten is read the same: other spaces,
// other order of members, members that nobody knows.
func TestDecisionFromAnyWriter(t *testing.T) {
	for _, want := range sampleOutcomes() {
		b, err := encodeDecision(want)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		doc["data"].(map[string]any)["later"] = map[string]any{"x": []any{1.5, nil, map[string]any{}}}
		doc["data"].(map[string]any)["detail"] = want.Detail
		doc["partitionkey"] = "default"
		doc["aaa"] = []any{doc["data"]}
		rewritten, err := json.MarshalIndent(doc, " ", "\t") // members by name: data stands before type
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeCloudEvent(rewritten)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Error(difference("", reflect.ValueOf(got), reflect.ValueOf(want)))
		}
	}
}

// TestDecisionRefuses holds what no decision may be.
func TestDecisionRefuses(t *testing.T) {
	b, err := encodeDecision(sampleOutcomes()[4])
	if err != nil {
		t.Fatal(err)
	}
	whole := string(b)
	for from, to := range map[string]string{
		`"specversion":"1.0"`: `"specversion":"0.3"`, `"id":"default/47"`: `"id":"default/48"`, `"seq":47`: `"seq":46`,
		`"source":"/workspaces/default"`: `"source":"/workspaces/other"`, `.committed.v1`: `.committed`,
		`dev.hence.decision`: `dev.other`,
		`"kind":"committed"`: `"kind":"comitted"`, `"kind":"held"`: `"kind":"unknown:x"`, `"tick":12`: `"tick":-12`,
		`"offset":900`: `"offset":9.5`, `"floor":30`: `"floor":"30"`, `"partition":3`: `"partition":3000000000`,
		`"chain":"`: `"chain":"0`, `"sha256":"`: `"sha256":"zz`, `"content_base64":"`: `"content_base64":"*`,
		`2026-11-21T04`: `2026-11-21 04`, `"rests_on":["tx-0"`: `"rests_on":[7`,
		`"rules_version":0`: `"rules_version":4294967296`,
	} {
		if !strings.Contains(whole, from) {
			t.Fatalf("the sample has no %s", from)
		}
		if _, err := DecodeCloudEvent([]byte(strings.Replace(whole, from, to, 1))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s for %s: %v, want ErrMalformed", to, from, err)
		}
	}
	deep := strings.Replace(whole, `"seq":47`, `"seq":47,"later":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000), 1)
	if _, err := DecodeCloudEvent([]byte(deep)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a thousand levels: %v, want ErrMalformed", err)
	}
}
