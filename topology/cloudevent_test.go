package topology

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestDecisionFromAnyWriter holds that a decision which another program has rewritten is read the same: other spaces,
// other order of members, unknown members.
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

// TestDecisionBounds holds what a text of many small values may cost, whole and not only until its first error.
func TestDecisionBounds(t *testing.T) {
	const most = 64 << 20
	b, err := encodeDecision(sampleOutcomes()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"shards", "added", "may", "writes", "blocked_by", "rests_on", "later"} {
		for _, item := range []string{`{},`, `null,`, `"",`, `[],`, `1,`} {
			for _, n := range []int{maxJSONValues/2 - 100, MaxRecordBytes/len(item) - 1000} {
				member := `"data":{"` + list + `":[` + strings.Repeat(item, n) + item[:len(item)-1] + "],"
				text := []byte(strings.Replace(string(b), `"data":{`, member, 1))
				var err error
				got := allocated(func() { _, err = DecodeCloudEvent(text) })
				if n > maxJSONValues && !errors.Is(err, ErrMalformed) || err != nil && !errors.Is(err, ErrMalformed) {
					t.Errorf("%d of %s in %s: %v", n, item, list, err)
				}
				if got > most {
					t.Errorf("%d of %s in %s: allocates %d bytes", n, item, list, got)
				}
			}
		}
	}
}
