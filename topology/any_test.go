package topology

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
)

// anyOf draws a value of any record type, every field of it, however many a later version adds: what a codec forgets
// to write, the round trip finds. Lists are nil or filled, texts are UTF-8.
func anyOf[T any](t *rapid.T) *T {
	v := new(T)
	draw(t, reflect.ValueOf(v).Elem(), 0)
	return v
}

func draw(t *rapid.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.Just(""), rapid.StringN(1, 12, 40), rapid.SampledFrom([]string{
			"order:/eu/1", "shard:/a/**", "tx-1", "é\x00\"\\<\u2028", string(make([]byte, 300))})).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		lo, hi := int64(-1)<<(bits-1), int64(1)<<(bits-1)-1
		v.SetInt(rapid.Int64Range(lo, hi).Draw(t, "int"))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, ^uint64(0)>>(64-v.Type().Bits())).Draw(t, "uint"))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rapid.Byte().Draw(t, "byte")))
		}
		v.Index(0).SetUint(1) // no SHA-256 is all zero; pointers to one rely on it
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "present") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), depth+1)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, max(0, 3-depth/2)).Draw(t, "items")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if workedOut(v.Type(), i) {
				continue
			}
			draw(t, v.Field(i), depth+1)
		}
	default:
		t.Fatalf("no way to draw a %s", v.Type())
	}
}

// workedOut reports whether a field follows from others, and is in no record.
func workedOut(in reflect.Type, field int) bool {
	return in == reflect.TypeFor[sequencer.Standing]() && in.Field(field).Name == "Whole"
}

// difference names the first field in which two values differ.
func difference(path string, got, want reflect.Value) string {
	if reflect.DeepEqual(got.Interface(), want.Interface()) {
		return ""
	}
	switch k := got.Kind(); {
	case k == reflect.Pointer && !got.IsNil() && !want.IsNil():
		return difference(path, got.Elem(), want.Elem())
	case k == reflect.Struct:
		for i := range got.NumField() {
			if d := difference(path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i)); d != "" {
				return d
			}
		}
	case k == reflect.Slice && got.Len() == want.Len() && got.Len() > 0:
		for i := range got.Len() {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i)); d != "" {
				return d
			}
		}
	}
	return fmt.Sprintf("%s came back as %#v, went as %#v", path, got.Interface(), want.Interface())
}

// roundTrip holds that every value of T comes back as it went.
func roundTrip[T any](t *testing.T, encode func(*T) ([]byte, error), decode func([]byte) (*T, error)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		want := anyOf[T](t)
		b, err := encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatal(difference("", reflect.ValueOf(got), reflect.ValueOf(want)))
		}
	})
}
