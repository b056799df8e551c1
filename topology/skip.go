package topology

import "github.com/vmihailenco/msgpack/v5/msgpcode"

// skip passes over one value of any shape: a field that a newer writer appended. It does not recurse, so that nesting
// costs nothing, and every value takes at least one byte, so that no length can keep it busy.
func (w *walker) skip() {
	for values := uint64(1); values > 0 && w.err == nil; values-- {
		c := w.code()
		items, size := w.shape(c)
		w.bytes(size)
		if values += items; values > uint64(len(w.b))+1 {
			w.malformed("%d values are announced, %d bytes are left", values-1, len(w.b))
		}
	}
}

// shape is how many values and how many bytes follow the code c; a length that stands between is read.
func (w *walker) shape(c byte) (items, size uint64) {
	switch {
	case msgpcode.IsFixedNum(c), c == msgpcode.Nil, c == msgpcode.False, c == msgpcode.True:
		return 0, 0
	case msgpcode.IsFixedMap(c):
		return 2 * uint64(c&msgpcode.FixedMapMask), 0
	case msgpcode.IsFixedArray(c):
		return uint64(c & msgpcode.FixedArrayMask), 0
	case msgpcode.IsFixedString(c):
		return 0, uint64(c & msgpcode.FixedStrMask)
	case c >= msgpcode.Str8 && c <= msgpcode.Str32:
		return 0, w.bigEndian(1 << (c - msgpcode.Str8))
	case c >= msgpcode.Bin8 && c <= msgpcode.Bin32:
		return 0, w.bigEndian(1 << (c - msgpcode.Bin8))
	case c >= msgpcode.Ext8 && c <= msgpcode.Ext32:
		return 0, w.bigEndian(1<<(c-msgpcode.Ext8)) + 1
	case c >= msgpcode.FixExt1 && c <= msgpcode.FixExt16:
		return 0, 1<<(c-msgpcode.FixExt1) + 1
	case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
		return 0, 1 << (c - msgpcode.Uint8)
	case c >= msgpcode.Int8 && c <= msgpcode.Int64:
		return 0, 1 << (c - msgpcode.Int8)
	case c == msgpcode.Float:
		return 0, 4
	case c == msgpcode.Double:
		return 0, 8
	case c == msgpcode.Array16, c == msgpcode.Array32:
		return w.bigEndian(2 << (c - msgpcode.Array16)), 0
	case c == msgpcode.Map16, c == msgpcode.Map32:
		return 2 * w.bigEndian(2<<(c-msgpcode.Map16)), 0
	}
	w.malformed("code %#x is no value", c)
	return 0, 0
}
