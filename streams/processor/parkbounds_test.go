package processor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// What is kept of a parked record fits into hence.parked, whatever came, and says its origin and what was left out.
func TestParkedRecordIsBounded(t *testing.T) {
	many := map[string][]byte{}
	for i := range 5000 {
		many[fmt.Sprintf("h%04d", i)] = make([]byte, 100)
	}
	from := origin{"hence.intents", 3, 17, topology.ParkedKey}
	for name, c := range map[string]struct {
		key     string
		headers map[string][]byte
		value   []byte
		cut     string
		came    int // headers that are kept
	}{
		"small":         {"shop", map[string][]byte{"a": []byte("b")}, []byte("x"), "", 1},
		"nothing":       {"", nil, nil, "", 0},
		"a long key":    {strings.Repeat("k", 5<<20), nil, nil, "key of 5242880 bytes, value of 0 bytes, 0 headers", 0},
		"a large value": {"shop", nil, make([]byte, 3<<20), "value of 3145728 bytes", 0},
		"large headers": {"shop", map[string][]byte{"a": make([]byte, 5<<20), "b": {1}}, nil, "1 headers left out", 1},
		"many headers":  {"shop", many, nil, "4376 headers left out", 624},
		"all of it":     {strings.Repeat("k", 5<<20), many, make([]byte, 5<<20), "4376 headers left out", 624},
	} {
		r := from.parked(c.key, c.headers, c.value)
		size, got, came := len(r.Key)+len(r.Value), map[string]string{}, 0
		for _, h := range r.Headers {
			size += len(h.Key) + len(h.Value) + 16
			if got[h.Key] = string(h.Value); c.headers[h.Key] != nil {
				came++
			}
		}
		if size > 3<<20 || came != c.came || !strings.Contains(got[topology.HeaderParkedCut], c.cut) ||
			(c.cut == "") != (got[topology.HeaderParkedCut] == "") {
			t.Errorf("%s: %d bytes, %d of its headers, cut %q", name, size, came, got[topology.HeaderParkedCut])
		}
		if got[topology.HeaderParkedTopic] != "hence.intents" || got[topology.HeaderParkedPartition] != "3" ||
			got[topology.HeaderParkedOffset] != "17" || got[topology.HeaderParkedReason] != topology.ParkedKey {
			t.Errorf("%s: its origin is %v", name, got)
		}
	}
	forged := from.parked("shop", map[string][]byte{topology.HeaderParkedReason: []byte("none")}, nil)
	if last := lastHeader(forged, topology.HeaderParkedReason); last != topology.ParkedKey {
		t.Errorf("its reason is %q", last)
	}
}

func lastHeader(r *kgo.Record, key string) (value string) {
	for _, h := range r.Headers {
		if h.Key == key {
			value = string(h.Value)
		}
	}
	return value
}
