package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology/machine"
)

// ErrJournalLocked is returned by Sidecar.Run when another process has the journal of this agent open.
var ErrJournalLocked = errors.New("sidecar: the journal is locked by another process")

// ErrJournal is returned by reads and writes that the journal could not take; nothing was answered.
const ErrJournal = api.ErrJournal

// ErrCorrupt is returned by openFile when a record before the last one cannot be read.
var ErrCorrupt = errors.New("sidecar: the journal is damaged")

// Magic is what the file of a journal begins with.
const Magic = "HENCEJ1\n"

const (
	journalHeader = 12 // length, checksum of the length, checksum of the payload
	maxRecord     = 4 << 20
)

// Disk is the part of *os.File that the journal uses; tests put one that fails in its place.
type Disk interface {
	io.Writer
	io.ReaderAt
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
	Sync() error
	Close() error
}

// BootID names the machine's boot as journals have it; empty: a steady time means nothing there.
func BootID() string {
	id := machine.SteadyBoot()
	return id[:min(len(id), 8)]
}

// Opener opens a journal's file for reading and appending, and creates it when it is not there.
type Opener func(path string) (Disk, error)

// OpenOS opens a journal's file on the machine's file system.
func OpenOS(path string) (Disk, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

// File appends records to one file. A record is in the file when append returns: the crash of the process loses
// nothing. One that rests is there once a later one is appended, or flush returns. Nothing is synced, so the crash of
// the machine can lose the newest records; the transactions that were open then are lost with the process anyway. It
// is not safe for concurrent use.
//
// Invariant: the file ends with a whole record, or broken is set.
type File struct {
	path   string
	open   Opener
	file   Disk
	size   int64 // where the next record belongs
	broken error // why more than that could not be cut off yet

	resting []byte // Invariant: records that belong behind those of the file, in their order
	newest  int    // bytes of the last record that was taken
}

// openFile opens the file and gives each record to apply. A torn last record is cut off with a log line. On
// errCorrupt the journal is there, empty, and the damaged file was moved aside.
func openFile(path string, open Opener, log *slog.Logger, apply func([]byte) error) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the journal's folder: %w", err)
	}
	_ = os.Remove(path + ".next") // of a process that ended while it rewrote the journal
	j := &File{path: path, open: open}
	if err := j.attach(); err != nil {
		return nil, err
	}
	end, whole, err := Scan(j.file, apply)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		_ = j.file.Close()
		return nil, fmt.Errorf("read the journal %s: %w", path, err)
	}
	if err != nil {
		to, moved := j.moveAside("damaged")
		log.Error("the journal is damaged: moved aside, its session is lost", "path", to, "offset", end, "cause", err)
		return j, errors.Join(err, moved)
	}
	if whole && end > 0 {
		return j, j.seek(end) // untouched: when it was written last says something
	}
	if !whole {
		log.Warn("the journal ended in a torn record: cut off; it was never answered", "path", path, "offset", end)
	}
	return j, j.restart(end)
}

func (j *File) attach() error {
	file, err := j.open(j.path)
	if err != nil {
		return fmt.Errorf("open the journal %s: %w", j.path, err)
	}
	j.file = file
	return nil
}

// moveAside keeps a file that cannot be used, under a name that says why, and begins an empty one.
func (j *File) moveAside(why string) (to string, err error) {
	failpoint.Hit(failpoint.AsideBefore)
	defer failpoint.Hit(failpoint.AsideAfter)
	_ = j.file.Close()
	if to, err = setAside(j.path, why); err != nil {
		return j.path, err
	}
	if err := j.attach(); err != nil {
		return to, err
	}
	return to, j.restart(0)
}

// restart makes end the place of the next record.
func (j *File) restart(end int64) error {
	if err := j.file.Truncate(end); err != nil {
		return fmt.Errorf("cut the journal at %d: %w", end, err)
	}
	if err := j.seek(end); err != nil {
		return err
	}
	if end > 0 {
		return nil
	}
	n, err := j.file.Write([]byte(Magic))
	j.size = int64(n)
	if err != nil {
		return fmt.Errorf("begin the journal: %w", err)
	}
	return nil
}

func (j *File) seek(end int64) error {
	if _, err := j.file.Seek(end, io.SeekStart); err != nil {
		return fmt.Errorf("go to the journal's end: %w", err)
	}
	j.size = end
	return nil
}

// append adds one record, with those that rest, in one write. When it fails the record is not in the journal, those
// that rest still do, and the journal can be used again, once it could be cut back.
func (j *File) append(kind byte, body []byte) error {
	err := j.rest(kind, body)
	if err == nil {
		if err = j.flush(); err != nil {
			j.resting = j.resting[:len(j.resting)-j.newest]
		}
	}
	return err
}

// rest takes one record, which the file has once a later one is appended, or flush returns.
func (j *File) rest(kind byte, body []byte) error {
	if err := j.mend(); err != nil {
		return err
	}
	before := len(j.resting)
	j.resting = Frame(j.resting, kind, body)
	j.newest = len(j.resting) - before
	return nil
}

// flush writes the records that rest.
func (j *File) flush() error {
	err := j.mend()
	switch {
	case len(j.resting) == 0:
		return nil // all that was taken is there, whatever is behind it
	case err != nil:
		return err
	}
	failpoint.Hit(failpoint.JournalBeforeWrite)
	if _, err := j.file.Write(j.resting); err != nil {
		return j.cut(j.size, err)
	}
	j.size += int64(len(j.resting))
	j.resting = j.resting[:0]
	failpoint.Hit(failpoint.JournalAfterWrite)
	return nil
}

