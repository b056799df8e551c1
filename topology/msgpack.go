package topology

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// This file is MessagePack's own grammar, as far as records need it: writing takes the shortest form, reading takes
// every form. No length is believed before it was held against the bytes that are left.

func (w *walker) putNil() { w.b = append(w.b, msgpcode.Nil) }

func (w *walker) putBool(v bool) {
	if v {
		w.b = append(w.b, msgpcode.True)
	} else {
		w.b = append(w.b, msgpcode.False)
	}
}

func (w *walker) putUint(n uint64) {
	switch {
	case n <= math.MaxInt8:
		w.b = append(w.b, byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, msgpcode.Uint8, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, msgpcode.Uint16), uint16(n))
	case n <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, msgpcode.Uint32), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, msgpcode.Uint64), n)
	}
}

func (w *walker) putInt(n int64) {
	switch {
	case n >= 0:
		w.putUint(uint64(n))
	case n >= -32:
		w.b = append(w.b, byte(n))
	case n >= math.MinInt8:
		w.b = append(w.b, msgpcode.Int8, byte(n))
	case n >= math.MinInt16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, msgpcode.Int16), uint16(n))
	case n >= math.MinInt32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, msgpcode.Int32), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, msgpcode.Int64), uint64(n))
	}
}

func (w *walker) putText(s string) {
	n := len(s)
	if n > w.maxText {
		w.fail("a text of %d bytes, at most %d are allowed", n, w.maxText)
		return
	}
	if !utf8.ValidString(s) {
		w.fail("the text %q is not UTF-8", s[:min(n, 64)])
		return
	}
	switch {
	case n < 32:
		w.b = append(w.b, msgpcode.FixedStrLow|byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, msgpcode.Str8, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, msgpcode.Str16), uint16(n))
	default:
		w.b = binary.BigEndian.AppendUint32(append(w.b, msgpcode.Str32), uint32(n))
	}
	w.b = append(w.b, s...)
}

func (w *walker) putBytes(p []byte) {
	n := len(p)
	switch {
	case n <= math.MaxUint8:
		w.b = append(w.b, msgpcode.Bin8, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, msgpcode.Bin16), uint16(n))
	default:
		w.b = binary.BigEndian.AppendUint32(append(w.b, msgpcode.Bin32), uint32(n))
	}
	w.b = append(w.b, p...)
}

func (w *walker) putArrayLen(n int) {
	switch {
	case n < 16:
		w.b = append(w.b, msgpcode.FixedArrayLow|byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, msgpcode.Array16), uint16(n))
	default:
		w.b = binary.BigEndian.AppendUint32(append(w.b, msgpcode.Array32), uint32(n))
	}
}

// code reads a value's first byte.
func (w *walker) code() byte {
	if w.err == nil && len(w.b) == 0 {
		w.malformed("it is cut short")
	}
	if w.err != nil {
		return msgpcode.Nil
	}
	c := w.b[0]
	w.b = w.b[1:]
	return c
}

// bytes cuts off the next n bytes; they are the input's own.
func (w *walker) bytes(n uint64) []byte {
	if w.err == nil && n > uint64(len(w.b)) {
		w.malformed("%d bytes are announced, %d are left", n, len(w.b))
	}
	if w.err != nil {
		return nil
	}
	b := w.b[:n:n]
	w.b = w.b[n:]
	return b
}

// bigEndian reads a number of 1, 2, 4 or 8 bytes.
func (w *walker) bigEndian(size uint64) uint64 {
	b := w.bytes(size)
	if b == nil {
		return 0
	}
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

func (w *walker) readUint() uint64 {
	c := w.code()
	switch {
	case c <= msgpcode.PosFixedNumHigh:
		return uint64(c)
	case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
		return w.bigEndian(1 << (c - msgpcode.Uint8))
	}
	n := w.readSigned(c)
	if n < 0 {
		w.malformed("the number %d is negative", n)
		return 0
	}
	return uint64(n)
}

func (w *walker) readInt() int64 {
	c := w.code()
	switch {
	case c <= msgpcode.PosFixedNumHigh:
		return int64(c)
	case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
		n := w.bigEndian(1 << (c - msgpcode.Uint8))
		if n > math.MaxInt64 {
			w.malformed("the number %d is too large", n)
			return 0
		}
		return int64(n)
	}
	return w.readSigned(c)
}

func (w *walker) readSigned(c byte) int64 {
	switch {
	case c >= msgpcode.NegFixedNumLow:
		return int64(int8(c))
	case c == msgpcode.Int8:
		return int64(int8(w.bigEndian(1)))
	case c == msgpcode.Int16:
		return int64(int16(w.bigEndian(2)))
	case c == msgpcode.Int32:
		return int64(int32(w.bigEndian(4)))
	case c == msgpcode.Int64:
		return int64(w.bigEndian(8))
	}
	w.malformed("code %#x where a number belongs", c)
	return 0
}

func (w *walker) readBool() bool {
	switch c := w.code(); c {
	case msgpcode.True:
		return true
	case msgpcode.False:
	default:
		w.malformed("code %#x where true or false belongs", c)
	}
	return false
}

// readNil reads nil if that is what comes next.
func (w *walker) readNil() bool {
	if w.err != nil || len(w.b) == 0 || w.b[0] != msgpcode.Nil {
		return false
	}
	w.b = w.b[1:]
	return true
}

func (w *walker) readText() string {
	c := w.code()
	var n uint64
	switch {
	case msgpcode.IsFixedString(c):
		n = uint64(c & msgpcode.FixedStrMask)
	case c >= msgpcode.Str8 && c <= msgpcode.Str32:
		n = w.bigEndian(1 << (c - msgpcode.Str8))
	default:
		w.malformed("code %#x where a text belongs", c)
	}
	if n > uint64(w.maxText) {
		w.malformed("a text of %d bytes, at most %d are read", n, w.maxText)
	}
	b := w.bytes(n)
	if !utf8.Valid(b) {
		w.malformed("a text is not UTF-8")
		return ""
	}
	return string(b)
}

// readBytes returns a part of the input.
func (w *walker) readBytes(most int) []byte {
	c := w.code()
	var n uint64
	if c >= msgpcode.Bin8 && c <= msgpcode.Bin32 {
		n = w.bigEndian(1 << (c - msgpcode.Bin8))
	} else {
		w.malformed("code %#x where bytes belong", c)
	}
	if n > uint64(most) {
		w.malformed("%d bytes, at most %d are read", n, most)
	}
	return w.bytes(n)
}

// arrayLen reads the length of an array whose items take at least so many bytes each.
func (w *walker) arrayLen(itemBytes, most int) int {
	c := w.code()
	var n uint64
	switch {
	case msgpcode.IsFixedArray(c):
		n = uint64(c & msgpcode.FixedArrayMask)
	case c == msgpcode.Array16:
		n = w.bigEndian(2)
	case c == msgpcode.Array32:
		n = w.bigEndian(4)
	default:
		w.malformed("code %#x where an array belongs", c)
	}
	if n > uint64(most) || n*uint64(itemBytes) > uint64(len(w.b)) {
		w.malformed("an array of %d items in %d bytes, at most %d items are read", n, len(w.b), most)
		return 0
	}
	return int(n)
}
