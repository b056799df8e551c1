package anomaly

import (
	"fmt"
	"runtime"
	"testing"
)

// TestMemory: an operation takes at most 200 bytes besides its cells, and what is counted is what is held.
func TestMemory(t *testing.T) {
	const ops = 20_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	h := NewHistory(0)
	for i := range ops {
		err := h.Add(Op{Name: fmt.Sprintf("transaction-%08d", i), Agent: fmt.Sprintf("agent-%d", i%16), HasPreds: true,
			Preds: []string{fmt.Sprintf("transaction-%08d", max(0, i-1))}, ReadTime: uint64(i), WriteTime: uint64(i + 1),
			Reads:  []Read{{Cell: fmt.Sprintf("cell-%d", i%100), Value: fmt.Sprint(i - 100)}},
			Writes: []Write{{Cell: fmt.Sprintf("cell-%d", i%100), Value: fmt.Sprint(i)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	held := heap() - before
	records, cells := h.bytes()
	r := h.Check()
	t.Logf("%d bytes an operation, %d for its cells; the history holds %d, %d counted", r.RecordBytes/ops,
		r.CellBytes/ops, held/ops, (records+cells)/ops)
	if r.RecordBytes > 200*ops {
		t.Errorf("an operation takes %d bytes besides its cells, more than 200", r.RecordBytes/ops)
	}
	if counted := records + cells; counted < held*3/4 || counted > held*3/2 {
		t.Errorf("%d bytes are counted, and %d are held", counted, held)
	}
	if len(r.Findings) != 0 {
		t.Errorf("a serial history has %v", found(h, r)[:1])
	}
}
