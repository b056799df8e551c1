package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// FuzzScan reads a file of any content: what is said to be whole is that when it is written again, and a torn end is
// an end.
func FuzzScan(f *testing.F) {
	whole := Frame(Frame([]byte(Magic), RecordBegun, []byte(`{"tx":"a.3.1"}`)), RecordSealed, []byte(`{"tx":"a.3.1"}`))
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte(Magic))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		again := []byte(Magic)
		end, complete, err := Scan(bytes.NewReader(file), func(record []byte) error {
			if len(record) == 0 {
				return errors.New("an empty record")
			}
			again = Frame(again, record[0], record[1:])
			return nil
		})
		switch {
		case end > int64(len(file)) || complete && int64(len(file)) != end:
			t.Errorf("it ends at %d of %d, whole: %t", end, len(file), complete)
		case err == nil && end > 0 && !bytes.Equal(again, file[:end]):
			t.Errorf("%x is read and %x written", file[:end], again)
		case err != nil && !errors.Is(err, ErrCorrupt):
			t.Error(err)
		}
	})
}

// FuzzLedger applies any records, and holds that the ledger's own records come to the same ledger: a journal that was
// rewritten says what it said.
func FuzzLedger(f *testing.F) {
	event, err := topology.EncodeEvent(&topology.Event{Kind: topology.EventRead, Workspace: "default", Tx: "a.3.1",
		Scope: sequencer.Scope("shard:/b"), View: 5})
	if err != nil {
		f.Fatal(err)
	}
	var seed []byte
	for _, e := range []Entry{
		{RecordOf, []byte(`{"workspace":"default","agent":"a","log":"l"}`)},
		{RecordJoined, []byte(`{"incarnation":3}`)},
		{RecordBegun, []byte(`{"tx":"a.3.1","incarnation":3,"begin":{"session":"talk"},` +
			`"reads":[{"scope":"shard:/a","view":4}]}`)},
		{recordEvent, event},
		{recordEffect, []byte(`{"tx":"a.3.1","index":1,"tool":{"name":"mail","class":"irreversible"}}`)},
		{recordMark, []byte(`{"tx":"a.3.1","index":1,"step":"started"}`)},
		{RecordSealed, []byte(`{"tx":"a.3.1"}`)},
		{RecordDecided, []byte(`{"tx":"a.3.1","state":"committed","seq":9}`)},
		{RecordSettled, []byte(`{"tx":"a.3.1","clean":true}`)},
		{RecordKey, []byte(`{"key":"k"}`)},
		{RecordTalk, []byte(`{"talk":"t"}`)},
		{RecordNotice, []byte(`{"owed":true}`)},
		{recordReader, []byte(`{"token":"r"}`)},
		{RecordOwn, []byte(`{"tx":"a.3.1"}`)},
	} {
		seed = binary.AppendUvarint(seed, uint64(len(e.Body)+1))
		seed = append(append(seed, e.Kind), e.Body...)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, records []byte) {
		read := func(records []Entry) *Ledger {
			l := newLedger()
			for _, e := range records {
				if err := l.apply(append([]byte{e.Kind}, e.Body...)); err != nil {
					t.Fatalf("the ledger writes %c %s, and does not read it: %v", e.Kind, e.Body, err)
				}
			}
			return l
		}
		l := newLedger()
		for len(records) > 0 {
			n, k := binary.Uvarint(records)
			if k <= 0 || n > uint64(len(records)-k) {
				break
			}
			if l.apply(records[k:k+int(n)]) != nil {
				break // a journal is read to its first damage
			}
			records = records[k+int(n):]
		}
		had, err := l.Records()
		if err != nil {
			return // it holds what cannot be written: the journal is not rewritten
		}
		// What no process writes, such as an event before its transaction's begin, may change once.
		first := must(read(had).Records())(t)
		if second := must(read(first).Records())(t); !reflect.DeepEqual(first, second) {
			t.Errorf("the ledger had\n%s\nand a start reads\n%s", shown(first), shown(second))
		}
	})
}
