package anomaly

import "unsafe"

// Bytes is the memory that the history holds: its lists as they are allocated, and its tables of texts, with 48 bytes
// for an entry of a table besides the text.
func (h *History) Bytes() (n uint64) {
	n = held(h.ops) + held(h.reads) + held(h.writes) + held(h.copies) + held(h.preds) + held(h.owner) + held(h.single)
	for _, t := range []*intern{&h.names, &h.agents, &h.cells, &h.values, &h.places} {
		n += uint64(t.bytes) + uint64(len(t.text))*48 + held(t.text)
	}
	return n
}

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
