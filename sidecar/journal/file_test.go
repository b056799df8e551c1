package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// must fails the test on an error and passes the value on.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// readJournal opens a journal and collects its records.
func readJournal(t *testing.T, path string) (*File, [][]byte, error) {
	t.Helper()
	var got [][]byte
	j, err := openFile(path, OpenOS, quiet(), func(r []byte) error {
		got = append(got, bytes.Clone(r))
		return nil
	})
	return j, got, err
}

func writeJournal(t *testing.T, path string, records ...string) {
	t.Helper()
	j, _, err := readJournal(t, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := j.append(r[0], []byte(r[1:])); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// A journal that ends anywhere inside its last record is cut back to the record before it, and takes records again.
func TestJournalTornTail(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	writeJournal(t, whole, "Aone", "Btwo", "Cthree\x00") // a short read leaves zeros, too
	content := must(os.ReadFile(whole))(t)
	last := len(Frame(nil, 'C', []byte("three\x00")))
	for cut := 1; cut <= last; cut++ {
		path := filepath.Join(dir, "torn")
		if err := os.WriteFile(path, content[:len(content)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, got, err := readJournal(t, path)
		if err != nil || len(got) != 2 || string(got[1]) != "Btwo" {
			t.Fatalf("cut by %d: %q, %v", cut, got, err)
		}
		if err := errors.Join(j.append('D', []byte("four")), j.Close()); err != nil {
			t.Fatal(err)
		}
		if _, got, err = readJournal(t, path); err != nil || len(got) != 3 || string(got[2]) != "Dfour" {
			t.Fatalf("cut by %d, then appended: %q, %v", cut, got, err)
		}
	}
}

// One wrong bit before the last record is damage: the file is moved aside and nothing of it is used.
func TestJournalDamage(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	writeJournal(t, whole, "Aone", "Btwo", "Cthree")
	content := must(os.ReadFile(whole))(t)
	last := len(Frame(nil, 'C', []byte("three")))
	for at := range len(content) - last {
		path := filepath.Join(dir, fmt.Sprint("damaged", at))
		changed := bytes.Clone(content)
		changed[at] ^= 0x10
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		j, _, err := readJournal(t, path)
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if kept := must(os.ReadFile(path + ".damaged-1"))(t); !bytes.Equal(kept, changed) {
			t.Fatalf("byte %d: the damaged file was not kept", at)
		}
	}
}

// faulty fails the n-th write with an error, after a part of it.
type faulty struct {
	Disk
	fault *fault
}

type fault struct {
	mu       sync.Mutex
	in       int // writes until it strikes; negative: never
	err      error
	part     int
	truncate error
}

func (f *fault) arm(in int, err error, part int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in, f.err, f.part = in, err, part
}

// hold lets no file be cut, for a reason; nil: it can be.
func (f *fault) hold(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.truncate = why
}

func (f *fault) open(path string) (Disk, error) {
	file, err := OpenOS(path)
	return faulty{file, f}, err
}

func (f faulty) Write(p []byte) (int, error) {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	if f.fault.in != 0 {
		f.fault.in--
		return f.Disk.Write(p)
	}
	n, err := f.Disk.Write(p[:min(f.fault.part, len(p))])
	return n, errors.Join(f.fault.err, err)
}

func (f faulty) Truncate(size int64) error {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	if f.fault.truncate != nil {
		return f.fault.truncate
	}
	return f.Disk.Truncate(size)
}

// A write that fails leaves no part of its record behind, and the next one works.
func TestJournalFailedWrite(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		path := filepath.Join(t.TempDir(), "journal")
		f := &fault{in: -1}
		j, err := openFile(path, f.open, quiet(), func([]byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for part := range 16 {
			f.arm(0, cause, part)
			if err := j.append('X', []byte("lost")); !errors.Is(err, ErrJournal) || !errors.Is(err, cause) {
				t.Fatalf("%v after %d bytes: %v", cause, part, err)
			}
			f.arm(-1, nil, 0)
			if err := j.append('K', []byte("kept")); err != nil {
				t.Fatal(err)
			}
		}
		f.arm(0, cause, 3)
		f.hold(cause)
		if err := j.append('X', []byte("lost")); !errors.Is(err, cause) {
			t.Fatal(err)
		}
		f.arm(-1, nil, 0)
		if err := j.append('X', []byte("after a half record")); !errors.Is(err, ErrJournal) {
			t.Fatalf("a journal with half a record took another: %v", err)
		}
		f.hold(nil)
		must(0, j.append('K', []byte("once it is cut")))(t)
		f.hold(cause)
		if err := j.takeBack(cause); !errors.Is(err, cause) {
			t.Fatal(err)
		}
		f.hold(nil)
		must(0, j.append('K', []byte("what was taken back is cut first")))(t)
		_ = j.Close()
		if _, got, err := readJournal(t, path); err != nil || len(got) != 17 || got[16][1] != 'w' {
			t.Fatalf("%d records, %v", len(got), err)
		}
	}
}

// A rewrite that fails leaves nothing on a disk that is full, nor does one that the end of its process broke off, and
// is tried again only once the journal has grown further.
func TestJournalFailedRewrite(t *testing.T) {
	d, f := New(nil, 8, 1, quiet()), &fault{in: -1}
	of := Of{Log: "log", Workspace: "default", Agent: "a"}
	dir := t.TempDir()
	next := of.Path(dir) + ".next"
	must(0, opened(t, dir, nil, 8<<20).Close())(t)
	must(0, os.WriteFile(next, []byte("half"), 0o600))(t)
	gone := func(when string) {
		t.Helper()
		if _, err := os.Stat(next); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the disk still has the other file: %v", when, err)
		}
	}
	must(0, d.Open(dir, of, f.open, nil))(t)
	gone("a start")
	for i := range 4 {
		must(0, d.Record(RecordBegun, &TxRecord{Tx: sequencer.TxID(fmt.Sprint("a.3.", i))}))(t)
	}
	f.arm(0, syscall.ENOSPC, 100)
	if err := d.Mark(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	gone("a failed rewrite")
	must(0, d.Mark())(t) // which does not try
	f.arm(-1, nil, 0)
	before := d.Bytes()
	for i := range 2 {
		must(0, d.Record(RecordBegun, &TxRecord{Tx: sequencer.TxID(fmt.Sprint("a.4.", i))}))(t)
	}
	must(0, d.Mark())(t)
	if d.Shortly != 2*d.Bytes() {
		t.Errorf("%d of %d bytes: it was not tried again", d.Bytes(), before)
	}
	must(0, d.Close())(t)
}

// TestJournalRests: records that rest are written with the next one, in one write; a write that fails loses none of
// them, and not the record that was to be written with them; what is taken back is the last record alone.
func TestJournalRests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	f := &fault{in: -1}
	j, err := openFile(path, f.open, quiet(), func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	holds := func(want string) {
		t.Helper()
		kinds := ""
		_, _, err := Scan(j.file, func(r []byte) error {
			kinds += string(r[:1])
			return nil
		})
		if err != nil || kinds != want {
			t.Fatalf("the file holds %q, want %q: %v", kinds, want, err)
		}
	}
	rest := func(kinds string) {
		t.Helper()
		for _, kind := range kinds {
			if err := j.rest(byte(kind), []byte("rests")); err != nil {
				t.Fatal(err)
			}
		}
	}
	rest("AB")
	holds("")
	f.arm(0, syscall.ENOSPC, 20)
	if err := j.append('X', nil); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := j.flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	holds("")
	f.arm(1, syscall.EIO, 0) // one write, and the next fails
	if err := j.append('C', nil); err != nil {
		t.Fatal(err)
	}
	holds("ABC")
	f.arm(-1, nil, 0)
	rest("DX")
	if err := j.takeBack(syscall.EINVAL); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	must(0, j.append('Y', nil))(t)
	if err := j.takeBack(syscall.EINVAL); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	holds("ABCD")
	rest("E")
	must(0, j.rewrite([]Entry{{Kind: 'R'}}))(t)
	holds("R") // which E is a part of
	rest("F")
	must(0, j.Close())(t)
	if _, got, err := readJournal(t, path); err != nil || len(got) != 2 || got[1][0] != 'F' {
		t.Fatalf("%q, %v", got, err)
	}
}
