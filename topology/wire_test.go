package topology

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
)

func isMsgpack(s sample) bool {
	return !strings.HasPrefix(s.name, "decision-") && !strings.HasPrefix(s.name, "residue-") &&
		!strings.HasPrefix(s.name, "anomaly-")
}

func TestCutShort(t *testing.T) {
	for _, s := range samples(t) {
		for n := range s.bytes {
			if err := s.decode(s.bytes[:n]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s: the first %d of %d bytes: %v, want ErrMalformed", s.name, n, len(s.bytes), err)
			}
		}
		if err := s.decode(append(bytes.Clone(s.bytes), 1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: with a byte behind it: %v, want ErrMalformed", s.name, err)
		}
	}
}

func TestForeignVersion(t *testing.T) {
	for _, s := range samples(t) {
		foreign := bytes.Replace(s.bytes, []byte(`.v1"`), []byte(`.v7"`), 1)
		if isMsgpack(s) {
			foreign = append([]byte{7}, 0xc1) // what follows the version is not even looked at
		}
		var version *ForeignVersion
		if err := s.decode(foreign); !errors.Is(err, ErrForeignVersion) || !errors.As(err, &version) || version.Seen != 7 {
			t.Errorf("%s: %v, want ErrForeignVersion with version 7", s.name, err)
		}
	}
}

func TestDamagedNeverPanics(t *testing.T) {
	all := samples(t)
	rapid.Check(t, func(t *rapid.T) {
		s := all[rapid.IntRange(0, len(all)-1).Draw(t, "sample")]
		b := bytes.Clone(s.bytes)
		for range rapid.IntRange(1, 4).Draw(t, "damages") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		err := s.decode(b)
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForeignVersion) {
			t.Fatalf("%s: an error of no kind: %v", s.name, err)
		}
	})
}

// TestHostileLengths holds what a decoder allocates to a multiple of what it was given.
func TestHostileLengths(t *testing.T) {
	fill := func(head string, piece string, n int) []byte {
		return append([]byte(head), strings.Repeat(piece, n)[:n]...)
	}
	inputs := map[string][]byte{
		"array of 4 G":        []byte("\x01\xdd\xff\xff\xff\xff"),
		"text of 4 G":         []byte("\x01\xdc\x00\x12\x01\xdb\xff\xff\xff\xff"),
		"4 G events":          []byte("\x02\x91\xdd\xff\xff\xff\xff"),
		"only empty events":   fill("\x02\x91\xdc\x01\x00", "\x90", 1<<20),
		"only empty arrays":   fill("\x01\xdd\x00\x10\x00\x00", "\x90", 1<<20),
		"only arrays":         fill("\x01", "\x93", 1<<20),
		"nested lists":        fill("\x01", "\xdd\x00\x00\xff\xff", 1<<20),
		"replica of outboxes": fill("\x01\x93", "\xdc\xff\xff", 1<<20),
		"over the bound":      make([]byte, MaxRecordBytes+1),
		"braces":              fill(`{"specversion":"1.0","data":`, "[{},", 1<<20),
		"many values":         fill(`{"data":{"shards":[`, "{},", MaxRecordBytes-64),
		"quotes":              fill("", `"`, 1<<20),
	}
	decoders := map[string]func([]byte) error{}
	for _, s := range samples(t) {
		record, _, _ := strings.Cut(s.name, "-")
		decoders[record] = s.decode
	}
	for name, b := range inputs {
		for record, decode := range decoders {
			var err error
			got := allocated(func() { err = decode(b) })
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForeignVersion) {
				t.Errorf("%s as %s: %v, want an error", name, record, err)
			}
			if got > 32*uint64(len(b))+64<<10 {
				t.Errorf("%s as %s: allocates %d bytes for an input of %d", name, record, got, len(b))
			}
		}
	}
}

// TestAmplification holds the smallest record that a decoder accepts against what it becomes in memory.
func TestAmplification(t *testing.T) {
	const txs = 10_000
	st := &sequencer.ReplicaState{}
	st.State.Txs = make([]sequencer.TxState, txs)
	b, err := EncodeReplica(st)
	if err != nil {
		t.Fatal(err)
	}
	if memory := txs * int(reflect.TypeFor[sequencer.TxState]().Size()); memory > 24*len(b) {
		t.Errorf("%d bytes become %d", len(b), memory)
	}
}

