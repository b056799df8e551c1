// Package adapters speaks to the sinks of tool calls: HTTP services, mail servers, files, programs and databases. Of
// shards it only says what a call reads or writes.
//
// Guarantees: a call leaves only for what its declaration names; it is made once, without retries; an error that is
// not gate.ErrNotSent may have acted; a refusal proves that the call did nothing, and only one that is AboutKey says
// so of the others under its key; no secret is in an error, a detail or a result, but where a compensation needs what
// the sink said. What it does not promise: that a sink that takes a key does what its makers say with it.
package adapters

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/gate/upstream"
)

// Bounds of what an adapter takes and gives.
const (
	MaxAnswer = 1 << 20 // bytes of a sink's answer
	MaxDetail = 300     // bytes of a detail for people
)

// nothingToUndo is the answer to a compensation whose call never came.
const nothingToUndo = "there was nothing to undo"

// Build makes the adapter that a policy declares, in a process that reaches no MCP server. An error says what to
// change in the declaration.
func Build(d gate.Decl) (gate.Adapter, error) { return Over(nil)(d) }

// Over is Build in a process that reaches MCP servers; nil: it reaches none.
func Over(servers *upstream.Set) func(gate.Decl) (gate.Adapter, error) {
	return func(d gate.Decl) (gate.Adapter, error) { return buildOver(servers, d) }
}

func buildOver(servers *upstream.Set, d gate.Decl) (gate.Adapter, error) {
	kinds := map[string]func(gate.Decl) (gate.Adapter, error){
		gate.KindHTTP: newHTTP, gate.KindSMTP: newSMTP, gate.KindFile: newFile,
		gate.KindExec: newExec, gate.KindSQL: newSQL, gate.KindShard: newShard,
		gate.KindMCP: func(d gate.Decl) (gate.Adapter, error) { return newMCP(servers, d) },
	}
	build := kinds[d.Kind]
	if build == nil {
		return nil, fmt.Errorf("tool %q: there is no adapter %q: declare one of http, smtp, file, exec, sql, shard, mcp",
			d.Tool, d.Kind)
	}
	a, err := build(d)
	if err != nil {
		return nil, fmt.Errorf("tool %q, adapter %s: %w", d.Tool, d.Kind, err)
	}
	return a, nil
}

// readSpec decodes a declaration; a name that it does not know is an error.
func readSpec[T any](d gate.Decl) (T, error) {
	var spec T
	dec := json.NewDecoder(bytes.NewReader(d.Spec))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&spec); err != nil {
		return spec, fmt.Errorf("reading its declaration: %w", err)
	}
	return spec, nil
}

// parser collects the first error of several templates.
type parser struct{ err error }

func (p *parser) text(what, text string) template.Template {
	t, err := template.Parse(text)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%s: %w", what, err)
	}
	return t
}

func (p *parser) list(what string, texts []string) []template.Template {
	out := make([]template.Template, len(texts))
	for i, text := range texts {
		out[i] = p.text(what, text)
	}
	return out
}

// tree is nil when none is declared.
func (p *parser) tree(what string, data json.RawMessage) *template.Tree {
	if len(data) == 0 {
		return nil
	}
	t := &template.Tree{}
	if err := t.UnmarshalJSON(data); err != nil && p.err == nil {
		p.err = fmt.Errorf("%s: %w", what, err)
	}
	return t
}

// values are what the templates of a call may name, secrets apart.
func values(c gate.Call) (template.Values, error) {
	names, err := object(c.Args)
	if err != nil {
		return template.Values{}, fmt.Errorf("%w: its arguments: %w", gate.ErrNotSent, err)
	}
	for name := range names {
		if strings.HasPrefix(name, "$") {
			return template.Values{}, notSent("the argument %.40q: names that start with $ are not arguments", name)
		}
	}
	names["$key"], names["$tx"] = c.Key, string(c.Tx)
	names["$index"] = json.Number(fmt.Sprint(c.Index))
	if len(c.Saved) > 0 {
		saved, err := template.Object([]byte(`{"v":` + string(c.Saved) + `}`))
		if err != nil {
			return template.Values{}, fmt.Errorf("%w: what the undone call saved: %w", gate.ErrNotSent, err)
		}
		names["$saved"] = saved["v"]
	}
	return template.Values{Names: names}, nil
}

func object(args json.RawMessage) (map[string]any, error) {
	if len(args) == 0 {
		return map[string]any{}, nil
	}
	return template.Object(args)
}

func notSent(format string, args ...any) error {
	return fmt.Errorf("%w: %s", gate.ErrNotSent, gate.Plain(fmt.Sprintf(format, args...)))
}

func unknown(format string, args ...any) error {
	return fmt.Errorf("%w: %s", gate.ErrUnknown, gate.Plain(fmt.Sprintf(format, args...)))
}

// unsent wraps an error of a template or an argument: nothing left because of it.
func unsent(what string, err error) error {
	if err == nil || errors.Is(err, gate.ErrNotSent) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", gate.ErrNotSent, what, err)
}

// secrets hands secrets out and takes them back out of what is said later.
type secrets struct {
	resolve func(string) (string, error)
	keep    [][]string // see gate.Decl
	mu      sync.Mutex
	given   []string // the longest first: one may be a part of another
}

