package topology

import (
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// This file stands between the records and the MessagePack library, which writes and reads every value. What is here
// is what the library leaves to its caller: it takes nil for a zero, wraps numbers that do not fit, takes bytes for a
// text and any bytes for UTF-8, allocates a first megabyte by a length that is only claimed, and recurses into
// what it skips, however deep.

// keep keeps the first error of the encoder.
func (w *walker) keep(err error) {
	if err != nil {
		w.fail("%w", err)
	}
}

func (w *walker) putText(s string) {
	if len(s) > w.maxText {
		w.fail("a text of %d bytes, at most %d are allowed", len(s), w.maxText)
	} else if !utf8.ValidString(s) {
		w.fail("the text %q is not UTF-8", s[:min(len(s), 64)])
	} else {
		w.keep(w.enc.EncodeString(s))
	}
}

func (w *walker) putBytes(p []byte) {
	if p == nil {
		p = []byte{} // the library writes nil for nil
	}
	w.keep(w.enc.EncodeBytes(p))
}

// check keeps the first error of the decoder.
func (w *walker) check(err error) {
	if err != nil {
		w.malformed("%v, %d bytes are left", err, w.in.Len())
	}
}

// code is the first byte of the value that comes next.
func (w *walker) code() byte {
	c, err := w.dec.PeekCode()
	w.check(err)
	return c
}

// expect holds that what comes next is a value of the right type.
func (w *walker) expect(ok bool, c byte, what string) {
	if !ok {
		w.malformed("code %#x where %s belongs", c, what)
	}
}

// announced holds a length that was read against what is allowed and what is left.
func (w *walker) announced(n int, err error, itemBytes, most int) int {
	w.check(err)
	if n < 0 || n > most || n > w.in.Len()/itemBytes {
		w.malformed("a length of %d in %d bytes, at most %d is read", n, w.in.Len(), most)
	}
	if w.err != nil {
		return 0
	}
	return n
}

// readNumber reads an integer in any form; large says that it is over the largest int64 and wrapped around.
func (w *walker) readNumber() (n int64, large bool) {
	c := w.code()
	w.expect(c != msgpcode.Nil, c, "a number")
	n, err := w.dec.DecodeInt64()
	w.check(err)
	return n, n < 0 && c == msgpcode.Uint64
}

func (w *walker) readUint() uint64 {
	n, large := w.readNumber()
	if n < 0 && !large {
		w.malformed("the number %d is negative", n)
	}
	return uint64(n)
}

func (w *walker) readInt() int64 {
	n, large := w.readNumber()
	if large {
		w.malformed("the number %d is too large", uint64(n))
	}
	return n
}

func (w *walker) readBool() bool {
	c := w.code()
	w.expect(c != msgpcode.Nil, c, "true or false")
	v, err := w.dec.DecodeBool()
	w.check(err)
	return v
}

// readNil reads nil if that is what comes next.
func (w *walker) readNil() bool {
	if w.code() != msgpcode.Nil {
		return false
	}
	w.check(w.dec.DecodeNil())
	return w.err == nil
}

func (w *walker) readText() string {
	c := w.code()
	w.expect(msgpcode.IsString(c), c, "a text")
	n, err := w.dec.DecodeBytesLen()
	n = w.announced(n, err, 1, w.maxText)
	w.text = slices.Grow(w.text[:0], n)[:n]
	w.check(w.dec.ReadFull(w.text))
	if !utf8.Valid(w.text) {
		w.malformed("a text is not UTF-8")
	}
	return string(w.text)
}

// bytesLen reads the length of bytes; they come next.
func (w *walker) bytesLen() int {
	c := w.code()
	w.expect(msgpcode.IsBin(c), c, "bytes")
	n, err := w.dec.DecodeBytesLen()
	return w.announced(n, err, 1, math.MaxInt)
}

// arrayLen reads the length of an array whose items take at least so many bytes each.
func (w *walker) arrayLen(itemBytes, most int) int {
	n, err := w.dec.DecodeArrayLen()
	return w.announced(n, err, itemBytes, most)
}

// skip passes over one value of any shape: a field that a newer writer appended. It does not recurse, so that nesting
// costs nothing, and allocates nothing for what it passes.
func (w *walker) skip() {
	for values := 1; values > 0 && w.err == nil; values-- {
		var n, size int
		var err error
		switch c := w.code(); {
		case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
			values += w.arrayLen(1, math.MaxInt)
		case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
			n, err = w.dec.DecodeMapLen()
			values += 2 * w.announced(n, err, 2, math.MaxInt)
		case msgpcode.IsString(c), msgpcode.IsBin(c):
			size, err = w.dec.DecodeBytesLen()
		case msgpcode.IsExt(c):
			_, size, err = w.dec.DecodeExtHeader()
		default:
			err = w.dec.Skip()
		}
		_, seekErr := w.in.Seek(int64(w.announced(size, err, 1, math.MaxInt)), io.SeekCurrent)
		w.check(seekErr)
	}
}
