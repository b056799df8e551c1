package topology

import (
	"reflect"
	"testing"
)

// listPaths calls f with a new value of a type for each of its lists, at any depth, with as many zero items in that
// list as asked for and nothing else that could be left away.
func listPaths(t *testing.T, of reflect.Type, items int, f func(path string, v reflect.Value)) {
	t.Helper()
	var walk func(at reflect.Type, path string, depth int, build func() (root, here reflect.Value))
	walk = func(at reflect.Type, path string, depth int, build func() (root, here reflect.Value)) {
		if depth > 24 {
			t.Fatalf("%s is too deep", path)
		}
		switch at.Kind() {
		case reflect.Struct:
			for i := range at.NumField() {
				walk(at.Field(i).Type, path+"."+at.Field(i).Name, depth+1, func() (root, here reflect.Value) {
					root, here = build()
					return root, here.Field(i)
				})
			}
		case reflect.Pointer:
			walk(at.Elem(), path, depth+1, func() (root, here reflect.Value) {
				root, here = build()
				here.Set(reflect.New(at.Elem()))
				return root, here.Elem()
			})
		case reflect.Slice:
			if at.Elem().Kind() == reflect.Uint8 {
				return // bytes
			}
			root, here := build()
			here.Set(reflect.MakeSlice(at, items, items))
			f(path, root)
			walk(at.Elem(), path+"[0]", depth+1, func() (root, here reflect.Value) {
				root, here = build()
				here.Set(reflect.MakeSlice(at, 1, 1))
				return root, here.Index(0)
			})
		}
	}
	walk(of, of.Name(), 0, func() (root, here reflect.Value) {
		root = reflect.New(of)
		return root, root.Elem()
	})
}

// meets holds that what an encoder takes its decoder takes, for lists of the smallest items: the decoder bounds a list
// by the least bytes of its items, which must not be more than the encoder writes. Lists at the bound are read, one
// more item is not written.
func meets[T any](t *testing.T, encode func(*T) ([]byte, error), decode func([]byte) (*T, error)) {
	t.Helper()
	lists := 0
	for _, items := range []int{1000, maxListItems, maxListItems + 1} {
		listPaths(t, reflect.TypeFor[T](), items, func(path string, v reflect.Value) {
			lists++
			b, err := encode(v.Interface().(*T))
			if err != nil {
				if items == 1000 {
					t.Errorf("%s: %d items: %v", path, items, err)
				}
				return
			}
			back, err := decode(b)
			if err != nil {
				t.Errorf("%s: %d items are written and cannot be read: %v", path, items, err)
			} else if !reflect.DeepEqual(back, v.Interface()) {
				t.Errorf("%s: %d items come back otherwise", path, items)
			}
		})
	}
	if lists == 0 {
		t.Error("a record without a list")
	}
}

func TestEncodersAndDecodersMeet(t *testing.T) {
	t.Run("intent", func(t *testing.T) { meets(t, EncodeIntent, DecodeIntent) })
	t.Run("outcome", func(t *testing.T) { meets(t, EncodeOutcome, DecodeOutcome) })
	t.Run("decision", func(t *testing.T) { meets(t, encodeDecision, DecodeCloudEvent) })
	t.Run("replica", func(t *testing.T) { meets(t, EncodeReplica, DecodeReplica) })
	t.Run("event", func(t *testing.T) { meets(t, EncodeEvent, DecodeEvent) })
	t.Run("scope move", func(t *testing.T) { meets(t, EncodeScopeMove, DecodeScopeMove) })
	t.Run("frontier row", func(t *testing.T) { meets(t, EncodeFrontierRow, DecodeFrontierRow) })
	t.Run("closure row", func(t *testing.T) { meets(t, EncodeClosureRow, DecodeClosureRow) })
	t.Run("closure", func(t *testing.T) { meets(t, EncodeClosure, DecodeClosure) })
	t.Run("unsettled", func(t *testing.T) { meets(t, EncodeUnsettled, DecodeUnsettled) })
	t.Run("live", func(t *testing.T) { meets(t, EncodeLive, DecodeLive) })
	t.Run("cone", func(t *testing.T) { meets(t, EncodeCone, DecodeCone) })
	t.Run("snapshot", func(t *testing.T) { meets(t, EncodeSnapshot, DecodeSnapshot) })
}
