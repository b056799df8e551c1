package otlp

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Span is one span as a collector receives it.
type Span struct {
	Trace      string // id, hexadecimal
	Name       string
	Start, End time.Time
	Events     map[string]time.Time // the first of each name
}

// Decode reads a request as Exporter sends it, and calls take for each of its spans.
func Decode(r io.Reader, take func(Span)) error {
	var all request
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return fmt.Errorf("read spans: %w", err)
	}
	for _, resource := range all.ResourceSpans {
		for _, library := range resource.ScopeSpans {
			for _, s := range library.Spans {
				one := Span{Trace: s.TraceID, Name: s.Name, Start: instant(s.Start), End: instant(s.End),
					Events: map[string]time.Time{}}
				for _, e := range s.Events {
					if _, ok := one.Events[e.Name]; !ok {
						one.Events[e.Name] = instant(e.At)
					}
				}
				take(one)
			}
		}
	}
	return nil
}

// instant is a time as the wire has it, in nanoseconds; the zero time if it is none.
func instant(nanoseconds string) time.Time {
	n, err := strconv.ParseInt(nanoseconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, n)
}
