package journal

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// A key's record is the JSON that its fields say, and is never one that a start could not read.
func TestKeyRecordJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~]{0,40}`), rapid.String())
		r := KeyRecord{Key: text.Draw(t, "key"), Request: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "request"),
			AtMs: rapid.Int64().Draw(t, "at"), Tx: sequencer.TxID(text.Draw(t, "tx")), Fresh: rapid.Bool().Draw(t, "fresh"),
			Done: rapid.Bool().Draw(t, "done"), Status: rapid.IntRange(0, 599).Draw(t, "status"), Media: text.Draw(t, "media"),
			Header: rapid.MapOfN(text, text, 0, 3).Draw(t, "header")}
		if rapid.Bool().Draw(t, "seen") {
			r.Seen = &api.Receipt{Tx: text.Draw(t, "receipt")}
		}
		if rapid.Bool().Draw(t, "answered") {
			r.Body, _ = json.Marshal(map[string]string{"detail": text.Draw(t, "detail")})
		}
		body, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		var got, said KeyRecord
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if err := json.Unmarshal(want, &said); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, said) {
			t.Fatalf("%s says\n%+v, not\n%+v", body, got, said)
		}
	})
	if body, err := (&KeyRecord{Body: []byte(`{"half`)}).JSON(); err == nil {
		t.Errorf("an answer that is not JSON: %s", body)
	}
}

// What became of a transaction is the JSON that json.Marshal says, for each field that the record has.
func TestDecidedRecordJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~]{0,20}`), rapid.String())
		d := &DecidedRecord{}
		fields := reflect.ValueOf(d).Elem()
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			switch f := fields.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(text.Draw(t, name))
			case reflect.Bool:
				f.SetBool(rapid.Bool().Draw(t, name))
			case reflect.Int:
				f.SetInt(rapid.Int64Range(0, 3).Draw(t, name))
			case reflect.Uint64:
				f.SetUint(rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, name))
			case reflect.Struct:
				f.Set(reflect.ValueOf(sequencer.Writer{Seq: sequencer.Seq(rapid.Uint64().Draw(t, "seq")),
					Tx: sequencer.TxID(text.Draw(t, "tx")), Residue: rapid.Bool().Draw(t, "residue")}))
			case reflect.Slice:
				f.Set(reflect.ValueOf(rapid.SliceOfN(rapid.Uint32(), 0, 3).Draw(t, name)))
			default:
				t.Fatalf("a field %s of a new kind: write it in json, and draw it here", name)
			}
		}
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var got, said DecidedRecord
		err = errors.Join(json.Unmarshal(d.json(), &got), json.Unmarshal(want, &said))
		if err != nil || !reflect.DeepEqual(got, said) {
			t.Fatalf("%s says\n%+v, not\n%+v: %v", d.json(), got, said, err)
		}
	})
}
