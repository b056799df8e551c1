package anomaly

import "unsafe"

// bytes is the memory that the history holds, its lists as they are allocated: for operations with their names and
// predecessors, and for cells and values.
func (h *History) bytes() (records, cells uint64) {
	records = held(h.ops) + held(h.preds) + held(h.owner) + held(h.single) + h.names.held() + h.agents.held()
	cells = held(h.reads) + held(h.apart) + held(h.writes) + held(h.copies) + h.cells.held() + h.values.held() +
		h.places.held()
	return records, cells
}

// held is the memory of a table: its texts, and for each 40 bytes of the map besides.
func (t *intern) held() uint64 { return uint64(t.bytes) + uint64(len(t.text))*40 + held(t.text) }

func (v *versions) bytes() (n uint64) {
	n = held(v.order) + held(v.begin) + held(v.at)
	for cell := range v.counted {
		n += uint64(v.begin[cell+1]-v.begin[cell]) * 3 * 40
	}
	return n
}

func held[T any](list []T) uint64 {
	var one T
	return uint64(cap(list)) * uint64(unsafe.Sizeof(one))
}
