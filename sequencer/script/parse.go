package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// ErrLine is matched by every error that Parse and ParseWith return when a line is no intent.
var ErrLine = errors.New("script: not an intent")

// Parse reads a line that Format wrote. What the line leaves out is zero.
func Parse(text string) (*sequencer.Intent, error) {
	return ParseWith(text, func(*sequencer.Intent, func(string) bool) {})
}

// ParseWith reads a line and lets fill complete the intent: given reports whether the line has a key (agent, inc, n,
// base, or one of the verb's own).
func ParseWith(text string, fill func(in *sequencer.Intent, given func(key string) bool)) (*sequencer.Intent, error) {
	r, err := newReader(text)
	if err == nil {
		err = r.all()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrLine, text, err)
	}
	fill(r.in, func(key string) bool { return r.given[key] })
	return r.in, nil
}

// reader reads the tokens of one line into an intent.
type reader struct {
	in    *sequencer.Intent
	rest  []string
	given map[string]bool
	bare  bool
}

// newReader reads transaction, verb and agent.
func newReader(text string) (*reader, error) {
	words, err := tokens(text)
	if err != nil {
		return nil, err
	}
	r := &reader{in: &sequencer.Intent{}, rest: words, given: map[string]bool{}}
	if len(words) == 0 {
		return nil, errors.New("the line is empty")
	}
	if kind, found := kindOf(words[0]); !found || !alone(kind) {
		id, err := unquote(words[0])
		if err != nil {
			return nil, err
		}
		r.in.Tx = sequencer.TxID(id)
		r.rest = r.rest[1:]
	}
	if len(r.rest) == 0 {
		return nil, errors.New("a verb must follow the transaction")
	}
	kind, found := kindOf(r.rest[0])
	if !found {
		return nil, fmt.Errorf("%q is no verb", r.rest[0])
	}
	r.in.Kind, r.rest = kind, r.rest[1:]
	if len(r.rest) > 0 && isName(r.rest[0]) {
		if r.in.Agent, err = unquote(r.rest[0]); err != nil {
			return nil, err
		}
		r.given["agent"] = true
		r.rest = r.rest[1:]
	}
	return r, nil
}

// isName: the token is a name, not a word of its own, a want or key=value.
func isName(token string) bool {
	return strings.HasPrefix(token, `"`) || !reserved(token) && !strings.ContainsAny(token, ":=")
}

func (r *reader) all() error {
	r.payloads()
	for _, token := range r.rest {
		if err := r.token(token); err != nil {
			return fmt.Errorf("%s: %w", token, err)
		}
	}
	if r.bare {
		r.dropPayload()
	}
	return nil
}

// payloads makes the payload of the intent's kind, for the tokens to fill.
func (r *reader) payloads() {
	in := r.in
	switch in.Kind {
	case sequencer.IntentJoin:
		in.Join = &sequencer.Join{}
	case sequencer.IntentBegin:
		in.Begin = &sequencer.Begin{}
	case sequencer.IntentTouch:
		in.Touch = &sequencer.Touch{}
	case sequencer.IntentSeal:
		in.Seal = &sequencer.Seal{}
	case sequencer.IntentAbort:
		in.Abort = &sequencer.Abort{}
	case sequencer.IntentSettle:
		in.Settle = &sequencer.Settle{}
	case sequencer.IntentSelect:
		in.Select = &sequencer.Select{}
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		in.Register = &sequencer.Register{}
	case sequencer.IntentVerdict:
		in.Verdict = &sequencer.Verdict{}
	case sequencer.IntentWatermark:
		in.Watermark = &sequencer.Watermark{}
	case sequencer.IntentRules:
		in.Rules = &sequencer.Rules{}
	case sequencer.IntentTick:
		in.Tick = &sequencer.TickMark{}
	}
}

// dropPayload is what the word bare says: the payload that the kind names is missing.
func (r *reader) dropPayload() {
	b := r.in.Begin
	if r.in.Kind == sequencer.IntentBegin {
		b = nil
	}
	r.in = &sequencer.Intent{Kind: r.in.Kind, Tx: r.in.Tx, N: r.in.N, Agent: r.in.Agent, Incarnation: r.in.Incarnation,
		Base: r.in.Base, Signer: r.in.Signer, Begin: b}
}

func (r *reader) token(token string) error {
	if w, isWant, err := wantOf(token); isWant || err != nil {
		if r.in.Touch == nil {
			return errors.New("a scope stands alone in a touch only")
		}
		r.in.Touch.Wants = append(r.in.Touch.Wants, w)
		return err
	}
	key, value, hasValue := strings.Cut(token, "=")
	r.given[key] = true
	if !hasValue {
		return r.word(key)
	}
	for _, read := range []func(key, value string) (bool, error){r.common, r.beginKey, r.ofKind} {
		if known, err := read(key, value); known || err != nil {
			return err
		}
	}
	return errors.New("the verb knows no such key")
}

