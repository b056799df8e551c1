package anomaly

import (
	"fmt"
	"runtime"
	"slices"
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
			Reads: []Read{{Cell: fmt.Sprintf("cell-%d", i%100), Value: fmt.Sprint(i - 100), Timed: i%2 == 0,
				Time: uint64(max(0, i-1))}},
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

// TestMemoryOfSearches: the law holds also where causes, cascades and cycles have to be searched through all
// operations, and what these searches hold is counted.
func TestMemoryOfSearches(t *testing.T) {
	const ops = 20_000
	last := fmt.Sprintf("transaction-%08d", ops-1)
	all := map[string]*Report{}
	for name, change := range map[string]func(i int, o *Op){
		"nothing": func(int, *Op) {},
		"a scar": func(i int, o *Op) { // the first rests on what was committed last
			if i == 0 {
				o.Preds = []string{last}
			}
		},
		"a cascade": func(i int, o *Op) { o.Aborted = i == ops/2 },
		"a cycle": func(i int, o *Op) { // two read, then both write
			if i < 2 {
				o.ReadTime, o.Reads, o.Writes = 0, []Read{{Cell: "x", Value: Null}}, []Write{{Cell: "x", Value: "1"}}
			}
		},
	} {
		h := NewHistory(0)
		for i := range ops {
			o := Op{Name: fmt.Sprintf("transaction-%08d", i), Agent: fmt.Sprintf("agent-%d", i%16), HasPreds: true,
				ReadTime: uint64(i), WriteTime: uint64(i + 1),
				Writes: []Write{{Cell: fmt.Sprintf("cell-%d", i%100), Value: fmt.Sprint(i)}}}
			if i > 0 {
				o.Preds = []string{fmt.Sprintf("transaction-%08d", i-1)}
			}
			change(i, &o)
			if err := h.Add(o); err != nil {
				t.Fatal(err)
			}
		}
		all[name] = h.Check()
	}
	kinds := map[string]Kind{"a scar": Scar, "a cascade": A3, "a cycle": Cycle}
	for name, r := range all {
		took := int(r.RecordBytes) / ops
		t.Logf("%s: %d bytes an operation, %d for its cells", name, took, r.CellBytes/ops)
		if took > 200 {
			t.Errorf("%s: an operation takes %d bytes besides its cells, more than 200", name, took)
		}
		kind, searched := kinds[name]
		if !searched {
			continue
		}
		if more := took - int(all["nothing"].RecordBytes)/ops; more < 16 {
			t.Errorf("%s: the search counts %d bytes an operation", name, more)
		}
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == kind }) {
			t.Errorf("%s: not found", name)
		}
	}
}
