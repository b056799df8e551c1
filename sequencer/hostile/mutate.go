package hostile

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/hence-dev/hence/sequencer"
)

// Twist mutates an intent in its decoded form, which it changes: fields, lists, payloads. What comes out may be one
// that no encoder takes.
func (w *World) Twist(in *sequencer.Intent) *sequencer.Intent {
	for range 1 + w.rng.IntN(3) {
		switch w.rng.IntN(12) {
		case 0:
			in.Kind = sequencer.IntentKind(w.rng.IntN(18))
		case 1:
			w.addPayload(in, w.draw(pick(w, Kinds()...)))
		case 2:
			s := w.live()
			in.Agent, in.Incarnation = s.agent, pick(w, s.incarnation, in.Incarnation, 0, w.seq)
		case 3:
			w.crowd(in)
		default:
			w.twist(reflect.ValueOf(in).Elem(), 0)
		}
	}
	return in
}

// addPayload gives an intent the payload of another one, besides its own.
func (w *World) addPayload(in, from *sequencer.Intent) {
	to, of := reflect.ValueOf(in).Elem(), reflect.ValueOf(from).Elem()
	for i := range to.NumField() {
		if to.Field(i).Kind() == reflect.Pointer && to.Field(i).IsNil() {
			to.Field(i).Set(of.Field(i))
		}
	}
}

// crowd fills a list of scopes far beyond what any rules allow. It is rare: it takes long.
func (w *World) crowd(in *sequencer.Intent) {
	n := pick(w, 257, 300, 1000)
	if w.rarely(40) {
		n = 40_000
	}
	scopes := make([]sequencer.Scope, n)
	for i := range scopes {
		scopes[i] = sequencer.Scope("doc:/a/" + strconv.Itoa(i))
	}
	switch {
	case in.Settle != nil:
		in.Settle.Effects = append(in.Settle.Effects, sequencer.Settled{Scopes: scopes,
			Result: pick(w, sequencer.ResultClean, sequencer.ResultLeaked)})
	case in.Begin != nil:
		in.Begin.May, in.Begin.Mode = wants(scopes), sequencer.Ordered
	case in.Touch != nil:
		in.Touch.Wants = wants(scopes)
	case in.Seal != nil:
		in.Seal.Effects = append(in.Seal.Effects, sequencer.Effect{Class: sequencer.ClassIrreversible, Scopes: scopes,
			Index: uint32(len(in.Seal.Effects))})
	case in.Register != nil:
		for _, s := range scopes {
			in.Register.Tools = append(in.Register.Tools, sequencer.Tool{Name: string(s)})
		}
	case in.Kind == sequencer.IntentAbort:
		in.Begin = &sequencer.Begin{Mode: sequencer.Ordered, May: wants(scopes)}
	}
}

// twist changes one field at or below a value.
func (w *World) twist(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		w.twistField(v, depth)
	case reflect.Pointer:
		switch {
		case v.IsNil() && (depth > 1 || w.rarely(4)):
			v.Set(reflect.New(v.Type().Elem()))
			w.twist(v.Elem(), depth+1)
		case v.IsNil():
		case w.rarely(12):
			v.SetZero()
		default:
			w.twist(v.Elem(), depth+1)
		}
	case reflect.Slice:
		w.twistList(v, depth)
	case reflect.Array:
		v.Index(w.rng.IntN(v.Len())).SetUint(uint64(w.rng.IntN(256)))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		w.twistText(v)
	case reflect.Int8, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		v.SetInt(pick(w, 0, -1, v.Int()+1, int64(1)<<(bits-1)-1, int64(-1)<<(bits-1), 1<<7-1))
	default:
		n := pick(w, 0, 1, 2, v.Uint()+1, v.Uint()-1, uint64(w.seq), uint64(w.seq)+1, uint64(w.time), math.MaxUint64,
			1<<63, 1<<32-1, 1<<31, 1<<16, 65, 200)
		v.SetUint(n & (math.MaxUint64 >> (64 - v.Type().Bits())))
	}
}

// twistField changes a field of a struct, rather one that is set.
func (w *World) twistField(v reflect.Value, depth int) {
	f := v.Field(w.rng.IntN(v.NumField()))
	for range 3 {
		if !f.IsZero() {
			break
		}
		f = v.Field(w.rng.IntN(v.NumField()))
	}
	w.twist(f, depth+1)
}

