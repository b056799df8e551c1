// Package script writes the fold's intents and outcomes as lines that people read, and reads the intents back.
//
// A line is one intent. The transaction stands first, then the verb and the agent; what follows is in any order:
//
//	join a1 id=j1
//	T1 begin a1 inc=1 n=1 base=1 mode=ordered may=w:doc:/x,r:doc:/y
//	T1 touch a1 inc=1 n=1 base=1 w:doc:/x r:doc:/y bound=5
//	T1 seal a1 inc=1 n=1 base=1 read=doc:/x@7 effect=irreversible:doc:/x shard=shard:/s;text="v" touched=1,2?
//	T1 settle a1 inc=1 n=1 base=1 effect=clean:doc:/x none-else
//	tick n=1 weight=1
//
// Names that are not plain words are quoted as Go strings. What Format writes, Parse reads back as an equal intent; a
// line may leave things out, which ParseWith lets its caller fill in.
package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// Now is the view of a read or of an expected version that a line leaves out. It is no seq that a fold accepts: who
// runs the line puts the seq there that the view has reached.
const Now = ^sequencer.Seq(0)

// reserved reports whether a word stands for itself; a name that equals one is quoted.
func reserved(word string) bool {
	switch word {
	case "observe", "observed", "hook", "yes", "no", "none-else", "unavailable", "bare", "begin":
		return true
	}
	kind, isVerb := kindOf(word)
	return isVerb && alone(kind)
}

func kindOf(verb string) (sequencer.IntentKind, bool) {
	for k := sequencer.IntentJoin; k <= sequencer.IntentTick; k++ {
		if k.String() == verb {
			return k, true
		}
	}
	if number, found := strings.CutPrefix(verb, "kind"); found {
		n, err := strconv.ParseUint(number, 10, 8)
		return sequencer.IntentKind(n), err == nil
	}
	return 0, false
}

func verbOf(k sequencer.IntentKind) string {
	if k >= sequencer.IntentJoin && k <= sequencer.IntentTick {
		return k.String()
	}
	return fmt.Sprintf("kind%d", k)
}

// name writes a name so that it is one piece of a token.
func name(s string) string {
	if s == "" || reserved(s) || strings.ContainsFunc(s, notPlain) {
		return strconv.Quote(s)
	}
	return s
}

func notPlain(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._~/%*+-", r)
}

// scope writes a scope; one that is not of the form type:/path is quoted.
func scope(s sequencer.Scope) string {
	kind, path, found := strings.Cut(string(s), ":/")
	if !found || kind == "" || strings.ContainsFunc(kind, notPlain) || strings.ContainsFunc(path, notPlain) {
		return strconv.Quote(string(s))
	}
	return string(s)
}

// tokens cuts a line at its spaces; what is quoted stays whole.
func tokens(line string) ([]string, error) { return pieces(strings.TrimSpace(line), ' ') }

// pieces cuts a text at a separator outside of quotes. Spaces that follow each other separate once.
func pieces(text string, separator byte) ([]string, error) {
	var out []string
	start := 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == separator:
			if i > start || separator != ' ' {
				out = append(out, text[start:i])
			}
			start = i + 1
		case text[i] == '"':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return nil, fmt.Errorf("the quote that begins at %.20q does not end", text[i:])
			}
			i += len(quoted) - 1
		}
	}
	return out, nil
}

// unquote reads what name and scope write.
func unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	out, err := strconv.Unquote(s)
	if err != nil {
		return "", fmt.Errorf("%s is not a quoted text", s)
	}
	return out, nil
}