func newSecrets(e gate.Env, keep ...[]string) *secrets {
	return &secrets{resolve: e.Secret, keep: keep}
}

// anySecret stands in where a call is only checked.
func anySecret() *secrets {
	return &secrets{resolve: func(string) (string, error) { return "secret", nil }}
}

// get never says the value in its error.
func (s *secrets) get(name string) (string, error) {
	if s.resolve == nil {
		return "", fmt.Errorf("the secret %q is not declared", name)
	}
	value, err := s.resolve(name)
	if err != nil {
		return "", fmt.Errorf("reading the secret %q: %w", name, err)
	}
	if value == "" {
		return "", fmt.Errorf("the secret %q is empty", name)
	}
	s.hide(value)
	return value, nil
}

// hide also remembers how a value looks inside JSON, also as PHP writes it.
func (s *secrets) hide(value string) {
	if value == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, value)
	if quoted, err := json.Marshal(value); err == nil {
		inside := strings.Trim(string(quoted), `"`)
		s.given = append(s.given, inside, strings.ReplaceAll(inside, "/", `\/`))
	}
	slices.SortFunc(s.given, func(a, b string) int { return len(b) - len(a) })
}

// leastSecret is the length from which on a secret is taken out of results, in bytes. A shorter one is as likely a
// word of the sink's own, such as the name of a user.
const leastSecret = 8

func (s *secrets) clean(text string) string { return s.cleanOf(text, 1) }

// cleanOf takes the secrets of some length out.
func (s *secrets) cleanOf(text string, least int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range s.given {
		if len(value) >= least {
			text = strings.ReplaceAll(text, value, "[secret]")
		}
	}
	return text
}

func (s *secrets) answer(a gate.Answer) gate.Answer {
	a.Detail = s.clean(a.Detail)
	a.Result = s.cleanJSON(a.Result)
	return a
}

// cleanJSON takes the secrets out of a sink's JSON, but for the parts that the compensation is made of: a name that is
// also a secret's value would else be put back wrong.
func (s *secrets) cleanJSON(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || len(s.given) == 0 {
		return data
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil // nothing that a compensation could be made of
	}
	hidden, changed := s.hideBelow(v, s.keep)
	if !changed && s.cleanOf(string(data), leastSecret) == string(data) {
		return data // as the sink wrote it
	}
	return toJSON(hidden)
}

// hideBelow returns a value without secrets, and whether it held one; keep are paths from here.
func (s *secrets) hideBelow(v any, keep [][]string) (_ any, changed bool) {
	if slices.ContainsFunc(keep, func(path []string) bool { return len(path) == 0 }) {
		return v, false
	}
	below := func(step string) (out [][]string) {
		for _, path := range keep {
			if path[0] == step {
				out = append(out, path[1:])
			}
		}
		return out
	}
	var hid bool
	switch v := v.(type) {
	case string:
		text := s.cleanOf(v, leastSecret)
		return text, text != v
	case json.Number: // a number that only contains one is another number
		if slices.Contains(s.given, v.String()) && len(v) >= leastSecret {
			return s.clean(v.String()), true
		}
	case []any:
		for i := range v {
			v[i], hid = s.hideBelow(v[i], below(strconv.Itoa(i)))
			changed = changed || hid
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if path := below(name); len(path) > 0 {
				out[name], hid = s.hideBelow(value, path)
			} else {
				shown := s.cleanOf(name, leastSecret)
				out[shown], hid = s.hideBelow(value, nil)
				hid = hid || shown != name
			}
			changed = changed || hid
		}
		return out, changed
	}
	return v, changed
}

// detail shortens a sink's words for people, and leaves nothing in them that could pass for other words.
func detail(text string) string {
	text = gate.Plain(strings.TrimSpace(text))
	if len(text) > MaxDetail {
		text = strings.ToValidUTF8(text[:MaxDetail], "") + "…"
	}
	return text
}

// detail takes the secrets out first: half of one that is cut off would not be known again.
func (s *secrets) detail(text string) string { return detail(s.clean(text)) }

// result is what a sink said as JSON: its own JSON, or its text as a string.
func result(data []byte) json.RawMessage {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	if utf8.Valid(data) && json.Valid(data) {
		return bytes.Clone(data)
	}
	return toJSON(strings.ToValidUTF8(string(data), "\uFFFD"))
}

// toJSON encodes what the adapters themselves made, which cannot fail.
func toJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("gate/adapters: %T is not written as JSON: %v", v, err))
	}
	return data
}

// fingerprint tells a call's arguments from other ones, however their JSON is spaced and ordered.
func fingerprint(c gate.Call) string {
	args := []byte(c.Args)
	if names, err := object(c.Args); err == nil {
		args = toJSON(names)
	}
	sum := sha256.Sum256(append([]byte(c.Tool+"\x00"), args...))
	return hex.EncodeToString(sum[:])
}

// decodeSaved reads what the undone call saved.
func decodeSaved(data json.RawMessage, into any) error {
	if len(data) == 0 {
		return notSent("the undone call saved nothing")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return notSent("what the undone call saved cannot be read: %v", err)
	}
	return nil
}