// twistList makes a list shorter or longer, repeats of it what it has, or changes one of its items.
func (w *World) twistList(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		piece := pick(w, "x", "\x00", "\xff", "é")
		v.SetBytes([]byte(text(piece, pick(w, 0, 1, 4<<10, 4<<10+1, 64<<10, 130<<10))))
		return
	}
	n := v.Len()
	grown := reflect.Append(v, reflect.New(v.Type().Elem()).Elem())
	switch at := w.rng.IntN(6); {
	case n == 0:
		v.Set(grown)
		w.twist(v.Index(0), depth+1)
	case at == 0:
		v.Set(v.Slice(0, w.rng.IntN(n)))
	case at == 1:
		again := reflect.MakeSlice(v.Type(), 0, 2*n)
		for range pick(w, 2, 2, 3, 300) {
			again = reflect.AppendSlice(again, v.Slice(0, min(n, 8)))
		}
		v.Set(again)
	case at == 2:
		v.Set(grown)
		w.twist(v.Index(n), depth+1)
	default:
		own := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, n), v) // the fold has the former one
		v.Set(own)
		w.twist(v.Index(w.rng.IntN(n)), depth+1)
	}
}

func (w *World) twistText(v reflect.Value) {
	if v.Type() == reflect.TypeFor[sequencer.Scope]() {
		v.SetString(pick(w, string(w.scope()), string(w.scope()), "doc:/", "shard:/", "doc:/*/*", "doc:/*/x/*/y",
			longScope("doc", 1), longScope("shard", 2), deepScope(16), "", "doc", "doc:", "DOC:/a", "doc:/%41",
			"doc:/a/", "doc:/**", deepScope(17), "doc:/*/*/*", "doc:/"+text("x", sequencer.MaxScopeBytes)))
		return
	}
	v.SetString(pick(w, "", "x", string(w.known()), w.live().agent, w.group(), text("n", maxNameBytes),
		text("\x01", maxNameBytes), text("é", maxNameBytes), text("n", maxNameBytes+1), text("n", 200), "a:b|c\r\n",
		"\xff", "\ufffd", "stale_read", "vetoed"))
}

// longScope is the i-th of the longest scopes of a type.
func longScope(kind string, i int) string {
	s := fmt.Sprintf("%s:/%d/", kind, i)
	return s + text("x", sequencer.MaxScopeBytes-len(s))
}

// deepScope is one of so many segments.
func deepScope(segments int) string { return "doc:" + text("/s", 2*segments) }

// Garble mutates a record in its written form; other is a second one, to be spliced with it. What comes out mostly
// cannot be decoded.
func (w *World) Garble(record, other []byte) []byte {
	b := append([]byte(nil), record...)
	for range 1 + w.rng.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := w.rng.IntN(len(b))
		switch w.rng.IntN(8) {
		case 0: // cut short
			b = b[:at]
		case 1: // two halves
			b = append(b[:at:at], other[min(at, len(other)):]...)
		case 2: // a piece twice
			end := min(len(b), at+w.rng.IntN(64))
			b = append(b[:end:end], b[at:]...)
		case 3: // a piece missing
			end := min(len(b), at+1+w.rng.IntN(8))
			b = append(b[:at:at], b[end:]...)
		case 4: // a number, a length, a type
			b[at] = pick(w, byte(0), 1, 0x7f, 0x80, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xc3, 0xc4, 0xcc, 0xcf, 0xdb,
				0xdc, 0xdd, 0xff)
		case 5: // a long number or length
			if at+5 <= len(b) {
				b[at] = pick(w, byte(0xc6), 0xce, 0xd2, 0xdb, 0xdd)
				binary.BigEndian.PutUint32(b[at+1:], pick(w, uint32(0), 1, 1<<16, 1<<31, 1<<32-1))
			}
		default: // a bit, the mildest
			b[at] ^= 1 << w.rng.IntN(8)
		}
	}
	return b
}

// Whole is whether a mutation should leave the written form alone: half of the time, so that enough of them decode.
func (w *World) Whole() bool { return w.rarely(2) }
