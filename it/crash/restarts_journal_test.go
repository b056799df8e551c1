package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What becomes of a dead sidecar's journal.
const (
	journalSame    = "same"
	journalTorn    = "torn"    // a record that was just being written, of which a part is there
	journalFlipped = "flipped" // one bit is another, in a record before the last
	journalOther   = "other"   // it is another agent's
	journalGone    = "none"
	journalBehind  = "behind" // the agent's sidecar was on another machine since
)

// journalFates lists them.
func journalFates() []string {
	return []string{journalSame, journalTorn, journalFlipped, journalOther, journalGone, journalBehind}
}

const (
	journalMagic  = "HENCEJ1\n"
	journalHeader = 12 // length, checksum of the length, checksum of the rest
)

// journalsIn lists the journals below a folder that a sidecar would read.
func journalsIn(dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != "" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.HasPrefix(data, []byte(journalMagic)) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// spoil does to the journals below a folder what is to become of them. It says whether they are lost with it.
func spoil(dir, fate, agent, other string, seed uint64) (lost bool, err error) {
	paths, err := journalsIn(dir)
	if err != nil || fate == journalSame || fate == journalBehind {
		return false, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		was := bytes.Clone(data)
		data = spoilt(data, fate, agent, other, rand.New(rand.NewPCG(seed, 1)))
		if fate == journalGone {
			err = os.Remove(path)
		} else if err = os.WriteFile(path, data, 0o600); bytes.Equal(was, data) {
			continue // it was too short
		}
		if err != nil {
			return false, err
		}
		lost = lost || fate != journalTorn
	}
	return lost, nil
}

// copyJournals copies the journals of one log to where another one's belong.
func copyJournals(dir, from, to string) error {
	paths, err := journalsIn(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		other := strings.Replace(path, from, to, 1)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(other), 0o700)
		}
		if err == nil {
			err = os.WriteFile(other, data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func spoilt(data []byte, fate, agent, other string, rng *rand.Rand) []byte {
	ends := frameEnds(data)
	switch fate {
	case journalTorn: // as the beginning of a large record
		torn := []byte{0, 0, 1, 0}
		torn = binary.LittleEndian.AppendUint32(torn, sumOf(torn))
		torn = append(torn, []byte("sum.M{")...)
		return append(data, torn[:1+rng.IntN(len(torn)-1)]...)
	case journalFlipped:
		if len(ends) > 1 {
			first, last := len(journalMagic), ends[len(ends)-2] // not in the last: that would be a torn one
			data[first+rng.IntN(last-first)] ^= 1 << rng.IntN(8)
		}
	case journalOther:
		at := len(journalMagic)
		for _, end := range ends {
			body := bytes.ReplaceAll(data[at+journalHeader:end], []byte(agent), []byte(other))
			copy(data[at+journalHeader:], body) // of the same length
			binary.LittleEndian.PutUint32(data[at+8:], sumOf(body))
			at = end
		}
	}
	return data
}

// frameEnds is where each whole record of a journal ends, up to the first damaged one.
func frameEnds(data []byte) (ends []int) {
	for at := len(journalMagic); at+journalHeader <= len(data); {
		header, from := data[at:at+journalHeader], at+journalHeader
		at = from + int(binary.LittleEndian.Uint32(header))
		if sumOf(header[:4]) != binary.LittleEndian.Uint32(header[4:]) || at > len(data) ||
			sumOf(data[from:at]) != binary.LittleEndian.Uint32(header[8:]) {
			break
		}
		ends = append(ends, at)
	}
	return ends
}

func sumOf(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// TestSpoil holds what spoils a journal against one of three records.
func TestSpoil(t *testing.T) {
	journal := []byte(journalMagic)
	for i := range 3 {
		body := fmt.Appendf(nil, "B{%d one7}", i)
		header := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		header = binary.LittleEndian.AppendUint32(header, sumOf(header))
		header = binary.LittleEndian.AppendUint32(header, sumOf(body))
		journal = append(append(journal, header...), body...)
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		torn := spoilt(bytes.Clone(journal), journalTorn, "one7", "two7", rng)
		if !bytes.HasPrefix(torn, journal) || len(frameEnds(torn)) != 3 {
			t.Fatalf("torn: %q", torn)
		}
		flipped := spoilt(bytes.Clone(journal), journalFlipped, "one7", "two7", rng)
		if at := len(journal) * 2 / 3; bytes.Equal(flipped, journal) || !bytes.Equal(flipped[at:], journal[at:]) {
			t.Fatalf("flipped: %q", flipped)
		}
	}
	other := spoilt(bytes.Clone(journal), journalOther, "one7", "two7", nil)
	if bytes.Contains(other, []byte("one7")) || bytes.Count(other, []byte("two7")) != 3 || len(other) != len(journal) {
		t.Errorf("other: %q", other)
	}
}