// TestNewerWriter holds that fields which a newer writer appended are skipped, whatever they are.
func TestNewerWriter(t *testing.T) {
	want := sampleSigns()
	b, err := EncodeIntent(want)
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.TrimPrefix(b, []byte("\x01\xdc\x00\x13")) // version 1, an array of 19
	if len(body) == len(b) {
		t.Fatalf("an intent begins with %x", b[:4])
	}
	extra, err := msgpack.Marshal([]any{nil, 1.5, float32(2), "text", []byte{1}, map[string]any{"a": []int{1,
		-70_000}}, true,
		uint64(1) << 40, strings.Repeat("x", 70_000), int8(-100)})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range [][]byte{extra, {0xd6, 1, 2, 3, 4, 5}, {0xc7, 2, 9, 1, 1}, {0xde, 0, 1, 0xa1, 'k', 0xc0}} {
		newer := append(append([]byte("\x01\xdc\x00\x14"), body...), field...)
		got, err := DecodeIntent(newer)
		if err != nil {
			t.Fatalf("with field %.20x: %v", field, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatal(difference("", reflect.ValueOf(got), reflect.ValueOf(want)))
		}
		if _, err := DecodeIntent(newer[:len(newer)-1]); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut short: %v, want ErrMalformed", err)
		}
	}
	if _, err := DecodeIntent(append(append([]byte("\x01\xdc\x00\x14"), body...), 0xc1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("with a code that is no value: %v, want ErrMalformed", err)
	}
}

// grown is a record that got two fields after its first release.
type grown struct {
	first  uint64
	second string
	third  []string
	inner  sequencer.Want
}

func walkGrown(w *walker, g *grown) {
	outer := w.open(4, 2)
	number(w, &g.first)
	text(w, &g.second)
	list(w, &g.third, wordBytes, text)
	walkWant(w, &g.inner)
	w.close(outer)
}

// TestOlderWriter holds that fields which an older writer did not know are zero, and that the first release's are
// there.
func TestOlderWriter(t *testing.T) {
	c := recordCodec("grown", 0, walkGrown)
	got, err := c.decode([]byte("\x01\x92\x07\xa1x"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (grown{first: 7, second: "x"}); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if _, err := c.decode([]byte("\x01\x91\x07")); !errors.Is(err, ErrMalformed) {
		t.Errorf("one field: %v, want ErrMalformed", err)
	}
}

// TestNotUTF8 holds that no text of a record can be anything that JSON could not carry.
func TestNotUTF8(t *testing.T) {
	if _, err := EncodeIntent(&sequencer.Intent{Tx: "\xff"}); err == nil {
		t.Error("an intent with a tx that is not UTF-8 was written")
	}
	if _, err := EncodeCloudEvent(&sequencer.Outcome{Detail: "\xff"}, sampleTime, ""); err == nil {
		t.Error("a decision with a detail that is not UTF-8 was written")
	}
	if _, err := EncodeIntent(&sequencer.Intent{Agent: strings.Repeat("x", maxNameBytes+1)}); err == nil {
		t.Error("a text over its bound was written")
	}
	if _, err := EncodeOutcome(&sequencer.Outcome{RestsOn: make([]sequencer.TxID, maxListItems+1)}); err == nil {
		t.Error("a list over its bound was written")
	}
	b, err := EncodeIntent(&sequencer.Intent{Tx: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeIntent(bytes.Replace(b, []byte("abc"), []byte("a\xffc"), 1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a tx that is not UTF-8: %v, want ErrMalformed", err)
	}
}

// TestEveryForm holds that numbers are read in forms that we do not write, and that none is taken for another.
func TestEveryForm(t *testing.T) {
	u, i := recordCodec("natural", 0, number[uint64]), recordCodec("integer", 0, signed[int64])
	for _, form := range []string{"\x05", "\xcc\x05", "\xcd\x00\x05", "\xce\x00\x00\x00\x05",
		"\xcf\x00\x00\x00\x00\x00\x00\x00\x05",
		"\xd0\x05", "\xd1\x00\x05", "\xd2\x00\x00\x00\x05", "\xd3\x00\x00\x00\x00\x00\x00\x00\x05"} {
		if n, err := u.decode([]byte("\x01" + form)); err != nil || *n != 5 {
			t.Errorf("%x is not read as the natural number 5: %v", form, err)
		}
		if n, err := i.decode([]byte("\x01" + form)); err != nil || *n != 5 {
			t.Errorf("%x is not read as the integer 5: %v", form, err)
		}
	}
	for _, form := range []string{"\xff", "\xd0\xff", "\xd1\xff\xff", "\xd3\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xc0", "\xcb", "\xcb\x00\x00\x00\x00\x00\x00\x00\x00", "\xa1x"} {
		if n, err := u.decode([]byte("\x01" + form)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x is read as the natural number %d: %v", form, n, err)
		}
	}
	large := "\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
	if n, err := u.decode([]byte(large)); err != nil || *n != ^uint64(0) {
		t.Errorf("the largest number: %v", err)
	}
	if n, err := i.decode([]byte(large)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a number over the largest integer is read as %d: %v", n, err)
	}
}

// TestTypesApart holds that nil, texts, bytes and lists are not taken for each other, as the library would.
func TestTypesApart(t *testing.T) {
	for _, form := range []string{"\xc0", "\xc4\x01a", "\xa1a", "\x91\xa1a", "\xc3", "\x80", "\xd4\x01a", "\xc1", ""} {
		record := []byte("\x01" + form)
		taken := map[string]bool{}
		see := func(what string, err error) {
			if taken[what] = err == nil; err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%x as a %s: %v, want ErrMalformed", form, what, err)
			}
		}
		_, err := recordCodec("text", 0, text[string]).decode(record)
		see("text", err)
		_, err = recordCodec("content", 0, (*walker).content).decode(record)
		see("content", err)
		_, err = recordCodec("truth", 0, (*walker).truth).decode(record)
		see("truth", err)
		_, err = recordCodec("list", 0, func(w *walker, p *[]string) { list(w, p, wordBytes, text) }).decode(record)
		see("list", err)
		want := map[string]bool{"text": form == "\xa1a", "content": form == "\xc4\x01a", "truth": form == "\xc3",
			"list": form == "\x91\xa1a"}
		if !reflect.DeepEqual(taken, want) {
			t.Errorf("%x is taken as %v, want %v", form, taken, want)
		}
	}
}

// TestHostileExtras holds that a field which a newer writer appended costs no more than its bytes, however long or
// deep it claims to be.
func TestHostileExtras(t *testing.T) {
	c := recordCodec("one", 0, func(w *walker, p *uint64) {
		outer := w.open(1, 1)
		number(w, p)
		w.close(outer)
	})
	const deep = MaxRecordBytes - 16
	for name, extra := range map[string]string{
		"deep":  strings.Repeat("\x91", deep) + "\xc0",
		"maps":  strings.Repeat("\x81\x01", deep/2) + "\xc0",
		"wide":  "\xdd\x00\x10\x00\x00" + strings.Repeat("\xc0", 1<<20),
		"large": "\xc6\x00\x10\x00\x00" + strings.Repeat("\xc0", 1<<20),
	} {
		if got := allocated(func() {
			if _, err := c.decode([]byte("\x01\x92\x07" + extra)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}); got > 2*MaxRecordBytes { // one copy is the test's own
			t.Errorf("%s: allocates %d bytes", name, got)
		}
	}
	for _, head := range []string{"\xdd", "\xdf", "\xdb", "\xc6", "\xc9"} {
		if got := allocated(func() {
			record := []byte("\x01\x92\x07" + head + "\xff\xff\xff\xff\x01")
			if _, err := c.decode(record); !errors.Is(err, ErrMalformed) {
				t.Errorf("%x of 4 G: %v, want ErrMalformed", head, err)
			}
		}); got > 8<<10 {
			t.Errorf("%x of 4 G: allocates %d bytes", head, got)
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDecisionsOfLongNames holds that a decision about the longest names an intent can have can be written.
func TestDecisionsOfLongNames(t *testing.T) {
	name := strings.Repeat("x", maxNameBytes)
	in := &sequencer.Intent{Kind: sequencer.IntentRegister, Agent: name, Tx: sequencer.TxID(name),
		Incarnation: ^sequencer.Seq(0), Register: &sequencer.Register{Server: name, Generation: ^uint64(0)}}
	if _, err := EncodeIntent(in); err != nil {
		t.Fatal(err)
	}
	o := &sequencer.Outcome{Intent: in.ID(), Tx: in.Tx, Agent: in.Agent, Detail: name + " " + name + " " + name}
	if _, err := EncodeOutcome(o); err != nil {
		t.Error(err)
	}
	if _, err := EncodeCloudEvent(o, sampleTime, ""); err != nil {
		t.Error(err)
	}
}
