package topology

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/hence-dev/hence/sequencer"
)

// A record is a MessagePack integer, its format version, and one array of fields. Every record of ours is walked by
// one function that names its fields once, for both directions, so encoder and decoder cannot drift apart:
//
//   - a field may be appended; a decoder that meets an array shorter than it knows leaves the rest zero, but never
//     shorter than the first release wrote (the smallest record bounds what a hostile one can make us allocate);
//   - a decoder that meets a longer array skips what it does not know;
//   - anything else that changes takes a new format version.
//
// The values themselves are written and read by the MessagePack library, field by field; msgpack.go has the bounds.

// ErrMalformed is returned by every decoder when the bytes are not a record of the format: cut short, lying about a
// length, of a wrong type, not UTF-8, or beyond a bound. The record can never be read; park it.
var ErrMalformed = errors.New("malformed record")

// ErrForeignVersion is returned by every decoder when the record was written in a format version that this binary
// does not know. The record is whole; a newer binary can read it. ForeignVersion has the version seen.
var ErrForeignVersion = errors.New("foreign format version")

// ForeignVersion is the error that wraps ErrForeignVersion.
type ForeignVersion struct {
	Record string // intent, outcome, …
	Seen   uint64
	Known  uint64
}

// Error names the versions.
func (e *ForeignVersion) Error() string {
	return fmt.Sprintf("%s in format version %d, this binary reads version %d: read it with a newer binary",
		e.Record, e.Seen, e.Known)
}

// Unwrap makes errors.Is(err, ErrForeignVersion) hold.
func (e *ForeignVersion) Unwrap() error { return ErrForeignVersion }

// Bounds of the decoders.
const (
	MaxRecordBytes   = 2 << 20  // one encoded record
	MaxSnapshotBytes = 64 << 20 // an encoded snapshot or closure; neither is a record of a topic
	maxListItems     = 1 << 16  // one list of a record
	maxTextBytes     = 64 << 10 // one string
	maxNameBytes     = 4 << 10  // one string of an intent or an event: what the fold builds from several still fits
	maxFields        = 1 << 10  // one struct, a newer writer's too
)

// walker carries one record through its codec, in either direction.
type walker struct {
	decoding bool
	enc      *msgpack.Encoder // encoding only
	dec      *msgpack.Decoder // decoding only, as are those below
	in       *bytes.Reader    // what dec reads; it buffers nothing, so what it has left is what is not read yet
	text     []byte           // buffer of the text that is being read
	left     int              // values left in the array that is being read
	maxItems int
	maxText  int
	err      error // the first one; nothing is read or written after it
}

// codec is what the records' encoders and decoders have in common.
type codec[T any] struct {
	record      string
	version     uint64
	bufferBytes int // what a record usually takes
	maxBytes    int
	maxItems    int // of one list
	maxText     int // bytes of one string
	walk        func(*walker, *T)
}

func (c codec[T]) encode(v *T) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, c.bufferBytes))
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(out)
	w := &walker{enc: enc, maxItems: c.maxItems, maxText: c.maxText}
	number(w, &c.version)
	c.walk(w, v)
	// Written, it would be a record that each of our readers parks: the writer learns of it while it can still do
	// something.
	if w.err == nil && out.Len() > c.maxBytes {
		w.fail("%d bytes, at most %d are allowed", out.Len(), c.maxBytes)
	}
	if w.err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.record, w.err)
	}
	return out.Bytes(), nil
}

func (c codec[T]) decode(b []byte) (*T, error) {
	dec, in := msgpack.GetDecoder(), bytes.NewReader(b)
	defer msgpack.PutDecoder(dec)
	dec.Reset(in)
	w := &walker{decoding: true, dec: dec, in: in, left: 2, maxItems: c.maxItems, maxText: c.maxText}
	// Before anything is made of it: what a hostile record says of its lengths must not make us allocate.
	if len(b) > c.maxBytes {
		w.malformed("%d bytes, at most %d are read", len(b), c.maxBytes)
	}
	var seen uint64
	number(w, &seen)
	if w.err == nil && seen != c.version {
		// Whole, and of a newer release: the reader stops before it rather than guess what the fields mean.
		w.err = &ForeignVersion{Record: c.record, Seen: seen, Known: c.version}
	}
	v := new(T)
	c.walk(w, v)
	if w.err == nil && in.Len() > 0 {
		// Two records in one, or another format that begins alike: either could be read in two ways.
		w.malformed("%d bytes follow the record", in.Len())
	}
	if w.err != nil {
		return nil, fmt.Errorf("decode %s: %w", c.record, w.err)
	}
	return v, nil
}

