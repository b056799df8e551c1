package audit

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A bundle is a tar file with the records of one workspace: for each topic files of JSON lines, one record each, and
// manifest.json as the last file. Its hashes find what was damaged on the way; who changes records can change these.
const (
	bundleFormat = 1
	manifestName = "manifest.json"
	chunkBytes   = 4 << 20
	maxChunk     = 16 << 20 // one record and a chunk
	maxFiles     = 1 << 16  // of a bundle: their names are held
)

// ErrBundle is returned by OpenBundle when a file is no bundle that this release reads.
var ErrBundle = errors.New("no bundle")

// manifest says what a bundle has.
type manifest struct {
	Format    int              `json:"format"`
	Workspace string           `json:"workspace"`
	Log       string           `json:"log"` // id of the log, as Kafka gave it to hence.intents
	Made      string           `json:"made"`
	Release   string           `json:"release"`
	Topics    map[string]Place `json:"topics"`
	Rules     []ruled          `json:"rules"` // in force from a decision on; hence.decisions has them too
	Files     []bundled        `json:"files"`
}

type ruled struct {
	Seq   sequencer.Seq   `json:"seq"`
	Rules json.RawMessage `json:"rules"`
}

type bundled struct {
	Name    string `json:"name"`
	Records int    `json:"records"`
	SHA256  string `json:"sha256"`
}

// line is a record in a bundle.
type line struct {
	Offset    int64  `json:"offset"`
	Value     []byte `json:"value"`
	Signature []byte `json:"signature,omitempty"`
}

// Topics are those that an audit reads, in the order in which a bundle has them.
func Topics() []string {
	return []string{topology.TopicSeals, topology.TopicDecisions, topology.TopicIntents}
}

// WriteBundle writes what a source has.
func WriteBundle(ctx context.Context, out io.Writer, src Source, made time.Time, release string) error {
	m := manifest{Format: bundleFormat, Made: made.UTC().Format(time.RFC3339), Release: release,
		Topics: map[string]Place{}, Rules: []ruled{}}
	m.Workspace, m.Log = src.Head()
	w := &bundleWriter{tar: tar.NewWriter(out), made: made, m: &m}
	for _, topic := range Topics() {
		m.Topics[topic] = src.Place(topic)
		w.topic, w.part = topic, 0
		err := src.Each(ctx, topic, func(r Record) error {
			if topic == topology.TopicDecisions {
				m.rule(r.Value)
			}
			return w.add(line(r))
		})
		if err := errors.Join(err, w.flush()); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(&m, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(w.file(manifestName, append(text, '\n')), w.tar.Close())
}

// rule keeps the rules that a decision puts in force, once.
func (m *manifest) rule(value []byte) {
	o, err := topology.DecodeCloudEvent(value)
	if err != nil || o.Rules == nil || len(m.Rules) > 0 && m.Rules[len(m.Rules)-1].Seq >= o.Seq {
		return
	}
	var event struct {
		Data struct {
			Rules json.RawMessage `json:"rules"`
		} `json:"data"`
	}
	if json.Unmarshal(value, &event) == nil {
		m.Rules = append(m.Rules, ruled{o.Seq, event.Data.Rules})
	}
}

type bundleWriter struct {
	tar     *tar.Writer
	made    time.Time
	m       *manifest
	topic   string
	part    int
	buf     bytes.Buffer
	records int
}

func (w *bundleWriter) add(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	w.buf.Write(append(b, '\n'))
	if w.records++; w.buf.Len() >= chunkBytes {
		return w.flush()
	}
	return nil
}

func (w *bundleWriter) flush() error {
	if w.records == 0 {
		return nil
	}
	w.part++
	name := fmt.Sprintf("%s/%06d.jsonl", w.topic, w.part)
	sum := sha256.Sum256(w.buf.Bytes())
	w.m.Files = append(w.m.Files, bundled{name, w.records, hex.EncodeToString(sum[:])})
	err := w.file(name, w.buf.Bytes())
	w.buf.Reset()
	w.records = 0
	return err
}

func (w *bundleWriter) file(name string, b []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), ModTime: w.made,
		Format: tar.FormatUSTAR})
	if err == nil {
		_, err = w.tar.Write(b)
	}
	return err
}

// Bundle is a bundle that is read.
type Bundle struct {
	file    io.ReadSeeker
	m       manifest
	Damaged []string // files that are not as the manifest has them
}

