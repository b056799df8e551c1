package harness

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSpoil holds what spoils a journal against one of three records.
func TestSpoil(t *testing.T) {
	journal := []byte(JournalMagic)
	for i := range 3 {
		body := fmt.Appendf(nil, "B{%d one7}", i)
		header := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		header = binary.LittleEndian.AppendUint32(header, sumOf(header))
		header = binary.LittleEndian.AppendUint32(header, sumOf(body))
		journal = append(append(journal, header...), body...)
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		torn := spoilt(bytes.Clone(journal), JournalTorn, "one7", "two7", rng)
		if !bytes.HasPrefix(torn, journal) || len(FrameEnds(torn)) != 3 {
			t.Fatalf("torn: %q", torn)
		}
		flipped := spoilt(bytes.Clone(journal), JournalFlipped, "one7", "two7", rng)
		if at := len(journal) * 2 / 3; bytes.Equal(flipped, journal) || !bytes.Equal(flipped[at:], journal[at:]) {
			t.Fatalf("flipped: %q", flipped)
		}
	}
	other := spoilt(bytes.Clone(journal), JournalOther, "one7", "two7", nil)
	if bytes.Contains(other, []byte("one7")) || bytes.Count(other, []byte("two7")) != 3 || len(other) != len(journal) {
		t.Errorf("other: %q", other)
	}
}
