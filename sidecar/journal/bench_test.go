package journal

import (
	"crypto/sha256"
	"fmt"
	"os"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// BenchmarkOpen reads what an agent has left that has asked with as many keys as are remembered: begins, events,
// seals, decisions and answers. A sidecar that starts again does nothing before. The floor reads the same file and
// looks at its checksums.
func BenchmarkOpen(b *testing.B) {
	const keys = 32768
	of := Of{Log: "log", Workspace: "default", Agent: "a"}
	dir := b.TempDir()
	write(b, dir, of, keys)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			file, err := os.Open(of.Path(dir))
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			if _, _, err := Scan(file, func([]byte) error { n++; return nil }); err != nil || n < keys {
				b.Fatal(n, err)
			}
			file.Close()
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			d := New(nil, 1<<20, 1<<30, quiet())
			if err := d.Open(dir, of, OpenOS, nil); err != nil {
				b.Fatal(err)
			}
			if n := len(d.Ledger.keys.read); n != keys {
				b.Fatal(n)
			}
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func write(b *testing.B, dir string, of Of, keys int) {
	b.Helper()
	ok := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	d := New(nil, 1<<20, 1<<30, quiet())
	ok(d.Open(dir, of, OpenOS, nil))
	for i := range keys {
		tx := sequencer.TxID(fmt.Sprintf("a.3.%d", i+1))
		key := KeyRecord{Key: fmt.Sprintf("request-%d", i), Request: make([]byte, sha256.Size), AtMs: 1, Tx: tx}
		ok(d.Record(RecordBegun, &TxRecord{Tx: tx, Incarnation: 3, Begin: sequencer.Begin{Session: "talk"}}))
		for range 2 {
			ok(d.Event(&topology.Event{Kind: topology.EventRead, Workspace: "default", Tx: tx, Scope: "shard:/b",
				View: 5}, nil))
		}
		body, err := key.JSON()
		ok(err)
		ok(d.RestKey(body))
		ok(d.Record(RecordSealed, &DecidedRecord{Tx: tx}))
		ok(d.Record(RecordDecided, &DecidedRecord{Tx: tx, State: api.StateCommitted, Seq: 9}))
		ok(d.Record(RecordSettled, &DecidedRecord{Tx: tx, Clean: true}))
		key.Done, key.Status, key.Media = true, 200, "application/json"
		key.Body = fmt.Appendf(nil, `{"tx":%q,"workspace":"default","state":"committed","seq":%d,"mode":"optimistic",`+
			`"base":%d,"attempt":1,"writes":[{"scope":"shard:/b","seq":%d}],"waited_ms":12,"attempts_left":4}`, tx, i, i, i)
		body, err = key.JSON()
		ok(err)
		ok(d.KeepKey(body))
	}
	ok(d.Close())
	if info, err := os.Stat(of.Path(dir)); err == nil {
		b.Logf("%d MB", info.Size()>>20)
	}
}
