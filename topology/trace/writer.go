package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Writer writes records, one a line, with the fields in the order of Record and those of Extra behind them.
type Writer struct {
	to    *bufio.Writer
	count int
}

// NewWriter returns a writer of JSON lines. Flush ends it.
func NewWriter(to io.Writer) *Writer { return &Writer{to: bufio.NewWriterSize(to, 64<<10)} }

// Write writes one record. It returns an error if the record has no agent, a value without content, or an extra field
// with the name of a field of Record; then nothing is written.
func (w *Writer) Write(record Record) error {
	w.count++
	text, err := encode(record)
	if err != nil {
		return fmt.Errorf("record %d: %w", w.count, err)
	}
	_, err = w.to.Write(text)
	return err
}

// Flush writes what rests in memory.
func (w *Writer) Flush() error { return w.to.Flush() }

func encode(record Record) ([]byte, error) {
	if record.Agent == "" {
		return nil, fmt.Errorf("it has no agent")
	}
	if record.ReadSet == nil {
		record.ReadSet = []string{}
	}
	if record.WriteSet == nil {
		record.WriteSet = []string{}
	}
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1]
	own := fieldNames()
	names := make([]string, 0, len(record.Extra))
	for name := range record.Extra {
		if _, taken := own[name]; taken {
			return nil, fmt.Errorf("the extra field %s has the name of one of the record's own", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !json.Valid(record.Extra[name]) {
			return nil, fmt.Errorf("the extra field %s is not JSON", name)
		}
		text = append(append(append(text, ','), quoted(name)...), ':')
		text = append(text, record.Extra[name]...)
	}
	return append(text, '}', '\n'), nil
}
