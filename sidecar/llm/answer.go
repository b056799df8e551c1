package llm

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
)

// Bounds of what is looked through.
const (
	maxAnswer = 32 << 20 // of a stream, what comes beyond is handed on unseen; of another answer, all of it
	maxEvent  = 4 << 20  // of one event of a stream; a larger one is handed on unseen
)

// answer reads a model's answer on its way to the client. Each piece is looked through before the client has it: what
// the piece uses is recorded by then.
type answer struct {
	body   io.ReadCloser
	stream bool // of server-sent events; else the answer is read whole before any of it is released
	words  *vocabulary
	use    func(scopes []string) error // records; an error ends the answer
	over   func()
	calls  calls
	told   func([]api.ToolUse)  // the calls that it asks for; nil once they were told
	spent  func(in, out uint64) // tokens; nil once it is said
	// extract finds the names in an answer that is whole; nil: nothing does, or it has done so.
	extract func(said []string) ([]string, error)

	ready  []byte // looked through, not released yet
	err    error  // after it
	line   []byte // of a stream: what has come of the line that is not whole
	pieces map[string]*piece
	size   int
	args   []string // texts that came whole in one event
	tokens usage
}

// piece is one text of an answer, which comes bit by bit.
type piece struct {
	text string
	from int // what is before was looked through
}

func (a *answer) Close() error {
	a.spend()
	a.over()
	return a.body.Close()
}

// Read is part of io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	for len(a.ready) == 0 && a.err == nil {
		a.fill(len(p))
	}
	n := copy(p, a.ready)
	a.ready = a.ready[n:]
	if n > 0 {
		return n, nil
	}
	return 0, a.err
}

// fill takes more of the answer, looks it through, and lets it be released.
func (a *answer) fill(most int) {
	if !a.stream {
		body, err := io.ReadAll(io.LimitReader(a.body, maxAnswer+1))
		a.ready, a.err = body, err
		switch {
		case err != nil:
		case len(body) > maxAnswer:
			a.stream, a.size = true, len(body) // the rest is handed on
		default:
			if a.err = io.EOF; json.Valid(body) {
				a.event(body)
			}
			a.flush()
			a.tell()
			a.spend()
		}
		return
	}
	bit := make([]byte, max(1, min(most, 32<<10)))
	n, err := a.body.Read(bit)
	a.ready, a.err = bit[:n], err
	if a.size += n; a.size <= maxAnswer {
		a.lines(bit[:n])
	}
	if err != nil {
		a.flush()
	}
	if err == io.EOF {
		a.tell()
		a.spend()
	}
}

// spend says what the answer took.
func (a *answer) spend() {
	if a.spent != nil && a.tokens != (usage{}) {
		a.spent(a.tokens.in, a.tokens.out)
		a.spent = nil
	}
}

// tell says which calls the whole answer asks for. One that was cut off is no answer that a client acts on.
func (a *answer) tell() {
	if extract := a.extract; extract != nil {
		a.extract = nil
		said := slices.Clone(a.args)
		for _, at := range slices.Sorted(maps.Keys(a.pieces)) {
			said = append(said, a.pieces[at].text)
		}
		scopes, err := extract(said)
		if err != nil {
			a.ready, a.err = nil, err
			return
		}
		a.found(scopes)
	}
	if a.told != nil {
		a.told(a.calls.uses())
		a.told = nil
	}
}

// lines looks through the lines of a stream that are whole.
func (a *answer) lines(bit []byte) {
	a.line = append(a.line, bit...)
	for {
		end := bytes.IndexByte(a.line, '\n')
		if end < 0 {
			break
		}
		if data, ok := bytes.CutPrefix(a.line[:end], []byte("data:")); ok {
			part, whole := ends(data, a.event(data))
			if part { // the client may act on the text without waiting for the stream's end
				a.flush()
			}
			if whole {
				a.tell()
			}
		}
		a.line = a.line[end+1:]
	}
	if len(a.line) > maxEvent {
		a.line = nil
	}
}

// ends reports whether an event, v as parsed, says that a text is whole, and that the answer is. Its form alone says
// so: a text, or the arguments of a call, may speak of [DONE].
func ends(data []byte, v any) (part, whole bool) {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		return true, true
	}
	m, _ := v.(map[string]any)
	switch kind := text(m, "type"); {
	case kind == "message_stop", kind == "response.completed":
		return true, true
	case kind == "content_block_stop", strings.HasSuffix(kind, ".done"):
		return true, false
	}
	for of, reason := range map[string]string{"choices": "finish_reason", "candidates": "finishReason"} {
		for _, one := range list(m, of) {
			if c, _ := one.(map[string]any); text(c, reason) != "" {
				return true, true
			}
		}
	}
	return false, false
}

// event adds the texts of an event to what has come of them, and returns it parsed; nil: it is no JSON.
func (a *answer) event(data []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // arguments of calls are compared as they were written
	if d.Decode(&v) != nil {
		return nil
	}
	a.calls.event(v)
	a.tokens.event(v)
	path := place(v)
	if m, ok := v.(map[string]any); ok { // what repeats a text whole is no further bit of it
		if kind, _ := m["type"].(string); kind != "" {
			path += kind
		}
	}
	texts(v, path, func(path, text string) {
		if strings.Contains(path, ".args") || strings.Contains(path, ".json") { // whole in one event
			a.found(a.find(text))
			if a.extract != nil {
				a.args = append(a.args, text)
			}
			return
		}
		p := a.pieces[path]
		if p == nil {
			p = &piece{}
			a.pieces[path] = p
		}
		p.text += text
		scopes, rest := a.words.find(p.text[p.from:], false)
		if p.from += rest; rest > 0 { // the byte before says whether a word begins
			p.from--
		}
		a.found(scopes)
	})
	return v
}

func (a *answer) find(text string) []string {
	scopes, _ := a.words.find(text, true)
	return scopes
}

// flush takes all texts for whole.
func (a *answer) flush() {
	for _, p := range a.pieces {
		a.found(a.find(p.text[p.from:]))
		if t := strings.TrimSpace(p.text); strings.HasPrefix(t, "{") { // arguments that came bit by bit
			scanned([]byte(t), speaking, func(text string) { a.found(a.find(text)) })
		}
	}
}

func (a *answer) found(scopes []string) {
	if len(scopes) == 0 {
		return
	}
	if err := a.use(scopes); err != nil { // it could be acted on without its read
		a.ready, a.err = nil, err
	}
}
