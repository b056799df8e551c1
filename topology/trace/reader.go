package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// MaxLineBytes bounds one line of a file: 16 MiB.
const MaxLineBytes = 16 << 20

// Reader reads records, line by line: it holds one line at a time. Empty lines are skipped.
type Reader struct {
	lines *bufio.Reader
	line  int
	bytes uint64
	// name is the field of Record that a name in the file stands for, and fields has the names in their order.
	name   map[string]int
	fields []string
}

// NewReader returns a reader of JSON lines.
func NewReader(from io.Reader) *Reader {
	name := fieldNames()
	fields := make([]string, len(name))
	for one, at := range name {
		fields[at] = one
	}
	return &Reader{lines: bufio.NewReaderSize(from, 256<<10), name: name, fields: fields}
}

// Line is the number of the last line that was read, 1-based.
func (r *Reader) Line() int { return r.line }

// Bytes is how many bytes of the file were read.
func (r *Reader) Bytes() uint64 { return r.bytes }

// Read returns the next record, or io.EOF after the last one. Any other error names the line; what follows that line
// can still be read, unless the file itself could not be.
func (r *Reader) Read() (Record, error) {
	for {
		text, err := r.next()
		if err != nil {
			return Record{}, err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		record, err := r.decode(text)
		if err != nil {
			return Record{}, fmt.Errorf("line %d: %w", r.line, err)
		}
		return record, nil
	}
}

// next returns the bytes of the next line.
func (r *Reader) next() ([]byte, error) {
	text, err := r.lines.ReadSlice('\n')
	var long []byte
	size := len(text)
	for errors.Is(err, bufio.ErrBufferFull) {
		if size <= MaxLineBytes {
			long = append(long, text...)
		}
		text, err = r.lines.ReadSlice('\n')
		size += len(text)
	}
	r.bytes += uint64(size)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("after line %d: %w", r.line, err)
	case err != nil && size == 0:
		return nil, io.EOF
	}
	r.line++
	if size > MaxLineBytes {
		return nil, fmt.Errorf("line %d: it has %d bytes, at most %d are read", r.line, size, MaxLineBytes)
	}
	if long != nil {
		text = append(long, text...)
	}
	if r.line == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	return text, nil
}

// decode reads one line. A name that Record does not have goes into Extra.
func (r *Reader) decode(text []byte) (Record, error) {
	if text[0] == '[' {
		return Record{}, errors.New("it begins a JSON array, not a record: write one record a line (jq -c '.[]' FILE)")
	}
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return Record{}, errors.New("it is compressed: zcat FILE | hence check -")
	}
	if text[0] != '{' {
		return Record{}, fmt.Errorf("a record is a JSON object, not %s", short(text))
	}
	if !json.Valid(text) {
		var ignored json.RawMessage
		err := json.Unmarshal(text, &ignored)
		if text[len(text)-1] != '}' {
			return Record{}, fmt.Errorf("not JSON: %w (a record is one line, and is it cut off?)", err)
		}
		return Record{}, fmt.Errorf("not JSON: %w", err)
	}
	record := &Record{}
	values := make([]json.RawMessage, len(r.fields)) // of a name that comes twice the last value counts
	members(text, func(name string, value []byte) bool {
		if at, known := r.name[name]; known {
			values[at] = value
			return true
		}
		if record.Extra == nil {
			record.Extra = map[string]json.RawMessage{}
		}
		record.Extra[name] = bytes.Clone(value)
		return true
	})
	if err := r.required(values); err != nil {
		return Record{}, err
	}
	into := reflect.ValueOf(record).Elem()
	for at, value := range values {
		var err error
		switch field := into.Field(at).Addr().Interface().(type) {
		case *PerCell[string]: // these stand behind read_set in Record, if not in the file
			err = perCell(value, record.ReadSet, field)
		case *PerCell[Value]:
			err = perCell(value, record.ReadSet, field)
		default:
			if value != nil && !fast(value, field) {
				err = json.Unmarshal(value, field)
			}
		}
		if err != nil {
			return Record{}, wrongField(r.fields[at], value, err)
		}
	}
	if record.Agent == "" {
		return Record{}, errors.New("agent is empty: findings name the agents")
	}
	return *record, nil
}

// requiredFields are those that no detector works without.
func requiredFields() []string {
	return []string{"agent", "read_set", "read_time", "write_set", "write_time"}
}

func (r *Reader) required(values []json.RawMessage) error {
	var missing []string
	for _, name := range requiredFields() {
		if value := values[r.name[name]]; value == nil || string(value) == "null" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the record has no %s", strings.Join(missing, ", no "))
	}
	return nil
}

func wrongField(name string, value json.RawMessage, err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s is %s, not %s", name, wanted(name), short(value))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// wanted says what a field holds.
func wanted(name string) string {
	switch name {
	case "agent":
		return "a text"
	case "read_time", "write_time":
		return "a whole number ≥ 0"
	case "read_values", "write_values":
		return "an object of values by cell"
	case "tool_signatures_at_read", "tool_signatures_at_write":
		return "an object of signatures by tool"
	case "read_times":
		return "an object of whole numbers ≥ 0 by cell"
	case "aborted":
		return "true or false"
	case "io", "co":
		return "a list of [cell, value]"
	}
	return "a list of texts"
}

// perCell reads a field that is an object by cell, or one value for all cells that were read.
func perCell[T any](text json.RawMessage, cells []string, into *PerCell[T]) error {
	if text == nil || string(text) == "null" {
		return nil
	}
	if text[0] == '{' {
		return json.Unmarshal(text, (*map[string]T)(into))
	}
	var one T
	if err := json.Unmarshal(text, &one); err != nil {
		return fmt.Errorf("it is one text, or an object by cell, not %s", short(text))
	}
	*into = make(PerCell[T], len(cells))
	for _, cell := range cells {
		(*into)[cell] = one
	}
	return nil
}

// fieldNames has the field of Record for each name in a file.
func fieldNames() map[string]int {
	names := map[string]int{}
	record := reflect.TypeFor[Record]()
	for i := range record.NumField() {
		if name, _, _ := strings.Cut(record.Field(i).Tag.Get("json"), ","); name != "-" {
			names[name] = i
		}
	}
	return names
}