// OpenBundle reads a bundle's manifest and its hashes. The file must stay open while the bundle is used.
func OpenBundle(file io.ReadSeeker) (*Bundle, error) {
	b := &Bundle{file: file}
	sums, names := map[string]string{}, []string{}
	err := b.files(func(name string, r io.Reader) error {
		if name == manifestName {
			if b.m.Format != 0 {
				return fmt.Errorf("%w: %s is there twice", ErrBundle, name)
			}
			text, err := io.ReadAll(io.LimitReader(r, maxChunk))
			if err == nil {
				err = json.Unmarshal(text, &b.m)
			}
			if err != nil {
				return fmt.Errorf("%w: %s: %v", ErrBundle, manifestName, err)
			}
			return nil
		}
		h := hash.Hash(sha256.New())
		if _, err := io.Copy(h, r); errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: it is cut short in %s", ErrBundle, name)
		} else if err != nil {
			return fmt.Errorf("%w: %s: %v", ErrBundle, name, err)
		}
		switch {
		case sums[name] != "":
			return fmt.Errorf("%w: %s is there twice", ErrBundle, name)
		case len(names) == maxFiles:
			return fmt.Errorf("%w: it has more than %d files", ErrBundle, maxFiles)
		}
		sums[name], names = hex.EncodeToString(h.Sum(nil)), append(names, name)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case b.m.Format == 0:
		return nil, fmt.Errorf("%w: it has no %s: hence export --bundle writes one", ErrBundle, manifestName)
	case b.m.Format != bundleFormat:
		return nil, fmt.Errorf("%w: its format is %d, this release reads %d: use a newer one", ErrBundle, b.m.Format,
			bundleFormat)
	}
	if err := topology.ValidWorkspace(b.m.Workspace); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	if b.m.Log == "" {
		return nil, fmt.Errorf("%w: its %s names no log, and seals of any log would count", ErrBundle, manifestName)
	}
	for _, f := range b.m.Files {
		if sums[f.Name] != f.SHA256 {
			b.Damaged = append(b.Damaged, f.Name)
		}
		delete(sums, f.Name)
	}
	for _, name := range names {
		if sums[name] != "" {
			b.Damaged = append(b.Damaged, name)
		}
	}
	return b, nil
}

// files calls f for each file of the tar, in order.
func (b *Bundle) files(f func(name string, r io.Reader) error) error {
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	begins := make([]byte, 2)
	if _, err := io.ReadFull(b.file, begins); err == nil && string(begins) == "\x1f\x8b" {
		return fmt.Errorf("%w: it is compressed: gunzip it", ErrBundle)
	}
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	before := "its beginning"
	for r := tar.NewReader(b.file); ; {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: it is cut short behind %s", ErrBundle, before)
		case err != nil:
			return fmt.Errorf("%w: behind %s: %v", ErrBundle, before, err)
		}
		before = h.Name
		if h.Typeflag == tar.TypeDir {
			continue // the bundle was packed again
		}
		if err := f(h.Name, r); err != nil {
			return err
		}
	}
}

// Head implements Source.
func (b *Bundle) Head() (workspace, log string) { return b.m.Workspace, b.m.Log }

// Made says when a bundle was written, by which release.
func (b *Bundle) Made() (at, release string) { return b.m.Made, b.m.Release }

// Place implements Source.
func (b *Bundle) Place(topic string) Place {
	p, ok := b.m.Topics[topic]
	p.Absent = p.Absent || !ok
	return p
}

// Each implements Source.
func (b *Bundle) Each(ctx context.Context, topic string, f func(Record) error) error {
	return b.files(func(name string, r io.Reader) error {
		if !strings.HasPrefix(name, topic+"/") {
			return nil
		}
		d := json.NewDecoder(io.LimitReader(r, 2*maxChunk))
		for d.More() {
			var l line
			err := d.Decode(&l)
			if err != nil && slices.Contains(b.Damaged, name) {
				return nil // the file is named already, and what it lacks is found
			}
			if err != nil {
				return fmt.Errorf("%w: %s behind byte %d: %v", ErrBundle, name, d.InputOffset(), err)
			}
			if err := errors.Join(ctx.Err(), f(Record(l))); err != nil {
				return err
			}
		}
		return nil
	})
}
