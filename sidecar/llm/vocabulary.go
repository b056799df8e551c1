package llm

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate"
)

// vocabulary finds names of shards in texts: whole words, in any case, the longest name first. Its cost is that of the
// text, whatever the number of names.
type vocabulary struct{ root *node }

// node is one place in the tree of all names, byte by byte.
type node struct {
	next map[byte]*node
	word *node  // of a wildcard: after any word
	term string // the shard whose name ends here; empty: none does
}

func newVocabulary(terms []gate.Term) *vocabulary {
	v := &vocabulary{root: &node{}}
	for _, t := range terms {
		for _, name := range append([]string{t.Scope}, t.Names...) {
			at := v.root
			for _, b := range []byte(strings.ToLower(name)) {
				at = at.to(b)
			}
			if at.term == "" { // of two shards with one name the first counts
				at.term = t.Scope
			}
		}
	}
	return v
}

// to is the node behind a byte of a name, made where there is none.
func (n *node) to(b byte) *node {
	if b == '*' {
		if n.word == nil {
			n.word = &node{}
		}
		return n.word
	}
	if n.next == nil {
		n.next = map[byte]*node{}
	}
	if n.next[b] == nil {
		n.next[b] = &node{}
	}
	return n.next[b]
}

// find returns the shards that a text names. Unless the text is whole, a name that reaches its end may be the
// beginning of a longer word and is left; rest is where to look again once more of it has come.
func (v *vocabulary) find(text string, whole bool) (found []string, rest int) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // a letter whose other case has another length: offsets would not fit
		lower = strings.Map(func(r rune) rune {
			if l := unicode.ToLower(r); utf8.RuneLen(l) == utf8.RuneLen(r) {
				return l
			}
			return r
		}, text)
	}
	rest = len(text)
	seen := map[string]bool{} // a text may have 100,000 names
	for at := 0; at < len(lower); {
		if at > 0 && isWord(lower[at]) && isWord(lower[at-1]) {
			at++
			continue
		}
		end, scope, cut := v.root.match(lower, text, at, whole)
		switch {
		case cut: // what follows may make it longer, or no name at all
			return found, min(rest, at)
		case scope != "":
			if !seen[scope] {
				seen[scope] = true
				found = append(found, scope)
			}
			at = end
		default:
			at++
		}
	}
	return found, rest
}

// match finds the longest name that begins at a place. cut: the text ends within a name, or right behind it.
func (n *node) match(lower, text string, at int, whole bool) (end int, scope string, cut bool) {
	if n.term != "" {
		switch {
		case at == len(lower) && !whole:
			return 0, "", true
		case at == len(lower) || at == 0 || !isWord(lower[at]) || !isWord(lower[at-1]):
			end, scope = at, n.term
		}
	}
	if at == len(lower) {
		return end, scope, !whole && (n.next != nil || n.word != nil)
	}
	if n.word != nil {
		stop := at
		for stop < len(lower) && isPart(lower[stop]) {
			stop++
		}
		if stop == len(lower) && !whole {
			return 0, "", true
		}
		for stop > at && (lower[stop-1] == '.' || lower[stop-1] == '-') { // the end of a sentence
			stop--
		}
		if stop > at {
			if e, s, c := n.word.match(lower, text, stop, whole); c || s != "" {
				return e, strings.Replace(s, "*", text[at:stop], 1), c
			}
		}
	}
	if next := n.next[lower[at]]; next != nil {
		if e, s, c := next.match(lower, text, at+1, whole); c || s != "" {
			return e, s, c
		}
	}
	return end, scope, false
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= utf8.RuneSelf
}

// isPart is a byte of the word that a wildcard stands for.
func isPart(b byte) bool { return isWord(b) || b == '-' || b == '.' }

// silent reports whether a key's value is no text of a conversation.
func silent(key string) bool {
	switch key {
	case "id", "ids", "item_id", "call_id", "tool_call_id", "tool_use_id", "model", "object", "type", "role", "tools",
		"functions", "tool_choice", "response_format", "data", "signature", "thoughtSignature", "encrypted_content",
		"image_url", "file_data", "metadata", "user", "generationConfig", "safetySettings", "system_fingerprint",
		"finish_reason", "usage", "obfuscation":
		return true
	}
	return false
}

// speaking is for what a tool is called with, or has answered: any key may have a name there.
func speaking(string) bool { return false }

// holdsArguments reports whether an object that is a key's value is one of those: of Anthropic's calls and Gemini's,
// or a result of Gemini's.
func holdsArguments(key string) bool { return key == "input" || key == "args" || key == "response" }

// texts calls each with every text of a message. A text that is JSON itself, as arguments of calls are, is looked
// into: its escapes would hide names.
func texts(v any, path string, each func(path, text string)) {
	walk(v, path, silent, each)
}

func walk(v any, path string, silent func(key string) bool, each func(path, text string)) {
	switch v := v.(type) {
	case string:
		if !inner(v, func(text string) { each(path+".json", text) }) {
			each(path, v)
		}
	case []any:
		for _, one := range v {
			walk(one, path+place(one), silent, each)
		}
	case map[string]any:
		for key, one := range v {
			_, object := one.(map[string]any)
			switch {
			case object && holdsArguments(key):
				walk(one, path+".args", speaking, each)
			case !silent(key):
				walk(one, path+"."+key, silent, each)
			}
		}
	}
}

// place tells the pieces of one stream of text from those of another: by what the piece says of itself.
func place(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	out := ""
	for _, key := range []string{"index", "output_index", "content_index", "summary_index", "item_id"} {
		if at, ok := m[key]; ok {
			b, _ := json.Marshal(at)
			out += key + string(b)
		}
	}
	return out
}
