package check

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// BenchmarkCheck checks a file of 100,000 operations, of a million with HENCE_TEST_FULL=1, and reports how much longer
// that takes than to read the file's bytes, and the memory of each operation.
func BenchmarkCheck(b *testing.B) {
	ops := 100_000
	if os.Getenv("HENCE_TEST_FULL") == "1" {
		ops = 1_000_000
	}
	chance := rand.New(rand.NewPCG(1, 1))
	var file bytes.Buffer
	held, last, overwritten := make([]int, 1000), 0, 0
	for i := range ops {
		cell, behind := chance.IntN(len(held)), 0
		saw := held[cell]
		if i%100 == 99 { // some were overtaken by the one before
			cell, saw, behind = last, overwritten, 1
		}
		fmt.Fprintf(&file, `{"txn":"tx-%d","agent":"agent-%d","read_set":["shard:/%d"],"read_values":{"shard:/%d":%d},`+
			`"read_time":%d,"write_set":["shard:/%d"],"write_values":{"shard:/%d":%d},"write_time":%d,"planned_tool":null,`+
			`"io":[["shard:/%d",%d]],"co":[["shard:/%d",%d]],"preds":[],"aborted":false}`+"\n", i, i%64, cell, cell,
			saw, i-behind, cell, cell, i+1, i+1, cell, i+1, cell, i+1)
		last, overwritten = cell, held[cell]
		held[cell] = i + 1
	}
	path := b.TempDir() + "/trace.jsonl"
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	var bare, checked time.Duration
	var result *Result
	for b.Loop() {
		began := time.Now()
		in, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		lines := bytes.Buffer{}
		if _, err := io.Copy(&lines, in); err != nil || bytes.Count(lines.Bytes(), []byte("\n")) != ops {
			b.Fatal(err)
		}
		_ = in.Close()
		bare += time.Since(began)
		began = time.Now()
		if result, err = Open(b.Context(), path, nil, Options{Limit: 100}); err != nil {
			b.Fatal(err)
		}
		checked += time.Since(began)
	}
	b.ReportMetric(float64(checked)/float64(bare), "times-bare")
	b.ReportMetric(checked.Seconds()/float64(b.N)*1e6/float64(ops), "s/million")
	b.ReportMetric(float64(result.RecordBytes), "B/op-record")
	b.ReportMetric(float64(result.CellBytes), "B/op-cells")
	b.ReportMetric(float64(result.Certain), "findings")
}
