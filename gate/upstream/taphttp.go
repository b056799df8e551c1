package upstream

import (
	"bytes"
	"encoding/json"
	"io"
)

// heard keeps the answer to a call over HTTP as it was written, before the SDK sees it.
type heard struct {
	io.ReadCloser
	to     *rawAnswer // nil: it is too long, or is there
	stream bool       // of server-sent events
	line   []byte     // of a stream: what is no whole line yet
	data   []byte     // of the answer, or of the event
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if h.to != nil {
		h.take(p[:n], err == io.EOF)
	}
	return n, err
}

func (h *heard) take(bit []byte, ended bool) {
	switch {
	case !h.stream:
		if h.data = append(h.data, bit...); ended {
			h.keep()
		}
	default:
		h.line = append(h.line, bit...)
		for end := bytes.IndexByte(h.line, '\n'); end >= 0 && h.to != nil; end = bytes.IndexByte(h.line, '\n') {
			line := bytes.TrimSuffix(h.line[:end], []byte("\r"))
			h.line = h.line[end+1:]
			if data, is := bytes.CutPrefix(line, []byte("data:")); is {
				h.data = append(h.data, data...)
			} else if len(line) == 0 { // the event's end
				h.keep()
				h.data = nil
			}
		}
	}
	if len(h.line)+len(h.data) > MaxMessage {
		h.to, h.line, h.data = nil, nil, nil
	}
}

// keep takes the result out of an answer. What else comes, such as progress, has none.
func (h *heard) keep() {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(h.data, &m) != nil || len(m.Result) == 0 {
		return
	}
	h.to.mu.Lock()
	h.to.text = m.Result
	h.to.mu.Unlock()
	h.to = nil
}