// word reads a token that has no value.
func (r *reader) word(w string) error {
	in := r.in
	switch {
	case w == "bare":
		r.bare = true
	case w == "begin":
		r.begin()
	case w == "observe":
		r.begin().Observe = true
	case w == "hook" && in.Seal != nil:
		in.Seal.Hook = true
	case w == "none-else" && in.Settle != nil:
		in.Settle.NoneElse = true
	case w == "yes" && in.Verdict != nil:
		in.Verdict.Yes = true
	case w == "no" && in.Verdict != nil:
		in.Verdict.Yes = false
	case w == "unavailable" && in.Verdict != nil:
		in.Verdict.Unavailable = true
	case w == "observed" && in.Rules != nil:
		in.Rules.Observe = true
	default:
		return errors.New("the verb knows no such word")
	}
	return nil
}

func (r *reader) begin() *sequencer.Begin {
	if r.in.Begin == nil {
		r.in.Begin = &sequencer.Begin{}
	}
	return r.in.Begin
}

func (r *reader) common(key, value string) (known bool, err error) {
	switch key {
	case "inc":
		return true, number(value, &r.in.Incarnation)
	case "base":
		return true, number(value, &r.in.Base)
	case "n":
		return true, number(value, &r.in.N)
	case "signer":
		r.in.Signer, err = unquote(value)
		return true, err
	}
	return false, nil
}

func (r *reader) beginKey(key, value string) (known bool, err error) {
	if r.in.Kind == sequencer.IntentRules {
		return false, nil
	}
	switch key {
	case "mode":
		for m := sequencer.Optimistic; m.String() != "unknown"; m++ {
			if m.String() == value {
				r.begin().Mode = m
				return true, nil
			}
		}
		return true, number(value, &r.begin().Mode)
	case "levels":
		v, err := levelsOf(value)
		r.begin().Levels = &v
		return true, err
	case "deadline":
		return true, number(value, &r.begin().DeadlineTicks)
	case "group":
		if r.in.Select != nil {
			return false, nil
		}
		r.begin().Group, err = unquote(value)
		return true, err
	case "session":
		r.begin().Session, err = unquote(value)
		return true, err
	case "after":
		id, err := unquote(value)
		r.begin().Predecessor = sequencer.TxID(id)
		return true, err
	case "may":
		return true, each(value, ',', func(piece string) error {
			w, isWant, err := wantOf(piece)
			if err == nil && !isWant {
				err = errors.New("write r: or w: before the scope")
			}
			r.begin().May = append(r.begin().May, w)
			return err
		})
	}
	return false, nil
}

// number reads a number of any of the fold's types.
func number[T ~uint8 | ~uint32 | ~uint64 | ~int32 | ~int64](text string, to *T) error {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil || uint64(T(v)) != v {
		return fmt.Errorf("%q is no number that fits here", text)
	}
	*to = T(v)
	return nil
}

func levelsOf(text string) (sequencer.Levels, error) {
	if text == "none" {
		return 0, nil
	}
	var out sequencer.Levels
	if number(text, &out) == nil {
		return out, nil
	}
	for _, n := range strings.Split(text, ",") {
		v := level(n)
		if v == 0 {
			return 0, fmt.Errorf("%q is none of A1, A2, A3, A6", n)
		}
		out |= v
	}
	return out, nil
}

// wantOf reads a scope with its access in front.
func wantOf(token string) (w sequencer.Want, isWant bool, err error) {
	access, text, found := strings.Cut(token, ":")
	switch {
	case !found || strings.ContainsAny(access, `="`):
		return w, false, nil
	case access == "r":
		w.Access = sequencer.ReadAccess
	case access == "w":
		w.Access = sequencer.WriteAccess
	case strings.HasPrefix(access, "access"):
		err = number(strings.TrimPrefix(access, "access"), &w.Access)
	default:
		return w, false, nil
	}
	text, textErr := unquote(text)
	w.Scope = sequencer.Scope(text)
	return w, true, errors.Join(err, textErr)
}

// each cuts a text at a separator and hands on its pieces.
func each(text string, separator byte, do func(piece string) error) error {
	list, err := pieces(text, separator)
	if err != nil {
		return err
	}
	for _, piece := range list {
		if err := do(piece); err != nil {
			return err
		}
	}
	return nil
}

func names[T ~string](text string, to *[]T) error {
	return each(text, ',', func(piece string) error {
		s, err := unquote(piece)
		*to = append(*to, T(s))
		return err
	})
}

func hash(text string, to *sequencer.Hash) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(to) {
		return errors.New("a hash has 64 hexadecimal digits")
	}
	copy(to[:], b)
	return nil
}
