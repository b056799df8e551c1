package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// TestResidue holds the record's form: plain JSON with names, read back as it was, also through encoding/json.
func TestResidue(t *testing.T) {
	want := sampleResidue()
	if key := want.RecordKey(); key != "default|tx-b|1" {
		t.Errorf("the key is %s", key)
	}
	b, err := EncodeResidue(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{`"type":"dev.hence.residue.v1"`, `"class":"known_outcome"`, `"result":"unresolved"`,
		`"state":"accepted"`, `ask <the bank>`, `"scopes":["card:/4711"]`} {
		if !strings.Contains(string(b), say) {
			t.Errorf("it does not say %s:\n%s", say, b)
		}
	}
	newer := bytes.Replace(b, []byte(`"tries"`), []byte(`"later":{"x":[1]},"tries"`), 1)
	for _, text := range [][]byte{b, newer} {
		got, err := DecodeResidue(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		var plain Residue
		if err := json.Unmarshal(text, &plain); err != nil || !reflect.DeepEqual(&plain, want) {
			t.Errorf("by encoding/json: %+v, %v", plain, err)
		}
	}
}

// TestResidueCode holds what a code adds to a record, and that records without one are as they were.
func TestResidueCode(t *testing.T) {
	want := sampleResidue()
	plain, err := EncodeResidue(want)
	if err != nil || bytes.Contains(plain, []byte(`"code"`)) || bytes.Contains(plain, []byte(`"args"`)) {
		t.Errorf("%s, %v", plain, err)
	}
	want.Code, want.Args = "changed_tool", []byte(`{"amount":12,"to":"<b>"}`)
	b, err := EncodeResidue(want)
	if err != nil || !strings.HasSuffix(string(b), `"code":"changed_tool","args":{"amount":12,"to":"<b>"}}`) {
		t.Errorf("%s, %v", b, err)
	}
	if got, err := DecodeResidue(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestResidueRefuses holds what no residue may be, in both directions.
func TestResidueRefuses(t *testing.T) {
	for what, change := range map[string]func(*Residue){
		"no workspace": func(r *Residue) { r.Workspace = "" },
		"no tx":        func(r *Residue) { r.Tx = "" },
		"a state":      func(r *Residue) { r.State = "forgotten" },
		"a long key":   func(r *Residue) { r.Key = strings.Repeat("k", maxNameBytes+1) },
		"not UTF-8":    func(r *Residue) { r.Tool = "\xff" },
		"many scopes":  func(r *Residue) { r.Scopes = make([]sequencer.Scope, MaxEffectScopes+1) },
		"too long": func(r *Residue) {
			r.Scopes = slices.Repeat([]sequencer.Scope{sequencer.Scope(strings.Repeat("s", maxNameBytes))},
				MaxResidueBytes/maxNameBytes+1)
		},
	} {
		r := sampleResidue()
		change(r)
		if _, err := EncodeResidue(r); err == nil {
			t.Errorf("%s is written", what)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeResidue(text); !errors.Is(err, ErrMalformed) && what != "not UTF-8" {
			t.Errorf("%s is read: %v", what, err)
		}
	}
	b, err := EncodeResidue(sampleResidue())
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{`"result":"unresolved"`: `"result":"lost"`, `.residue.v1`: `.residue`,
		`dev.hence`: `dev.other`, `"index":1`: `"index":-1`} {
		if _, err := DecodeResidue(bytes.Replace(b, []byte(from), []byte(to), 1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s for %s: %v, want ErrMalformed", to, from, err)
		}
	}
}

// TestResidueQuotesTools holds that whatever a tool has said, a residue can be written.
func TestResidueQuotesTools(t *testing.T) {
	for _, said := range []string{strings.Repeat("\xff", 5000), strings.Repeat("é", 5000), "a\x00b\xc3", "fine"} {
		r := sampleResidue()
		r.Detail, r.Note = said, said
		b, err := EncodeResidue(r)
		if err != nil {
			t.Fatalf("%.20q: %v", said, err)
		}
		got, err := DecodeResidue(b)
		if err != nil || got.Detail == "" || len(got.Detail) > maxNameBytes || !utf8.ValidString(got.Note) {
			t.Errorf("%.20q becomes %.20q, %v", said, got.Detail, err)
		}
	}
}