// fail keeps the first error of an encoder.
func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *walker) malformed(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// take claims the next value of the array that is being read; false leaves the field at its zero value.
func (w *walker) take() bool {
	if w.err != nil || w.left == 0 {
		return false
	}
	w.left--
	return true
}

// open begins a struct of so many known fields, of which the first release wrote least; its result goes to close.
func (w *walker) open(known, least int) (outer int) {
	if !w.decoding {
		w.keep(w.enc.EncodeArrayLen(known))
		return 0
	}
	if !w.take() {
		w.left = 0
		return 0
	}
	outer = w.left
	have := w.arrayLen(1, maxFields)
	if w.err == nil && have < least {
		// The first release wrote as many, so this was cut; and without the least a list of nothing could claim any length.
		w.malformed("a struct of %d fields, at least %d are written", have, least)
	}
	w.left = have
	return outer
}

// optional counts the fields of a struct whose last ones are written only where they say something. So a record
// without them has the bytes that it had before there were such fields.
func optional(always int, written ...bool) int {
	for _, w := range written {
		if w {
			always++
		}
	}
	return always
}

// close ends a struct: fields that a newer writer appended are skipped.
func (w *walker) close(outer int) {
	if !w.decoding {
		return
	}
	for w.take() {
		w.skip()
	}
	w.left = outer
}

// number walks an unsigned integer.
func number[T ~uint8 | ~uint32 | ~uint64](w *walker, p *T) {
	if !w.decoding {
		w.keep(w.enc.EncodeUint(uint64(*p)))
		return
	}
	if !w.take() {
		return
	}
	n := w.readUint()
	if *p = T(n); uint64(*p) != n {
		// Cut to its field it would be another number, such as a small seq.
		w.malformed("the number %d does not fit its field", n)
	}
}

// signed walks a signed integer.
func signed[T ~int8 | ~int32 | ~int64](w *walker, p *T) {
	if !w.decoding {
		w.keep(w.enc.EncodeInt(int64(*p)))
		return
	}
	if !w.take() {
		return
	}
	n := w.readInt()
	if *p = T(n); int64(*p) != n {
		// As in number.
		w.malformed("the number %d does not fit its field", n)
	}
}

// truth walks a bool.
func (w *walker) truth(p *bool) {
	if !w.decoding {
		w.keep(w.enc.EncodeBool(*p))
		return
	}
	if w.take() {
		*p = w.readBool()
	}
}

// text walks a string, which is UTF-8.
func text[T ~string](w *walker, p *T) {
	if !w.decoding {
		w.putText(string(*p))
		return
	}
	if w.take() {
		*p = T(w.readText())
	}
}

// content walks bytes; none are nil.
func (w *walker) content(p *[]byte) {
	if !w.decoding {
		w.putBytes(*p)
		return
	}
	if !w.take() {
		return
	}
	if n := w.bytesLen(); n > 0 {
		*p = make([]byte, n)
		w.check(w.dec.ReadFull(*p))
	}
}

// shortContent walks bytes of which there are at most so many.
func (w *walker) shortContent(p *[]byte, most int) {
	if !w.decoding && len(*p) > most {
		// The fold refuses the intent for it: said here, the agent can give a reference instead.
		w.fail("%d bytes, at most %d are allowed inline: give a reference", len(*p), most)
		return
	}
	if w.content(p); len(*p) > most {
		w.malformed("%d bytes, at most %d are allowed inline", len(*p), most)
	}
}

// shortList walks a list of at most so many items.
func shortList[T any](w *walker, p *[]T, most, itemBytes int, walk func(*walker, *T)) {
	outer := w.maxItems
	w.maxItems = min(outer, most)
	list(w, p, itemBytes, walk)
	w.maxItems = outer
}

// hash walks a SHA-256; the zero one is written as nil.
func (w *walker) hash(p *sequencer.Hash) {
	if !w.decoding {
		if *p == (sequencer.Hash{}) {
			w.keep(w.enc.EncodeNil())
		} else {
			w.putBytes(p[:])
		}
		return
	}
	if !w.take() || w.readNil() {
		return
	}
	if n := w.bytesLen(); n != len(p) {
		// Padded or cut it would be compared with what it is not.
		w.malformed("a hash of %d bytes", n)
		return
	}
	w.check(w.dec.ReadFull(p[:]))
}

// pointer walks a struct that may be absent.
func pointer[T any](w *walker, p **T, walk func(*walker, *T)) {
	if !w.decoding {
		if *p == nil {
			w.keep(w.enc.EncodeNil())
		} else {
			walk(w, *p)
		}
		return
	}
	if w.err != nil || w.left == 0 {
		return
	}
	if w.readNil() {
		w.left--
		return
	}
	*p = new(T)
	walk(w, *p)
}

// list walks a list whose items take at least so many bytes each; an empty one is nil.
func list[T any](w *walker, p *[]T, itemBytes int, walk func(*walker, *T)) {
	if !w.decoding {
		if len(*p) > w.maxItems {
			// Its readers would park the record.
			w.fail("a list of %d items, at most %d are allowed", len(*p), w.maxItems)
			return
		}
		w.keep(w.enc.EncodeArrayLen(len(*p)))
		for i := range *p {
			walk(w, &(*p)[i])
		}
		return
	}
	if !w.take() {
		return
	}
	outer := w.left
	if n := w.arrayLen(itemBytes, w.maxItems); n > 0 {
		w.left = n
		items := make([]T, n)
		for i := range items {
			walk(w, &items[i])
		}
		*p = items
	}
	w.left = outer
}
