package harness

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// What becomes of a dead sidecar's journal.
const (
	JournalSame    = "same"
	JournalTorn    = "torn"    // a record that was just being written, of which a part is there
	JournalFlipped = "flipped" // one bit is another, in a record before the last
	JournalOther   = "other"   // it is another agent's
	JournalGone    = "none"
	JournalBehind  = "behind" // the agent's sidecar was on another machine since
)

// JournalFates lists them.
func JournalFates() []string {
	return []string{JournalSame, JournalTorn, JournalFlipped, JournalOther, JournalGone, JournalBehind}
}

// How a journal begins, and how many bytes stand before each record.
const (
	JournalMagic  = "HENCEJ1\n"
	JournalHeader = 12 // length, checksum of the length, checksum of the rest
)

// JournalsIn lists the journals below a folder that a sidecar would read.
func JournalsIn(dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != "" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.HasPrefix(data, []byte(JournalMagic)) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// SpoilJournals does to the journals below a folder what is to become of them. It says whether they are lost with it.
func SpoilJournals(dir, fate, agent, other string, seed uint64) (lost bool, err error) {
	paths, err := JournalsIn(dir)
	if err != nil || fate == JournalSame || fate == JournalBehind {
		return false, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		was := bytes.Clone(data)
		data = spoilt(data, fate, agent, other, rand.New(rand.NewPCG(seed, 1)))
		if fate == JournalGone {
			err = os.Remove(path)
		} else if err = os.WriteFile(path, data, 0o600); bytes.Equal(was, data) {
			continue // it was too short
		}
		if err != nil {
			return false, err
		}
		lost = lost || fate != JournalTorn
	}
	return lost, nil
}

// CopyJournals copies the journals of one log to where another one's belong.
func CopyJournals(dir, from, to string) error {
	paths, err := JournalsIn(dir)
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
	ends := FrameEnds(data)
	switch fate {
	case JournalTorn: // as the beginning of a large record
		torn := []byte{0, 0, 1, 0}
		torn = binary.LittleEndian.AppendUint32(torn, sumOf(torn))
		torn = append(torn, []byte("sum.M{")...)
		return append(data, torn[:1+rng.IntN(len(torn)-1)]...)
	case JournalFlipped:
		if len(ends) > 1 {
			first, last := len(JournalMagic), ends[len(ends)-2] // not in the last: that would be a torn one
			data[first+rng.IntN(last-first)] ^= 1 << rng.IntN(8)
		}
	case JournalOther:
		at := len(JournalMagic)
		for _, end := range ends {
			body := bytes.ReplaceAll(data[at+JournalHeader:end], []byte(agent), []byte(other))
			copy(data[at+JournalHeader:], body) // of the same length
			binary.LittleEndian.PutUint32(data[at+8:], sumOf(body))
			at = end
		}
	}
	return data
}

// FrameEnds is where each whole record of a journal ends, up to the first damaged one.
func FrameEnds(data []byte) (ends []int) {
	for at := len(JournalMagic); at+JournalHeader <= len(data); {
		header, from := data[at:at+JournalHeader], at+JournalHeader
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