// takeBack removes the last record that was taken, for a reason, which it returns.
func (j *File) takeBack(why error) error {
	if rest := len(j.resting) - j.newest; rest >= 0 && len(j.resting) > 0 {
		j.resting = j.resting[:rest]
		return fmt.Errorf("%w: %w", ErrJournal, why)
	}
	return j.cut(j.size-int64(j.newest), why)
}

// cut takes back what was written beyond a size, for a reason, which it returns.
func (j *File) cut(size int64, why error) error {
	j.size = size
	if err := j.restart(size); err != nil {
		j.broken = errors.Join(why, err)
	}
	return fmt.Errorf("%w: %w", ErrJournal, why)
}

// mend tries again what cut could not do. An error says that no record can be written: it would be behind a torn one.
func (j *File) mend() error {
	switch {
	case j.broken == nil:
		return nil
	case j.file == nil || j.restart(j.size) != nil:
		return fmt.Errorf("%w: %w", ErrJournal, j.broken)
	}
	j.broken = nil
	return nil
}

// Frame appends a record with its header to buf.
func Frame(buf []byte, kind byte, body []byte) []byte {
	if len(body) >= maxRecord {
		panic(fmt.Sprintf("sidecar: a journal record of %d bytes", len(body)))
	}
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(body)+1))
	buf = binary.LittleEndian.AppendUint32(buf, checksum(buf[len(buf)-4:]))
	at := len(buf)
	buf = append(buf, 0, 0, 0, 0, kind)
	buf = append(buf, body...)
	binary.LittleEndian.PutUint32(buf[at:], checksum(buf[at+4:]))
	return buf
}

// rewrite replaces the file by one that holds the given records only.
func (j *File) rewrite(records []Entry) error {
	if err := j.mend(); err != nil {
		return err
	}
	next, err := WriteWhole(j.path, j.open, records)
	if err != nil {
		return err
	}
	_ = j.file.Close()
	j.file, j.size, j.resting = next.file, next.size, j.resting[:0] // the records are what these come to, too
	return nil
}

// WriteWhole makes a journal of some records in one step: after a crash the file there is the former one, or this one.
func WriteWhole(path string, open Opener, records []Entry) (*File, error) {
	size := len(Magic)
	for _, r := range records {
		size += journalHeader + 1 + len(r.Body)
	}
	content := append(make([]byte, 0, size), Magic...)
	for _, r := range records {
		content = Frame(content, r.Kind, r.Body)
	}
	next := &File{path: path + ".next", open: open, size: int64(len(content))}
	if err := next.attach(); err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.JournalBeforeRewrite)
	if err := next.replaceBy(content, path); err != nil {
		_ = next.file.Close()
		_ = os.Remove(next.path) // a full disk needs the room for the journal itself
		return nil, fmt.Errorf("rewrite the journal: %w", err)
	}
	failpoint.Hit(failpoint.JournalAfterRewrite)
	next.path = path
	return next, nil
}

func (j *File) replaceBy(content []byte, path string) error {
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	if _, err := j.file.Write(content); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return os.Rename(j.path, path)
}

// sync returns once the crash of the machine cannot lose what is in the journal.
func (j *File) sync() error {
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("%w: sync it: %w", ErrJournal, err)
	}
	return nil
}

// Close syncs and closes the file, if it was ever opened.
func (j *File) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.flush()
	return errors.Join(err, j.file.Sync(), j.file.Close())
}

// Entry is one record of a journal: its kind, and its body as the kind's codec writes it.
type Entry struct {
	Kind byte
	Body []byte
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// scanBuffer is how much of a journal is read at once.
const scanBuffer = 256 << 10

// Scan gives each whole record, kind first, to apply, which may not keep it. It returns where the next record belongs;
// whole is false when a torn record lies there. Damage before the last record is errCorrupt.
func Scan(file io.ReaderAt, apply func([]byte) error) (end int64, whole bool, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, math.MaxInt64), scanBuffer)
	magic := make([]byte, len(Magic))
	n, err := readUpTo(in, magic)
	switch {
	case err != nil:
		return 0, false, err
	case n < len(Magic) && Magic[:n] == string(magic[:n]):
		return 0, n == 0, nil
	case string(magic) != Magic:
		return 0, false, fmt.Errorf("%w: it does not begin as a journal does", ErrCorrupt)
	}
	end = int64(len(Magic))
	header := make([]byte, journalHeader)
	var body []byte
	for {
		n, err := readUpTo(in, header)
		if err != nil || n < journalHeader {
			return end, err == nil && n == 0, err
		}
		length := int64(binary.LittleEndian.Uint32(header))
		if checksum(header[:4]) != binary.LittleEndian.Uint32(header[4:]) || length > maxRecord {
			return end, false, fmt.Errorf("%w: the header at %d is not one", ErrCorrupt, end)
		}
		body = slices.Grow(body[:0], int(length))[:length]
		n, err = readUpTo(in, body)
		if err != nil || int64(n) < length {
			return end, false, err
		}
		if checksum(body) != binary.LittleEndian.Uint32(header[8:]) {
			_, err := in.Peek(1)
			switch {
			case errors.Is(err, io.EOF): // the last record, torn where the file has its length already
				return end, false, nil
			case err != nil:
				return end, false, err
			}
			return end, false, fmt.Errorf("%w: the record at %d fails its checksum", ErrCorrupt, end)
		}
		if err := apply(body); err != nil {
			return end, false, fmt.Errorf("%w: the record at %d: %w", ErrCorrupt, end, err)
		}
		end += journalHeader + length
	}
}

// readUpTo reads as much as there is of what fits; that the file ends is no error.
func readUpTo(in io.Reader, into []byte) (n int, err error) {
	n, err = io.ReadFull(in, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}
